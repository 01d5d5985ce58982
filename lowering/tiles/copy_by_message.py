"""Pass copy-by-message: load blocks that are stored unchanged by the messages of the store.

    %x = load_nd %d : 32x16  ->  store_nd of each 8 rows
 -> %x0 = load_nd %e : 8x16  ->  store_nd %x0 ; %x1 = load_nd %e moved by 8 rows ; ...

A store has at most eight rows.  After a larger load through an address payload, IGC 2.40 copies the
rows of each store; a load without a payload writes all fields of a payload of its own.  Equal
messages share a payload if messages have offsets.  They also share it with stores to the same
coordinates of a surface that differs in its base alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe, xegpu
from triton_xe.dialects.xegpu.types import TensorDescType
from triton_xe.hardware.block_2d import MAX_OFFSET, has_offsets
from triton_xe.lowering.emit.xegpu.fragments import composed
from triton_xe.lowering.emit.xegpu.payloads import step_of
from triton_xe.lowering.rewriting import all_of, erase_dead, functions
from triton_xe.lowering.targeted_pass import TargetedPass

OWN_PAYLOAD = 9
"""Instructions of a load with a payload of its own, and of that payload."""


@dataclass(frozen=True)
class CopyByMessagePass(TargetedPass):
    """Load blocks that are stored unchanged by the messages of the store."""

    name: ClassVar = "copy-by-message"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not has_offsets(self.device(op)):
            return
        for function in functions(op):
            for create in all_of(function, xegpu.CreateNdTdescOp):
                copies = _copies(create)
                before = len({copy.load for copy in copies})
                if before < len({copy.place for copy in copies}) < OWN_PAYLOAD * before:
                    _load_by_copies(create, copies)
            erase_dead(function)


@dataclass(frozen=True)
class Copy:
    """A store of rows of a load, and the position of these rows in the load's block."""

    load: xegpu.LoadNdOp
    store: xegpu.StoreNdOp
    place: tuple[int, int]


def _copies(create: xegpu.CreateNdTdescOp) -> list[Copy]:
    """All stores of blocks that are loaded through a descriptor; empty if there are other uses."""
    kind = create.desc_type
    if kind.rank != 2 or kind.array_length != 1 or create.gather is not None:
        return []
    found: list[Copy] = []
    for use in create.desc.uses:
        op, step = use.operation, (0, 0)
        loads = [op]
        if isinstance(op, xegpu.UpdateNdOffsetOp):
            by = step_of(op)
            if by is None:
                return []
            step, loads = by, [user.operation for user in op.moved.uses]
        for load in loads:
            made = _stored(load, step)
            if not made:
                return []
            found += made
    kinds = {copy.store.desc_type for copy in found}
    reach = all(0 <= by <= MAX_OFFSET for copy in found for by in copy.place)
    in_order = sorted(found, key=lambda copy: copy.place)
    return in_order if reach and len(kinds) == 1 else []


def _stored(load: Operation, step: tuple[int, int]) -> list[Copy]:
    """The stores of a load's rows, if nothing else uses them."""
    if not isinstance(load, xegpu.LoadNdOp) or load.transpose is not None or (
            load.packed is not None or load.valid is not None):
        return []
    found: list[Copy] = []
    for store in _stores(load.value):
        first = None if store is None else _first_row(load, store)
        if store is None or first is None:
            return []
        found.append(Copy(load, store, (step[0] + first, step[1])))
    return found


def _stores(value: SSAValue) -> list[xegpu.StoreNdOp | None]:
    """The stores that take parts of a value; None for any other use."""
    found: dict[xegpu.StoreNdOp | None, None] = {}
    for use in value.uses:
        op = use.operation
        if isinstance(op, xe.FragmentOp):
            found |= dict.fromkeys(_stores(op.value))
        else:
            found[op if isinstance(op, xegpu.StoreNdOp) and use.index == 0 else None] = None
    return list(found)


def _first_row(load: xegpu.LoadNdOp, store: xegpu.StoreNdOp) -> int | None:
    """The first row of a load that a store writes; None if it writes something else."""
    fragment, rows = store.value.owner, store.desc_type.get_shape()[0]
    if not isinstance(fragment, xe.FragmentOp) or not _is_as_wide(load.desc_type, store.desc_type):
        return None
    loads, sources = composed(fragment)
    first = sources[0][1]
    per = len(sources) // rows
    run = [(0, first + i, 0) for i in range(len(sources))]
    alone = loads == [load.value] and sources == run and first % per == 0
    return first // per if alone and store.valid is None else None


def _is_as_wide(load: TensorDescType, store: TensorDescType) -> bool:
    return (load.get_shape()[1], load.element_type, load.sg_map) == (
        store.get_shape()[1], store.element_type, store.sg_map) and store.array_length == 1


def _load_by_copies(create: xegpu.CreateNdTdescOp, copies: list[Copy]) -> None:
    """Load the rows of each store by a message of their own."""
    made = create.clone()
    Rewriter.insert_op(made, InsertPoint.after(create))
    Rewriter.replace_value_with_new_type(made.desc, copies[0].store.desc_type)
    loaded: dict[tuple[int, int], SSAValue] = {}
    for copy in copies:
        if copy.place not in loaded:
            loaded[copy.place] = _rows(made.desc, copy)
        copy.store.operands[0] = loaded[copy.place]


def _rows(desc: SSAValue, copy: Copy) -> SSAValue:
    """Load the rows that a store writes, next to the original load."""
    at, kind = InsertPoint.before(copy.load), copy.store.value.type
    if any(copy.place):
        moved = xegpu.UpdateNdOffsetOp(desc=desc, offsets=copy.place)
        Rewriter.insert_op(moved, at)
        desc = moved.moved
    load = copy.load.clone({copy.load.desc: desc})
    Rewriter.insert_op(load, at)
    value = Rewriter.replace_value_with_new_type(load.value, kind)
    whole = xe.FragmentOp(loads=[value], sources=xe.SourcesAttr(_all(kind)), value_type=kind)
    Rewriter.insert_op(whole, at)
    return whole.value


def _all(kind: Attribute) -> tuple[int, ...]:
    """All elements of a load, in order."""
    assert isinstance(kind, VectorType)
    return tuple(n for i in range(kind.get_shape()[0]) for n in (0, i, 0))
