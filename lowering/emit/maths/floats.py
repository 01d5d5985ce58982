"""Floating point types, and the conversions between them.

LLVM's SPIR-V target names half, float and double; bf16 travels as i16 and fp8 as i8 (`fp8`).
Values of these are widened to float to be computed with, and rounded once afterwards.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I16,
    I32,
    I64,
    bits_of,
    element,
    is_bf16,
    scalar_type,
    suffix,
)

STANDARD = (Float16Type, Float32Type, Float64Type)
"""Types that LLVM computes with."""


def scalar_of(kind: ir.Type) -> ir.Type:
    """The element of a vector type, or the type itself."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def shaped(like: ir.Type, kind: ir.Type) -> ir.Type:
    """`kind` with as many elements as `like`."""
    return ir.VectorType(kind, like.count) if isinstance(like, ir.VectorType) else kind


def filled(kind: ir.Type, value: int | float) -> ir.Constant:
    """A constant with the same value in every element."""
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [value] * kind.count)
    return ir.Constant(kind, value)


def is_fp8(kind: Any) -> bool:
    """Whether elements are 8-bit floats."""
    name: str = element(kind).name
    return name.startswith("f8E")


def bf16_bits(value: float) -> int:
    """The bits of a number rounded to bf16, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    if value != value:
        return int(bits >> 16) | 0x40
    return int((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def widened(em: Emitter, kind: Any, value: ir.Value) -> ir.Value:
    """A value of Triton type `kind` in a type that LLVM computes with."""
    if is_bf16(kind):
        return from_bf16(em, value)
    if is_fp8(kind):
        from triton_xe.lowering.emit.maths import fp8

        return fp8.to_float(em, element(kind).name, value)
    return value


def narrowed(em: Emitter, kind: Any, value: ir.Value) -> ir.Value:
    """A computed value back in the form of Triton type `kind`, ties to even."""
    if is_bf16(kind):
        return to_bf16(em, value)
    if is_fp8(kind):
        from triton_xe.lowering.emit.maths import fp8

        return fp8.from_float(em, element(kind).name, value, toward_zero=False)
    return value


def from_bf16(em: Emitter, value: ir.Value) -> ir.Value:
    """bf16 to float: the upper half of its bits."""
    wide = em.b.zext(value, shaped(value.type, I32))
    return em.b.bitcast(em.b.shl(wide, filled(wide.type, 16)), shaped(value.type, FLOAT))


def to_bf16(em: Emitter, value: ir.Value) -> ir.Value:
    """float to bf16, ties to even: one move on devices that have it (`GenISA.ftobf`)."""
    result = shaped(value.type, I16)
    if not em.target.has_bf16_conversion:
        return _to_bf16_in_software(em, value)
    name = f"llvm.genx.GenISA.ftobf.{suffix(result)}.{suffix(value.type)}"
    return em.call(name, result, [value, I32(0)])


def _to_bf16_in_software(em: Emitter, value: ir.Value) -> ir.Value:
    bits = em.b.bitcast(value, shaped(value.type, I32))
    last = em.b.and_(em.b.lshr(bits, filled(bits.type, 16)), filled(bits.type, 1))
    rounded = em.b.add(bits, em.b.add(last, filled(bits.type, 0x7FFF)))
    quiet = em.b.or_(bits, filled(bits.type, 0x400000))
    kept = em.b.select(em.b.fcmp_unordered("uno", value, value), quiet, rounded)
    return em.b.trunc(em.b.lshr(kept, filled(kept.type, 16)), shaped(value.type, I16))


def in_float(em: Emitter, kind: Any, write: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """`write` on values of `kind`, computed in float where the type itself cannot be."""
    if not is_bf16(kind) and not is_fp8(kind):
        return write
    return lambda *args: narrowed(em, kind, write(*(widened(em, kind, a) for a in args)))


def convert(em: Emitter, source: Any, target: Any, value: ir.Value, rounding: Any) -> ir.Value:
    """A value of one float type in another one, rounded once: to even, or toward zero (`rtz`)."""
    if source == target:
        return value
    mode = getattr(rounding, "data", rounding)
    if mode not in (None, "rtne", "rtz", "to_nearest_even", "toward_zero"):
        raise UnsupportedError(
            f"rounding {mode} of {source} to {target}: Xe kernels round to nearest even or toward "
            "zero; use fp_downcast_rounding='rtne' or 'rtz'"
        )
    toward_zero = mode in ("rtz", "toward_zero")
    if is_fp8(source) or is_fp8(target):
        from triton_xe.lowering.emit.maths import fp8

        return fp8.convert(em, source, target, value, toward_zero)
    if is_bf16(target):
        wide = as_float(em, source, value)
        return truncated_to_bf16(em, wide) if toward_zero else to_bf16(em, wide)
    wide = widened(em, source, value)
    into = scalar_type(target)
    if bits_of(scalar_of(wide.type)) <= bits_of(into):
        return _resize(em, wide, into)
    if isinstance(into, ir.HalfType):
        wide = as_float(em, None, wide)
    return truncated(em, wide, into) if toward_zero else _resize(em, wide, into)


def as_float(em: Emitter, source: Any, value: ir.Value) -> ir.Value:
    """Any float as fp32, so that rounding on to a shorter type gives what one rounding gives.

    Shorter types are exact.  double is rounded to odd: a result that is not exact ends in a one,
    which stands for all the bits below it (Boldo and Melquiond, "When double rounding is odd").
    """
    wide = value if source is None else widened(em, source, value)
    if scalar_of(wide.type) != DOUBLE:
        return _resize(em, wide, FLOAT)
    near = _resize(em, wide, FLOAT)
    back = em.b.fpext(near, wide.type)
    bits = shaped(near.type, I32)
    magnitude = _integer_magnitude(em, wide), _integer_magnitude(em, back)
    low = em.b.bitcast(near, bits)
    above = em.b.icmp_unsigned(">", magnitude[1], magnitude[0])
    low = em.b.sub(low, em.b.zext(above, bits))
    odd = em.b.or_(low, filled(bits, 1))
    inexact = em.b.fcmp_ordered("!=", back, wide)
    return em.b.select(inexact, em.b.bitcast(odd, near.type), near)


def _integer_magnitude(em: Emitter, value: ir.Value) -> ir.Value:
    """A double's bits without the sign: they order like the magnitudes."""
    bits = shaped(value.type, I64)
    return em.b.and_(em.b.bitcast(value, bits), filled(bits, (1 << 63) - 1))


