"""The other versions of a kernel: for launches that do not satisfy what the first one assumes.

A module says what it assumes (`triton_xe.conditions`); what it was compiled from travels along, and
whoever loads it can give a function that compiles another version when a launch first needs it: the
one for short rows where only these are what it is not for, else the general one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton_xe import knobs
from triton_xe.conditions import SHORT_ROWS, Table
from triton_xe.errors import DeviceError
from triton_xe.locks import Lock
from triton_xe.runtime.device import Kernel
from triton_xe.spirv import CONDITIONAL, CONDITIONS, attached, is_spirv

General = Callable[[str], tuple[bytes, str]]
"""Makes the version for launches that fail a condition: a SPIR-V module and its build flags."""
_lock = Lock()
_MOST_ANSWERS = 64


def entry_name(binary: bytes, kernel: str) -> str:
    """The name of a kernel's entry point in a module."""
    is_conditional = is_spirv(binary) and attached(binary, CONDITIONS)
    return kernel + CONDITIONAL if is_conditional else kernel


@dataclass
class Versions:
    """What a kernel assumes of a launch, and the kernels for other launches."""

    name: str
    conditions: Table
    load: Callable[[str], Kernel] | None
    """Loads the version for a failing condition; None where nothing can make it."""
    module: General | None = None
    """Makes the module that is loaded for it."""
    loaded: dict[bool, Kernel] = field(default_factory=dict)
    """By whether it is the one for short rows."""
    _answers: dict[tuple[Any, ...], str] = field(default_factory=dict, repr=False)

    def failing(self, arguments: Sequence[Any], grid: Sequence[int]) -> str:
        """The first condition that a launch does not satisfy; empty when the fast version runs."""
        asked = (*arguments, *grid)
        found = self._answers.get(asked)
        if found is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            found = self._answers[asked] = self.conditions.failing(arguments, grid)
        return found

    def general(self, failing: str) -> Kernel:
        """The kernel for a launch that fails a condition; `DeviceError` when there is none."""
        with _lock:
            is_short = failing == SHORT_ROWS
            if is_short not in self.loaded:
                if self.load is None:
                    raise DeviceError(
                        f"kernel {self.name!r} was compiled for launches of which this is none: it "
                        f"does not hold that {failing}; compile it with guards='kernel'"
                    )
                if knobs.debug():
                    print(f"triton-xe: {self.name}: a launch needs {name_of(failing)}, as it does "
                          f"not hold that {failing}", file=sys.stderr)
                self.loaded[is_short] = self.load(failing)
            return self.loaded[is_short]

    def close(self) -> None:
        for kernel in self.loaded.values():
            kernel.close()


def name_of(failing: str) -> str:
    """The version for launches that fail a condition."""
    return "the version for short rows" if failing == SHORT_ROWS else "the general version"


def versions_of(
    binary: bytes, name: str, load: Callable[[bytes, str], Kernel], general: General | None
) -> Versions | None:
    """The versions of a kernel of a module; None when it runs for every launch.

    `load` loads a module with its build flags.
    """
    text = attached(binary, CONDITIONS)
    if not text:
        return None
    made = None if general is None else lambda failing: load(*general(failing))
    return Versions(name, Table.read(text), made, general)
