"""Find matrices that are only copied: loaded, changed element by element or transposed, and stored.

All accesses of a copy become blocks, or none, because mixing blocks and gathers needs an exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import TransOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import BlockLoadOp
from triton_xe.hardware.target import Target
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.values import pointee_bits, shape_of
from triton_xe.lowering.layouts.block_layouts import is_worth_a_block
from triton_xe.lowering.layouts.elementwise import is_elementwise
from triton_xe.lowering.layouts.rematerialize import is_cheap, is_volatile
from triton_xe.lowering.surfaces.surfaces import surface_access
from triton_xe.lowering.uses import can_follow
from triton_xe.plan import Refusal


@dataclass(frozen=True)
class Loaded:
    """A load of a copy; `transposed` if the store transposes it."""

    op: LoadOp | BlockLoadOp
    transposed: bool


@dataclass(frozen=True)
class Copies:
    """Finds the loads whose elements a store copies."""

    target: Target
    num_warps: int
    affine: Affine

    def loads(self, store: StoreOp) -> list[LoadOp]:
        """Loads whose elements a store stores; empty if blocks cannot do the whole copy."""
        if len(shape_of(store.value)) != 2 or not self._is_block(store, False):
            return []
        found = _loads(store.value)
        loads = [one.op for one in found if isinstance(one.op, LoadOp)]
        if not all(_is_only_stored(load) and not is_volatile(load) for load in loads):
            return []
        return loads if all(self._is_block(one.op, one.transposed) for one in found) else []

    def _is_block(self, op: Operation, transposed: bool) -> bool:
        """True if 2D blocks are possible, and pay, for a load or store."""
        if not isinstance(op, LoadOp | StoreOp):
            return False
        loop = op.parent_op() if isinstance(op, LoadOp) else None
        surface = surface_access(op, self.affine, loop if isinstance(loop, scf.ForOp) else None)
        if isinstance(surface, Refusal):
            return False
        strides = self.affine.index(op.ptr).strides
        stores, along = isinstance(op, StoreOp), surface.transposed != transposed
        if all(stride.as_constant != 1 for stride in strides) or (stores and along):
            return False
        rows, columns = shape_of(op.ptr)
        return is_worth_a_block(
            (columns, rows) if transposed else (rows, columns), pointee_bits(op.ptr), self.target,
            self.num_warps, stores=stores, transposed=along)


def stores_blocks(stored: SSAValue) -> bool:
    """True if all sources of a stored matrix are block loads."""
    found = _loads(stored) if len(shape_of(stored)) == 2 else []
    return bool(found) and all(isinstance(one.op, BlockLoadOp) for one in found)


def _loads(stored: SSAValue) -> list[Loaded]:
    """Loads that a value is computed from, element by element; empty if it has other sources."""
    work, seen, found = [(stored, False)], set[tuple[SSAValue, bool]](), list[Loaded]()
    while work:
        value, transposed = part = work.pop()
        op = value.owner
        if part in seen or is_cheap(value):
            continue
        seen.add(part)
        if isinstance(op, LoadOp | BlockLoadOp):
            found.append(Loaded(op, transposed))
        elif isinstance(op, Block) or not _keeps_elements(op):
            return []
        else:
            turned = transposed != isinstance(op, TransOp)
            work += [(v, turned) for v in op.operands if shape_of(v)]
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
    return isinstance(op, TransOp | ConvertLayoutOp) or is_elementwise(op)
