"""Constructs that LLVM's SPIR-V target must not get, because it ends the process or drops them
silently.

The rules are about llvmlite's types; a module that was read from text is converted to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target
from triton_xe.lowering.emit.types import opcode_of

_WIDTHS = (1, 8, 16, 32, 64)
_FORBIDDEN = {
    "llvm.masked.": "masked vector intrinsics",
    "llvm.umul.with.overflow": "overflow intrinsics",
    "llvm.readcyclecounter": "the cycle counter intrinsic",
}


def problem(
    opcode: str, result: ir.Type, operands: Sequence[ir.Type], predicate: str = "",
    callee: str = "",
) -> str | None:
    """Why an instruction on these types cannot be written; None if it can."""
    for kind in (result, *operands):
        scalar = _scalar(kind)
        if isinstance(scalar, ir.IntType) and scalar.width not in _WIDTHS:
            return f"integers of {scalar.width} bits"
    if opcode in ("sitofp", "uitofp", "icmp") and predicate not in ("eq", "ne"):
        if isinstance(operands[0], ir.VectorType) and operands[0].element == ir.IntType(1):
            return f"{opcode} of vectors of bits"
    if opcode == "trunc" and result == ir.VectorType(ir.IntType(1), getattr(result, "count", 0)):
        return "truncations of vectors to bits"
    if opcode == "fence":
        return "LLVM fences, which are dropped silently,"
    return next((what for name, what in _FORBIDDEN.items() if callee.startswith(name)), None)


_ON_BITS = ("sitofp", "uitofp", "icmp")


def check_written(module: ir.Module, device: Target) -> None:
    """Refuse what the emitter wrote where the target, or the device, lacks it.

    Every value is an argument, a constant or a result; calls are of known functions.
    """
    suspects: dict[int, bool] = {}
    for function in module.functions:
        for value in (*function.args, *(i for b in function.blocks for i in b.instructions)):
            opcode = opcode_of(value)
            kind = value.operands[0].type if opcode == "store" else value.type
            suspect = suspects.get(id(kind))
            if suspect is None:
                suspect = suspects[id(kind)] = _is_suspect(_scalar(kind))
            if suspect or opcode in _ON_BITS:
                _check_value(value, opcode, _scalar(kind), device)


def _is_suspect(kind: ir.Type) -> bool:
    """True if the target, or some device, may lack values of a type."""
    return isinstance(kind, ir.DoubleType) or (
        isinstance(kind, ir.IntType) and kind.width not in _WIDTHS)


def _check_value(value: Any, opcode: str, kind: ir.Type, device: Target) -> None:
    if isinstance(kind, ir.DoubleType) and not device.has_fp64:
        raise UnsupportedError(
            f"fp64 is not supported on {device.name}, whose hardware has no doubles: use"
            f" fp32, or compile for another device; first use: {str(value).strip()[:100]}"
        )
    operands = [value.operands[0].type] if opcode in _ON_BITS else []
    _refuse(problem(opcode, kind, operands, getattr(value, "op", "")))


def check_parsed(module: llvm.ModuleRef) -> None:
    """Refuse what a module that was read from text has and the target lacks."""
    for function in module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                operands, opcode = list(instruction.operands), instruction.opcode
                predicate = _predicate(instruction) if opcode == "icmp" else ""
                _refuse(problem(opcode, _as_ir(instruction.type),
                                [_as_ir(v.type) for v in operands], predicate,
                                operands[-1].name if opcode == "call" else ""))
                if opcode == "zext" and instruction.type.is_vector:
                    _refuse(_extended(operands[0]))


def _extended(value: llvm.ValueRef) -> str | None:
    """Reason why a vector of integers cannot be zero-extended; see `LocatedBuilder.zext`.

    llvmlite gives the operation of an operand only as text.
    """
    opcode = str(value).partition(" = ")[2].partition(" ")[0]
    return f"zext of a {opcode} of vectors (use a mask)" if opcode in ("trunc", "sext") else None


def _as_ir(kind: llvm.TypeRef) -> Any:
    """The llvmlite type for a type of the binding; unknown types are not supported by the
    target.
    """
    if kind.type_kind is llvm.TypeKind.bfloat:
        _refuse("bfloat values")
    if kind.is_vector:
        return ir.VectorType(_as_ir(next(kind.elements)), kind.element_count)
    return ir.IntType(kind.type_width) if kind.type_kind is llvm.TypeKind.integer else kind


def _predicate(compare: llvm.ValueRef) -> str:
    """The predicate of a comparison, which llvmlite gives only as text."""
    return str(compare).partition(" icmp ")[2].split()[0]


def _scalar(kind: ir.Type) -> ir.Type:
    return kind.element if isinstance(kind, ir.VectorType) else kind


def _refuse(what: str | None) -> None:
    if what is not None:
        raise UnsupportedError(f"{what} cannot be written to SPIR-V")
