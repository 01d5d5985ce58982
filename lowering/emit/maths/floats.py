"""Floats that LLVM computes with, and bf16, which is stored as i16: conversions between them."""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.maths.terms import Term, where
from triton_xe.lowering.emit.maths.wide import in_pairs_of_registers
from triton_xe.lowering.emit.types import DOUBLE, FLOAT, I16, I32, number, shaped
from triton_xe.lowering.emit.unused import is_rounding
from triton_xe.lowering.emit.values import instruction_of

_SIZE_OF_DOUBLE = (1 << 63) - 1


def from_bf16(x: Term) -> Term:
    """Convert bf16 to float, or reuse the float that the bf16 was truncated from exactly."""
    made = instruction_of(x.value, "trunc", "call")
    cut = None if made is None else instruction_of(made.operands[0], "lshr")
    if made is not None and made.opcode == "trunc" and cut is not None and "exact" in cut.flags:
        return x.with_value(cut.operands[0]).bitcast(FLOAT)
    if made is not None and is_rounding(made):
        return in_pairs_of_registers("bf16", x.with_value(made.operands[0]), _rounded_to_bf16)
    return _widened(x)


def _rounded_to_bf16(x: Term) -> Term:
    """A float rounded to a number of bf16."""
    return _widened(to_bf16(x))


def _widened(x: Term) -> Term:
    """bf16 as a float."""
    return (x.resized(I32) << 16).bitcast(FLOAT)


def to_bf16(x: Term) -> Term:
    """float to bf16, ties to even: one move on devices that have it (`GenISA.ftobf`)."""
    if not x.em.target.has_bf16_conversion:
        return to_bf16_in_software(x)
    result = shaped(x.value.type, I16)
    return x.with_value(x.em.call(genisa.FLOAT_TO_BF16, [x.value, number(0)], result))


def exact_bf16(x: Term) -> Term:
    """A float that bf16 holds exactly, as bf16."""
    bits = x.bits
    return x.with_value(x.em.b.binary("lshr", bits.value, 16, ("exact",))).resized(I16)


def to_bf16_in_software(x: Term) -> Term:
    """float to bf16, ties to even; NaN stays NaN, with its sign."""
    bits = x.bits
    rounded = bits + ((bits >> 16 & 1) + 0x7FFF)
    quiet = bits | 0x400000
    return (where(x.is_nan(), quiet, rounded) >> 16).resized(I16)


def truncated_to_bf16(x: Term) -> Term:
    """float to bf16 toward zero: the upper half of its bits, except that NaN stays NaN."""
    bits = x.bits
    quiet = bits | 0x400000
    return (where(x.is_nan(), quiet, bits) >> 16).resized(I16)


def as_float(x: Term) -> Term:
    """Convert any float to fp32 such that rounding it further gives the result of a single
    rounding.

    Shorter types are exact.  A double is rounded to odd: an inexact result has its last bit set,
    which represents all the bits below it (Boldo and Melquiond, "When double rounding is odd").
    """
    near = x.resized(FLOAT)
    if not x.is_double:
        return near
    back = near.resized(DOUBLE)
    exact, rounded = x.bits & _SIZE_OF_DOUBLE, back.bits & _SIZE_OF_DOUBLE
    odd = near.bits
    odd = (odd - rounded.compare("ugt", exact).resized(I32)) | 1
    return where(back.differs(x), odd.bitcast(FLOAT), near)


def truncated(x: Term, into: ir.Type) -> Term:
    """float or double to a shorter type of LLVM, toward zero; infinities and NaN are kept."""
    near = x.resized(into)
    above = near.resized(x.kind).size > x.size
    bits = near.bits
    return (bits - above.resized(bits.kind)).bitcast(into)
