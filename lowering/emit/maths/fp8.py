"""8-bit floats, which travel as i8 and are converted with integer instructions.

| type | name in MLIR | exponent bias | largest | infinity | NaN |
|---|---|---|---|---|---|
| fp8e5 | f8E5M2 | 15 | 57344 | 0x7C | 0x7D..0x7F |
| fp8e4nv | f8E4M3FN | 7 | 448 | none | 0x7F |

Formats: Micikevicius et al., "FP8 formats for deep learning", table 1.  Conversions follow what
Triton's users see on other devices: to nearest even saturates, infinities included; toward zero
cuts bits off, so fp8e5 keeps infinities; NaN stays NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.maths import floats
from triton_xe.lowering.emit.maths.floats import filled, shaped
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I8,
    I16,
    I32,
    element,
    is_bf16,
    scalar_type,
    suffix,
)


@dataclass(frozen=True)
class Format:
    """An 8-bit float: mantissa bits, exponent bias, bits of the largest number and of NaN."""

    mantissa: int
    bias: int
    largest: int
    nan: int

    def __post_init__(self) -> None:
        assert 0 < self.mantissa < 7
        assert self.largest < self.nan <= 0x7F

    def value(self, bits: int) -> float:
        """The number that `bits` (sign included) stand for."""
        sign, size = -1.0 if bits & 0x80 else 1.0, bits & 0x7F
        if size > self.largest:
            return sign * math.inf if size == self.largest + 1 != self.nan else math.nan
        exponent, low = size >> self.mantissa, size & ((1 << self.mantissa) - 1)
        if exponent == 0:
            return sign * math.ldexp(low, 1 - self.bias - self.mantissa)
        return sign * math.ldexp(low + (1 << self.mantissa), exponent - self.bias - self.mantissa)

    def nearest(self, value: float) -> int:
        """The bits of a number: ties to even, saturating."""
        if value != value:
            return self.nan
        sign = 0x80 if math.copysign(1.0, value) < 0 else 0
        sizes = range(self.largest + 1)
        return sign | min(sizes, key=lambda b: (abs(self.value(b) - abs(value)), b & 1))

    @property
    def smallest_normal(self) -> float:
        return math.ldexp(1.0, 1 - self.bias)


FORMATS = {
    "f8E4M3FN": Format(mantissa=3, bias=7, largest=0x7E, nan=0x7F),
    "f8E5M2": Format(mantissa=2, bias=15, largest=0x7B, nan=0x7F),
}


def format_of(name: str) -> Format:
    """The format of an MLIR type name; `UnsupportedError` for those that Xe kernels lack."""
    found = FORMATS.get(name)
    if found is None:
        raise UnsupportedError(
            f"8-bit floats of type {name} are not supported on Xe GPUs; use fp8e4nv or fp8e5"
        )
    return found


def constant_bits(name: str, value: float) -> int:
    """The bits of a constant."""
    return format_of(name).nearest(value)


def convert(
    em: Emitter, source: Any, target: Any, value: ir.Value, toward_zero: bool
) -> ir.Value:
    """To, from or between 8-bit floats."""
    if floats.is_fp8(target):
        return from_float(em, element(target).name, floats.as_float(em, source, value), toward_zero)
    name = element(source).name
    if is_bf16(target):
        return _upper_half(em, to_float(em, name, value))
    if scalar_type(target) == HALF:
        return _to_half(em, name, value)
    wide = to_float(em, name, value)
    return em.b.fpext(wide, shaped(wide.type, DOUBLE)) if scalar_type(target) == DOUBLE else wide


def _upper_half(em: Emitter, value: ir.Value) -> ir.Value:
    """A float that bf16 holds exactly, as bf16."""
    bits = em.b.bitcast(value, shaped(value.type, I32))
    return em.b.trunc(em.b.lshr(bits, filled(bits.type, 16)), shaped(value.type, I16))


def to_float(em: Emitter, name: str, value: ir.Value) -> ir.Value:
    """An 8-bit float as fp32, exactly."""
    half = _to_half(em, name, value)
    return em.b.fpext(half, shaped(half.type, FLOAT))


def _to_half(em: Emitter, name: str, value: ir.Value) -> ir.Value:
    """An 8-bit float as fp16, exactly: moved into place, and scaled by the biases' difference."""
    kind = format_of(name)
    wide = em.b.zext(value, shaped(value.type, I16))
    half = shaped(value.type, HALF)
    if kind.mantissa == 2:
        return em.b.bitcast(em.b.shl(wide, filled(wide.type, 8)), half)
    size = em.b.and_(wide, filled(wide.type, 0x7F))
    sign = em.b.shl(em.b.and_(wide, filled(wide.type, 0x80)), filled(wide.type, 8))
    moved = em.b.or_(em.b.shl(size, filled(wide.type, 7)), sign)
    scaled = em.b.fmul(em.b.bitcast(moved, half), filled(half, float(1 << (15 - kind.bias))))
    is_nan = em.b.icmp_unsigned("==", size, filled(wide.type, kind.nan))
    return em.b.select(is_nan, filled(half, math.nan), scaled)


def from_float(em: Emitter, name: str, value: ir.Value, toward_zero: bool) -> ir.Value:
    """fp32 as an 8-bit float."""
    kind = format_of(name)
    words = shaped(value.type, I32)
    bits = em.b.bitcast(value, words)
    size = floats.magnitude(em, value)
    best = filled(value.type, kind.value(kind.largest))
    held = em.call(f"llvm.minnum.{suffix(value.type)}", value.type, [size, best])
    normal = _cut(em, kind, em.b.bitcast(held, words), toward_zero)
    small = em.b.fcmp_ordered("<", held, filled(value.type, kind.smallest_normal))
    result = em.b.select(small, _subnormal(em, kind, held, toward_zero), normal)
    if toward_zero and kind.nan > kind.largest + 1:
        infinite = em.b.fcmp_ordered("==", size, filled(value.type, math.inf))
        result = em.b.select(infinite, filled(words, kind.largest + 1), result)
    is_nan = em.b.fcmp_unordered("uno", value, value)
    result = em.b.select(is_nan, filled(words, kind.nan), result)
    sign = em.b.and_(em.b.lshr(bits, filled(words, 24)), filled(words, 0x80))
    return em.b.trunc(em.b.or_(result, sign), shaped(value.type, I8))


def _cut(em: Emitter, kind: Format, bits: ir.Value, toward_zero: bool) -> ir.Value:
    """Mantissa and exponent of a normal result, from the bits of a positive float."""
    words, dropped = bits.type, 23 - kind.mantissa
    if not toward_zero:
        last = em.b.and_(em.b.lshr(bits, filled(words, dropped)), filled(words, 1))
        bits = em.b.add(bits, em.b.add(last, filled(words, (1 << (dropped - 1)) - 1)))
    bits = em.b.sub(bits, filled(words, (127 - kind.bias) << 23))
    return em.b.lshr(bits, filled(words, dropped))


def _subnormal(em: Emitter, kind: Format, size: ir.Value, toward_zero: bool) -> ir.Value:
    """How many steps of the smallest number a positive float is.

    Adding a power of two whose last place is that step rounds to it, ties to even.
    """
    words, step = shaped(size.type, I32), kind.bias - 1 + kind.mantissa
    if toward_zero:
        return em.b.fptoui(em.b.fmul(size, filled(size.type, math.ldexp(1.0, step))), words)
    anchor = math.ldexp(1.0, 23 - step)
    total = em.b.bitcast(em.b.fadd(size, filled(size.type, anchor)), words)
    return em.b.sub(total, em.b.bitcast(filled(size.type, anchor), words))
