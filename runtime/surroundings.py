"""Who wants to surround launches on simulated devices: torch, for graphs and its profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Surrounding(Protocol):
    """`run` launches, or sees to it that it happens later."""

    def wanted(self) -> bool: ...

    def run(self, device: Any, name: str, launch: Callable[[], None]) -> None: ...


SURROUNDINGS: list[Surrounding] = []


def wanted() -> Surrounding | None:
    """The one that wants the next launch."""
    for each in SURROUNDINGS:
        if each.wanted():
            return each
    return None
