"""Raises Python's recursion limit (1,000 calls) for code that nests as deep as the kernel does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

MANY = 20_000
"""Enough for blocks that nest two thousand deep."""
_lock = Lock()


@contextmanager
def room_for() -> Iterator[None]:
    """Raise the recursion limit by `MANY` calls; all threads share the limit."""
    with _lock:
        sys.setrecursionlimit(sys.getrecursionlimit() + MANY)
    try:
        yield
    finally:
        with _lock:
            sys.setrecursionlimit(sys.getrecursionlimit() - MANY)
