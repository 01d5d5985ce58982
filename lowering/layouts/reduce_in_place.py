"""Rule reduce-in-place: reduce all elements of a tensor in the lanes and warps that have them.

    %y = tt.reshape %x allow_reorder : tensor<32x64xf32, #a> -> tensor<2048xf32, #b>
    tt.reduce %y {axis = 0}
 -> %y = tt.reshape %x : tensor<32x64xf32, #a> -> tensor<2048xf32, #flat>
    tt.reduce %y {axis = 0}

`tl.sum(x)` without an axis flattens `x` first.  Triton gives the result a layout of its own, for
which the elements move through shared local memory.  In `#flat`, which follows from `#a`,
they stay.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.layouts import LayoutAttr, layout_attr
from triton_xe.dialects.tt.ops import ReshapeOp
from triton_xe.dialects.tt.structure import ReduceOp
from triton_xe.layout import LinearEncoding, LinearLayout
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.rematerialize import before_conversions, layout_of
from triton_xe.lowering.rewriting import locate


def reduce_in_place(op: ReduceOp, scope: Scope) -> None:
    """Reduce all elements of a tensor in the lanes and warps that have them."""
    sources = [_before_reshape(value) for value in op.srcs]
    found = [source for source in sources if source is not None]
    kinds = {(shape_of(source), layout_of(source.type)) for source in found}
    if len(found) == len(sources) and len(kinds) == 1:
        op.operands = [_flat(op, source) for source in found]


def _before_reshape(value: SSAValue) -> SSAValue | None:
    """The tensor that is flattened, before it moved; None if `value` is no flattened tensor."""
    op = value.owner
    if not isinstance(op, ReshapeOp) or op.allow_reorder is None or len(shape_of(value)) != 1:
        return None
    return before_conversions(op.src)


def _flat(op: ReduceOp, source: SSAValue) -> SSAValue:
    """A tensor in one dimension, with each element where it is."""
    shape = shape_of(source)
    if len(shape) == 1:
        return source
    element = get_element_type_or_self(source.type)
    kind = TensorType(element, [prod(shape)], _flat_layout(layout_of(source.type)))
    made = ReshapeOp.create(operands=[source], result_types=[kind])
    locate(op, made)
    Rewriter.insert_op(made, InsertPoint.before(op))
    return made.result


def _flat_layout(layout: LinearLayout) -> LayoutAttr:
    minor_first = list(reversed(layout.out_dims))
    size = prod(layout.out_dims.values())
    return layout_attr(LinearEncoding(
        layout.transpose_outs(minor_first).reshape_outs({"dim0": size})))
