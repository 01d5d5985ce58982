"""Observers of launches on simulated devices: torch, for graphs and its profiler.

The module also collects the other reasons for which a launch must not be done by compiled code.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol


class Surrounding(Protocol):
    """An observer; its `run` launches, or arranges that the launch happens later."""

    def wanted(self) -> bool: ...

    def run(self, device: Any, name: str, launch: Callable[[], None]) -> None: ...

    def keep(self, held: object, then: Callable[[], None] | None) -> bool: ...


SURROUNDINGS: list[Surrounding] = []


class Reason(IntEnum):
    """Reason why a launch on a simulated device is not done by compiled code."""

    WATCHED = 0
    """An observer is notified of each launch."""
    CAPTURED = 1
    """The launch is captured into a graph."""
    MAPPED = 2
    """Writes are tracked."""
    UNTIMED = 3
    """Compiled code could not end the launch after the time limit."""


REASONS = (ctypes.c_int * len(Reason))()
"""1 for each reason that applies now."""
REASONS[Reason.UNTIMED] = 1


_INTEGERS: list[tuple[int, int]] = [(ctypes.addressof(REASONS), len(Reason))]


def leave_to_python(address: int, count: int) -> None:
    """Do launches in Python while any of the C integers at an address is not 0."""
    _INTEGERS.append((address, count))
    native = sys.modules.get("triton_xe.runtime.native")
    if native is not None:
        tell(native.launch)


def tell(launch: Any) -> None:
    """Register these integers with compiled code, so that `import torch` need not wait for it to
    load.
    """
    while _INTEGERS and launch is not None:
        launch.unless(*_INTEGERS.pop())


def wanted() -> Surrounding | None:
    """The observer of the next launch, or None."""
    for each in SURROUNDINGS:
        if each.wanted():
            return each
    return None


def keep(held: object, then: Callable[[], None] | None = None) -> bool:
    """Let the graph that is being captured keep the resources of its last launch; False without a
    graph.

    Each replay calls `then` after that launch.
    """
    return any(each.keep(held, then) for each in SURROUNDINGS)
