"""Find the loads that a kernel's values come from, also through shared memory, and their users."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from triton_xe.intrinsics import find, genisa
from triton_xe.llvm import Function, Instruction, Operand

_LOADS = genisa.PREDICATED_LOAD, genisa.SIMD_BLOCK_READ
_STORES = genisa.PREDICATED_STORE, genisa.SIMD_BLOCK_WRITE
_MOST_STEPS = 64
_INDEX_OPERATIONS = frozenset(
    "add sub mul shl sext zext select phi freeze extractelement insertelement "
    "shufflevector".split())
_MOVES = frozenset("extractelement insertelement shufflevector freeze bitcast".split())


class Sources:
    """Kernel arguments that values were loaded from."""

    def __init__(
        self, function: Function, made_by: Mapping[str, Instruction],
        read_by: Callable[[Instruction], int | None],
    ) -> None:
        """`read_by`: the argument that a load of global memory accesses; None for others."""
        self._made_by, self._read_by = made_by, read_by
        self._put: dict[str, Operand | None] = {}
        """Value loaded from shared memory -> the last value stored to the same buffer."""
        self.shared: dict[int, Operand] = {}
        """Instruction id -> the last value stored to shared memory."""
        last: dict[int, Operand] = {}
        recent: Operand | None = None
        for i in function.instructions():
            stored = _stored_to_shared(i)
            if stored is not None:
                value, pointer = stored
                recent = last[self._buffer(pointer)] = value
            elif i.result is not None and _reads_shared(i):
                self._put[i.result] = last.get(self._buffer(i.operands[0]))
            if recent is not None:
                self.shared[id(i)] = recent

    def of(self, value: Operand | None) -> int:
        """The argument that a value was loaded from; -1 if unknown."""
        waiting = [] if value is None else [value]
        for operand in waiting:
            name = operand.local or ""
            i = self._made_by.get(name)
            entry = None if i is None else self._read_by(i)
            if entry is not None:
                return entry
            if i is not None and len(waiting) < _MOST_STEPS:
                put = self._put.get(name)
                waiting += [put] if put is not None else [] if name in self._put else i.operands
        return -1

    def _buffer(self, pointer: Operand) -> int:
        """Offset in shared memory of the buffer that a pointer points into; -1 if unknown."""
        i = self._made_by.get(pointer.local or "")
        if i is None:
            return 0
        if i.opcode != "getelementptr":
            return -1
        if i.operands[0].local in self._made_by:
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


def users_of(function: Function) -> dict[str, list[Instruction]]:
    """Value -> instructions that use it."""
    found: dict[str, list[Instruction]] = {}
    for i in function.instructions():
        for name in i.locals():
            found.setdefault(name, []).append(i)
    return found


def is_index(i: Instruction, users: Mapping[str, list[Instruction]]) -> bool:
    """True if an address in global memory is computed from a value by sums or products."""
    names = [i.result or ""]
    for name in names:
        for user in users.get(name, ()):
            if user.opcode in ("getelementptr", "inttoptr") and user.type.space == 1:
                return True
            if user.opcode in _INDEX_OPERATIONS and user.result not in names:
                names.append(user.result or "")
    return False


def is_moved_from(
    value: Operand, load: Instruction, made_by: Mapping[str, Instruction]
) -> bool:
    """True if a value is a loaded value, or elements of it."""
    i = made_by.get(value.local or "")
    while i is not None and i is not load and i.opcode in _MOVES:
        moved = 1 if i.opcode == "insertelement" else 0
        i = made_by.get(i.operands[moved].local or "")
    return i is load
