"""8-bit floats, which are stored as i8 and converted with integer instructions.

| type | name in MLIR | exponent bias | largest | infinity | NaN |
|---|---|---|---|---|---|
| fp8e5 | f8E5M2 | 15 | 57344 | 0x7C | 0x7D..0x7F |
| fp8e4nv | f8E4M3FN | 7 | 448 | none | 0x7F |

Formats: Micikevicius et al., "FP8 formats for deep learning", table 1.  Conversions are those of
Triton on other devices.  Rounding to nearest even saturates, also infinities.  Rounding toward zero
truncates, so that fp8e5 keeps infinities.  NaN stays NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from triton_xe import llvm as ir
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.helpers import call_internal
from triton_xe.lowering.emit.maths import halves
from triton_xe.lowering.emit.maths.terms import Term, where
from triton_xe.lowering.emit.types import FLOAT, HALF, I8, I16, I32, vector_of
from triton_xe.lowering.emit.writer import Writer
from triton_xe.spirv import HALVES


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


def to_half(name: str, x: Term, *, pairs: bool = False) -> Term:
    """An 8-bit float as fp16, exactly; `pairs` where neighbours share a dword."""
    format_of(name)
    made = halves.from_bytes(name, x, lambda y: _to_half(name, y), pairs=pairs)
    return _to_half(name, x) if made is None else made


def _to_half(name: str, x: Term) -> Term:
    """Shift the bits to fp16's position, and scale by the difference of the biases."""
    kind = format_of(name)
    if kind.mantissa == 2:
        return (x.resized(I16) << 8).bitcast(HALF)
    placed = x.resized(I16, signed=True) << 7 & 0xBFFF
    scaled = placed.bitcast(HALF) * float(1 << (15 - kind.bias))
    return where(scaled.size > kind.value(kind.largest), math.nan, scaled)


def from_float(name: str, x: Term, toward_zero: bool) -> Term:
    """fp32, or fp16 for the format with its exponent, as an 8-bit float."""
    kind = format_of(name)
    if x.kind == HALF:
        return _upper_half(kind, x, toward_zero)
    bits, size = x.bits, x.size
    held = size.intrinsic("minnum", kind.value(kind.largest))
    normal = _cut(kind, held.bits, toward_zero)
    small = held < kind.smallest_normal
    result = where(small, _subnormal(kind, held, toward_zero), normal)
    if toward_zero and kind.nan > kind.largest + 1:
        result = where(size.equals(math.inf), kind.largest + 1, result)
    result = where(x.is_nan(), kind.nan, result)
    return (result | (bits >> 24 & 0x80)).resized(I8)


def words_from_halves(em: Writer, name: str, words: ir.Operand) -> ir.Operand:
    """Eight fp16 values in four dwords as 8-bit floats in two, rounded to the nearest."""
    format_of(name)

    def body(inner: Writer, given: ir.Operand) -> ir.Operand:
        x = Term(inner, inner.b.bitcast(given, vector_of(HALF, 8)))
        made = from_float(name, x if takes_half(name) else x.resized(FLOAT), False)
        return inner.b.bitcast(made.value, vector_of(I32, 2))

    return call_internal(em, f"{HALVES}fp8.{name}", vector_of(I32, 2), [words], body)


def takes_half(name: str) -> bool:
    """True if the numbers of a format are those of fp16 without its last bits."""
    return format_of(name).mantissa == 2


def _upper_half(kind: Format, x: Term, toward_zero: bool) -> Term:
    """The upper byte of fp16, rounded.  A sum does not reach the sign, because of the limits."""
    if toward_zero:
        rounded = x.bits >> 8
    else:
        largest = kind.value(kind.largest)
        held = x.intrinsic("minnum", largest).intrinsic("maxnum", -largest).bits
        rounded = held + ((held >> 8 & 1) + 0x7F) >> 8
    return where(x.is_nan(), x.bits >> 8 | kind.nan, rounded).resized(I8)


def _cut(kind: Format, bits: Term, toward_zero: bool) -> Term:
    """Mantissa and exponent of a normal result, from the bits of a positive float."""
    dropped = 23 - kind.mantissa
    if not toward_zero:
        bits = bits + ((bits >> dropped & 1) + ((1 << (dropped - 1)) - 1))
    return bits - ((127 - kind.bias) << 23) >> dropped


def _subnormal(kind: Format, size: Term, toward_zero: bool) -> Term:
    """A positive float as a multiple of the smallest number.

    Adding a power of two whose last bit has that weight rounds to it, ties to even.
    """
    step = kind.bias - 1 + kind.mantissa
    if toward_zero:
        return (size * math.ldexp(1.0, step)).to_integer(I32, signed=False)
    anchor = size.term(math.ldexp(1.0, 23 - step))
    return (size + anchor).bits - anchor.bits
