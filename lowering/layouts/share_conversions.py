"""Share the widening of 8-bit operands between warps that would each do it.

    %a = fp_to_fp (block_load : #dot_a) ; tt.dot %a, %b, 0

 -> %w = fp_to_fp (block_load : #separate) ; %a = cvt %w : -> #dot_a ; tt.dot %a, %b, 0

In `#separate` each warp has separate rows of A, or columns of B.  This is done if a product is
scaled before it is added.  Product and sum then fill the registers, so it is better to read the
operands from shared local memory, a few at a time.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.ops import DotOp, FpToFpOp
from triton_xe.dialects.xe import BlockLoadOp
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.hardware.register_file import MOST_CARRIED
from triton_xe.hardware.target import Target
from triton_xe.layout import DotOperandEncoding, DpasEncoding
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.layouts.propagate_layouts import brings
from triton_xe.lowering.layouts.rematerialize import converted, layout_of, with_encoding
from triton_xe.lowering.rewriting import all_of, locate, retyped


def share_conversions(function: Operation, target: Target) -> None:
    """Let warps widen the operands of scaled products once for all of them."""
    if not target.has_block_2d:
        return
    for dot in all_of(function, DotOp):
        held = 2 * sum(prod(shape_of(v)) for v in dot.operands[:2])
        if len(shape_of(dot.d)) == 2 and held <= target.max_slm_bytes // 2 and _is_crowded(
                dot, target):
            for index in range(2):
                _share(dot, index, target)


def _is_crowded(dot: DotOp, target: Target) -> bool:
    """True if a product in a loop is not accumulated, and fills the registers together with the
    sums.
    """
    body = dot.parent
    loop = body.parent_op() if isinstance(body, Block) else None
    if not isinstance(loop, scf.ForOp) or dot.c.owner is body:
        return False
    sums = [v for v in loop.iter_args if _is_result(v.type)]
    held = sum(map(_registers, [dot.d, *sums])) * target.subgroup_size * 4
    return _is_result(dot.d.type) and bool(sums) and held > MOST_CARRIED * target.grf_bytes


def _is_result(kind: Attribute) -> bool:
    """True for fp32 tensors in the layout of results of DPAS."""
    return (isinstance(kind, TensorType) and isinstance(kind.element_type, Float32Type)
            and isinstance(encoding_of(kind), DpasEncoding))


def _registers(value: SSAValue) -> int:
    return layout_of(value.type).in_dims["register"]


def _share(dot: DotOp, index: int, target: Target) -> None:
    """Convert an operand by separate rows or columns in each warp, if it is loaded that way."""
    value = dot.operands[index]
    wide = value.owner
    load = wide.src.owner if isinstance(wide, FpToFpOp) else None
    if not isinstance(load, BlockLoadOp) or bit_width(load.value.type.element_type) != 8:
        return
    encoding = _separate_layout(value, index)
    if encoding is None:
        return
    kind = retyped(load.value.type, layout_attr(encoding))
    transposed = load.transposed is not None
    if not brings(target, kind, transposed):
        return
    new = BlockLoadOp(cursor=load.cursor, value_type=kind, transposed=transposed)
    locate(load, new)
    Rewriter.insert_op(new, InsertPoint.after(load))
    assert isinstance(wide, FpToFpOp)
    made = with_encoding(wide, layout_attr(encoding), InsertPoint.after(wide), [new.value])
    dot.operands[index] = converted(
        made.results[0], layout_attr(encoding_of(value.type)), InsertPoint.before(dot))


def _separate_layout(value: SSAValue, index: int) -> DotOperandEncoding | None:
    """Layout of an operand of which each warp has a separate part; None if it already has one."""
    held = encoding_of(value.type)
    assert isinstance(held, DotOperandEncoding)
    parent = held.parent
    if not isinstance(parent, DpasEncoding) or parent.warps_per_cta[1 - index] == 1:
        return None
    rows, columns = parent.warps_per_cta
    warps, unit = rows * columns, (parent.repeat_count, parent.execution_size)[index]
    each, rest = divmod(shape_of(value)[index], warps * unit)
    if rest or not each:
        return None
    clusters = list(parent.rep_cluster)
    clusters[index] = each
    shared = (warps, 1) if index == 0 else (1, warps)
    return replace(held, parent=replace(
        parent, warps_per_cta=shared, rep_cluster=tuple(clusters)))
