"""Convert between all float types of Triton, and compute with those that LLVM lacks.

OpenCL's SPIR-V has half, float and double.  bf16 is stored as i16 and fp8 as i8 (`fp8`).
Their values are widened to float for arithmetic, and rounded once afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton_xe import llvm as ir
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.rounding import bf16_bits
from triton_xe.lowering.emit.maths import floats, fp8
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.types import (
    FLOAT,
    HALF,
    bits_of,
    element,
    is_bf16,
    is_fp8,
    scalar_type,
)
from triton_xe.lowering.emit.writer import Writer

_ROUNDINGS = (None, "rtne", "rtz", "to_nearest_even", "toward_zero")


def constant(kind: Any, value: Any) -> ir.Operand:
    """An LLVM constant of one element of `kind`."""
    held = scalar_type(kind)
    if is_bf16(kind):
        return ir.constant(held, bf16_bits(float(value)))
    if is_fp8(kind):
        return ir.constant(held, fp8.format_of(element(kind).name).nearest(float(value)))
    if held.kind == "int":
        return ir.constant(held, int(value) & ((1 << held.bits) - 1))
    return ir.constant(held, float(value))


def widened(em: Writer, kind: Any, value: ir.Operand) -> ir.Operand:
    """Widen a value of Triton type `kind` to a type that LLVM computes with."""
    return _widened(kind, Term(em, value)).value


def _widened(kind: Any, x: Term) -> Term:
    if is_bf16(kind):
        return floats.from_bf16(x)
    return fp8.to_half(element(kind).name, x).resized(FLOAT) if is_fp8(kind) else x


def widest(em: Writer, kind: Any, value: ir.Operand) -> ir.Operand:
    """Convert a value of Triton type `kind` to float; doubles stay doubles."""
    wide = _widened(kind, Term(em, value))
    return wide.resized(FLOAT).value if wide.kind == HALF else wide.value


def narrowed(em: Writer, kind: Any, value: ir.Operand) -> ir.Operand:
    """Round a computed value to Triton type `kind`, ties to even."""
    if is_bf16(kind):
        return floats.to_bf16(Term(em, value)).value
    if is_fp8(kind):
        return fp8.from_float(element(kind).name, Term(em, value), toward_zero=False).value
    return value


def in_float(em: Writer, kind: Any, write: Callable[..., ir.Operand]) -> Callable[..., ir.Operand]:
    """Apply `write` to values of `kind`, in float if LLVM does not compute in that type."""
    if not is_bf16(kind) and not is_fp8(kind):
        return write
    return lambda *args: narrowed(em, kind, write(*(widened(em, kind, a) for a in args)))


def convert(
    em: Writer, source: Any, target: Any, value: ir.Operand, rounding: Any, *, pairs: bool = False
) -> ir.Operand:
    """Convert between float types, rounded once: to even, or toward zero (`rtz`).

    With `pairs`, neighbours share a dword in their uses (`halves`).
    """
    if source == target:
        return value
    mode = getattr(rounding, "data", rounding)
    if mode not in _ROUNDINGS:
        raise UnsupportedError(
            f"rounding {mode} of {source} to {target}: Xe kernels round to nearest even or toward "
            "zero; use fp_downcast_rounding='rtne' or 'rtz'"
        )
    toward_zero = mode in ("rtz", "toward_zero")
    return _converted(source, target, Term(em, value), toward_zero, pairs).value


def _converted(source: Any, target: Any, x: Term, toward_zero: bool, pairs: bool) -> Term:
    """Convert one value between any two float types; through fp16 or fp32 if a type is emulated."""
    if is_fp8(target):
        name = element(target).name
        if x.kind != HALF or not fp8.takes_half(name):
            x = floats.as_float(_widened(source, x))
        return fp8.from_float(name, x, toward_zero)
    into = scalar_type(target)
    if is_fp8(source):
        half = fp8.to_half(element(source).name, x, pairs=pairs and into == HALF)
        if is_bf16(target):
            return floats.exact_bf16(half.resized(FLOAT))
        return half if into == HALF else half.resized(FLOAT).resized(into)
    wide = _widened(source, x)
    if is_bf16(target):
        wide = floats.as_float(wide)
        return floats.truncated_to_bf16(wide) if toward_zero else floats.to_bf16(wide)
    if wide.width <= bits_of(into):
        return wide.resized(into)
    if into == HALF:
        wide = floats.as_float(wide)
    return floats.truncated(wide, into) if toward_zero else wide.resized(into)
