"""Observers of launches on simulated devices: graphs and the profiler of torch, tools, checks.

Compiled code does not launch while an observer is active; Python then does, and calls it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

OBSERVERS: list[Observer] = []
_FLAGS = (ctypes.c_int * 16)()
"""A flag for each observer, which compiled code reads."""
_unknown: list[tuple[int, int]] = [(ctypes.addressof(_FLAGS), len(_FLAGS))]
"""Address and number of flags that compiled code does not know yet."""


class Observer:
    """An observer, in the list until it is closed; while active, it keeps launches in Python."""

    def __init__(self, *, is_active: bool = False) -> None:
        taken = {each.slot for each in OBSERVERS}
        self.slot: int = next(k for k in range(len(_FLAGS)) if k not in taken)
        self.is_active = is_active
        OBSERVERS.append(self)

    @property
    def is_active(self) -> bool:
        return bool(_FLAGS[self.slot])

    @is_active.setter
    def is_active(self, value: bool) -> None:
        _FLAGS[self.slot] = value

    def close(self) -> None:
        self.is_active = False
        OBSERVERS.remove(self)

    def wants_launch(self) -> bool:
        """True if `run` must do the next launch."""
        return False

    def run(self, device: Any, name: str, launch: Callable[[], None]) -> None:
        """Do a launch, or arrange that it happens later."""
        raise NotImplementedError

    def keep(self, held: object, then: Callable[[], None] | None) -> bool:
        """Own the resources of the last launch, and call `then` after each replay; False if it
        does not.
        """
        return False

    def note(
        self, kernel: Any, grid: tuple[int, int, int], arguments: Sequence[int | float],
        is_run: bool,
    ) -> None:
        """Note that a launch has ended; it was only timed unless `is_run`."""


def leave_to_python(address: int) -> None:
    """Launch in Python while the C integer at an address is not 0."""
    _unknown.append((address, 1))
    native = sys.modules.get("triton_xe.runtime.native")
    if native is not None:
        register_flags(native.launch)


def register_flags(launch: Any) -> None:
    """Register all flags with compiled code, so that `import torch` need not wait for it to
    load.
    """
    while _unknown and launch is not None:
        launch.unless(*_unknown.pop())


def wanted() -> Observer | None:
    """The observer that must do the next launch, or None."""
    for each in OBSERVERS:
        if each.wants_launch():
            return each
    return None


def keep(held: object, then: Callable[[], None] | None = None) -> bool:
    """Let the graph that is being captured keep the resources of its last launch; False without a
    graph.

    Each replay calls `then` after that launch.
    """
    return any(each.keep(held, then) for each in OBSERVERS)
