"""Rule sum-after-loops: move lane reductions of accumulated row sums from a loop to after it.

    for (%l) { %s = tt.reduce add %p {axis = 1} ; yield %l * %f + %s }

 -> %t = for (%t) { yield %t * %f[:, None] + (%p, its registers of a row and lane added) }

    %l = tt.reduce add %t {axis = 1}

This is flash attention's sum of probabilities: an iteration then needs no lane reduction.  The
start value is in the first lane.  Sums of floats have no promised order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.arith_ext import CmpiOp, SelectOp
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.ops import BroadcastOp, ExpandDimsOp, MakeRangeOp, ReshapeOp
from triton_xe.dialects.tt.structure import ReduceOp
from triton_xe.hardware.register_file import BUDGET
from triton_xe.layout import DpasEncoding, LinearEncoding, SliceEncoding, to_linear_layout
from triton_xe.layout.encodings import DistributedEncoding
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.front.decompose_scaled_dots import minor_first
from triton_xe.lowering.layouts.rematerialize import converted, layout_of
from triton_xe.lowering.rewriting import last_of, locate, put


def sum_after_loops(loop: scf.ForOp, scope: Scope) -> None:
    """Move lane reductions of accumulated row sums from a loop to after it."""
    sums = [found for index in range(len(loop.iter_args))
            if (found := _running_sum(loop, index)) is not None and found.fits()]
    for found in sums:
        found.defer()


@dataclass(frozen=True)
class RunningSum:
    """Value `index` of a loop: its old value times `factor`, if there is one, plus row sums."""

    loop: scf.ForOp
    index: int
    addition: arith.AddfOp
    factor: SSAValue | None
    sums: ReduceOp
    parent: DpasEncoding

    def fits(self) -> bool:
        """True if the loop has enough registers for the sums.

        If the summed matrix is small relative to the loop-carried values, there is little to gain.
        """
        matrix = shape_of(self.sums.srcs[0])
        lanes = self.parent.execution_size
        sizes = [prod(shape_of(v)) for v in self.loop.iter_args if len(shape_of(v)) == len(matrix)]
        elements = prod(matrix) + sum(sizes) + matrix[0] * lanes
        registers = elements // (prod(self.parent.warps_per_cta) * lanes)
        return registers <= BUDGET and 2 * prod(matrix) >= sum(sizes)

    def defer(self) -> None:
        """Carry a sum per lane, and reduce it after the loop; nothing if no layout fits."""
        rows, lanes = shape_of(self.sums.srcs[0])[0], self.parent.execution_size
        columns = shape_of(self.sums.srcs[0])[1] // lanes
        names = minor_first(3)
        cube = layout_of(self.sums.srcs[0].type).transpose_outs(minor_first(2)).reshape_outs(
            dict(zip(names, (lanes, columns, rows), strict=True))).transpose_outs(names[::-1])
        whole = LinearEncoding(cube)
        kept = SliceEncoding(1, whole)
        small = replace(self.parent, rep_cluster=(self.parent.rep_cluster[0], 1))
        if to_linear_layout(kept, (rows, lanes)) != to_linear_layout(small, (rows, lanes)):
            return
        held = TensorType(f32, (rows, lanes), layout_attr(kept))
        self._add_in_lanes(held, TensorType(f32, (rows, columns, lanes), layout_attr(whole)))
        self._start(held)
        self._finish(held, small)

    def _add_in_lanes(self, held: TensorType[Any], cube: TensorType[Any]) -> None:
        """Replace the addition in the loop by one of the elements of each lane."""
        at = InsertPoint.before(self.addition)
        source = put(ReshapeOp(src=self.sums.srcs[0], result_type=cube), at)
        part = _fold(self.sums, source, held, at)
        total: SSAValue = Rewriter.replace_value_with_new_type(
            self.loop.body.block.args[self.index + 1], held)
        if self.factor is not None:
            product = arith.MulfOp(total, _over_columns(self.factor, held, at))
            total = put(product, at)
        last = last_of(self.loop.body.block)
        last.operands[self.index] = put(arith.AddfOp(total, part), at)
        users = [self.addition, self.addition.lhs.owner, self.addition.rhs.owner]
        for dead in dict.fromkeys(users):
            if isinstance(dead, Operation):
                Rewriter.erase_op(dead)

    def _start(self, held: TensorType[Any]) -> None:
        """Start the sums with the initial value in the first lane, and zeros in the others."""
        at, lanes = InsertPoint.before(self.loop), held.get_shape()[1]
        row = _slice(held, 0)
        numbers = put(MakeRangeOp(
            start=IntegerAttr(0, i32), end=IntegerAttr(lanes, i32),
            result_type=TensorType(i32, [lanes], row)), at)
        zero = put(_constant(TensorType(i32, [lanes], row), 0), at)
        first = put(CmpiOp(numbers, zero, "eq"), at)
        flat = TensorType(i1, (1, lanes), held.encoding)
        first = put(ExpandDimsOp(src=first, axis=0, result_type=flat), at)
        wide = TensorType(i1, held.get_shape(), held.encoding)
        first = put(BroadcastOp(src=first, result_type=wide), at)
        start = _over_columns(self.loop.iter_args[self.index], held, at)
        none = put(_constant(held, 0.0), at)
        self.loop.operands[3 + self.index] = put(SelectOp(first, start, none), at)

    def _finish(self, held: TensorType[Any], small: DpasEncoding) -> None:
        """Reduce the lanes after the loop."""
        result = self.loop.results[self.index]
        old = result.type
        assert isinstance(old, TensorType)
        at = InsertPoint.after(self.loop)
        new = Rewriter.replace_value_with_new_type(result, held)
        uses = list(new.uses)
        source = converted(new, layout_attr(small), at)
        rows = TensorType(f32, old.get_shape(), layout_attr(SliceEncoding(1, small)))
        total = converted(_fold(self.sums, source, rows, at), old.encoding, at)
        for use in uses:
            use.operation.operands[use.index] = total


def _running_sum(loop: scf.ForOp, index: int) -> RunningSum | None:
    """The sum of rows that a loop carries at `index`, also if scaled in each iteration."""
    carried = loop.body.block.args[index + 1]
    addition = last_of(loop.body.block).operands[index].owner
    if not isinstance(addition, arith.AddfOp) or not carried.has_one_use():
        return None
    if addition.parent is not loop.body.block or not addition.result.has_one_use():
        return None
    for total, added in ((addition.lhs, addition.rhs), (addition.rhs, addition.lhs)):
        parent = _summed(added, loop)
        if parent is None:
            continue
        assert isinstance(added.owner, ReduceOp)
        if total is carried:
            return RunningSum(loop, index, addition, None, added.owner, parent)
        product = total.owner
        if isinstance(product, arith.MulfOp) and carried in product.operands and (
            total.has_one_use()
        ):
            factor = product.rhs if product.lhs is carried else product.lhs
            return RunningSum(loop, index, addition, factor, added.owner, parent)
    return None


def _summed(value: SSAValue, loop: scf.ForOp) -> DpasEncoding | None:
    """The layout of the matrix whose rows are summed to `value`, if lanes have parts of rows."""
    op = value.owner
    if not isinstance(op, ReduceOp) or op.parent is not loop.body.block or len(op.srcs) != 1:
        return None
    kind = op.srcs[0].type
    assert isinstance(kind, TensorType)
    parent = encoding_of(kind)
    inside = [inner.name for inner in op.combine.block.ops]
    if inside != ["arith.addf", "tt.reduce.return"] or not value.has_one_use():
        return None
    if kind.element_type != f32 or len(kind.get_shape()) != 2 or op.axis.value.data != 1:
        return None
    if not isinstance(parent, DpasEncoding) or parent.warps_per_cta[1] > 1:
        return None
    return parent if parent.threads_per_warp == parent.execution_size else None


def _constant(kind: TensorType[Any], value: float) -> arith.ConstantOp:
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, [value]))


def _slice(held: TensorType[Any], dim: int) -> Attribute:
    """The layout of a tensor without one dim."""
    parent = encoding_of(held)
    assert isinstance(parent, DistributedEncoding)
    return layout_attr(SliceEncoding(dim, parent))


def _over_columns(rows: SSAValue, held: TensorType[Any], at: InsertPoint) -> SSAValue:
    """rows[:, None], broadcast to `held`."""
    rows = converted(rows, _slice(held, 1), at)
    flat = TensorType(f32, (held.get_shape()[0], 1), held.encoding)
    column = put(ExpandDimsOp(src=rows, axis=1, result_type=flat), at)
    return put(BroadcastOp(src=column, result_type=held), at)


def _fold(like: ReduceOp, source: SSAValue, kind: TensorType[Any], at: InsertPoint) -> SSAValue:
    """The sum of a tensor along dim 1."""
    made = ReduceOp.create(
        operands=[source], result_types=[kind], properties=dict(like.properties),
        attributes=dict(like.attributes), regions=[like.combine.clone()])
    locate(like, made)
    return put(made, at)
