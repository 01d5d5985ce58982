"""Rule rematerialize-row-loads: load a row of values in the layout of the matrix that uses it.

    %w = tt.load %p : tensor<64xf16, #a> ; %m = expand_dims (cvt %w) ; broadcast (cvt %m)
 -> %w' = tt.load %p' : tensor<64xf16, #slice_of_m> ; broadcast (expand_dims %w')

Triton loads each element of a row in one lane of one warp.  To broadcast it over a matrix, it would
go through shared local memory, with a barrier, element by element.  Instead each warp loads the row
with few messages, from the cache.  A row stays as it is if the program stores to the same tensor,
because the exchange orders its loads before its stores.  Another argument may alias the row: such
loads are marked, and `insert_barriers` makes later stores wait for them.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import ExpandDimsOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.facts.accesses import needed_mask, vector_width
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.facts.view import view_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.insert_barriers import base_of
from triton_xe.lowering.layouts.casts import CASTS
from triton_xe.lowering.layouts.rematerialize import (
    changes_in_shared_memory,
    is_cheap,
    is_volatile,
    layout_attr_of,
    layout_of,
    rematerialize,
    slice_of,
)
from triton_xe.lowering.rewriting import retyped

MOST_MESSAGES = 4
"""Messages of a row for each warp, up to which loading it again is cheaper than the exchange."""
_THROUGH = (ConvertLayoutOp, ExpandDimsOp, *CASTS)


def rematerialize_row_loads(op: ConvertLayoutOp, scope: Scope) -> None:
    """Load a row of values in the layout of the matrix that uses it."""
    load = _row(op.src)
    if load is None or not {base_of(load.ptr), None}.isdisjoint(scope.stored):
        return
    if not changes_in_shared_memory(op, scope.target) or (
            _messages(load, op, scope.facts) > MOST_MESSAGES):
        return
    again = rematerialize(op.src, layout_attr_of(op.result), scope.made)
    op.result.replace_all_uses_with(again)
    for value in scope.made.values():
        if isinstance(value.owner, LoadOp):
            value.owner.before_stores = UnitAttr()


def _row(value: SSAValue) -> LoadOp | None:
    """The load that all elements of a row value come from, if it can be repeated."""
    op = value.owner
    while isinstance(op, _THROUGH):
        op = op.operands[0].owner
    if not isinstance(op, LoadOp) or is_volatile(op) or base_of(op.ptr) is None:
        return None
    is_row = sum(length > 1 for length in shape_of(op.result)) <= 1
    return op if is_row and all(map(is_cheap, op.operands)) else None


def _messages(load: LoadOp, op: ConvertLayoutOp, facts: Facts) -> int:
    """Number of messages that load a row in the result layout of a conversion."""
    encoding: Any = layout_attr_of(op.result)
    value = op.src
    while value is not load.result:
        made: Any = value.owner
        if isinstance(made, ExpandDimsOp):
            encoding = slice_of(made, encoding)
        value = made.operands[0]
    view = view_of(layout_of(retyped(load.result.type, encoding)))
    width, _ = vector_width(facts, load.ptr, needed_mask(load.mask), view)
    return len(view.registers) // width
