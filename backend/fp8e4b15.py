"""Casts of tl.float8e4b15, a format that exists in software only.

The format has one sign bit, four bits of exponent with bias 15, three bits of mantissa, no infinity
and no NaN.  Its numbers are those of fp16 without the upper bit of the exponent and seven bits of
mantissa.  Therefore a shift converts numbers up to 1.75 to fp16.  Larger numbers saturate; NaN
does, too.  Triton's front end leaves these casts to the backend (`convert_custom_types`), as
operations of the language.
"""

from __future__ import annotations

from typing import Any

from triton.language import core

LARGEST = 0x3F00
"""The bits of 1.75 as fp16."""


def convert(source: Any, target: Any, rounding: Any, _semantic: Any) -> Any:
    """A tensor or scalar cast to or from float8e4b15, through fp16.

    `rounding` is the front end's rounding mode: toward zero if it says so, else to nearest even.
    """
    if source.type.scalar.is_fp8e4b15():
        return _semantic.cast(_to_half(source, _semantic), target)
    half = _semantic.cast(source, core.float16) if not source.type.scalar.is_fp16() else source
    toward_zero = rounding is not None and str(rounding).endswith("RTZ")
    return _from_half(half, target, toward_zero, _semantic)


def _to_half(source: Any, semantic: Any) -> Any:
    """Convert to fp16, which has the same exponent bias: move the sign and the other bits."""
    byte = semantic.bitcast(source, core.uint8)
    wide = semantic.cast(byte, core.uint16)
    size = _shift_left(semantic, _and(semantic, wide, 0x7F), 7)
    sign = _shift_left(semantic, _and(semantic, wide, 0x80), 8)
    return semantic.bitcast(semantic.or_(size, sign), core.float16)


def _from_half(half: Any, target: Any, toward_zero: bool, semantic: Any) -> Any:
    """Round fp16 to e4b15: shift the magnitude right by 7 bits, and move the sign to bit 7."""
    bits = semantic.bitcast(half, core.uint16)
    size = _and(semantic, bits, 0x7FFF)
    size = semantic.minimum(size, _number(semantic, LARGEST), core.PropagateNan.NONE)
    if not toward_zero:
        last = _and(semantic, _shift_right(semantic, size, 7), 1)
        size = semantic.add(semantic.add(size, _number(semantic, 0x3F), False), last, False)
    sign = _and(semantic, _shift_right(semantic, bits, 8), 0x80)
    whole = semantic.or_(_shift_right(semantic, size, 7), sign)
    return semantic.bitcast(semantic.cast(whole, core.uint8), target.scalar)


def _number(semantic: Any, value: int) -> Any:
    return semantic.make_scalar(value, core.uint16)


def _and(semantic: Any, value: Any, mask: int) -> Any:
    return semantic.and_(value, _number(semantic, mask))


def _shift_left(semantic: Any, value: Any, by: int) -> Any:
    return semantic.shl(value, _number(semantic, by))


def _shift_right(semantic: Any, value: Any, by: int) -> Any:
    return semantic.lshr(value, _number(semantic, by))
