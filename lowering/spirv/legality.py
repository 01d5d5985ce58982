"""Types that a device lacks."""

from __future__ import annotations

from llvmlite import ir

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target
from triton_xe.lowering.emit.types import opcode_of


def check_written(module: ir.Module, device: Target) -> None:
    """Refuse doubles on a device without them.

    Every value is an argument, a constant or a result; calls are of known functions.
    """
    if device.has_fp64:
        return
    found: dict[int, bool] = {}
    for function in module.functions:
        for value in (*function.args, *(i for b in function.blocks for i in b.instructions)):
            kind = value.operands[0].type if opcode_of(value) == "store" else value.type
            is_double = found.get(id(kind))
            if is_double is None:
                scalar = kind.element if isinstance(kind, ir.VectorType) else kind
                is_double = found[id(kind)] = isinstance(scalar, ir.DoubleType)
            if is_double:
                raise UnsupportedError(
                    f"fp64 is not supported on {device.name}, whose hardware has no doubles: use"
                    f" fp32, or compile for another device; first use: {str(value).strip()[:100]}"
                )
