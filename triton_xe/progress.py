"""A line on the terminal for what takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SECONDS = 2.0
GAP = 0.5
"""Seconds between two steps for one kernel that are one wait."""


@dataclass
class _Wait:
    """Steps for one kernel, one after another; `said` once there was a line."""

    kernel: str
    began: float
    ended: float = 0.0
    said: bool = False

    def say(self, what: str) -> None:
        if not self.said:
            self.said = True
            print(f"triton-xe: {what} ...", file=sys.stderr, flush=True)


class _Saying(threading.local):
    now = False
    wait = _Wait("", 0.0)


_saying = _Saying()


@contextmanager
def progress(what: str, kernel: str = "", after: float = SECONDS) -> Iterator[None]:
    """Say once what is being done if it lasts `after` seconds, and standard error is a terminal.

    Of steps in one another the outermost speaks, and of those for one kernel in a row, which are
    timed as one, the first that is late.
    """
    if _saying.now or not sys.stderr.isatty():
        yield
        return
    begin, wait = time.monotonic(), _saying.wait
    if not kernel or wait.kernel != kernel or begin - wait.ended > GAP:
        wait = _saying.wait = _Wait(kernel, begin)
    timer = threading.Timer(max(0.0, wait.began + after - begin), wait.say, (what,))
    timer.daemon = True
    timer.start()
    _saying.now = True
    try:
        yield
    finally:
        _saying.now = False
        wait.ended = time.monotonic()
        timer.cancel()
