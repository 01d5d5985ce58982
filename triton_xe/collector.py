"""Pauses Python's cyclic garbage collector while a kernel is compiled.

A compilation allocates many objects and frees few before its end, when most of them are young and
dead.  Each full collection visits every object of the process without effect.  With torch loaded
that takes a seventh to a third of the compile time.

After a pause, the collector would visit all young objects at once, a tenth of a first launch.  So
they become old ones, unvisited, until `MOST_UNVISITED` are.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from triton_xe.locks import Lock

MOST_UNVISITED = 2_000_000
"""Objects that pauses may leave unvisited: 200 MB if all are garbage, of 100 bytes each."""
_lock = Lock()
_pauses = 0
_resume = False
_unvisited_count = 0
_ages = True
"""False once the process has frozen objects itself."""


@contextmanager
def paused_collector() -> Iterator[None]:
    """Disable automatic collection until the pauses of all threads have ended.

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
    """A pause from `begin` to `end`, or until the object is freed."""

    def __init__(self) -> None:
        self.is_open = False

    def begin(self) -> None:
        global _pauses, _resume
        with _lock:
            if self.is_open:
                return
            if _pauses == 0:
                _resume = gc.isenabled()
                gc.disable()
            _pauses += 1
            self.is_open = True

    def end(self) -> None:
        global _pauses
        with _lock:
            if not self.is_open:
                return
            self.is_open = False
            _pauses = max(_pauses - 1, 0)
            if _pauses == 0 and _resume:
                _age()
                gc.enable()

    __del__ = end


def _age() -> None:
    """Make all young objects old ones, or collect all garbage if too many are unvisited.

    A process that has frozen objects itself keeps them frozen.  Counting them takes 15 ms with a
    million, so that one that has ever had some is left alone from then on.
    """
    global _unvisited_count, _ages
    _ages = _ages and not gc.get_freeze_count()
    if not _ages:
        return
    _unvisited_count += gc.get_count()[0]
    if _unvisited_count > MOST_UNVISITED:
        _unvisited_count = 0
        gc.collect()
    gc.freeze()
    gc.unfreeze()


def _after_fork() -> None:
    """End the pauses of other threads in a forked process, where those threads do not exist."""
    global _pauses
    if _pauses:
        _pauses = 0
        if _resume:
            gc.enable()


os.register_at_fork(after_in_child=_after_fork)
