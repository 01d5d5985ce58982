"""A quiet end for a program that stops right after `backward()`.

torch runs the backward pass of a device in a thread of its own, and that thread drops the graph,
Python objects included, after it has woken the caller.  When the interpreter ends before that, the
thread asks for the interpreter's lock, is ended inside C++ code, and takes the process with it:
"terminate called without an active exception".  Any device has this; a short script on a simulated
one meets it often.
"""

from __future__ import annotations

import atexit
import sys
import time
from pathlib import Path

THREADS = Path("/proc/self/task")
LONGEST = 2.0
"""Seconds after which a thread that never rests is given up on."""


def settle_at_exit() -> None:
    """Let torch's autograd threads come to rest before the interpreter ends."""
    atexit.register(settle)


def settle(longest: float = LONGEST) -> bool:
    """Wait until no autograd thread has anything left to do; whether that came about.

    A thread rests if it sleeps and went on sleeping while nobody held the interpreter's lock.
    """
    threads = _autograd_threads()
    give_up = time.monotonic() + longest
    before = _states(threads)
    while threads and time.monotonic() < give_up:
        time.sleep(min(2 * sys.getswitchinterval(), 0.01))
        now = _states(threads)
        if now == before and all(state == "S" for state, _ in now):
            return True
        before = now
    return not threads


def _autograd_threads() -> list[Path]:
    """As torch names them, `pt_autograd_0` and so on; none where the system does not say."""
    if not THREADS.is_dir():
        return []
    return [each for each in THREADS.iterdir() if _read(each / "comm").startswith("pt_autograd")]


def _states(threads: list[Path]) -> list[tuple[str, str]]:
    """Of each thread: its state's letter, and how often it has gone to sleep."""
    facts = [dict(_fields(_read(each / "status"))) for each in threads]
    return [
        (each.get("State", "S")[:1], each.get("voluntary_ctxt_switches", "")) for each in facts
    ]


def _fields(status: str) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in status.splitlines())
    return [(name, value.strip()) for name, _, value in pairs]


def _read(path: Path) -> str:
    """A thread may end at any time; then its files are gone."""
    try:
        return path.read_text()
    except OSError:
        return ""
