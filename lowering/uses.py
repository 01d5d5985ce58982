"""Walks along the uses of values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def can_follow(start: T, reached: Callable[[T], Iterable[T] | None]) -> bool:
    """True if `reached` can follow a value, and all values that it reaches.

    `reached` returns None if it cannot.  Each value is visited once.

        >>> can_follow(1, lambda n: [n + 1] if n < 9 else [])
        True
    """
    seen: set[T] = set()
    waiting = [start]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        found = reached(value)
        if found is None:
            return False
        waiting += found
    return True
