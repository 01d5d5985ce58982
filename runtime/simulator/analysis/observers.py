"""Find the subgroups whose copies of a loaded value matter.

If a tensor has fewer elements than the program has lanes, several subgroups have copies of the same
element.  One of them stores it, `PredicatedStore(p, x, sub_group_id & 2 == 0)`, or adds it to
memory. The copies of the others have no effect, so that they may be loaded before or after that
store.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics import Effect, Family, find, genisa, opencl
from triton_xe.llvm import I1, TRUE, Block, Function, Instruction, Operand
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import solve

Words = NDArray[np.uint64]
"""One word for each subgroup."""
Flags = NDArray[np.bool_]
_BITWISE: dict[str, Callable[[Words, Words], Words]] = {
    "and": operator.and_, "or": operator.or_, "shl": operator.lshift, "lshr": operator.rshift}
_SHIFTS = ("shl", "lshr")
_STORE = genisa.PREDICATED_STORE
_MATTERS = Effect.READS | Effect.WRITES | Effect.PRIVATE | Effect.VOLATILE


def observers(function: Function, subgroups: int) -> dict[str, int]:
    """Bit mask of the subgroups whose value matters, by name of the value."""
    facts = Facts(function)
    masks = _Masks(facts, subgroups)
    reach = _reach(facts, masks)
    nothing = np.zeros(subgroups, bool)
    found: dict[str, Flags] = {}

    def seen_by(i: Instruction) -> Flags:
        """The subgroups in which the operands of an instruction matter."""
        seen = reach[facts.homes[i]] & ~masks.false(_mask(i))
        return seen & found.get(i.result or "", nothing) if _only_computes(i) else seen

    def seen(name: str) -> tuple[str, Flags] | None:
        flags = np.logical_or.reduce([seen_by(i) for i in facts.users[name]])
        return (name, flags) if flags.any() else None

    operands = {name: list(i.locals()) for name, i in facts.makers.items()}
    solve([*reversed(facts.users)], seen, operands, found, np.array_equal)
    bits = 1 << np.arange(subgroups, dtype=object)
    return {name: int((bits * flags).sum()) for name, flags in found.items()}


def _mask(i: Instruction) -> Operand:
    """The condition under which an instruction accesses memory: an operand, or true."""
    known = find(i.callee) if i.opcode == "call" else None
    if known is _STORE:
        return i.operands[3]
    atomic = known is not None and known.family is Family.HELPER and known.has("address")
    return i.operands[-1] if atomic and i.operands[-1].type == I1 else TRUE


def _only_computes(i: Instruction) -> bool:
    """True if operands matter exactly in the subgroups where the result does."""
    if i.result is None:
        return False
    return i.is_pure or (i.opcode == "call" and not find(i.callee).effects & _MATTERS)


def _reach(facts: Facts, masks: _Masks) -> dict[str, Flags]:
    """The subgroups that may execute each block."""
    function = facts.function
    found = {b.label: np.zeros(masks.count, bool) for b in function.blocks}
    found[function.blocks[0].label][:] = True

    def reach(label: str) -> tuple[str, Flags]:
        edges = [found[x] & _takes(facts.blocks[x], label, masks)
                 for x in function.predecessors[label]]
        return label, np.logical_or.reduce([found[label], *edges])

    successors = {b.label: b.successors for b in function.blocks}
    solve([*found], reach, successors, found, np.array_equal)
    return found


def _takes(block: Block, label: str, masks: _Masks) -> Flags:
    """The subgroups that may branch from a block to that one."""
    last = block.instructions[-1]
    if last.opcode != "br" or not last.operands:
        return np.ones(masks.count, bool)
    sides = masks.false(last.operands[0]), masks.true(last.operands[0])
    return np.logical_or.reduce([
        ~never for never, x in zip(sides, last.labels, strict=True) if x == label])


class _Masks:
    """Facts about conditions in each subgroup, from the bits that are known to be one."""

    def __init__(self, facts: Facts, subgroups: int) -> None:
        self.count = subgroups
        self._definitions = facts.makers
        self._ones: dict[str, Words] = {}

    def false(self, condition: Operand) -> Flags:
        """Subgroups in which a condition never holds."""
        i = self._definitions.get(condition.text)
        if i is None:
            return np.full(self.count, condition.integer_value() == 0)
        if i.opcode == "and":
            return self.false(i.operands[0]) | self.false(i.operands[1])
        if i.opcode == "icmp" and i.extra == "eq" and i.operands[1].is_zero:
            return self.ones(i.operands[0]) != 0
        return np.zeros(self.count, bool)

    def true(self, condition: Operand) -> Flags:
        """Subgroups in which a condition always holds."""
        i = self._definitions.get(condition.text)
        if i is not None and i.opcode == "icmp" and i.extra == "ne" and i.operands[1].is_zero:
            return self.ones(i.operands[0]) != 0
        return np.full(self.count, condition.integer_value() == 1)

    def ones(self, operand: Operand) -> Words:
        """Bits that are one in all lanes, for each subgroup."""
        if operand.local is None:
            value = operand.integer_value() or 0
            return np.full(self.count, value & (1 << 64) - 1, np.uint64)
        if operand.text not in self._ones:
            held = (1 << operand.type.bits) - 1
            found = self._ones_of(self._definitions.get(operand.text))
            self._ones[operand.text] = found & np.uint64(held)
        return self._ones[operand.text]

    def _ones_of(self, i: Instruction | None) -> Words:
        """Bits of an instruction's result that are one in all lanes, for each subgroup."""
        if i is not None and find(i.callee) is opencl.SUB_GROUP_ID:
            return np.arange(self.count, dtype=np.uint64)
        if i is not None and i.opcode in _BITWISE and i.type.kind == "int":
            known = i.opcode not in _SHIFTS or i.operands[1].is_constant
            return known * _BITWISE[i.opcode](*map(self.ones, i.operands))
        if i is not None and i.opcode in ("zext", "trunc"):
            return self.ones(i.operands[0])
        return np.zeros(self.count, np.uint64)
