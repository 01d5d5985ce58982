"""Barriers where warps load what another warp stores.

A program loads what it stored before, whichever warp did: elements come back in another layout or
at other places, warps of a dot load what others stored, and of scalars and copies all of them load
and one stores.  A barrier stands between a store and the next load that may read from the same
base, and between a load of copies and the next store to the same base, around loops and calls too;
all control flow is uniform.  Where a load takes its addresses from the very value that the store
took them from, outside of loops, each lane loads what it stored itself: nothing stands between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.ttg import BarrierOp
from triton_xe.layout import to_linear_layout

LOADS = {"tt.load": 0, "xe.block_load": 0}
STORES = {"tt.store": 0, "xe.block_store": 1}
_DERIVED = ("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout",
            "tt.bitcast", "tt.reshape", "tt.trans", "xe.cursor", "xe.advance")
ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
Bases = frozenset[tuple[SSAValue | None, SSAValue | None]]
"""What was accessed since the last barrier: the base, or None where it is not known, and the
addresses, where each lane comes back to its own elements with them."""
NOTHING: Bases = frozenset()
Accessed = Callable[[Operation], SSAValue | None]
"""The pointer, tensor of pointers or surface that an operation accesses; None if it does not."""


@dataclass(frozen=True)
class Order:
    """Accesses of one kind that must be over before those of another begin."""

    earlier: Accessed
    later: Accessed


def separate_loads(function: Operation) -> None:
    """Put barriers between stores and later loads of one function."""
    _separate(function, Order(_stored, _loaded))


def separate_copies(function: Operation) -> None:
    """Put barriers between loads of what several warps hold and the stores before and after."""
    _separate(function, Order(_stored, _loaded_by_several))
    _separate(function, Order(_loaded_by_several, _stored))


def separate_stores(function: Operation) -> None:
    """Let all warps finish loading before one stores.

    Warps load parts of operands that others load as well; a store of one, to where an operand came
    from, must not be seen by the load of another.
    """
    for op in list(function.walk()):
        if not op.name.startswith((*STORES, "tt.atomic", "tt.descriptor_store")):
            continue
        before = op.prev_op
        while before is not None and not before.regions and before.name != "ttg.barrier":
            before = None if before.name in LOADS else before.prev_op
        if before is None or before.name != "ttg.barrier":
            _barrier(op)


def _stored(op: Operation) -> SSAValue | None:
    if op.name in ATOMICS:
        return op.operands[0]
    return op.operands[STORES[op.name]] if op.name in STORES else None


def _loaded(op: Operation) -> SSAValue | None:
    return op.operands[LOADS[op.name]] if op.name in LOADS else None


def _loaded_by_several(op: Operation) -> SSAValue | None:
    return _loaded(op) if op.name in LOADS and _has_copies(op.results[0]) else None


def _has_copies(value: SSAValue) -> bool:
    """Whether several warps hold the same element; every warp holds a scalar."""
    kind = value.type
    if not isinstance(kind, TensorType):
        return True
    layout = to_linear_layout(
        kind.encoding.encoding, tuple(kind.get_shape()))  # type: ignore[attr-defined]
    return bool(layout.free_variable_masks().get("warp", 0))


def _separate(function: Operation, order: Order) -> None:
    for region in function.regions:
        pending = NOTHING
        for block in region.blocks:
            pending = _block(block, pending, order)


def base_of(value: SSAValue) -> SSAValue | None:
    """The function argument that an address is computed from, if that is one."""
    seen: set[SSAValue] = set()
    while value not in seen:
        seen.add(value)
        owner = value.owner
        if isinstance(owner, Operation):
            if not owner.name.startswith(_DERIVED) or not owner.operands:
                return None
            value = owner.operands[0]
            continue
        parent = owner.parent_op()
        if parent is None:
            return None
        if parent.name == "tt.func":
            return value if owner is parent.regions[0].blocks[0] else None
        carried = _carried(value, parent)
        if carried is None:
            return None
        value = carried
    return None


def _carried(value: SSAValue, loop: Operation) -> SSAValue | None:
    """What an argument of a counted loop is at first, if the loop only moves it."""
    if loop.name != "scf.for" or not isinstance(value, BlockArgument) or value.index == 0:
        return None
    last = loop.regions[0].block.last_op
    assert last is not None
    following = last.operands[value.index - 1]
    while following is not value:
        owner = following.owner
        if not isinstance(owner, Operation) or not owner.name.startswith(_DERIVED):
            return None
        following = owner.operands[0]
    return loop.operands[value.index + 2]


def _block(block: Block, pending: Bases, order: Order) -> Bases:
    for op in list(block.ops):
        if op.name == "ttg.barrier":
            pending = NOTHING
        elif op.regions and op.name.startswith("scf."):
            pending = _nested(op, pending, order)
        else:
            pending = _access(op, pending, order)
    return pending


def _nested(op: Operation, pending: Bases, order: Order) -> Bases:
    """Through the regions of an if, or twice through those of a loop; no barrier in a loop where
    one before it is enough."""
    if any(_meets(inner, pending, order) for inner in op.walk()):
        pending = _barrier(op)
    if op.name == "scf.if":
        sides = [_block(b, pending, order) for region in op.regions for b in region.blocks]
        return pending.union(*sides)
    ended = pending
    for _ in range(2):
        for region in op.regions:
            for block in region.blocks:
                ended = _block(block, ended | pending, order)
    return ended | pending


def _access(op: Operation, pending: Bases, order: Order) -> Bases:
    if _meets(op, pending, order):
        pending = _barrier(op)
    if op.name == "tt.call":
        return pending | {(None, None)}
    address = order.earlier(op)
    if address is None:
        return pending
    own = address if op.name == "tt.store" and order.later is _loaded else None
    return pending | {(base_of(address), own if own is None or _is_fixed(own) else None)}


def _is_fixed(address: SSAValue) -> bool:
    """Whether a value is the same wherever it is used: it is not made anew by a loop."""
    block = address.owner if isinstance(address.owner, Block) else address.owner.parent
    parent = block.parent_op() if block is not None else None
    return parent is not None and parent.name == "tt.func"


def _meets(op: Operation, pending: Bases, order: Order) -> bool:
    """Whether an operation may access one of the bases."""
    if not pending:
        return False
    if op.name == "tt.call":
        return True
    address = order.later(op)
    if address is None:
        return False
    base = base_of(address)
    others = {found for found, own in pending if own is not address}
    return bool(others) and (base is None or base in others or None in others)


def _barrier(op: Operation) -> Bases:
    Rewriter.insert_op(BarrierOp("global_read", "global_write"), InsertPoint.before(op))
    return NOTHING


__all__ = ["base_of", "separate_copies", "separate_loads", "separate_stores"]
