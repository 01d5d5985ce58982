"""Properties that are computed once, even if several threads read them at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from triton_xe.locks import Lock

T = TypeVar("T")


class once(cached_property[T]):
    """A `cached_property` that is computed by one thread only.

    Since Python 3.12 `cached_property` has no lock.  Before, it has a lock that stays locked in a
    process that forks while another thread computes the property.

    Use it if a second computation would do harm: of code that is loaded twice, one copy is freed
    while the other's user runs it.
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
