"""Properties that are made once, whichever threads ask at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from triton_xe.locks import Lock

T = TypeVar("T")


class once(cached_property[T]):
    """A `cached_property` that no two threads make: since Python 3.12 that one has no lock, before
    it has one that stays locked in a process that forks while another thread makes the property.

    For what must not be made twice: of code that is loaded twice, one is given back while the
    other's user runs it.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        super().__init__(make)
        self._making = Lock()

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        with self._making:
            made = instance.__dict__
            if self.attrname not in made:
                made[self.attrname] = self.func(instance)
            return made[self.attrname]
