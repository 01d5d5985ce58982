"""Pass reduce-in-place: reduce all elements of a tensor in the layout of the operand.

    %y = tt.reshape %x allow_reorder : tensor<32x64xf32, #a> -> tensor<2048xf32, #b>
    tt.reduce %y {axis = 0}

 -> tt.reduce of %x in one dimension, each element in its lane

`tl.sum(x)` and similar functions flatten their operand first.  Triton gives the result a layout of
its own.  If the operand has another one, the elements would go through shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.layouts import LayoutAttr, layout_attr
from triton_xe.dialects.tt.ops import ReshapeOp
from triton_xe.dialects.tt.structure import ReduceOp
from triton_xe.layout import LinearEncoding, LinearLayout
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.layouts.rematerialize import before_conversions, layout_held, layout_of
from triton_xe.lowering.rewriting import all_of, erase_dead, functions, locate
from triton_xe.lowering.targeted_pass import TargetedPass


@dataclass(frozen=True)
class ReduceInPlacePass(TargetedPass):
    """Reduce all elements in the layout of the operand."""

    name: ClassVar = "reduce-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for reduction, sources in list(_reductions(function)):
                reduction.operands = [_flat(reduction, source) for source in sources]
            erase_dead(function)


def _reductions(function: Operation) -> Iterator[tuple[ReduceOp, list[SSAValue]]]:
    """Reductions of flattened tensors that share a layout, with those tensors."""
    for op in all_of(function, ReduceOp):
        sources = [_before_reshape(value) for value in op.srcs]
        found = [source for source in sources if source is not None]
        layouts = {layout_held(source) for source in found}
        shapes = {shape_of(source) for source in found}
        if len(found) == len(sources) and len(layouts) == len(shapes) == 1:
            yield op, found


def _before_reshape(value: SSAValue) -> SSAValue | None:
    """The tensor that is flattened, before its conversion to the layout of the result."""
    op = value.owner
    if not isinstance(op, ReshapeOp) or op.allow_reorder is None or len(shape_of(value)) != 1:
        return None
    return before_conversions(op.src)


def _flat(op: Operation, source: SSAValue) -> SSAValue:
    """A tensor in one dimension, no element moved."""
    shape = shape_of(source)
    if len(shape) == 1:
        return source
    element = get_element_type_or_self(source.type)
    flat = TensorType(element, [prod(shape)], _flat_layout(layout_of(source.type)))
    made = ReshapeOp.create(operands=[source], result_types=[flat])
    locate(op, made)
    Rewriter.insert_op(made, InsertPoint.before(op))
    return made.result


def _flat_layout(layout: LinearLayout) -> LayoutAttr:
    minor_first = list(reversed(layout.out_dims))
    size = prod(layout.out_dims.values())
    flat = layout.transpose_outs(minor_first).reshape_outs({"dim0": size})
    return layout_attr(LinearEncoding(flat))
