"""Properties that are made once, whichever threads ask at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import RLock
from typing import Any, TypeVar

T = TypeVar("T")


class once(cached_property[T]):
    """A `cached_property` that no two threads make: since Python 3.12 that one has no lock.

    For what must not be made twice: of code that is loaded twice, one is given back while the
    other's user runs it.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        super().__init__(make)
        self._making = RLock()

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        with self._making:
            return super().__get__(instance, owner)
