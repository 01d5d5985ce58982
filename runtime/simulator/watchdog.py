"""Ends launches that run for too long: a report instead of a hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

_lock = threading.Lock()
_waiting: dict[int, tuple[float, NDArray[np.int64], int]] = {}
_wake = threading.Event()
_thread: threading.Thread | None = None
TICK = 0.05


@contextmanager
def limited(error: NDArray[np.int64], seconds: float, code: int) -> Iterator[None]:
    """Note `code` as the error of a launch that is still running after `seconds` (0: never)."""
    if seconds <= 0:
        yield
        return
    key = id(error)
    with _lock:
        _waiting[key] = time.monotonic() + seconds, error, code
        _start()
    _wake.set()
    try:
        yield
    finally:
        with _lock:
            _waiting.pop(key, None)


def _start() -> None:
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_watch, name="xe-sim-watchdog", daemon=True)
        _thread.start()


def _watch() -> None:
    while True:
        with _lock:
            now = time.monotonic()
            for deadline, error, code in _waiting.values():
                if now > deadline and error[0] == 0:
                    error[0] = code
            nearest = min((d for d, _, _ in _waiting.values()), default=None)
        if nearest is None:
            _wake.clear()
            _wake.wait(10.0)
        else:
            time.sleep(max(TICK, min(nearest - now, 1.0)))
