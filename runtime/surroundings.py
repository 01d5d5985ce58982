"""Who wants to surround launches on simulated devices: torch, for graphs and its profiler.

And what else keeps launches there from compiled code, which knows nothing of it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol


class Surrounding(Protocol):
    """`run` launches, or sees to it that it happens later."""

    def wanted(self) -> bool: ...

    def run(self, device: Any, name: str, launch: Callable[[], None]) -> None: ...

    def keep(self, held: object, then: Callable[[], None] | None) -> bool: ...


SURROUNDINGS: list[Surrounding] = []


class Reason(IntEnum):
    """Why a launch on a simulated device is not left to compiled code."""

    WATCHED = 0
    """Somebody is told of each."""
    CAPTURED = 1
    """It goes into a graph."""
    MAPPED = 2
    """What is written is followed."""
    UNTIMED = 3
    """Nobody would end it after the time limit."""


REASONS = (ctypes.c_int * len(Reason))()
"""1 for those that hold now."""
REASONS[Reason.UNTIMED] = 1


_INTEGERS: list[tuple[int, int]] = [(ctypes.addressof(REASONS), len(Reason))]


def leave_to_python(address: int, count: int) -> None:
    """Leave launches to Python while any of the C integers at an address is not 0."""
    _INTEGERS.append((address, count))
    native = sys.modules.get("triton_xe.runtime.native")
    if native is not None:
        tell(native.launch)


def tell(launch: Any) -> None:
    """Let compiled code know of these integers: `import torch` does not wait until it is loaded."""
    while _INTEGERS and launch is not None:
        launch.unless(*_INTEGERS.pop())


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