def truncated(em: Emitter, value: ir.Value, into: ir.Type) -> ir.Value:
    """float or double to a shorter type of LLVM, toward zero; infinities and NaN are kept."""
    near = _resize(em, value, into)
    size = shaped(near.type, ir.IntType(bits_of(into)))
    above = em.b.fcmp_ordered(">", magnitude(em, em.b.fpext(near, value.type)),
                              magnitude(em, value))
    lower = em.b.sub(em.b.bitcast(near, size), em.b.zext(above, size))
    return em.b.bitcast(lower, near.type)


def truncated_to_bf16(em: Emitter, value: ir.Value) -> ir.Value:
    """float to bf16 toward zero: the upper half of its bits, except that NaN stays NaN."""
    bits = em.b.bitcast(value, shaped(value.type, I32))
    quiet = em.b.or_(bits, filled(bits.type, 0x400000))
    kept = em.b.select(em.b.fcmp_unordered("uno", value, value), quiet, bits)
    return em.b.trunc(em.b.lshr(kept, filled(kept.type, 16)), shaped(value.type, I16))


def magnitude(em: Emitter, value: ir.Value) -> ir.Value:
    """The value without its sign."""
    return em.call(f"llvm.fabs.{suffix(value.type)}", value.type, [value])


def _resize(em: Emitter, value: ir.Value, into: ir.Type) -> ir.Value:
    have = bits_of(scalar_of(value.type))
    kind = shaped(value.type, into)
    if have == bits_of(into):
        return value
    return em.b.fpext(value, kind) if have < bits_of(into) else em.b.fptrunc(value, kind)


__all__ = [
    "HALF", "as_float", "bf16_bits", "convert", "filled", "from_bf16", "in_float", "is_fp8",
    "magnitude", "narrowed", "scalar_of", "shaped", "to_bf16", "truncated", "widened",
]
