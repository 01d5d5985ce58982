"""Rounding of fp32, as `triton_xe.intrinsics.definitions.conversions` defines it."""

from __future__ import annotations

from triton_xe.llvm import I16, I32
from triton_xe.llvm.values import Value


def rounded(x: Value, dropped: int) -> Value:
    """Bits of fp32 rounded to nearest even at bit `dropped`; NaN stays a quiet NaN."""
    bits = x.as_bits(I32)
    near = bits + ((bits >> dropped & 1) + ((1 << (dropped - 1)) - 1))
    return x.w.select(x.compare("uno", x), bits | 1 << 22, near)


def bf16_bits(x: Value) -> Value:
    return (rounded(x, 16) >> 16).to(I16)
