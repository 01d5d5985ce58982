"""Choose layouts for block loads and stores whose matrix is not a dot's operand or result."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.layouts import LayoutAttr, layout_attr
from triton_xe.dialects.tt.ops import TransOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import BlockLoadOp, BlockStoreOp
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import Target
from triton_xe.layout import DpasEncoding, to_linear_layout
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.layouts.dpas_choice import dpas_encoding
from triton_xe.lowering.layouts.propagate_layouts import brings, is_block, is_words
from triton_xe.lowering.layouts.rematerialize import converted
from triton_xe.lowering.rewriting import all_of, below, erase_dead, locate, retyped
from triton_xe.lowering.surfaces.copies import scans
from triton_xe.plan import Refusal, SurfaceFacts, plan_block_load, plan_block_store
from triton_xe.plan.model import BlockPlan

LEAST_BYTES = 256
"""Minimum bytes of a message of a copy: as many as one gather moves."""


def legalize_block_layouts(function: Operation, target: Target, num_warps: int) -> bool:
    """Convert block loads and stores without a dot's layout to a layout that 2D blocks support.

    Return True if there were any.
    """
    accesses: list[BlockLoadOp | BlockStoreOp] = all_of(function, BlockLoadOp, BlockStoreOp)
    found = [op for op in accesses if not is_block(op.value.type) and not _brings_words(op, target)]
    whole = any(map(scans, below(function))) if found else False
    for one in found:
        op = _transposed(one, target, num_warps) if isinstance(one, BlockLoadOp) else one
        encoding = layout_attr(block_layout(shape_of(op.value), target, num_warps, whole))
        if isinstance(op, BlockStoreOp):
            op.operands[0] = converted(op.value, encoding, InsertPoint.before(op))
        else:
            _load_in(op, encoding)
    erase_dead(function)
    return bool(found)


def _brings_words(op: BlockLoadOp | BlockStoreOp, target: Target) -> bool:
    """True if a block load delivers the words from which bit fields are extracted."""
    return isinstance(op, BlockLoadOp) and is_words(op.value.type) and brings(
        target, op.value.type, op.transposed is not None)


def is_worth_a_block(
    shape: tuple[int, ...], bits: int, target: Target, num_warps: int, *,
    stores: bool = False, transposed: bool = False, whole_columns: bool = False,
) -> bool:
    """True if 2D blocks move a matrix without a dot's layout with fewer messages than gathers."""
    plan = block_plan(shape, bits, target, num_warps, stores=stores, transposed=transposed,
                      whole_columns=whole_columns)
    return not isinstance(plan, Refusal) and (
        prod(shape) * bits // 8 >= LEAST_BYTES * num_warps * len(plan.messages))


@lru_cache(maxsize=1024)
def block_plan(
    shape: tuple[int, ...], bits: int, target: Target, num_warps: int, *,
    stores: bool = False, transposed: bool = False, whole_columns: bool = False,
) -> BlockPlan | Refusal:
    """The messages that move a matrix in the layout of `block_layout`, or why none do.

    With `whole_columns`, none do if warps would share a column.
    """
    encoding = block_layout(shape, target, num_warps, whole_columns)
    if whole_columns and encoding.warps_per_cta[0] > 1:
        return Refusal("warps share columns")
    layout = to_linear_layout(encoding, shape)
    return (plan_block_store if stores else plan_block_load)(
        layout, SurfaceFacts(contiguous_dim=0 if transposed else 1), bits, target)


def _load_in(op: BlockLoadOp, encoding: LayoutAttr) -> None:
    new = BlockLoadOp(cursor=op.cursor, value_type=retyped(op.value.type, encoding),
                      transposed=op.transposed)
    back = ConvertLayoutOp(operands=[new.value], result_types=[op.value.type])
    locate(op, new, back)
    Rewriter.replace_op(op, [new, back])


def _transposed(op: BlockLoadOp, target: Target, num_warps: int) -> BlockLoadOp:
    """Rewrite trans(block_load) to a transposed block_load, if blocks support it."""
    uses = list(op.value.uses)
    flipped = op.transposed is None
    if len(uses) != 1 or not isinstance(trans := uses[0].operation, TransOp):
        return op
    bits = bit_width(op.value.type.element_type)
    if not is_worth_a_block(
            shape_of(trans.result), bits, target, num_warps, transposed=flipped):
        return op
    new = BlockLoadOp(cursor=op.cursor, value_type=trans.result.type, transposed=flipped)
    locate(op, new)
    Rewriter.insert_op(new, InsertPoint.after(op))
    Rewriter.replace_op(trans, [], [new.value])
    return new


def block_layout(
    shape: tuple[int, ...], target: Target, num_warps: int, whole_columns: bool = False
) -> DpasEncoding:
    """The layout of a DPAS result of the given shape, which block loads and stores support.

    With `whole_columns`, warps share columns only if there are too few.
    """
    rows = min(8, shape[0])
    width = target.dpas_execution_size or target.subgroup_size  # loads need no matrix unit
    dpas = Dpas("f16", "f16", "f32", rows, width)
    return dpas_encoding(shape[0], shape[1], num_warps, dpas, "columns" if whole_columns else "")
