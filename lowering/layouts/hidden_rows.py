"""Prove that rows which a condition leaves out of a load are not stored either.

Mixture-of-experts kernels load rows of A, and store rows of the product, where `token < tokens`.
No store shows what the load puts into its other rows, so that they may hold any values.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BroadcastOp,
    ExpandDimsOp,
    GetProgramIdOp,
    MakeRangeOp,
    SplatOp,
)
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.facts.values import constant_of, shape_of
from triton_xe.lowering.layouts.rematerialize import before_conversions, is_volatile
from triton_xe.lowering.rewriting import conjuncts, orders_memory
from triton_xe.lowering.surfaces.unobserved import is_hidden_along, keeps_positions

DEPTH = 20
_OF_ROWS = (AddPtrOp, GetProgramIdOp, MakeRangeOp, SplatOp)


def is_row_hidden(value: SSAValue, mask: SSAValue) -> bool:
    """True if no stored value depends on a matrix in rows whose condition is false."""
    found = row_along(mask)
    return found is not None and is_hidden_along(value, found[1], _Unmasked(found[0]))


@dataclass(frozen=True)
class _Unmasked:
    """Positions at which a row of conditions is false, for `is_hidden_along`."""

    row: SSAValue

    def hides(self, mask: SSAValue | None, dim: int) -> bool:
        """True if a store with this mask leaves the positions out."""
        if mask is None:
            return False
        rows = map(row_along, conjuncts(mask))
        return any(row is not None and row[1] == dim and _is_same(row[0], self.row)
                   for row in rows)

    def stays(self, loop: scf.ForOp) -> bool:
        """True if the positions are the same in each iteration."""
        made = self.row.owner
        return isinstance(made, Operation) and not loop.is_ancestor(made)


def row_along(mask: SSAValue) -> tuple[SSAValue, int] | None:
    """The row of conditions that a mask repeats, and the dimension along which it varies."""
    axis: int | None = None
    op = mask.owner
    while isinstance(op, BroadcastOp | ConvertLayoutOp | ExpandDimsOp):
        if isinstance(op, ExpandDimsOp):
            if axis is not None:
                return None
            axis = op.axis.value.data
        mask = op.operands[0]
        op = mask.owner
    return None if axis is None or len(shape_of(mask)) != 1 else (mask, 1 - axis)


def _is_same(one: SSAValue, other: SSAValue, depth: int = 0) -> bool:
    """True if two values are equal except for their layouts.

    Triton computes the same row once for each layout that needs it.
    """
    one, other = (before_conversions(v) for v in (one, other))
    if one is other:
        return True
    first, second = one.owner, other.owner
    if depth > DEPTH or isinstance(first, Block) or isinstance(second, Block) or (
            type(first) is not type(second) or first.regions
            or len(first.operands) != len(second.operands)):
        return False
    if isinstance(first, arith.ConstantOp):
        return constant_of(one) is not None and constant_of(one) == constant_of(other)
    known = keeps_positions(first) or isinstance(first, _OF_ROWS) or (
        isinstance(first, LoadOp) and not is_volatile(first) and _is_read_at_once(first, second))
    return known and first.properties == second.properties and all(
        _is_same(a, b, depth + 1) for a, b in zip(first.operands, second.operands, strict=True))


def _is_read_at_once(first: Operation, second: Operation) -> bool:
    """True if two loads are in one block, and nothing that orders memory is between them."""
    before, after = sorted((first, second), key=_place)
    here = before.next_op
    while here is not None and here is not after:
        if orders_memory(here):
            return False
        here = here.next_op
    return here is after


def _place(op: Operation) -> int:
    assert op.parent is not None
    return op.parent.get_operation_index(op)
