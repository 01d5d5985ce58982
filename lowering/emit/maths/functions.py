"""Lower mathematical operations to LLVM intrinsics and OpenCL builtins.

fp16 and bf16 are computed in fp32 and rounded once.  exp and exp2 are the device's own instruction,
as accurate as Triton promises them.  Some functions are written in plain arithmetic
(`elementary`).  The others are OpenCL builtins with the error bounds of the OpenCL C specification,
section 7.4.  Functions are called on whole vectors, which Intel's compiler splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects import math as maths
from xdsl.ir import Operation

from triton_xe import llvm as ir
from triton_xe.dialects import arith_ext
from triton_xe.dialects.tt import ops as tt
from triton_xe.lowering.emit.arithmetic import elementwise, is_bit
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths import elementary
from triton_xe.lowering.emit.maths.conversions import in_float, narrowed, widest
from triton_xe.lowering.emit.maths.terms import (
    Operand,
    Term,
    exact_quotient,
    exact_root,
    where,
)
from triton_xe.lowering.emit.maths.wide import (
    combine_with_uniform,
    in_pairs_of_registers,
    is_never_rounded,
)
from triton_xe.lowering.emit.tensors.registers import Picked, Registers, Splat, mapped
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I32,
    bits_of,
    is_bf16,
    is_fp8,
    scalar_type,
    shaped,
)
from triton_xe.lowering.facts.reciprocals import (
    BY_LARGE,
    BY_SMALL,
    LARGE,
    SMALL,
    has_exact_range,
)
from triton_xe.lowering.facts.values import attribute

LOG2_E = 1.4426950408889634
Formula = Callable[..., Term]


def from_formula(em: Emitter, formula: Formula) -> Callable[..., ir.Operand]:
    """A formula as a function on LLVM values."""
    return lambda *values: formula(*(Term(em, v) for v in values)).value


def _exponential(x: Term) -> Term:
    if x.is_double:
        return x.builtin("exp")
    return in_pairs_of_registers("exp", x, lambda x: (x * LOG2_E).builtin("native_exp2"))


def _power_of_two(x: Term) -> Term:
    if x.is_double:
        return x.builtin("exp2")
    return in_pairs_of_registers("exp2", x, lambda x: x.builtin("native_exp2"))


def arcp_quotient(a: Term, b: Term) -> Term:
    """Quotient that may be replaced by a product with the reciprocal."""
    return a.with_value(a.em.b.binary("fdiv", a.value, b.value, ("arcp",)))


def _root(x: Term) -> Term:
    """Square root, in fp32 not correctly rounded, unlike `tt.PreciseSqrtOp`."""
    return x.intrinsic("sqrt") if x.is_double else x.builtin("native_sqrt")


_INTRINSICS: dict[type[Operation], str] = {
    maths.FloorOp: "floor", maths.CeilOp: "ceil", maths.TruncOp: "trunc",
    maths.RoundEvenOp: "rint", maths.RoundOp: "round", maths.CopySignOp: "copysign",
}
_BUILTINS: dict[type[Operation], str] = {
    maths.LogOp: "log", maths.Log2Op: "log2", maths.Log10Op: "log10", maths.Log1pOp: "log1p",
    maths.ExpM1Op: "expm1", maths.PowFOp: "pow", maths.RsqrtOp: "rsqrt", maths.CbrtOp: "cbrt",
    maths.SinOp: "sin", maths.CosOp: "cos", maths.TanOp: "tan", maths.AsinOp: "asin",
    maths.AcosOp: "acos", maths.AtanOp: "atan", maths.Atan2Op: "atan2", maths.SinhOp: "sinh",
    maths.CoshOp: "cosh", maths.TanhOp: "tanh", maths.AsinhOp: "asinh", maths.AcoshOp: "acosh",
    maths.AtanhOp: "atanh", maths.ErfOp: "erf", arith_ext.RemFOp: "fmod",
}


def called(method: str, name: str) -> Formula:
    """Formula that calls an intrinsic or a builtin, by the `Term` method of that name."""
    return lambda x, *others: getattr(x, method)(name, *others)


_IN_FLOAT_OR_DOUBLE: dict[type[Operation], Formula] = {
    **{kind: called("intrinsic", name) for kind, name in _INTRINSICS.items()},
    **{kind: elementary.function(name) for kind, name in _BUILTINS.items()},
    maths.ExpOp: _exponential,
    maths.Exp2Op: _power_of_two,
    maths.SqrtOp: _root,
    arith.DivfOp: lambda a, b: a / b,
    tt.ApproxDivFOp: arcp_quotient,
    tt.PreciseDivFOp: exact_quotient,
    tt.PreciseSqrtOp: exact_root,
}


def _quotient_by(em: Emitter, op: arith.DivfOp, divisor: ir.Operand) -> Formula:
    """a / b for one b: products with its reciprocal, within 2 units in the last place.

    Plain quotients on GPUs have the same error.  In loops, the divisor is scaled by a power of two
    if its reciprocal would leave the range of normal numbers.  Elsewhere the scaling would cost
    more than the reciprocals that Intel's compiler writes.
    """
    b = Term(em, widest(em, op.rhs.type, divisor))
    if b.is_double or not (em.loop_depth or has_exact_range(op.rhs)):
        return _IN_FLOAT_OR_DOUBLE[arith.DivfOp]
    if has_exact_range(op.rhs):
        once = 1.0 / b
        return lambda a, _: _times_uniform(a, once, is_never_rounded(op))
    scale = where(b.size >= LARGE, BY_LARGE, where(b.size < SMALL, BY_SMALL, b.term(1.0)))
    inverse = 1.0 / (b * scale)

    def write(a: Term, _: Term) -> Term:
        count = a.value.type.lanes
        factors = (a.with_value(em.splat(f.value, count)) for f in (inverse, scale))
        return prod(factors, start=a)

    return write


def _shared_reciprocals(em: Emitter, op: arith.DivfOp) -> Registers | None:
    """1 / divisor, once for several quotients each; None if no two quotients have one divisor.

    Also None if the reciprocal of a divisor may not be a normal number.
    """
    divisor = em.get(op.rhs)
    if not isinstance(divisor, Picked) or divisor.source.count >= divisor.count or (
            scalar_type(op.rhs.type) == DOUBLE or not has_exact_range(op.rhs)):
        return None
    once = mapped(em, FLOAT, [divisor.source],
                  lambda b: (1.0 / Term(em, widest(em, op.rhs.type, b))).value)
    return Picked(em, once, divisor.order)


def _times_uniform(a: Term, scalar: Term, wide: bool) -> Term:
    """Product of a vector and a scalar; with `wide`, in whole registers where possible."""
    other = a.em.splat(scalar.value, a.value.type.lanes)
    made = combine_with_uniform(a.em, "times", a.value, other) if wide else None
    return a * a.with_value(other) if made is None else a.with_value(made)


@lowers(*_IN_FLOAT_OR_DOUBLE)
def lower_in_float_or_double(em: Emitter, op: Operation) -> None:
    """Lower element by element in float or double; fp16, bf16 and fp8 are computed in float."""
    formula, reciprocals = _IN_FLOAT_OR_DOUBLE[type(op)], None
    if isinstance(op, arith.DivfOp):
        divisor = em.get(op.rhs)
        formula = _quotient_by(em, op, divisor.scalar) if isinstance(divisor, Splat) else formula
        reciprocals = _shared_reciprocals(em, op)
    write = from_formula(em, formula)
    kinds, into = [v.type for v in op.operands], op.results[0].type

    def rounded(made: ir.Operand) -> ir.Operand:
        if scalar_type(into) == HALF:
            return em.b.fptrunc(made, shaped(made.type, HALF))
        return narrowed(em, into, made)

    def outer(*args: ir.Operand) -> ir.Operand:
        return rounded(write(*(widest(em, kind, a) for kind, a in zip(kinds, args, strict=True))))

    if reciprocals is None:
        elementwise(em, op, outer)
        return
    em.bind(op.results[0], mapped(
        em, scalar_type(into), [em.registers(op.operands[0]), reciprocals],
        lambda a, once: rounded(em.b.fmul(widest(em, kinds[0], a), once))))


def _extremum(name: str) -> Formula:
    """The larger or smaller number; NaN if one of them is.

    Intel's compiler lowers LLVM's maximum to one `sel`, which loses the NaN, hence the extra test.
    """

    def write(a: Term, b: Term) -> Term:
        best = a.intrinsic(name, b)
        return where(a.compare("uno", b), math.nan, best)

    return write


_IN_THEIR_TYPE: dict[type[Operation], Formula] = {
    maths.FmaOp: lambda a, b, c: a.fma(b, c),
    arith.MaxnumfOp: called("intrinsic", "maxnum"), arith.MinnumfOp: called("intrinsic", "minnum"),
    arith.MaximumfOp: _extremum("maxnum"), arith.MinimumfOp: _extremum("minnum"),
}


@lowers(*_IN_THEIR_TYPE)
def lower_in_their_type(em: Emitter, op: Operation) -> None:
    """Lower without conversion, because fp16 computed in float would be rounded twice."""
    formula = _IN_THEIR_TYPE[type(op)]
    elementwise(em, op, in_float(em, op.operands[0].type, from_formula(em, formula)))


@lowers(tt.ClampFOp)
def lower_clampf(em: Emitter, op: tt.ClampFOp) -> None:
    """min(max(x, low), high); a NaN in x is dropped, or kept when asked for."""
    keeps = attribute(op, "propagateNan").data == "all"

    def write(x: Term, low: Operand, high: Operand) -> Term:
        held = x.intrinsic("maxnum", low).intrinsic("minnum", high)
        return where(x.is_nan(), x, held) if keeps else held

    elementwise(em, op, in_float(em, op.x.type, from_formula(em, write)))


@lowers(maths.AbsFOp)
def lower_absf(em: Emitter, op: maths.AbsFOp) -> None:
    kind = op.operand.type
    rest = (1 << (bits_of(scalar_type(kind)) - 1)) - 1
    in_bits = is_bf16(kind) or is_fp8(kind)
    elementwise(em, op, from_formula(em, lambda x: x & rest if in_bits else x.size))


def absolute(x: Term) -> Term:
    """A signed integer without its sign."""
    return where(x < 0, -x, x)


def high_product(a: Term, b: Term, signed: bool) -> Term:
    """The upper half of the product of integers of 8 to 64 bits."""
    if a.width >= 32:
        return a.builtin("mul_hi", b, unsigned=not signed)
    product = a.resized(I32, signed=signed) * b.resized(I32, signed=signed)
    return (product >> a.width).resized(a.kind)


_INTEGER: dict[type[Operation], Formula] = {
    maths.AbsIOp: lambda x: x if is_bit(x.value) else absolute(x),
    maths.CtPopOp: lambda x: x.count_bits("ctpop"),
    maths.CountLeadingZerosOp: lambda x: x.count_bits("ctlz"),
    maths.CountTrailingZerosOp: lambda x: x.count_bits("cttz"),
    tt.MulhiUIOp: lambda a, b: high_product(a, b, signed=False),
}


@lowers(*_INTEGER)
def lower_integer(em: Emitter, op: Any) -> None:
    elementwise(em, op, from_formula(em, _INTEGER[type(op)]))
