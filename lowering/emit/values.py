"""Look at values that are being written: the instructions of results, the numbers of constants."""

from __future__ import annotations

import struct

from triton_xe import llvm as ir

_FORMATS = {"half": ("<H", "<e"), "float": ("<Q", "<d"), "double": ("<Q", "<d")}
"""How the bits that spell a number are packed and read; those of fp32 are spelled as fp64."""


def instruction_of(value: object, *opcodes: str) -> ir.Instruction | None:
    """The instruction, one of `opcodes` if some are given, that computes a value; else None."""
    if not isinstance(value, ir.Result):
        return None
    made = value.instruction
    return made if not opcodes or made.opcode in opcodes else None


def opcode_of(value: object) -> str:
    """The name of the instruction that computes a value; empty for arguments and constants."""
    return value.instruction.opcode if isinstance(value, ir.Result) else ""


def callee_of(value: object) -> str:
    """The name of the function whose call computes a value; empty for other values."""
    return value.instruction.callee if isinstance(value, ir.Result) else ""


def number_of(value: ir.Operand) -> int | float | None:
    """The number of a scalar constant; None for undefined ones, expressions and other values."""
    kind, text = value.type, value.text
    if kind.kind != "float":
        return value.integer_value()
    if not text.startswith("0x"):
        return None
    unsigned, floating = _FORMATS[kind.name]
    bits = int(text.removeprefix("0xH").removeprefix("0x"), 16)
    return float(struct.unpack(floating, struct.pack(unsigned, bits))[0])


def elements_of(value: ir.Operand) -> list[ir.Operand]:
    """The elements of a vector constant, or a scalar constant itself; [] for other values."""
    kind = value.type
    if not value.is_constant or kind.kind != "vec":
        return [value] if value.is_constant else []
    if value.elements:
        return list(value.elements)
    element = ir.undef(kind.scalar) if value.is_undefined else ir.zero(kind.scalar)
    return [element] * kind.count
