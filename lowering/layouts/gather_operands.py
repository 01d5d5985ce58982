"""Rule gather-operands: load gathered rows of operand B in the layout of operand B.

    %b = tt.load %p : #blocked ; cvt %b -> #dot_op<1>
 -> %b' = tt.load %p' : #dot_op<1>

A lane of operand B has one column of it.  If that column is contiguous in memory, each lane loads
its own with the widest messages, at any address.  This avoids an exchange through shared local
memory, with two barriers in each iteration of the loop.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import encoding_of
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import AddPtrOp, BroadcastOp, ExpandDimsOp, SplatOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.memory import COLUMN_BYTES
from triton_xe.layout import DotOperandEncoding, DpasEncoding
from triton_xe.lowering.facts.accesses import needed_mask, vector_width
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import carried, pointee_bytes, shape_of
from triton_xe.lowering.facts.view import view_of
from triton_xe.lowering.family import Scope, in_kernel
from triton_xe.lowering.layouts.at_operand import MOST_COPIES, copies_of
from triton_xe.lowering.layouts.hidden_rows import is_row_hidden
from triton_xe.lowering.layouts.rematerialize import (
    Rematerializer,
    converted,
    is_cheap,
    is_volatile,
    layout_attr_of,
    layout_of,
    with_encoding,
)
from triton_xe.lowering.module_facts import remark
from triton_xe.lowering.rewriting import (
    carry_more,
    conjunction,
    conjuncts,
    last_of,
)
from triton_xe.lowering.specialize.launch_guards import assume, tested_in_kernel
from triton_xe.lowering.specialize.split_inside import all_true, mask_guards

FEWEST_BYTES = 2
"""Smallest element, in bytes: SPIR-V has no vectors of 32 elements, as bytes would need."""
_STEPS = (AddPtrOp, BroadcastOp, ConvertLayoutOp, ExpandDimsOp, SplatOp)


def gather_operands(op: ConvertLayoutOp, scope: Scope) -> None:
    """Load gathered rows in the layout of operand B."""
    load = op.src.owner
    if not isinstance(load, LoadOp) or not fits_operand(load, op.result.type, scope.facts):
        return
    if in_kernel(scope):
        _assume_inside(load, scope.affine)
    encoding, elsewhere = layout_attr_of(op.result), _LoopRematerializer(scope.made)
    operands = [elsewhere.value(v, encoding) for v in load.operands]
    again = with_encoding(load, encoding, InsertPoint.after(load), operands)
    assert isinstance(again, LoadOp)
    again.columns = UnitAttr()
    if load.mask is not None and is_row_hidden(load.result, load.mask):
        again.hidden = UnitAttr()
    op.result.replace_all_uses_with(again.results[0])


def _assume_inside(load: LoadOp, affine: Affine) -> None:
    """Assume that blocks are inside the depth of the product, and drop that part of the mask.

    A guard checks it at launch.  A load with a mask needs its registers filled beforehand.  Without
    the parts that bound the depth, the mask is often the same in each iteration of a loop.  The
    elements that it excludes are never used.  Bounds of the columns stay in the mask, because
    blocks divide the number of columns less often than the depth.
    """
    if load.mask is None or not isinstance(load.parent_op(), scf.ForOp):
        return
    given = list(conjuncts(load.mask))
    parts = []
    for part in given:
        guards = mask_guards(part, affine)
        if guards is None or tested_in_kernel(guards, load) or not _bounds_depth(part, affine):
            parts.append(part)
        else:
            assume(guards, load)
    if len(parts) == len(given):
        return
    remark(load, "without the part of its mask that bounds make, if its blocks are inside")
    load.operands[1] = conjunction(parts, load) if parts else (
        all_true(load.mask, InsertPoint.before(load)))


def _bounds_depth(part: SSAValue, affine: Affine) -> bool:
    """True if a part of a mask bounds only the first dimension, which is the depth."""
    bounds = affine.mask(part)
    return {*bounds.high, *bounds.low} <= {0}


def fits_operand(load: LoadOp, kind: Attribute, facts: Facts) -> bool:
    """True if a load can load operand B in its layout with messages of the greatest width."""
    held = encoding_of(kind)
    if not isinstance(held, DotOperandEncoding) or held.op_idx != 1 or not isinstance(
            held.parent, DpasEncoding):
        return False
    if len(shape_of(load.result)) != 2 or is_volatile(load) or not load.result.has_one_use():
        return False
    view = view_of(layout_of(kind))
    width, _ = vector_width(facts, load.ptr, needed_mask(load.mask), view, COLUMN_BYTES)
    size = pointee_bytes(load.ptr)
    is_wide = size >= FEWEST_BYTES and width * size == COLUMN_BYTES
    return is_wide and copies_of(kind) <= MOST_COPIES and all(map(_can_move, load.operands))


def _can_move(value: SSAValue) -> bool:
    """True if a tensor can be recomputed in another layout; only single rows need conversions."""
    work, seen = [value], set[SSAValue]()
    while work:
        here = work.pop()
        if here in seen or not isinstance(here.type, TensorType) or is_cheap(here):
            continue
        seen.add(here)
        if _is_step(here):
            work += here.owner.operands  # type: ignore[union-attr]
        elif (held := carried(here)) is not None:
            work += [held.start, held.end]
        elif not _is_row(here):
            return False
    return True


def _is_step(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, Operation) and (isinstance(op, _STEPS) or is_elementwise(op))


def _is_row(value: SSAValue) -> bool:
    """True if at most one dimension of a tensor is larger than 1."""
    return isinstance(value.owner, Operation) and sum(n > 1 for n in shape_of(value)) <= 1


class _LoopRematerializer(Rematerializer):
    """Recomputes values in other layouts; copies of loop-carried ones are carried too."""

    def recompute(self, value: SSAValue, encoding: Attribute) -> SSAValue:
        op = value.owner
        if isinstance(op, Block):
            return self._carried(value, encoding)
        return super().recompute(value, encoding) if _is_step(value) else (
            converted(value, encoding, InsertPoint.after(op)))

    def _carried(self, value: SSAValue, encoding: Attribute) -> SSAValue:
        """Carry a loop-carried value in another layout as well, and return that copy."""
        held = carried(value)
        assert held is not None
        body = held.loop.body.block
        again = carry_more(body, self.value(held.start, encoding))
        self.made[value, encoding] = again
        last_of(body).operands[again.index - 1] = self.value(held.end, encoding)
        return again
