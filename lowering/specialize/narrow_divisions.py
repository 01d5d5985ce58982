"""Rule narrow-divisions: 64-bit divisions of numbers that are known to fit 32 bits.

    %q = arith.divsi %x, %y : i64   ->   %q = arith.extsi (arith.divsi (trunc %x), (trunc %y) : i32)

In 64 bits, Intel's compiler adds a branch that tests the operands at run time.  Tensors are divided
by constants; divisions by one scalar share what they need of it (`share-divisors`).
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, TensorType, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.arith_ext import ExtSIOp, ExtUIOp, TruncIOp
from triton_xe.dialects.text.assembly import with_element_type
from triton_xe.dialects.xe import QUICK
from triton_xe.lowering.facts.divisors import MOST, SIGNED
from triton_xe.lowering.facts.values import constant_of
from triton_xe.lowering.family import Scope


def narrow_divisions(op: Operation, scope: Scope) -> None:
    """Divide 64-bit numbers in 32 bits if they are known to fit."""
    kind, (left, right) = op.results[0].type, op.operands
    is_shared = isinstance(kind, TensorType) and constant_of(right) is None
    if get_element_type_or_self(kind) != i64 or QUICK.of(op) is not None or is_shared:
        return
    (low, high), (least, most) = map(scope.affine.facts.range, (left, right))
    is_signed = isinstance(op, SIGNED)
    bottom, top = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, MOST)
    overflows = is_signed and low == bottom and least <= -1 <= most
    if bottom <= min(low, least) and max(high, most) <= top and not overflows:
        is_natural = not is_signed or scope.affine.facts.range(op.results[0])[0] >= 0
        divide_words(op, ExtUIOp if is_natural else ExtSIOp)


def divide_words(
    op: Operation, extend: type[ExtSIOp | ExtUIOp] = ExtSIOp, how: str = ""
) -> None:
    """Divide in 32 bits; `how` is the mark `xe.quick` of the division."""
    left, right = map(_word, op.operands)
    made = type(op).create(
        operands=[left.results[0], right.results[0]], result_types=[left.results[0].type])
    if how:
        QUICK.put(made, how)
    wide = extend(made.results[0], op.results[0].type)
    Rewriter.replace_op(op, [left, right, made, wide])


def _word(value: SSAValue) -> Operation:
    """The lower 32 bits of numbers."""
    kind, known = with_element_type(value.type, i32), constant_of(value)
    if known is None:
        return TruncIOp(value, kind)
    return arith.ConstantOp(
        DenseIntOrFPElementsAttr.from_list(kind, [known]) if isinstance(kind, TensorType)
        else IntegerAttr(known, i32))

