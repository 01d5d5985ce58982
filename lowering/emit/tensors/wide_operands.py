"""Read operands of DPAS from shared memory as 64-bit elements.

A message loads twice as many bytes per lane in elements of 64 bits as in elements of 32, or two
adjacent operands.  DPAS takes the registers whatever their element type is.  Devices with 2D
messages keep 32-bit elements.  They reload operands from shared memory in loops with many live
registers, which then spilled (3 KB in a block-scaled product, IGC 2.40).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir.instructions import ShuffleVector

from triton_xe.intrinsics import Effect, genisa
from triton_xe.intrinsics.intrinsic import Intrinsic
from triton_xe.lowering.emit.links import Uses, instructions_of, row_of, users_through, uses_of
from triton_xe.lowering.emit.types import (
    I8,
    I64,
    SLM,
    bits_of,
    numbers,
    opcode_of,
    scalar_of,
    vector_of,
)
from triton_xe.lowering.emit.writer import ModuleState

NARROW, WIDE = 4, 8
"""Registers that a message of 32-bit and of 64-bit elements fills."""
ACCUMULATOR = 1
"""Operand index of the accumulator in a call of DPAS, after the function; A and B follow."""
_ATOMICS = frozenset(("atomicrmw", "cmpxchg", "fence"))
_BETWEEN = Effect.WRITES | Effect.BARRIER | Effect.ARRIVES | Effect.ORDERS


@dataclass(frozen=True)
class _Operand:
    """A block read, the casts of its result, and the products that use it."""

    read: Any
    casts: Sequence[Any]
    users: Sequence[Any]

    @property
    def bytes(self) -> int:
        """Bytes per lane."""
        kind = self.read.type
        return bits_of(scalar_of(kind)) * getattr(kind, "count", 1) // 8

    def replace_uses(self, state: ModuleState, value: Any) -> None:
        """Replace the operand by another value in the products that use it."""
        old = {id(v) for v in (self.read, *self.casts)}
        for user in self.users:
            user.operands = [value if id(v) in old else v for v in user.operands]
            _retarget(state, user, genisa.DPAS, user.type)


class _Address(NamedTuple):
    """Address base + elements * size + offset; `base` and `elements` are ids of LLVM values."""

    base: int
    elements: int
    size: int
    offset: int


def widen_operands(state: ModuleState, function: ir.Function) -> None:
    """Replace block reads that only DPAS uses by reads of 64-bit elements, two reads by one."""
    if state.target.has_block_2d or not any(
            row_of(i) is genisa.SIMD_BLOCK_READ for i in instructions_of(function)):
        return
    uses = uses_of(function)
    for block in function.blocks:
        operands = {id(i): found for i in block.instructions
                    for found in [_operand(i, uses)] if found is not None}
        if operands:
            _widen_block(state, block, operands)


def _widen_block(state: ModuleState, block: ir.Block, operands: dict[int, _Operand]) -> None:
    """Read a block's operands as 64-bit elements, two operands at once if possible."""
    register = state.target.grf_bytes
    pairs = _pairs(block, operands, state.lanes, WIDE * register)
    seconds = {id(second.read) for second in pairs.values()}
    gone, inserted = set(seconds), dict[int, list[Any]]()
    for number, one in operands.items():
        other = pairs.get(number)
        if other is not None:
            inserted[number] = _read_both(state, block, one, other)
        elif number not in seconds and NARROW * register < one.bytes * state.lanes:
            _retarget(state, one.read, genisa.SIMD_BLOCK_READ, vector_of(I64, one.bytes // 8))
            one.replace_uses(state, one.read)
        elif number not in seconds:
            continue
        gone.update(map(id, one.casts))
    block.instructions[:] = [
        kept for i in block.instructions if id(i) not in gone
        for kept in (i, *inserted.get(id(i), ()))]


def _operand(i: Any, uses: Uses) -> _Operand | None:
    """The read of whole 64-bit elements that only DPAS in the same block uses; None otherwise."""
    if row_of(i) is not genisa.SIMD_BLOCK_READ:
        return None
    reached = [user for _, user in users_through(i, uses, {"bitcast"})]
    casts, users = ([u for u in reached if (u.opname == "bitcast") == is_cast]
                    for is_cast in (True, False))
    found = _Operand(i, casts, users)
    values = [i, *found.casts]
    alone = found.users and found.bytes % 8 == 0 and all(
        row_of(user) is genisa.DPAS and all(v is not user.operands[ACCUMULATOR] for v in values)
        for user in found.users)
    return found if alone and all(v.parent is i.parent for v in values) else None


def _pairs(
    block: ir.Block, operands: dict[int, _Operand], lanes: int, most: int
) -> dict[int, _Operand]:
    """Pair reads of adjacent operands, by the id of the first read.

    No store is between the two reads, and both together have at most `most` bytes.
    """
    waiting: dict[_Address, Any] = {}
    found: dict[int, _Operand] = {}
    for i in block.instructions:
        if _may_change_shared(i):
            waiting.clear()
        one = operands.get(id(i))
        address = _address(i.operands[1]) if one is not None else None
        if one is None or address is None or 2 * one.bytes * lanes > most:
            continue
        first = waiting.pop(address._replace(offset=address.offset - one.bytes * lanes), None)
        if first is None or first.type != i.type:
            waiting[address] = i
        else:
            found[id(first)] = one
    return found


def _address(pointer: Any) -> _Address | None:
    """The address that `Exchange.pointer` computes, as base and offset."""
    if not isinstance(pointer, ir.GEPInstr) or pointer.source_etype != I8:
        return None
    index, size, offset = pointer.indices[0], 1, 0
    if _has_constant(index, "mul"):
        index, size = index.operands[0], index.operands[1].constant
    if _has_constant(index, "add"):
        index, offset = index.operands[0], index.operands[1].constant
    if isinstance(index, ir.Constant):
        return None
    return _Address(id(pointer.pointer), id(index), size, offset * size)


def _has_constant(value: Any, opname: str) -> bool:
    return opcode_of(value) == opname and isinstance(value.operands[1], ir.Constant)


def _may_change_shared(i: Any) -> bool:
    """True if an instruction may change shared memory."""
    if (called := row_of(i)) is not None:
        return bool(_BETWEEN & called.effects)
    if isinstance(i, ir.StoreInstr):
        return bool(i.operands[1].type.addrspace == SLM)
    return i.opname in _ATOMICS


def _read_both(
    state: ModuleState, block: ir.Block, first: _Operand, second: _Operand
) -> list[Any]:
    """Read two operands where the first is read; return the instructions that separate them."""
    count = first.bytes // 8
    _retarget(state, first.read, genisa.SIMD_BLOCK_READ, vector_of(I64, 2 * count))
    made = []
    for start, one in ((0, first), (count, second)):
        mask = numbers(tuple(range(start, start + count)))
        made.append(ShuffleVector(block, first.read, first.read, mask))
        one.replace_uses(state, made[-1])
    return made


def _retarget(state: ModuleState, call: Any, row: Intrinsic, result: ir.Type) -> None:
    """Change the callee of a call to the overload of an intrinsic for its operands' types."""
    arguments = call.operands[1:]
    call.operands = [state.declare(row, [a.type for a in arguments], result), *arguments]
    call.type = result
