"""Facts about single instructions and values."""

from __future__ import annotations

from triton_xe.intrinsics import Family, find, genisa
from triton_xe.intrinsics.definitions import block_2d
from triton_xe.llvm import Instruction


def makes_numbers(i: Instruction) -> bool:
    """True if it computes floating-point numbers, which may be NaN even if no operand is."""
    if i.type.scalar.kind != "float":
        return False
    known = find(i.callee)
    return i.opcode in ("fadd", "fsub", "fmul", "fdiv", "frem") or (
        i.opcode == "call" and known.family is Family.MATHS)


def by_lanes(i: Instruction) -> bool:
    """True if an instruction loads from one address per lane."""
    return i.opcode == "load" or find(i.callee) is genisa.PREDICATED_LOAD


def is_block(i: Instruction) -> bool:
    """True if an instruction is a 2D block read."""
    return find(i.callee).definition is block_2d.block_read
