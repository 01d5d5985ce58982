"""Find stores to the elements that a load has loaded, without memory ordering in between."""

from __future__ import annotations

from triton_xe.intrinsics import Effect, Family, find, genisa
from triton_xe.llvm import Function, Instruction, Operand

_GLOBAL = 1
_PASSES = Effect.READS | Effect.WRITES | Effect.PRIVATE | Effect.CONVERGENT
"""Effects that calls between the two may have."""
Key = tuple[object, ...]


def stores_in_place(function: Function) -> dict[Instruction, Instruction]:
    """Load -> store of the same block to the same elements under the same mask.

    Between them the subgroup neither waits nor releases nor acquires anything.
    """
    numbers, found = _Numbers(), {}
    for block in function.blocks:
        loads: dict[Key, Instruction] = {}
        for i in block.instructions:
            key = _accessed(i, numbers)
            if key is not None and i.result is not None:
                loads[key] = i
            elif key is not None and key in loads:
                found[loads.pop(key)] = i
            elif not _keeps_order(i):
                loads.clear()
            numbers.add(i)
    return found


def _accessed(i: Instruction, numbers: _Numbers) -> Key | None:
    """Key of the elements of global memory that a load or store accesses; None for others."""
    if i.shadow or "volatile" in i.flags:
        return None
    known = find(i.callee) if i.opcode == "call" else None
    at, value = (0, i.type) if i.result is not None else (-1, None)
    mask: Operand | None = None
    align = i.align
    if i.opcode == "store":
        at, value = 1, i.operands[0].type
    elif known is genisa.PREDICATED_LOAD:
        mask, align = i.operands[2], i.operands[1].integer_value() or 0
    elif known is genisa.PREDICATED_STORE:
        at, value, mask = 0, i.operands[1].type, i.operands[3]
        align = i.operands[2].integer_value() or 0
    elif i.opcode != "load":
        return None
    if value is None or i.operands[at].type.space != _GLOBAL:
        return None
    return (numbers.number(i.operands[at]), mask and numbers.number(mask),
            value.lanes, value.scalar.size,
            align)


def _keeps_order(i: Instruction) -> bool:
    """True for operations that neither wait, release nor acquire, whatever memory they access."""
    if i.is_pure or i.opcode in ("load", "store"):
        return True
    if i.opcode != "call":
        return False
    known = find(i.callee)
    return known.family is Family.SHADOW or (
        known.family is not Family.HELPER and not known.effects & ~_PASSES)


class _Numbers:
    """Value numbering: equal numbers for values that are computed in the same way."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._made: dict[Key, str] = {}

    def number(self, operand: Operand) -> str:
        """Name that stands for all values computed like this operand."""
        return self._names.get(operand.text, operand.text)

    def add(self, i: Instruction) -> None:
        if i.result is None or not i.is_pure or i.opcode in ("phi", "alloca"):
            return
        key = (i.opcode, i.type.text, i.flags, i.extra, i.indices, i.element and i.element.text,
               *((o.type.text, self.number(o)) for o in i.operands))
        self._names[i.result] = self._made.setdefault(key, i.result)
