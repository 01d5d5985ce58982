"""Rule divide-by-rows: multiply by reciprocals of row values instead of dividing.

    %x / (cvt %l)[:, None]                                  lane i of %l has row i
 -> %x * (cvt (1 / (%l * %s)))[:, None] * (cvt %s)[:, None]

Attention divides by its row sums in this form.  One instruction computes the reciprocals of sixteen
rows.  Intel's compiler takes 15 for each quotient.  The scale %s is a power of two that keeps the
reciprocal in the range of normal numbers; mostly it is 1.  The product is within 2 units in the
last place of the quotient, as quotients are on GPUs; `div_rn` is not changed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects import math as maths
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.arith_ext import CmpfOp, SelectOp
from triton_xe.dialects.tt.ops import BroadcastOp, ExpandDimsOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.facts.reciprocals import BY_LARGE, BY_SMALL, LARGE, SMALL
from triton_xe.lowering.facts.view import view_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.rematerialize import layout_of
from triton_xe.lowering.rewriting import put_before


def divide_by_rows(quotient: arith.DivfOp, scope: Scope) -> None:
    """Divisions by a value per row -> products with its reciprocal."""
    column = _column(quotient.rhs)
    if column is not None:
        _multiply(quotient, column)


def _column(divisor: SSAValue) -> ExpandDimsOp | None:
    """The `expand_dims` that creates an fp32 divisor from rows with one row per lane; None
    otherwise.
    """
    wide = divisor.owner
    column = wide.src.owner if isinstance(wide, BroadcastOp) else None
    if not isinstance(column, ExpandDimsOp) or not isinstance(column.src.owner, ConvertLayoutOp):
        return None
    rows = column.src.owner.src
    spread = _registers(column.src) > _registers(rows)
    return column if spread and get_element_type_or_self(rows.type) == f32 else None


def _registers(value: SSAValue) -> int:
    return len(view_of(layout_of(value.type)).registers)


def _multiply(quotient: arith.DivfOp, column: ExpandDimsOp) -> None:
    """Replace a quotient by products with the reciprocals of its rows and their scales."""
    insert = partial(put_before, before=quotient)
    assert isinstance(column.src.owner, ConvertLayoutOp)
    rows = column.src.owner.src

    def constant(value: float) -> SSAValue:
        kind: Any = rows.type
        number = DenseIntOrFPElementsAttr.from_list(kind, [value])
        return insert(arith.ConstantOp(number))

    def over(factor: SSAValue) -> SSAValue:
        held = insert(ConvertLayoutOp(src=factor, result_type=column.src.type))
        narrow = insert(ExpandDimsOp(
            src=held, axis=column.axis, result_type=column.result.type))
        return insert(BroadcastOp(src=narrow, result_type=quotient.rhs.type))

    size, one = insert(maths.AbsFOp(rows)), constant(1.0)
    is_large = insert(CmpfOp(size, constant(LARGE), "oge"))
    is_small = insert(CmpfOp(size, constant(SMALL), "olt"))
    raised = insert(SelectOp(is_small, constant(BY_SMALL), one))
    scale = insert(SelectOp(is_large, constant(BY_LARGE), raised))
    inverse = insert(arith.DivfOp(one, insert(arith.MulfOp(rows, scale))))
    near = insert(arith.MulfOp(quotient.lhs, over(inverse)))
    made = insert(arith.MulfOp(near, over(scale)))
    quotient.result.replace_all_uses_with(made)
    Rewriter.erase_op(quotient)
