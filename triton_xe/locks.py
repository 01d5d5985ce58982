"""Locks for processes that fork: the child has a copy of each lock, but not of the thread that owns
it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


class Lock:
    """A reentrant lock that is free in a forked process.

    It is for state that may be left half updated, because the child can start from any of its
    states.

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
            self._lock.release()  # it was free, or the forking thread owns it
        else:
            self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class ForkLock(Lock):
    """A reentrant lock that a fork waits for, so that no process inherits a half-done update.

    If a thread takes two of them, it must take the one that was created later first.
    """

    def _register(self) -> None:
        fork_waits_for(self._lock.acquire, self._lock.release)


def fork_waits_for(take: Callable[[], object], release: Callable[[], object]) -> None:
    """Make a fork wait for a lock of another library, as for a `ForkLock`."""
    os.register_at_fork(before=take, after_in_parent=release, after_in_child=release)
