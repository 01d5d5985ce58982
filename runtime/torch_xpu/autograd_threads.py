"""Avoid a crash at exit of a program that ends right after `backward()`.

torch runs the backward pass of a device in a thread of its own.  After that thread has woken the
caller, it drops the graph, with its Python objects.  If the interpreter ends first, the thread is
ended inside C++ code while it waits for the interpreter's lock.  That aborts the process:
"terminate called without an active exception".  It may happen on any device, and is frequent for
short scripts on a simulated one.
"""

from __future__ import annotations

import atexit
import sys
import time
from pathlib import Path

THREADS = Path("/proc/self/task")
LONGEST = 2.0
"""Seconds to wait for the threads."""


def wait_at_exit() -> None:
    """Wait for torch's autograd threads before the interpreter ends."""
    atexit.register(wait_until_idle)


def wait_until_idle(longest: float = LONGEST) -> bool:
    """Wait until all autograd threads are idle; True if they are.

    A thread is idle if it sleeps, and did not wake while this one had released the interpreter's
    lock.
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
    """Threads that torch named `pt_autograd_0` and so on; none if the system lists none."""
    if not THREADS.is_dir():
        return []
    return [each for each in THREADS.iterdir() if _read(each / "comm").startswith("pt_autograd")]


def _states(threads: list[Path]) -> list[tuple[str, str]]:
    """State letter of each thread, and how often it has gone to sleep."""
    facts = [dict(_fields(_read(each / "status"))) for each in threads]
    return [
        (each.get("State", "S")[:1], each.get("voluntary_ctxt_switches", "")) for each in facts
    ]


def _fields(status: str) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in status.splitlines())
    return [(name, value.strip()) for name, _, value in pairs]


def _read(path: Path) -> str:
    """Read a file of a thread; "" if the thread has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""
