"""Rounding of fp32, as `triton_xe.intrinsics.definitions.conversions` defines it."""

from __future__ import annotations

from triton_xe.runtime.simulator.ir import I16, I32, Operand, with_elements
from triton_xe.runtime.simulator.ir.builder import Builder


def rounded(b: Builder, x: Operand, dropped: int) -> Operand:
    """Bits of fp32 rounded to nearest even at bit `dropped`; NaN stays a quiet NaN."""
    bits = b.bitcast(x, with_elements(x.type, I32))
    odd = b.and_(b.lshr(bits, dropped), 1)
    near = b.add(bits, b.add(odd, (1 << (dropped - 1)) - 1))
    return b.select(b.fcmp("uno", x, x), b.or_(bits, 1 << 22), near)


def bf16_bits(b: Builder, x: Operand) -> Operand:
    return b.trunc(b.lshr(rounded(b, x, 16), 16), I16)
