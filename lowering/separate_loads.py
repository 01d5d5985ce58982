"""Loads wait for stores of other warps to the same memory.

Warps of a dot load operands that others may have stored: with the layouts of DPAS the warp that
stores an element is not the one that loads it.  A barrier stands between a store and the next load
that may read from the same base, around loops and calls too; all control flow is uniform.
"""

from __future__ import annotations

from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.ttg import BarrierOp

LOADS = {"tt.load": 0, "xe.block_load": 0}
STORES = {"tt.store": 0, "xe.block_store": 1}
_DERIVED = ("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout",
            "tt.bitcast", "tt.reshape", "tt.trans", "xe.cursor", "xe.advance")
Bases = frozenset[SSAValue | None]
"""Bases that were stored to since the last barrier; None is one that is not known."""
NOTHING: Bases = frozenset()


def separate_loads(function: Operation) -> None:
    """Put barriers into one function."""
    for region in function.regions:
        pending = NOTHING
        for block in region.blocks:
            pending = _block(block, pending)


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


def _block(block: Block, pending: Bases) -> Bases:
    for op in list(block.ops):
        if op.name == "ttg.barrier":
            pending = NOTHING
        elif op.regions and op.name.startswith("scf."):
            pending = _nested(op, pending)
        else:
            pending = _access(op, pending)
    return pending


def _nested(op: Operation, pending: Bases) -> Bases:
    """Through the regions of an if, or twice through those of a loop; no barrier in a loop where
    one before it is enough."""
    if any(_reads(inner, pending) for inner in op.walk()):
        pending = _barrier(op)
    if op.name == "scf.if":
        sides = [_block(b, pending) for region in op.regions for b in region.blocks]
        return pending.union(*sides)
    ended = pending
    for _ in range(2):
        for region in op.regions:
            for block in region.blocks:
                ended = _block(block, ended | pending)
    return ended | pending


def _access(op: Operation, pending: Bases) -> Bases:
    if _reads(op, pending):
        pending = _barrier(op)
    if op.name == "tt.call":
        return pending | {None}
    if op.name in STORES:
        return pending | {base_of(op.operands[STORES[op.name]])}
    return pending


def _reads(op: Operation, pending: Bases) -> bool:
    """Whether an operation may read from one of the bases."""
    if not pending or (op.name not in LOADS and op.name != "tt.call"):
        return False
    base = None if op.name == "tt.call" else base_of(op.operands[LOADS[op.name]])
    return base is None or base in pending or None in pending


def _barrier(op: Operation) -> Bases:
    Rewriter.insert_op(BarrierOp("global_read", "global_write"), InsertPoint.before(op))
    return NOTHING


__all__ = ["base_of", "separate_loads"]
