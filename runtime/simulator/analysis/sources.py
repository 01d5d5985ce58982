"""Find the loads that a kernel's values come from, also through shared memory, and their users."""

from __future__ import annotations

from collections.abc import Callable

from triton_xe.intrinsics import find, genisa
from triton_xe.llvm import Instruction, Operand
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import reached

_LOADS = genisa.PREDICATED_LOAD, genisa.SIMD_BLOCK_READ
_STORES = genisa.PREDICATED_STORE, genisa.SIMD_BLOCK_WRITE
_MOST_STEPS = 64
_INDEX_OPERATIONS = frozenset(
    "add sub mul shl sext zext select phi freeze extractelement insertelement "
    "shufflevector".split())
_MOVES = frozenset("extractelement insertelement shufflevector freeze bitcast".split())


class Sources:
    """Kernel arguments that values were loaded from."""

    def __init__(self, facts: Facts, read_by: Callable[[Instruction], int | None]) -> None:
        """`read_by`: the argument that a load of global memory accesses; None for others."""
        self._facts, self._read_by = facts, read_by
        self._put: dict[str, Operand | None] = {}
        """Value loaded from shared memory -> the last value stored to the same buffer."""
        self.shared: dict[int, Operand] = {}
        """Instruction id -> the last value stored to shared memory."""
        last: dict[int, Operand] = {}
        recent: Operand | None = None
        for i in facts.function.instructions():
            stored = _stored_to_shared(i)
            if stored is not None:
                value, pointer = stored
                recent = last[self._buffer(pointer)] = value
            elif i.result is not None and _reads_shared(i):
                self._put[i.result] = last.get(self._buffer(i.operands[0]))
            if recent is not None:
                self.shared[id(i)] = recent

    def argument(self, value: Operand | None) -> int:
        """The argument that a value was loaded from; -1 if unknown."""
        waiting = [] if value is None else [value]
        for operand in waiting:
            name = operand.local or ""
            i = self._facts.maker(operand)
            entry = None if i is None else self._read_by(i)
            if entry is not None:
                return entry
            if i is not None and len(waiting) < _MOST_STEPS:
                put = self._put.get(name)
                waiting += [put] if put is not None else [] if name in self._put else i.operands
        return -1

    def _buffer(self, pointer: Operand) -> int:
        """Offset in shared memory of the buffer that a pointer points into; -1 if unknown."""
        i = self._facts.maker(pointer)
        if i is None:
            return 0
        if i.opcode != "getelementptr":
            return -1
        if self._facts.maker(i.operands[0]) is not None:
            return self._buffer(i.operands[0])
        at = i.operands[1].integer_value()
        return -1 if at is None else at


def _stored_to_shared(i: Instruction) -> tuple[Operand, Operand] | None:
    """The value that an instruction stores to shared local memory, and its pointer."""
    value = 0 if i.opcode == "store" else 1 if find(i.callee) in _STORES else None
    if value is None or i.operands[1 - value].type.space != 3:
        return None
    return i.operands[value], i.operands[1 - value]


def _reads_shared(i: Instruction) -> bool:
    known = i.opcode == "load" or find(i.callee) in _LOADS
    return known and i.operands[0].type.space == 3


def is_index(value: str, facts: Facts) -> bool:
    """True if an address in global memory is computed from a value by sums or products."""
    names = reached([value], lambda name: [
        user.value.text for user in facts.users.get(name, ()) if user.opcode in _INDEX_OPERATIONS])
    return any(user.opcode in ("getelementptr", "inttoptr") and user.type.space == 1
               for name in names for user in facts.users.get(name, ()))


def is_moved_from(value: Operand, load: Instruction, facts: Facts) -> bool:
    """True if a value is a loaded value, or elements of it."""
    i = facts.maker(value)
    while i is not None and i is not load and i.opcode in _MOVES:
        i = facts.maker(i.operands[i.opcode == "insertelement"])
    return i is load
