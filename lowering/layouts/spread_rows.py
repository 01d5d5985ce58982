"""Rule spread-rows: distribute values per row over lanes, instead of all of them in every lane.

    %m = tt.reduce %x {axis = 1} : #xe.dpas -> slice<1>       every lane has all of its rows

 -> %m = tt.reduce %x {axis = 1} : #xe.dpas -> #ttg.linear    lane l has row l

    tt.expand_dims (cvt %m)                                   a broadcast, where rows are used

Sixteen rows then take one register instead of sixteen, and one instruction computes on all of them.
Examples are the running maximum and sum of flash attention.  A reduction across lanes ends in this
layout without extra work (`plan_lane_reduction`).  The conversion back reads one lane, which
costs nothing as an operand of an instruction.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import cf, scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import AddPtrOp, BroadcastOp, ExpandDimsOp
from triton_xe.dialects.tt.structure import FuncOp, ReduceOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.layout import DpasEncoding, LinearEncoding
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.rematerialize import (
    converted,
    is_cheap,
    is_volatile,
    layout_attr_of,
    layout_of,
    rematerialize,
)
from triton_xe.lowering.rewriting import all_of, below, retyped, values_below
from triton_xe.plan.lane_reduction import plan_lane_reduction

_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp, cf.BranchOp,
            cf.ConditionalBranchOp)
_ANY_LAYOUT = (AddPtrOp, LoadOp, StoreOp, ConvertLayoutOp)
"""Operations that, besides elementwise ones, work in any layout that their tensors share."""


def spread_rows(function: FuncOp, scope: Scope) -> None:
    """Distribute values per row of a dot's result over the lanes, one row per lane."""
    spread = dict([*_loaded_rows(function), *_reduced_rows(function)])
    for old, new in spread.items():
        _retype_all(function, old, new)


def _reduced_rows(function: Operation) -> Iterator[tuple[Attribute, Attribute]]:
    """(layout of the rows, layout spread over the lanes) of reductions of DPAS results."""
    for op in all_of(function, ReduceOp):
        kind = op.srcs[0].type
        if len(shape_of(op.srcs[0])) != 2 or not isinstance(encoding_of(kind), DpasEncoding):
            continue
        plan = plan_lane_reduction(layout_of(kind), op.axis.value.data)
        if plan.spreads:
            yield layout_attr_of(op.res[0]), layout_attr(LinearEncoding(plan.layout))


def _loaded_rows(function: Operation) -> Iterator[tuple[Attribute, Attribute]]:
    """Pairs like `_reduced_rows`, for values that a loop loads per row, such as scales."""
    for op in all_of(function, BroadcastOp):
        kind, column = op.results[0].type, op.operands[0].owner
        if not (isinstance(column, ExpandDimsOp) and column.axis.value.data == 1
                and isinstance(kind, TensorType) and len(kind.get_shape()) == 2
                and isinstance(encoding_of(kind), DpasEncoding) and _is_loaded_in_loop(column.src)):
            continue
        plan = plan_lane_reduction(layout_of(kind), 1)
        if plan.spreads:
            yield layout_attr_of(column.src), layout_attr(LinearEncoding(plan.layout))


def _is_loaded_in_loop(value: SSAValue) -> bool:
    """True if a tensor is computed elementwise from values that the same loop loads."""
    op = value.owner
    if isinstance(op, LoadOp):
        return isinstance(op.parent_op(), scf.ForOp) and not is_volatile(op)
    return isinstance(op, Operation) and is_elementwise(op) and any(
        map(_is_loaded_in_loop, op.operands))


def _retype_all(function: Operation, old: Attribute, new: Attribute) -> None:
    """Change all values of layout `old` to layout `new`; convert for users that need `old`.

    Index arithmetic keeps its layout, and is recomputed in the new one where it is needed.
    """
    found = [v for v in values_below(function) if _has(v, old) and not is_cheap(v)]
    spread: set[SSAValue] = set()
    for value in found:
        op = value.owner
        if _keeps(op, function):
            continue
        spread.add(Rewriter.replace_value_with_new_type(value, retyped(value.type, new)))
    made: dict[tuple[SSAValue, Attribute], SSAValue] = {}
    for op in below(function):
        if not takes_any_layout(op):
            _give_back(op, spread, old)
        elif type(op) in _CONTROL or any(v in spread for v in (*op.operands, *op.results)):
            _spread_operands(op, old, new, made)


def _keeps(owner: object, function: Operation) -> bool:
    """True if a value's layout cannot change: arguments, results of calls, reshapes and others."""
    if isinstance(owner, Operation):
        return not isinstance(owner, ReduceOp) and not takes_any_layout(owner)
    return owner is function.regions[0].first_block


def takes_any_layout(op: Operation) -> bool:
    """True if an operation is correct in every layout, as long as all its tensors share it."""
    return type(op) in (*_ANY_LAYOUT, *_CONTROL) or is_elementwise(op)


def _has(value: SSAValue, encoding: Attribute) -> bool:
    return isinstance(value.type, TensorType) and value.type.encoding == encoding


def _give_back(op: Operation, spread: set[SSAValue], old: Attribute) -> None:
    """Convert the spread operands of an operation that needs the old layout."""
    for index, value in enumerate(op.operands):
        if value in spread:
            op.operands[index] = converted(value, old, InsertPoint.before(op))


def _spread_operands(
    op: Operation, old: Attribute, new: Attribute, made: dict[tuple[SSAValue, Attribute], SSAValue]
) -> None:
    """Convert each operand of layout `old` to layout `new`; a conversion op may read either."""
    if isinstance(op, ConvertLayoutOp):
        return
    for index, value in enumerate(op.operands):
        if not _has(value, old):
            continue
        if is_cheap(value):
            op.operands[index] = rematerialize(value, new, made)
        else:
            op.operands[index] = converted(value, new, InsertPoint.before(op))
