"""Versions of a kernel for launches that do not satisfy the assumptions of the first one.

A module contains its conditions on launches (`triton_xe.conditions`) and the source of the general
version.  The code that loads the module can pass a function that compiles that version when a
launch first needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton_xe import knobs
from triton_xe.conditions import Table
from triton_xe.errors import DeviceError
from triton_xe.locks import Lock
from triton_xe.runtime.device import Kernel
from triton_xe.spirv import CONDITIONAL, CONDITIONS, attached, is_spirv

General = Callable[[], tuple[bytes, str]]
"""Function that compiles the general version: SPIR-V and build flags."""
_lock = Lock()
_MOST_ANSWERS = 64


def entry_name(binary: bytes, kernel: str) -> str:
    """The name of a kernel's entry point in a module."""
    is_conditional = is_spirv(binary) and attached(binary, CONDITIONS)
    return kernel + CONDITIONAL if is_conditional else kernel


@dataclass
class Versions:
    """Conditions of a kernel on a launch, and the kernel for other launches."""

    name: str
    conditions: Table
    load: Callable[[], Kernel] | None
    """Loads the general version; None if it cannot be compiled."""
    module: General | None = None
    """Compiles the module of that version."""
    loaded: Kernel | None = None
    """The general version, once a launch needed it."""
    _answers: dict[tuple[Any, ...], str] = field(default_factory=dict, repr=False)

    def failing(self, arguments: Sequence[Any], grid: Sequence[int]) -> str:
        """The first condition that a launch does not satisfy; empty if the fast version runs."""
        asked = (*arguments, *grid)
        found = self._answers.get(asked)
        if found is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            found = self._answers[asked] = self.conditions.failing(arguments, grid)
        return found

    def general(self, failing: str) -> Kernel:
        """The kernel for a launch that fails a condition; `DeviceError` if there is none."""
        with _lock:
            if self.loaded is None:
                if self.load is None:
                    raise DeviceError(
                        f"kernel {self.name!r} was compiled for launches of which this is none: it "
                        f"does not hold that {failing}; compile it with guards='kernel'"
                    )
                if knobs.debug():
                    print(f"triton-xe: {self.name}: a launch needs the general version, as it does "
                          f"not hold that {failing}", file=sys.stderr)
                self.loaded = self.load()
            return self.loaded

    def close(self) -> None:
        if self.loaded is not None:
            self.loaded.close()


def versions_of(
    binary: bytes, name: str, load: Callable[[bytes, str], Kernel], general: General | None
) -> Versions | None:
    """The versions of a kernel of a module; None if it runs for every launch.

    `load` loads a module with its build flags.
    """
    text = attached(binary, CONDITIONS)
    if not text:
        return None
    made = None if general is None else lambda: load(*general())
    return Versions(name, Table.read(text), made, general)
