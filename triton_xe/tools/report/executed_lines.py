"""Instructions that emulated devices executed, by source line.

Kernels are compiled with lines, which Intel's listing shows beside the instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triton_xe.backend.devices import devices
from triton_xe.runtime.emulator.listing import source_lines
from triton_xe.tools import intel
from triton_xe.tools.report.native_lines import file_of, with_lines

if TYPE_CHECKING:
    from triton_xe.runtime.emulator.device import EmulatedDevice, NativeKernel


def emulated() -> Sequence[EmulatedDevice]:
    """The emulated devices of this process; from now on their kernels have lines."""
    from triton_xe.runtime.emulator.device import EmulatedDevice

    found = [each for each in devices() if isinstance(each, EmulatedDevice)]
    for each in found:
        each.module_of = _with_lines
    return found


def _with_lines(kernel: Any) -> bytes:
    name = kernel.source.name
    return with_lines(kernel.module, name, file_of(kernel.module, name))


def counts(found: Sequence[EmulatedDevice]) -> Mapping[str, Mapping[str, int]]:
    """Kernel -> `file:line` -> executed instructions; "" has those without a line."""
    return {name: _by_line(native) for each in found for name, native in each.executed.items()}


def _by_line(native: NativeKernel) -> Mapping[str, int]:
    instructions = native.program.instructions
    compiled = intel.compile_spirv(native.module, native.device, native.flags)
    lines = source_lines(compiled.asm[native.entry], instructions)
    total: Counter[str] = Counter()
    for instruction, count in zip(instructions, native.executed.tolist(), strict=True):
        total[lines.get(instruction.pc, "")] += count
    return dict(total)
