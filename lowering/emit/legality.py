"""Types that a device lacks."""

from __future__ import annotations

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target
from triton_xe.llvm import F64, Module
from triton_xe.llvm.syntax import write_instruction


def check_written(module: Module, device: Target) -> None:
    """Refuse doubles on a device without them.

    Every value is an argument, a constant or a result; calls are of known functions.
    """
    if device.has_fp64:
        return
    for function in module.functions.values():
        found = next((f"{kind} {name}" for name, kind in function.parameters
                      if kind.scalar is F64), None) or next((
            write_instruction(i) for i in function.instructions()
            if (i.operands[0] if i.opcode == "store" else i).type.scalar is F64), None)
        if found is not None:
            raise UnsupportedError(
                f"fp64 is not supported on {device.name}, whose hardware has no doubles: use"
                f" fp32, or compile for another device; first use: {found.strip()[:100]}")
