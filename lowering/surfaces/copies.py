"""Find matrices that are only copied: loaded, changed element by element or transposed, and stored.

Scans along columns may be part of a copy, because a lane can have whole columns.  All accesses of a
copy become blocks, or none, because mixing blocks and gathers needs an exchange.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import TransOp
from triton_xe.dialects.tt.structure import ScanOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import BlockLoadOp
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.layouts.rematerialize import is_cheap, is_volatile
from triton_xe.lowering.uses import can_follow


class Loaded(NamedTuple):
    """A load of a copy; `transposed` if the store transposes it."""

    op: LoadOp | BlockLoadOp
    transposed: bool
    scanned: bool
    """True if its columns are scanned."""


def copied_loads(store: StoreOp) -> list[Loaded]:
    """Loads whose elements a store of a matrix copies, and does not share with other uses."""
    found = _loads(store.value) if len(shape_of(store.value)) == 2 else []
    loads = [one.op for one in found if isinstance(one.op, LoadOp)]
    return found if all(_is_only_stored(load) and not is_volatile(load) for load in loads) else []


def stores_blocks(stored: SSAValue) -> bool:
    """True if all sources of a stored matrix are block loads."""
    found = _loads(stored) if len(shape_of(stored)) == 2 else []
    return bool(found) and all(isinstance(one.op, BlockLoadOp) for one in found)


def _loads(stored: SSAValue) -> list[Loaded]:
    """Loads that a value is computed from, element by element; empty if it has other sources."""
    work, seen, found = [(stored, False, False)], set[tuple[SSAValue, bool, bool]](), list[Loaded]()
    while work:
        value, transposed, scanned = part = work.pop()
        op = value.owner
        if part in seen or is_cheap(value):
            continue
        seen.add(part)
        if isinstance(op, LoadOp | BlockLoadOp):
            found.append(Loaded(op, transposed, scanned))
        elif isinstance(op, Block) or not _keeps_elements(op) or (scans(op) and transposed):
            return []
        else:
            turned = transposed != isinstance(op, TransOp)
            work += [(v, turned, scanned or scans(op)) for v in op.operands if shape_of(v)]
    return found


def _is_only_stored(load: LoadOp) -> bool:
    """True if all uses of a load lead to stores, element by element."""
    def reached(value: SSAValue) -> list[SSAValue] | None:
        ops = [use.operation for use in value.uses
               if not isinstance(use.operation, StoreOp) or use.index != 1]
        return [v for op in ops for v in op.results] if all(map(_keeps_elements, ops)) else None

    stored: SSAValue = load.result
    return can_follow(stored, reached)


def _keeps_elements(op: Operation) -> bool:
    return isinstance(op, TransOp | ConvertLayoutOp) or is_elementwise(op) or scans(op)


def scans(op: Operation) -> bool:
    """True for a scan along the columns of a matrix."""
    return isinstance(op, ScanOp) and len(shape_of(op.srcs[0])) == 2 and op.axis.value.data == 0
