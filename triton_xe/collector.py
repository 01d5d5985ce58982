"""Python's cyclic garbage collector, paused while a kernel is compiled.

A compilation makes many objects and drops few before its end, at which most are young and dead.
Each full collection looks at every object of the process in vain: a seventh to a third of the time
to compile, measured with torch.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from triton_xe.locks import Lock

_lock = Lock()
_pauses = 0
_resume = False


@contextmanager
def paused_collector() -> Iterator[None]:
    """No automatic collections until every pause, of all threads, has ended.

    A collector that was off before stays off.

    >>> with paused_collector():
    ...     gc.isenabled()
    False
    """
    pause = Pause()
    pause.begin()
    try:
        yield
    finally:
        pause.end()


class Pause:
    """A pause from `begin` to `end`, or until nobody holds it any more."""

    def __init__(self) -> None:
        self.begun = False

    def begin(self) -> None:
        global _pauses, _resume
        with _lock:
            if self.begun:
                return
            if _pauses == 0:
                _resume = gc.isenabled()
                gc.disable()
            _pauses += 1
            self.begun = True

    def end(self) -> None:
        global _pauses
        with _lock:
            if not self.begun:
                return
            self.begun = False
            _pauses = max(_pauses - 1, 0)
            if _pauses == 0 and _resume:
                gc.enable()

    __del__ = end


def _after_fork() -> None:
    """Pauses of other threads do not end in a forked process."""
    global _pauses
    if _pauses:
        _pauses = 0
        if _resume:
            gc.enable()


os.register_at_fork(after_in_child=_after_fork)
