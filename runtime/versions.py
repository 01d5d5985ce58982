"""The other version of a kernel: for launches that do not satisfy what the fast one assumes.

A module says what it assumes (`triton_xe.conditions`); what it was compiled from travels along, and
whoever loads it can give a function that compiles the general version when a launch first needs it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton_xe import knobs
from triton_xe.conditions import Table
from triton_xe.errors import DeviceError
from triton_xe.runtime.device import Kernel
from triton_xe.spirv import CONDITIONAL, CONDITIONS, attached, is_spirv

General = Callable[[], tuple[bytes, str]]
"""Makes the general version: a SPIR-V module and its build flags."""
_lock = threading.RLock()
_MOST_ANSWERS = 64


def entry_name(binary: bytes, kernel: str) -> str:
    """The name of a kernel's entry point in a module."""
    is_conditional = is_spirv(binary) and attached(binary, CONDITIONS)
    return kernel + CONDITIONAL if is_conditional else kernel


@dataclass
class Versions:
    """What a kernel assumes of a launch, and the kernel for other launches."""

    name: str
    conditions: Table
    load: Callable[[], Kernel] | None
    """Loads the general version; None where nothing can make it."""
    module: General | None = None
    """Makes the module that is loaded for it."""
    loaded: Kernel | None = field(default=None)
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
    """The versions of a kernel of a module; None when it runs for every launch.

    `load` loads a module with its build flags.
    """
    text = attached(binary, CONDITIONS)
    if not text:
        return None
    made = None if general is None else lambda: load(*general())
    return Versions(name, Table.read(text), made, general)
