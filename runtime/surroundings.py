"""Who wants to surround launches on simulated devices: torch, for graphs and its profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Surrounding(Protocol):
    """`run` launches, or sees to it that it happens later."""

    def wanted(self) -> bool: ...

    def run(self, device: Any, name: str, launch: Callable[[], None]) -> None: ...

    def keep(self, held: object, then: Callable[[], None] | None) -> bool: ...


SURROUNDINGS: list[Surrounding] = []


def wanted() -> Surrounding | None:
    """The one that wants the next launch."""
    for each in SURROUNDINGS:
        if each.wanted():
            return each
    return None


def keep(held: object, then: Callable[[], None] | None = None) -> bool:
    """Have the graph that is being captured hold what its last launch uses; False without one.

    Each replay does what comes `then`, after that launch.
    """
    return any(each.keep(held, then) for each in SURROUNDINGS)
