"""Instructions that emulated devices executed, by source line.

Kernels are compiled with lines, which Intel's listing shows beside the instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from triton_xe.backend.devices import devices

if TYPE_CHECKING:
    from triton_xe.runtime.emulator.device import EmulatedDevice, NativeKernel


def emulated() -> Sequence[EmulatedDevice]:
    """The emulated devices of this process."""
    from triton_xe.runtime.emulator.device import EmulatedDevice

    return [each for each in devices() if isinstance(each, EmulatedDevice)]


def counts(found: Sequence[EmulatedDevice]) -> Mapping[str, Mapping[str, int]]:
    """Kernel -> `file:line` -> executed instructions; "" has those without a line."""
    return {name: _by_line(native) for each in found for name, native in each.executed.items()}


def _by_line(native: NativeKernel) -> Mapping[str, int]:
    program, total = native.program, Counter[str]()
    for instruction, count in zip(program.instructions, native.executed.tolist(), strict=True):
        total[program.line_of(instruction.pc)] += count
    return dict(total)
