"""Pass allocate-buffers: assign an offset to each buffer in shared local memory.

    ttg.local_alloc : ...  ->  ttg.local_alloc {allocation.offset = 4096 : i32} : ...

Buffers of a kernel are consecutive; those of a function that it calls come after them.  If they are
large in total, a buffer reuses the memory of a larger one whose lifetime has ended:

    ttg.local_alloc %x  ->  ttg.memdesc_reinterpret %larger ; ttg.local_store %x
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from triton_xe.dialects.tt.structure import CallOp, FuncOp
from triton_xe.dialects.ttg import (
    LocalAllocOp,
    LocalStoreOp,
    MemDescReinterpretOp,
    MemDescType,
)
from triton_xe.errors import UnsupportedError
from triton_xe.layout.shared import SharedEncoding
from triton_xe.lowering.allocate_slm import SPARE_BYTES
from triton_xe.lowering.facts.values import element_bits
from triton_xe.lowering.rewriting import all_of, below, functions
from triton_xe.plan.shared_view import SharedView, buffer_bytes, shared_view

OFFSET = "allocation.offset"
ALIGNMENT = 64


@dataclass(frozen=True)
class AllocateBuffersPass(ModulePass):
    """Allocate buffers in shared local memory."""

    name: ClassVar = "allocate-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = {function.sym_name.data: function for function in functions(op)}
        starts: dict[str, int] = {}
        for function in known.values():
            _share_memory(function)
        for function in known.values():
            if function.is_kernel:
                _assign_offsets(function, 0, known, starts, ())
        for name, start in starts.items():
            for alloc in all_of(known[name], LocalAllocOp):
                alloc.attributes[OFFSET] = IntegerAttr(start, i32)
                start += bytes_of(alloc)


def _assign_offsets(
    function: FuncOp, start: int, known: dict[str, FuncOp], starts: dict[str, int],
    callers: tuple[str, ...],
) -> None:
    """Place a function's buffers after those of its callers."""
    name = function.sym_name.data
    if name in callers or starts.get(name, -1) >= start:
        return
    starts[name] = start
    end = start + sum(map(bytes_of, all_of(function, LocalAllocOp)))
    for call in all_of(function, CallOp):
        if call.callee_name in known:
            _assign_offsets(known[call.callee_name], end, known, starts, (*callers, name))


@dataclass
class _Allocation:
    """A buffer, and the index of the last operation that uses its memory."""

    buffer: LocalAllocOp
    last: int


def _share_memory(function: FuncOp) -> None:
    """Reuse the memory of dead buffers; lifetimes are indices in the function's block."""
    buffers = all_of(function, LocalAllocOp)
    if sum(map(bytes_of, buffers)) <= SPARE_BYTES or len(function.body.blocks) > 1:
        return
    block = function.body.block
    times = {inner: time for time, op in enumerate(block.ops) for inner in below(op)}
    places: list[_Allocation] = []
    for buffer in buffers:
        last = max(times[user] for user in _users(buffer.result))
        free = [p for p in places
                if p.last < times[buffer] and bytes_of(p.buffer) >= bytes_of(buffer)]
        if free:
            place = min(free, key=lambda p: bytes_of(p.buffer))
            place.last = last
            _reuse_memory(buffer, place.buffer)
        elif buffer.parent is block:
            places.append(_Allocation(buffer, last))


def _users(buffer: SSAValue) -> Iterator[Operation]:
    """Operations that create or use a buffer, its views, or values that carry it."""
    seen, waiting = {buffer}, [buffer]
    while waiting:
        value = waiting.pop()
        made = [value.owner] if isinstance(value.owner, Operation) else []
        for op in (*made, *(use.operation for use in value.uses)):
            yield op
            found = [v for v in _carried(op) if isinstance(v.type, MemDescType) and v not in seen]
            seen.update(found)
            waiting += found


def _carried(op: Operation) -> Iterator[SSAValue]:
    """Results and block arguments that may alias an operand of an operation."""
    outer = op.parent_op() if isinstance(op, scf.YieldOp | scf.ConditionOp) else None
    for around in (op,) if outer is None else (op, outer):
        yield from around.results
        for region in around.regions:
            for block in region.blocks:
                yield from block.args


def _reuse_memory(buffer: LocalAllocOp, former: LocalAllocOp) -> None:
    """Replace a buffer by a view of a dead one's memory, and initialise it."""
    view = MemDescReinterpretOp.create(
        operands=[former.result], result_types=[buffer.result.type])
    made: list[Operation] = [view]
    if buffer.src is not None:
        made.append(LocalStoreOp.create(operands=[buffer.src, view.results[0]]))
    for op in made:
        op.location = buffer.location
    Rewriter.replace_op(buffer, made, [view.results[0]])


def memory_of(kind: MemDescType) -> SharedView:
    """The layout of the memory of a memory descriptor type."""
    encoding = kind.encoding.encoding  # type: ignore[attr-defined]
    if not isinstance(encoding, SharedEncoding):
        raise UnsupportedError(f"{encoding} is no layout of shared local memory")
    return shared_view(encoding, tuple(n.data for n in kind.alloc_shape))


def bytes_of(alloc: LocalAllocOp) -> int:
    """Bytes of a buffer, up to where the next one may begin."""
    kind = alloc.result.type
    assert isinstance(kind, MemDescType)
    nbytes = buffer_bytes(memory_of(kind), max(element_bits(kind.element_type) // 8, 1))
    return nbytes + -nbytes % ALIGNMENT


def offset_of(alloc: Operation) -> int:
    """Offset of a buffer in shared local memory."""
    held = alloc.attributes.get(OFFSET)
    if not isinstance(held, IntegerAttr):
        raise UnsupportedError(f"{alloc.name} without an offset; run allocate-buffers first")
    return int(held.value.data)
