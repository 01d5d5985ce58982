"""Room for calls that nest as deep as code does: Python's limit of 1,000 is for other code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

MANY = 20_000
"""Enough for blocks that nest two thousand deep."""
_lock = Lock()


@contextmanager
def room_for(calls: int = MANY) -> Iterator[None]:
    """Let calls nest deeper by so many; all threads share the limit."""
    with _lock:
        sys.setrecursionlimit(sys.getrecursionlimit() + calls)
    try:
        yield
    finally:
        with _lock:
            sys.setrecursionlimit(sys.getrecursionlimit() - calls)
