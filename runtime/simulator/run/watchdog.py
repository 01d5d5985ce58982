"""End launches that run for too long: a report instead of a hang.

Launches in compiled code only note their begin; `launch.c` reports those that take too long.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time

from triton_xe.locks import Lock
from triton_xe.runtime import native
from triton_xe.runtime.observers import Observer
from triton_xe.runtime.simulator.context import Code

Words = ctypes.Array[ctypes.c_int64]
_lock = Lock()
_waiting: dict[int, tuple[float, Words, int, int]] = {}
"""Watched launches; changed without a lock, because a dictionary operation is atomic."""
wake = threading.Event()
_thread: threading.Thread | None = None
_absent = Observer(is_active=True)
"""Active without the thread, because compiled code could not end a launch after the time limit."""
TICK = 0.05
SLEEP = 10.0
"""Seconds between two checks of launches in compiled code, which do not wake this thread."""
LEAST_LIMIT = 3 * SLEEP
"""Smallest time limit of launches in compiled code, which end up to SLEEP late."""


def watch(words: Words, error: int, seconds: float, code: int) -> None:
    """Write `code` to `words[error]` if a launch runs for more than `seconds` (0: never).

    `unwatch` must follow when the launch has ended.
    """
    if seconds <= 0:
        return
    _waiting[id(words)] = time.monotonic() + seconds, words, error, code
    if _thread is None:
        _start()
    if not wake.is_set():
        wake.set()


def unwatch(words: Words) -> None:
    """Stop watching a launch, because it has ended."""
    _waiting.pop(id(words), None)


def _start() -> None:
    global _thread
    with _lock:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_watch, name="xe-sim-watchdog", daemon=True)
            _thread.start()
            _absent.is_active = False


def _after_fork() -> None:
    """Forget the parent's thread, which a forked process does not have."""
    global _thread, wake
    _thread, wake = None, threading.Event()
    _waiting.clear()
    _absent.is_active = True


os.register_at_fork(after_in_child=_after_fork)


def _watch() -> None:
    """Write the error code to launches that exceed their time limit; sleep while there are none."""
    while True:
        wake.clear()
        now = time.monotonic()
        watched = list(_waiting.values())
        for deadline, words, error, code in watched:
            if now > deadline and words[error] == 0:
                words[error] = code
        running = native.launch.end_overdue(Code.TIME) if native.launch is not None else 0
        if not watched and not running:
            wake.wait(SLEEP)
        else:
            nearest = min((deadline - now for deadline, *_ in watched), default=1.0)
            time.sleep(max(TICK, min(nearest, 1.0)))
