"""Rule fuse-split-stores: store a tile as a whole that is split in two and stored half by half.

    %h = trans(reshape %x : MxN -> Mx2xN/2) : MxN/2x2
    %l, %r = tt.split %h
    store f(%l) at column c ; store f(%r) at column c + N/2      ->      block store f(%x) at c

Splitting the result of a dot moves data between warps through shared local memory, and stores of
the halves are scatters.  Epilogues split to save shared memory, which a block store does not need.
The stored values, and the order of other stores, stay the same.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import ReshapeOp, SplitOp, TransOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.lowering.facts.poly import Poly
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.casts import CASTS
from triton_xe.lowering.layouts.rematerialize import before_conversions
from triton_xe.lowering.module_facts import remark
from triton_xe.lowering.rewriting import (
    detach,
    is_pure,
)
from triton_xe.lowering.surfaces.raise_surfaces import (
    in_slow_version,
    only_if,
    store_block,
    stores_dot,
)
from triton_xe.lowering.surfaces.surfaces import Surface, surface_access
from triton_xe.plan import Refusal


class Halves(NamedTuple):
    """A split tile and the stores of its halves; `steps` lead from a half to its store."""

    whole: SSAValue
    steps: tuple[tuple[Operation, ...], tuple[Operation, ...]]
    stores: tuple[StoreOp, StoreOp]

    @property
    def columns(self) -> int:
        """Columns of one half."""
        return shape_of(self.whole)[1] // 2


def fuse_split_stores(split: SplitOp, scope: Scope) -> None:
    """Store a tile by one block store if the program splits it and stores both parts."""
    halves = _halves(split)
    if halves is None or in_slow_version(halves.stores[0]):
        return
    if not stores_dot(halves.whole, scope.target):
        return
    left, right = (surface_access(store, scope.affine, None) for store in halves.stores)
    if isinstance(left, Refusal) or isinstance(right, Refusal):
        return
    if _adjacent(left, right, halves.columns):
        _store_whole(halves, left, [*left.guards, *right.guards])


def _halves(split: SplitOp) -> Halves | None:
    """The two chains of equal steps from a split to stores; None if they differ."""
    whole = _split_tile(split)
    if whole is None:
        return None
    left, right = _to_store(split.lhs), _to_store(split.rhs)
    if left is None or right is None:
        return None
    (first_steps, first), (last_steps, last) = left, right
    names = [[(s.name, _element(s)) for s in steps] for steps in (first_steps, last_steps)]
    if names[0] != names[1] or not _follows(first, last) or first.properties != last.properties:
        return None
    return Halves(whole, (first_steps, last_steps), (first, last))


def _split_tile(split: SplitOp) -> SSAValue | None:
    """The matrix that a tt.split splits into its left and right half."""
    trans = before_conversions(split.src).owner
    if not isinstance(trans, TransOp) or tuple(trans.order.get_values()) != (0, 2, 1):
        return None
    reshape = before_conversions(trans.src).owner
    if not isinstance(reshape, ReshapeOp) or reshape.allow_reorder is not None:
        return None
    shape = shape_of(reshape.src)
    if len(shape) != 2 or shape_of(reshape.result) != (shape[0], 2, shape[1] // 2):
        return None
    return reshape.src


def _to_store(value: SSAValue) -> tuple[tuple[Operation, ...], StoreOp] | None:
    """Casts that are the only uses of a half, and the store of their result."""
    steps: list[Operation] = []
    while True:
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        user = uses[0].operation
        if isinstance(user, StoreOp):
            return (tuple(steps), user) if user.value is value else None
        if type(user) in CASTS:
            steps.append(user)
        elif not isinstance(user, ConvertLayoutOp):
            return None
        value = user.results[0]


def _element(op: Operation) -> str:
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    return str(type_.element_type) + str(sorted((k, str(v)) for k, v in op.properties.items()))


def _follows(first: Operation, last: Operation) -> bool:
    """True if only arithmetic is between two stores of one block."""
    op = first.next_op
    while op is not None and op is not last:
        if not is_pure(op) or isinstance(op, LoadOp):
            return False
        op = op.next_op
    return op is last


def _adjacent(left: Surface, right: Surface, columns: int) -> bool:
    """True if the second access continues the first to the right, on the same surface."""
    if left.transposed or right.transposed or left.base is not right.base:
        return False
    same = all(
        getattr(left, name) == getattr(right, name)
        for name in ("base_alignment", "height", "width", "pitch", "y")
    )
    return same and (right.x - left.x - Poly.constant(columns)).terms == {}


def _store_whole(halves: Halves, surface: Surface, guards: list[Guard]) -> None:
    """Apply the steps of the halves to the whole tile, and store it."""
    last = halves.stores[1]
    at = InsertPoint.before(last)
    remark(last, "both halves as one 2D block store" + only_if(guards))
    value = halves.whole
    type_ = value.type
    assert isinstance(type_, TensorType)
    for step in halves.steps[0]:
        made = step.results[0].type
        assert isinstance(made, TensorType)
        copy = type(step).create(
            operands=[value], properties=dict(step.properties), attributes=dict(step.attributes),
            result_types=[TensorType(made.element_type, type_.get_shape(), type_.encoding)],
        )
        Rewriter.insert_op(copy, at)
        value = copy.results[0]
    choice = store_block(halves.stores, value, surface, dict.fromkeys(guards))
    if choice is not None:
        _sink(choice, choice.regions[1].block.ops.first)


def _sink(choice: Operation, first: Operation | None) -> None:
    """Move operations that only the slow side uses into it: the split and its exchanges."""
    assert first is not None
    block = choice.parent
    assert block is not None
    op = choice.prev_op
    while op is not None:
        before = op.prev_op
        users = [use.operation for result in op.results for use in result.uses]
        inside = all(choice.regions[1].block.find_ancestor_op_in_block(u) for u in users)
        if users and inside and is_pure(op) and not isinstance(op, LoadOp):
            detach(op)
            Rewriter.insert_op(op, InsertPoint.before(first))
            first = op
        op = before
