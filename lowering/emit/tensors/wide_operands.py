"""Read operands of DPAS from shared memory as 64-bit elements.

A message loads twice as many bytes per lane in elements of 64 bits as in elements of 32, or two
adjacent operands.  DPAS takes the registers whatever their element type is.  Devices with 2D
messages keep 32-bit elements.  They reload operands from shared memory in loops with many live
registers, which then spilled (3 KB in a block-scaled product, IGC 2.40).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.intrinsics import Effect, genisa
from triton_xe.intrinsics.intrinsic import Intrinsic
from triton_xe.llvm import Instruction, Operand
from triton_xe.lowering.emit.links import Links, row_of
from triton_xe.lowering.emit.types import I8, I64, SLM, bits_of, vector_of
from triton_xe.lowering.emit.writer import ModuleState

NARROW, WIDE = 4, 8
"""Registers that a message of 32-bit and of 64-bit elements fills."""
ACCUMULATOR = 0
"""Operand index of the accumulator in a call of DPAS; A and B follow."""
_ATOMICS = frozenset(("atomicrmw", "cmpxchg", "fence"))
_BETWEEN = Effect.WRITES | Effect.BARRIER | Effect.ARRIVES | Effect.ORDERS


class _Read(NamedTuple):
    """A block read, the casts of its result, and the products that use it."""

    read: Instruction
    casts: Sequence[Instruction]
    users: Sequence[Instruction]

    @property
    def bytes(self) -> int:
        """Bytes per lane."""
        return bits_of(self.read.type.scalar) * self.read.type.lanes // 8

    def replace_uses(self, state: ModuleState, value: Operand) -> None:
        """Replace the operand by another value in the products that use it."""
        old = {i.result for i in (self.read, *self.casts)}
        for user in self.users:
            user.operands = [value if o.text in old else o for o in user.operands]
            _retarget(state, user, genisa.DPAS, user.type)


class _Address(NamedTuple):
    """Address base + elements * size + offset."""

    base: Operand
    elements: Operand
    size: int
    offset: int


def widen_operands(state: ModuleState, function: ir.Function) -> None:
    """Replace block reads that only DPAS uses by reads of 64-bit elements, two reads by one."""
    if state.target.has_block_2d or not any(
            row_of(i) is genisa.SIMD_BLOCK_READ for i in function.instructions()):
        return
    links = Links(function, "wide")
    for block in function.blocks:
        reads = {i: found for i in block.instructions
                 if (found := _read_of(i, links)) is not None}
        if reads:
            _widen_block(state, block, reads, links)


def _widen_block(
    state: ModuleState, block: ir.Block, reads: dict[Instruction, _Read], links: Links
) -> None:
    """Read a block's operands as 64-bit elements, two operands at once if possible."""
    register = state.target.grf_bytes
    pairs = _pairs(block, reads, links, state.lanes, WIDE * register)
    seconds = {second.read for second in pairs.values()}
    gone, inserted = set(seconds), dict[Instruction, list[Instruction]]()
    for i, one in reads.items():
        other = pairs.get(i)
        if other is not None:
            inserted[i] = _read_both(state, one, other, links)
        elif i not in seconds and NARROW * register < one.bytes * state.lanes:
            _retarget(state, i, genisa.SIMD_BLOCK_READ, vector_of(I64, one.bytes // 8))
            one.replace_uses(state, i.value)
        elif i not in seconds:
            continue
        gone.update(one.casts)
    block.instructions[:] = [
        kept for i in block.instructions if i not in gone for kept in (i, *inserted.get(i, ()))]


def _read_of(i: Instruction, links: Links) -> _Read | None:
    """The read of whole 64-bit elements that only DPAS in the same block uses; None otherwise."""
    if row_of(i) is not genisa.SIMD_BLOCK_READ:
        return None
    reached = [user for _, user in links.users_through(i, ("bitcast",))]
    casts, users = ([u for u in reached if (u.opcode == "bitcast") == is_cast]
                    for is_cast in (True, False))
    found = _Read(i, casts, users)
    names = {value.result for value in (i, *casts)}
    alone = users and found.bytes % 8 == 0 and all(
        row_of(user) is genisa.DPAS and user.operands[ACCUMULATOR].text not in names
        for user in users)
    return found if alone and all(links.home[v] is links.home[i] for v in casts) else None


def _pairs(
    block: ir.Block, reads: dict[Instruction, _Read], links: Links, lanes: int, most: int
) -> dict[Instruction, _Read]:
    """Pair reads of adjacent operands, by the first read.

    No store is between the two reads, and both together have at most `most` bytes.
    """
    waiting: dict[_Address, Instruction] = {}
    found: dict[Instruction, _Read] = {}
    for i in block.instructions:
        if _may_change_shared(i):
            waiting.clear()
        one = reads.get(i)
        address = _address(i.operands[0], links) if one is not None else None
        if one is None or address is None or 2 * one.bytes * lanes > most:
            continue
        first = waiting.pop(address._replace(offset=address.offset - one.bytes * lanes), None)
        if first is None or first.type is not i.type:
            waiting[address] = i
        else:
            found[first] = one
    return found


def _address(pointer: Operand, links: Links) -> _Address | None:
    """The address that `Exchange.pointer` computes, as base and offset."""
    made = links.maker(pointer)
    if made is None or made.opcode != "getelementptr" or made.element is not I8:
        return None
    base, index = made.operands
    index, size = _split(index, "mul", links) or (index, 1)
    index, offset = _split(index, "add", links) or (index, 0)
    return None if index.is_constant else _Address(base, index, size, offset * size)


def _split(value: Operand, opcode: str, links: Links) -> tuple[Operand, int] | None:
    """The other operand and the constant of an instruction with a constant on its right."""
    made = links.maker(value)
    known = made.operands[1].integer_value() if made is not None and made.opcode == opcode else None
    return None if made is None or known is None else (made.operands[0], known)


def _may_change_shared(i: Instruction) -> bool:
    """True if an instruction may change shared memory."""
    if (called := row_of(i)) is not None:
        return bool(_BETWEEN & called.effects)
    if i.opcode == "store":
        return i.operands[1].type.space == SLM
    return i.opcode in _ATOMICS


def _read_both(
    state: ModuleState, first: _Read, second: _Read, links: Links
) -> list[Instruction]:
    """Read two operands where the first is read; return the instructions that separate them."""
    count = first.bytes // 8
    _retarget(state, first.read, genisa.SIMD_BLOCK_READ, vector_of(I64, 2 * count))
    made = []
    for start, one in ((0, first), (count, second)):
        both = [first.read.value] * 2
        made.append(Instruction("shufflevector", vector_of(I64, count), both,
                                indices=tuple(range(start, start + count))))
        one.replace_uses(state, links.named(made[-1]))
    return made


def _retarget(state: ModuleState, call: Instruction, row: Intrinsic, result: ir.Type) -> None:
    """Change the callee of a call to the overload of an intrinsic for its operands' types."""
    call.callee, call.type = state.callee(row, [o.type for o in call.operands], result)
