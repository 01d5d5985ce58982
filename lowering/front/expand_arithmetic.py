"""Rule expand-arithmetic: expand compound operations into simpler ones.

    ceildivui a b       ->  a == 0 ? 0 : (a - 1) / b + 1                      unsigned
    ceildivsi a b       ->  q = a / b;  q b != a and signs equal ? q + 1 : q  toward zero
    floordivsi a b      ->  q = a / b;  q b != a and signs differ ? q - 1 : q
    addui_extended a b  ->  s = a + b, s < a                                  unsigned
    subui_extended a b  ->  a - b, a < b                                      unsigned
    mului_extended a b  ->  a b, mulhiui a b
    mulsi_extended a b  ->  a b, mulhiui a b - (a < 0 ? b : 0) - (b < 0 ? a : 0)
    clampf x to [l, h]  ->  minimumf(maximumf(x, l), h)
    sincos x            ->  sin x, cos x
    erfc, fpowi, isfinite, isinf, isnan  ->  the function of the library

Neither a zero divisor nor the quotient of the smallest integer by -1 has a defined result.  Later
passes only handle the simpler operations, and the facts about their values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects import math as maths
from xdsl.dialects.builtin import BoolAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from triton_xe.dialects import math_ext
from triton_xe.dialects.arith_ext import SelectOp, SubUIExtendedOp
from triton_xe.dialects.tt.ops import MulhiUIOp
from triton_xe.dialects.tt.structure import ExternElementwiseOp
from triton_xe.lowering.family import Scope
from triton_xe.lowering.front.writer import Writer
from triton_xe.lowering.rewriting import replace_by

Results = list[SSAValue]


def expand_arithmetic(op: Operation, scope: Scope) -> None:
    """Expand quotients rounded up or down, and results of two parts, into simpler operations."""
    replace_by(op, lambda: EXPANSIONS[type(op)](Writer(op), op))


def _ceil_unsigned(w: Writer, op: Any) -> Results:
    rounded = w.do(arith.AddiOp, w.do(arith.DivUIOp, w.do(arith.SubiOp, op.lhs, 1), op.rhs), 1)
    zero = w.constant(0, op.lhs.type)
    return [w.put(SelectOp(w.compare(op.lhs, zero, "eq"), zero, rounded))]


def _rounded(signs: str, step: int) -> Callable[[Writer, Any], Results]:
    """Quotient toward zero, plus `step` if it is inexact and the signs compare as `signs`."""

    def expand(w: Writer, op: Any) -> Results:
        zero = w.constant(0, op.lhs.type)
        quotient = w.do(arith.DivSIOp, op.lhs, op.rhs)
        inexact = w.compare(w.do(arith.MuliOp, quotient, op.rhs), op.lhs, "ne")
        a, b = (w.compare(x, zero, "slt") for x in (op.lhs, op.rhs))
        moves = w.do(arith.AndIOp, inexact, w.compare(a, b, signs))
        return [w.put(SelectOp(moves, w.do(arith.AddiOp, quotient, step), quotient))]

    return expand


def _sum_and_carry(w: Writer, op: Any) -> Results:
    total = w.do(arith.AddiOp, op.lhs, op.rhs)
    return [total, w.compare(total, op.lhs, "ult")]


def _difference_and_borrow(w: Writer, op: Any) -> Results:
    return [w.do(arith.SubiOp, op.lhs, op.rhs), w.compare(op.lhs, op.rhs, "ult")]


def _unsigned_product(w: Writer, op: Any) -> Results:
    high = MulhiUIOp(x=op.lhs, y=op.rhs, result_type=op.lhs.type)
    return [w.do(arith.MuliOp, op.lhs, op.rhs), w.put(high)]


def _signed_product(w: Writer, op: Any) -> Results:
    low, high = _unsigned_product(w, op)
    zero = w.constant(0, op.lhs.type)
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        less = w.put(SelectOp(w.compare(value, zero, "slt"), other, zero))
        high = w.do(arith.SubiOp, high, less)
    return [low, high]


def _clamped(w: Writer, op: Any) -> Results:
    return [w.do(arith.MinimumfOp, w.do(arith.MaximumfOp, op.value, op.low), op.high)]


def _sine_and_cosine(w: Writer, op: Any) -> Results:
    return [w.put(maths.SinOp(op.operand)), w.put(maths.CosOp(op.operand))]


def _library_call(function: str) -> Callable[[Writer, Any], Results]:
    """Call of a library function on the operands."""

    def expand(w: Writer, op: Operation) -> Results:
        return [w.put(ExternElementwiseOp(
            srcs=list(op.operands), libname=StringAttr(""), libpath=StringAttr(""),
            symbol=StringAttr(f"__xe_{function}"), pure=BoolAttr.from_bool(True),
            result_type=op.results[0].type))]

    return expand


EXPANSIONS: dict[type[Operation], Callable[[Writer, Any], Results]] = {
    arith.CeilDivUIOp: _ceil_unsigned, arith.CeilDivSIOp: _rounded("eq", 1),
    arith.FloorDivSIOp: _rounded("ne", -1),
    arith.AddUIExtendedOp: _sum_and_carry, SubUIExtendedOp: _difference_and_borrow,
    arith.MulUIExtendedOp: _unsigned_product, arith.MulSIExtendedOp: _signed_product,
    math_ext.ClampFOp: _clamped, math_ext.SincosOp: _sine_and_cosine,
    math_ext.ErfcOp: _library_call("erfc"), maths.FPowIOp: _library_call("pown"),
    math_ext.IsFiniteOp: _library_call("finitef"), math_ext.IsInfOp: _library_call("isinf"),
    math_ext.IsNaNOp: _library_call("isnan"),
}
"""Operation -> function that writes its expansion and returns the results in order."""
