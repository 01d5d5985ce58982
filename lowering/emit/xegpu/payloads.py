"""Decide which descriptors become address payloads: created once, and moved in place.

A message with plain coordinates writes all eight fields of its own payload.  Several messages
through one descriptor share a payload: their immediate offsets give their positions.  A payload is
one register that loops change, so that only messages after a move may see the new value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.xe import FragmentOp
from triton_xe.dialects.xegpu.dpas import DpasOp
from triton_xe.dialects.xegpu.nd import (
    CreateNdTdescOp,
    LoadNdOp,
    PrefetchNdOp,
    StoreNdOp,
    UpdateNdOffsetOp,
)
from triton_xe.dialects.xegpu.types import TensorDescType
from triton_xe.hardware.block_2d import MAX_OFFSET, BlockShape, has_offsets
from triton_xe.hardware.target import Target
from triton_xe.intrinsics import genisa
from triton_xe.intrinsics.genisa import X, Y
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.types import number
from triton_xe.lowering.facts.values import constant_of
from triton_xe.lowering.rewriting import last_of
from triton_xe.lowering.uses import can_follow

MOST_COPIES = 15
"""Largest number of registers for copies of a payload."""
FIRST_CARRIED = 3
"""Index of the first carried value in the operands of scf.for."""
Message = LoadNdOp | StoreNdOp | PrefetchNdOp


@dataclass(frozen=True)
class Payload:
    """A descriptor in the form of an address payload; x and y are offsets in its elements."""

    pointer: ir.Operand
    shape: BlockShape
    x: int = 0
    y: int = 0
    copies: Mapping[tuple[int, int], ir.Operand] = field(default_factory=dict, compare=False)
    """Copies that begin y rows and x columns further."""
    step: tuple[int, int] = (0, 0)
    """Rows and units of x by which each iteration of a loop moves all copies at its start."""

    def flatten(self, em: Emitter) -> tuple[list[ir.Operand], Callable[[list[ir.Operand]], Any]]:
        return [], lambda parts: self

    def moved(self, rows: int, columns: int, bits: int) -> Payload:
        """The payload for a message some rows and columns of `bits` further."""
        step = columns * bits // self.shape.element_bits
        return replace(self, x=self.x + step, y=self.y + rows)

    def advance(self, em: Emitter) -> None:
        """Move the copies for an iteration of the loop that carries them."""
        for pointer in self.copies.values():
            move(em, pointer, *map(number, self.step))

    @property
    def place(self) -> tuple[ir.Operand, int, int]:
        """Operand of a message: a payload, and the immediate offset, x before y."""
        copy = self.copies.get((self.y, self.x))
        return (self.pointer, self.x, self.y) if copy is None else (copy, 0, 0)


def with_copies(em: Emitter, payload: Payload, op: CreateNdTdescOp) -> Payload:
    """A payload with a copy for each message, on devices whose messages have no offsets.

    Intel's compiler would compute each from the first, just before its message, in a register that
    it then has to wait for.  Here copies that differ in x or y alone are preferred.  A loop moves
    its copies before its messages.  Data of the previous messages has arrived then, so that no copy
    waits for a message that reads it.
    """
    places = _message_offsets(payload, op)
    step = None if _only_prefetches(op.desc) else _constant_advance(op)
    if has_offsets(em.target) or len(places) > MOST_COPIES or not (step or is_stored_soon(op)):
        return payload
    further = payload.moved(*step or (0, 0), op.desc_type.element_bits)
    move(em, payload.pointer, number(-further.y), number(-further.x))
    copies = {(0, 0): payload.pointer}
    for y, x in sorted(places):
        nearest = next(at for at in ((0, x), (y, 0), (0, 0)) if at in copies)
        by = y - nearest[0], x - nearest[1]
        copies[y, x] = em.call(genisa.LSC_2D_BLOCK_COPY_PAYLOAD, [copies[nearest]])
        move(em, copies[y, x], *map(number, by))
    return replace(payload, copies=copies, step=(further.y, further.x))


def is_stored_soon(op: CreateNdTdescOp) -> bool:
    """True if all uses are stores soon after the descriptor is created, because copies take
    registers.
    """
    messages = [message for message, _ in _messages(op.desc)]
    if not _is_block_local(op) or any(not isinstance(m, StoreNdOp) for m in messages):
        return False
    left, following = set(messages), op.next_op
    while left and following is not None and not following.regions:
        left.discard(following)
        following = following.next_op
    return not left


def _message_offsets(payload: Payload, op: CreateNdTdescOp) -> Collection[tuple[int, int]]:
    """Offsets of messages other than the first one."""
    bits = op.desc_type.element_bits
    moved = [payload.moved(rows, columns, bits) for _, (rows, columns) in _messages(op.desc)]
    return {(p.y, p.x) for p in moved} - {(0, 0)}


def move(em: Emitter, pointer: ir.Operand, y: ir.Operand, x: ir.Operand) -> None:
    """Move a payload by some rows and columns."""
    for which, by in ((Y, y), (X, x)):
        if not by.is_zero:
            em.call(genisa.LSC_2D_BLOCK_SET_PAYLOAD_FIELD, [pointer, number(which), by, ir.TRUE])


def block_shape(kind: TensorDescType, op: Operation | None) -> BlockShape:
    """The message of a descriptor for a load, a store or a prefetch."""
    height, width = kind.get_shape()
    bits, load = kind.element_bits, op if isinstance(op, LoadNdOp) else None
    transpose = load is not None and load.transpose is not None
    unit = load.transpose_bit_width.value.data if transpose and load.transpose_bit_width else bits  # type: ignore[union-attr]
    return BlockShape(
        unit, width * bits // unit, height, kind.array_length,
        transpose=transpose, vnni=load is not None and load.packed is not None,
    )


def is_zero(value: SSAValue | int) -> bool:
    return _known(value) == 0


def _known(value: SSAValue | int) -> int | None:
    return value if isinstance(value, int) else constant_of(value)


def offsets_of(op: UpdateNdOffsetOp) -> tuple[SSAValue | int, SSAValue | int]:
    """Rows and columns by which a descriptor moves."""
    offsets = op.offsets
    return (offsets[0], offsets[1]) if len(offsets) == 2 else (0, offsets[0])


def _constant_step(
    op: UpdateNdOffsetOp, users: UnionType | type[Operation]
) -> tuple[int, int] | None:
    """Constant rows and columns of a move that only `users` use; None otherwise."""
    rows, columns = map(_known, offsets_of(op))
    if rows is None or columns is None or not op.moved.first_use:
        return None
    only = all(isinstance(use.operation, users) for use in op.moved.uses)
    return (rows, columns) if only else None


def step_of(op: UpdateNdOffsetOp) -> tuple[int, int] | None:
    """Constant rows and columns of a move that only messages use; None otherwise."""
    return _constant_step(op, Message)


def step_before(op: UpdateNdOffsetOp, target: Target) -> tuple[int, int] | None:
    """Constant rows and columns of a move that only prefetches and further moves use; else None.

    Where messages have no offsets IGC copies the payload, which costs as much as moving it.
    """
    if not has_offsets(target):
        return None
    step = _constant_step(op, PrefetchNdOp | UpdateNdOffsetOp)
    return step if step is not None and _only_prefetches(op.desc) else None


def is_in_reach(y: int, x: int) -> bool:
    """True if an offset of rows and columns fits the immediates of a message."""
    return 0 <= y <= MAX_OFFSET and 0 <= x <= MAX_OFFSET


def payload_shape(
    op: CreateNdTdescOp, target: Target, is_operand: Callable[[SSAValue], bool]
) -> BlockShape | None:
    """The message of a descriptor's payload; None if it remains coordinates.

    Only operands of instructions are loaded and stored by the message that their op describes.
    """
    if _only_prefetches(op.desc):
        return block_shape(op.desc_type, None)
    uses = list(_messages(op.desc))
    if not all(isinstance(m, PrefetchNdOp) or is_operand(m.value) for m, _ in uses):
        return None
    shapes = {block_shape(op.desc_type, message) for message, _ in uses}
    if len(shapes) != 1 or not all(is_in_reach(*step) for _, step in uses):
        return None
    if any(isinstance(m, LoadNdOp | StoreNdOp) and m.valid is not None for m, _ in uses):
        return None
    if any(isinstance(m, LoadNdOp) and _is_stored_in_parts(m) for m, _ in uses):
        return None
    shape = shapes.pop()
    if _is_block_local(op):
        return shape if len(uses) > 1 else None
    if has_offsets(target):
        return shape if _is_advanced_last(op) else None
    gains = 1 < len(uses) <= 1 + MOST_COPIES and _are_all_transposed_b([m for m, _ in uses])
    return shape if gains and _constant_advance(op) is not None else None


def _are_all_transposed_b(messages: list[Message]) -> bool:
    """True if these messages load, transposed, the B operands of all products of their block."""
    block = messages[0].parent
    products = [op for op in block.ops if isinstance(op, DpasOp)] if block else []
    brought = {load.owner for op in products if isinstance(op.b.owner, FragmentOp)
               for load in op.b.owner.loads}
    return brought == set(messages) and all(
        isinstance(m, LoadNdOp) and m.transpose is not None and m.desc_type.element_bits < 32
        for m in messages)


def _is_stored_in_parts(load: LoadNdOp) -> bool:
    """True if stores take parts of a load, which IGC 2.40 copies after such a load."""
    parts = [use.operation for use in load.value.uses]
    in_rows = load.transpose is None  # a transposed load moves halves separately
    return len(parts) > 1 and any(_is_stored(part, joined=in_rows) for part in parts)


def _is_stored(part: Operation, *, joined: bool) -> bool:
    """True if a part of a load is stored unchanged, or `joined` with others."""
    users = [use.operation for value in part.results for use in value.uses]
    return any(isinstance(user, StoreNdOp) for user in users) or (joined and any(
        _is_stored(user, joined=True) for user in users if isinstance(user, FragmentOp)))


def _messages(desc: SSAValue) -> Iterator[tuple[Message, tuple[int, int]]]:
    """The messages through a descriptor where it is created, or where a loop moves it."""
    for use in desc.uses:
        op = use.operation
        if isinstance(op, Message):
            yield op, (0, 0)
        elif isinstance(op, UpdateNdOffsetOp):
            step = step_of(op)
            for user in op.moved.uses if step else ():
                yield user.operation, step  # type: ignore[misc]
        elif isinstance(op, scf.ForOp) and use.index >= FIRST_CARRIED:
            yield from _messages(op.body.block.args[use.index - FIRST_CARRIED + 1])


def _is_block_local(op: CreateNdTdescOp) -> bool:
    """True if all uses are messages in the block of the descriptor."""
    return all(
        isinstance(use.operation, Message)
        or (isinstance(use.operation, UpdateNdOffsetOp) and step_of(use.operation) is not None)
        for use in op.desc.uses)


def _constant_advance(op: CreateNdTdescOp) -> tuple[int, int] | None:
    """Constant rows and columns by which the loop that alone uses a descriptor moves it; or None.

    It moves the descriptor once, after all messages, and no inner loop carries it.
    """
    last = _advance_at_end(op)
    if last is None or any(isinstance(use.operation, scf.ForOp) for use in last.desc.uses):
        return None
    rows, columns = map(_known, offsets_of(last))
    return None if rows is None or columns is None else (rows, columns)


def _is_advanced_last(op: CreateNdTdescOp) -> bool:
    """True if one loop alone uses a descriptor, and moves it after all its messages."""
    return _advance_at_end(op) is not None


def _advance_at_end(op: CreateNdTdescOp) -> UpdateNdOffsetOp | None:
    """The move of a descriptor after all messages of the loop that alone uses it; None if other
    operations use or move it.
    """
    uses = list(op.desc.uses)
    loop = uses[0].operation if uses else None
    if len(uses) != 1 or not isinstance(loop, scf.ForOp) or loop.parent is not op.parent:
        return None
    index = uses[0].index - FIRST_CARRIED
    if index < 0 or loop.res[index].first_use is not None:
        return None
    here = loop.body.block.args[index + 1]
    moved = [op for op in (u.operation for u in here.uses)
             if isinstance(op, UpdateNdOffsetOp) and step_of(op) is None]
    last = last_of(loop.body.block)
    if len(moved) != 1 or moved[0].parent is not loop.body.block:
        return None
    if [(u.operation, u.index) for u in moved[0].moved.uses] != [(last, index)]:
        return None
    around = [loop.body.block.find_ancestor_op_in_block(message) for message, _ in _messages(here)]
    ends = all(op is not None and op.is_before_in_block(moved[0]) for op in around)
    return moved[0] if ends else None


def _only_prefetches(value: SSAValue) -> bool:
    """True if a descriptor, including its moves, is only used by prefetches, in sequence."""
    return can_follow(value, _moved_copies)


def _moved_copies(value: SSAValue) -> list[SSAValue] | None:
    """Moved copies of a descriptor that is only used by prefetches; None otherwise."""
    found: list[SSAValue] = []
    for use in value.uses:
        op = use.operation
        if isinstance(op, UpdateNdOffsetOp):
            found.append(op.moved)
        elif isinstance(op, scf.ForOp) and use.index >= FIRST_CARRIED:
            index = use.index - FIRST_CARRIED
            found += [op.body.block.args[index + 1], op.res[index]]
        elif not isinstance(op, PrefetchNdOp) and not (
            isinstance(op, scf.YieldOp) and isinstance(op.parent_op(), scf.ForOp)
        ):
            return None
    return found
