"""Locks of processes that fork: the child has a copy of each, and not the thread that held it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


class Lock:
    """A reentrant lock that is free in a forked process, where what it guards may be half done.

    For state that is as good half done as not begun.

    >>> lock = Lock()
    >>> with lock, lock:
    ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._register()

    def _register(self) -> None:
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        if self._lock.acquire(blocking=False):
            self._lock.release()  # nobody has it, or the thread that forked, which gives it back
        else:
            self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class ForkLock(Lock):
    """A reentrant lock that a fork waits for, so that no process has something half done.

    Of two that are held at once, the one that was made later is taken first.
    """

    def _register(self) -> None:
        fork_waits_for(self._lock.acquire, self._lock.release)


def fork_waits_for(take: Callable[[], object], release: Callable[[], object]) -> None:
    """As of a `ForkLock`, for a lock of somebody else's."""
    os.register_at_fork(before=take, after_in_parent=release, after_in_child=release)
