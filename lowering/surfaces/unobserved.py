"""Find rows, columns and elements of a loaded tile that no store can make observable.

Kernels keep their loads in bounds by `row % M`, and mask their stores by `row < M`.  The rows that
wrap around are then loaded and multiplied in vain, so they may have any values.  A walk from the
load to the stores proves this for one dimension of a tile.  It follows the rows through operations
that do not mix them with other rows.  `is_hidden` proves it for elements that a mask excludes from
a load and from all stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue, Use

from triton_xe.dialects.arith_ext import SelectOp
from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.tt.memory import AtomicRMWOp, StoreOp
from triton_xe.dialects.tt.ops import (
    DotOp,
    SplitOp,
    TransOp,
)
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.lowering.facts.affine import Affine, Wrap, invariant_in
from triton_xe.lowering.facts.poly import Poly, at_least
from triton_xe.lowering.facts.values import Unknown, shape_of
from triton_xe.lowering.uses import can_follow

_TRAPS = (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)
_Part = tuple[SSAValue, int]
"""A tensor, and the dimension along which positions are followed."""


class Hidden(Protocol):
    """Positions along a dimension that may have any value."""

    def hides(self, mask: SSAValue | None, dim: int) -> bool:
        """True if a mask is false at the positions."""

    def stays(self, loop: scf.ForOp) -> bool:
        """True if the positions are the same in each iteration of a loop."""


@dataclass(frozen=True)
class _Wrapped:
    """Positions that wrap around: those from the end of a `Wrap` on."""

    wrap: Wrap
    affine: Affine
    needs: dict[Guard, None] = field(default_factory=dict)
    """The conditions of the masks that hide the positions."""

    def hides(self, mask: SSAValue | None, dim: int) -> bool:
        """True if a mask hides all positions along a dimension that wrap around."""
        try:
            bounds = self.affine.mask(mask)
        except Unknown:
            return False
        if bounds.high.get(dim) != self.wrap.end - self.wrap.start:
            return False
        self.needs.update(dict.fromkeys(bounds.conditions))
        return True

    def stays(self, loop: scf.ForOp) -> bool:
        return invariant_in(self.wrap.start, loop) and invariant_in(self.wrap.end, loop)


@dataclass(frozen=True)
class _Repeated:
    """Positions after the first along a dimension of stride 0, which repeat the first one."""

    affine: Affine
    needs: dict[Guard, None] = field(default_factory=dict)
    """The conditions of the masks that hide the positions."""

    def hides(self, mask: SSAValue | None, dim: int) -> bool:
        """True if a mask ends at a position of at most 1, as offsets are not negative."""
        try:
            bounds = self.affine.mask(mask)
        except Unknown:
            return False
        if dim not in bounds.high:
            return False
        gap = Poly.constant(1) - bounds.high[dim]
        if any(factor < 0 for factor in gap.terms.values()):
            return False
        first = at_least(gap, Poly.constant(0), "offsets are not negative")
        self.needs.update(dict.fromkeys((*bounds.conditions, first)))
        return True

    def stays(self, loop: scf.ForOp) -> bool:
        return True


def repeats_unobserved_if(value: SSAValue, dim: int, affine: Affine) -> list[Guard] | None:
    """The conditions under which no store depends on a tensor's positions after the first one.

    None if a store may depend on them.
    """
    hidden = _Repeated(affine)
    return list(hidden.needs) if is_hidden_along(value, dim, hidden) else None


def unobserved_if(value: SSAValue, dim: int, wrap: Wrap, affine: Affine) -> list[Guard] | None:
    """The conditions under which no store depends on a tensor's positions that wrap around.

    None if a store may depend on them.
    """
    hidden = _Wrapped(wrap, affine)
    return list(hidden.needs) if is_hidden_along(value, dim, hidden) else None


def is_hidden_along(value: SSAValue, dim: int, hidden: Hidden) -> bool:
    """True if no stored value depends on a tensor's positions along a dimension."""
    def reached(part: _Part) -> list[_Part] | None:
        found = [_reached(use, part[1], hidden) for use in part[0].uses]
        known = [parts for parts in found if parts is not None]
        return list(chain(*known)) if len(known) == len(found) else None

    return can_follow((value, dim), reached)


def is_hidden(value: SSAValue, mask: SSAValue) -> bool:
    """True if no stored value depends on a tensor's elements for which a mask is false."""
    def reached(value: SSAValue) -> list[SSAValue] | None:
        ops = [use.operation for use in value.uses if not _masks(use, mask)]
        known = all(keeps_positions(op) and not isinstance(op, ConvertLayoutOp) for op in ops)
        return [op.results[0] for op in ops] if known else None

    return can_follow(value, reached)


def _masks(use: Use, mask: SSAValue) -> bool:
    """True if a use takes elements only for which a mask is true."""
    match use.operation:
        case StoreOp() as store:
            return use.index == 1 and store.mask is not None and _implies(store.mask, mask)
        case SelectOp() as select:
            return use.index == 1 and _implies(select.cond, mask)
    return False


def _implies(condition: SSAValue, mask: SSAValue) -> bool:
    """True if a condition implies a mask."""
    if condition is mask:
        return True
    parts = condition.owner
    return isinstance(parts, arith.AndIOp) and any(_implies(p, mask) for p in parts.operands)


def _reached(use: Use, dim: int, hidden: Hidden) -> list[_Part] | None:
    """Tensors and dimensions that depend on the positions through a use; None if observable."""
    op = use.operation
    match op:
        case StoreOp():
            is_hidden = use.index == 1 and hidden.hides(op.mask, dim)
            return [] if is_hidden else None
        case AtomicRMWOp():
            is_hidden = op.val is op.operands[use.index] and hidden.hides(op.mask, dim)
            return [] if is_hidden and op.result.first_use is None else None
        case DotOp():
            free = {0: 0, 1: 1, 2: dim}[use.index]
            return [(op.results[0], dim)] if dim == free else None
        case TransOp(order=order):
            return [(op.result, list(order.get_values()).index(dim))]
        case SplitOp():
            last = len(shape_of(op.src)) - 1
            return None if dim == last else [(op.lhs, dim), (op.rhs, dim)]
        case scf.ForOp():
            return _carried(op, use.index - 3, dim, hidden)
        case scf.YieldOp():
            return _yielded(op, use.index, dim, hidden)
    return [(op.results[0], dim)] if keeps_positions(op) else None


def _carried(loop: scf.ForOp, place: int, dim: int, hidden: Hidden) -> list[_Part] | None:
    """Argument and result of a loop that carries a value; None if the positions may change."""
    if place < 0 or not hidden.stays(loop):
        return None
    return [(loop.body.block.args[place + 1], dim), (loop.results[place], dim)]


def _yielded(op: scf.YieldOp, place: int, dim: int, hidden: Hidden) -> list[_Part] | None:
    owner = op.parent_op()
    if isinstance(owner, scf.ForOp):
        return _carried(owner, place, dim, hidden)
    return [(owner.results[place], dim)] if isinstance(owner, scf.IfOp) else None


def keeps_positions(op: Operation) -> bool:
    """True if each element of a result depends only on the elements at the same position."""
    return type(op) not in _TRAPS and (isinstance(op, ConvertLayoutOp) or is_elementwise(op))
