"""Ends launches that run for too long: a report instead of a hang."""

from __future__ import annotations

import ctypes
import os
import threading
import time

Words = ctypes.Array[ctypes.c_int64]
_lock = threading.Lock()
_waiting: dict[int, tuple[float, Words, int, int]] = {}
"""Changed without the lock: one operation of a dictionary is not interrupted."""
_wake = threading.Event()
_thread: threading.Thread | None = None
TICK = 0.05


def watch(words: Words, error: int, seconds: float, code: int) -> None:
    """Note `code` in `words[error]` when a launch runs for more than `seconds` (0: never).

    `unwatch` must follow when the launch has ended.
    """
    if seconds <= 0:
        return
    _waiting[id(words)] = time.monotonic() + seconds, words, error, code
    if _thread is None:
        _start()
    if not _wake.is_set():
        _wake.set()


def unwatch(words: Words) -> None:
    """The launch has ended."""
    _waiting.pop(id(words), None)


def _start() -> None:
    global _thread
    with _lock:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_watch, name="xe-sim-watchdog", daemon=True)
            _thread.start()


def _after_fork() -> None:
    """A forked process has no thread of its parent's."""
    global _thread
    _thread = None
    _waiting.clear()


os.register_at_fork(after_in_child=_after_fork)


def _watch() -> None:
    while True:
        _wake.clear()
        now = time.monotonic()
        watched = list(_waiting.values())
        for deadline, words, error, code in watched:
            if now > deadline and words[error] == 0:
                words[error] = code
        if not watched:
            _wake.wait(10.0)
        else:
            nearest = min(deadline for deadline, *_ in watched)
            time.sleep(max(TICK, min(nearest - now, 1.0)))
