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
    """Steps for one kernel, one after another; `is_announced` once there was a line."""

    kernel: str
    began: float
    end: float = 0.0
    is_announced: bool = False

    def say(self, what: str) -> None:
        if not self.is_announced:
            self.is_announced = True
            print(f"triton-xe: {what} ...", file=sys.stderr, flush=True)


class _ThreadProgress(threading.local):
    is_active = False
    wait = _Wait("", 0.0)


_progress = _ThreadProgress()


@contextmanager
def progress(what: str, kernel: str = "", after: float = SECONDS) -> Iterator[None]:
    """Say once what is being done if it lasts `after` seconds, and standard error is a terminal.

    Of nested steps only the outermost is announced.  Steps for one kernel in a row are timed as
    one, and the first that is late is announced.
    """
    if _progress.is_active or not sys.stderr.isatty():
        yield
        return
    begin, wait = time.monotonic(), _progress.wait
    if not kernel or wait.kernel != kernel or begin - wait.end > GAP:
        wait = _progress.wait = _Wait(kernel, begin)
    timer = threading.Timer(max(0.0, wait.began + after - begin), wait.say, (what,))
    timer.daemon = True
    timer.start()
    _progress.is_active = True
    try:
        yield
    finally:
        _progress.is_active = False
        wait.end = time.monotonic()
        timer.cancel()
