"""Store vectors that are live across a barrier in the frame of their subgroup.

LLVM recomputes them after every barrier, from their operands, and those too.  The code of many
barriers in a row, as in a sort, then grows with the square of their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from triton_xe.llvm import (
    I8,
    I64,
    PTR,
    VOID,
    Block,
    Function,
    Instruction,
    Operand,
    array,
    constant,
)
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import BINARY, CASTS
from triton_xe.runtime.simulator.rewrites.flags_in_memory import is_flags

Made = Mapping[str, tuple[Instruction, str]]
"""Value -> the instruction that computes it, and the label of its block."""
_RECOMPUTED = BINARY | CASTS | {"icmp", "fcmp", "select", "getelementptr"}
"""Operations that LLVM's coroutines recompute instead of storing their results."""
_LINE = 64
_SLOTS = "%kept"
_IN_MEMORY = 'asm sideeffect "", "r,~{memory}"'
"""Lets the addresses of slots escape, so that LLVM does not promote the slots to registers."""


def store_across_barriers(function: Function) -> Function:
    """Store vectors that are live across a barrier, and load them in each block that uses them.

    `function` is a coroutine.
    """
    after_barriers = {b.label: function.reachable(_resume_labels(function, b))
                      for b in function.blocks}
    made = {i.result: (i, b.label) for b in function.blocks for i in b.instructions
            if i.result and _is_worth_storing(i)}
    places: dict[str, int] = {}
    size = 0
    for name, labels in Facts(function).used_in.items():
        if name in made and not after_barriers[made[name][1]].isdisjoint(labels):
            places[name] = size
            size += -(-made[name][0].type.size // _LINE) * _LINE
    if not places:
        return function
    entry, first, *others = _blocks(function, places, made)
    slots = Operand(PTR, _SLOTS)
    alloca = Instruction("alloca", PTR, [], _SLOTS, element=array(size, I8), align=_LINE)
    seen = Instruction("call", VOID, [slots], callee=_IN_MEMORY)
    return replace(function, blocks=[
        Block(entry.label, [alloca, *entry.instructions]),
        Block(first.label, [*first.phis, seen, *first.instructions[len(first.phis):]]), *others])


def _blocks(function: Function, places: Mapping[str, int], made: Made) -> list[Block]:
    """Blocks in which vectors are read from the frame, each once per block."""
    readers = {b.label: _Reader(b, places, made) for b in function.blocks}
    at_end: dict[str, list[Operand]] = {label: [] for label in readers}
    phis = [i for b in function.blocks for i in b.phis]
    for i in phis:
        for x, label in zip(i.operands, i.labels, strict=True):
            at_end[label].append(x)
    found = [readers[b.label].rewrite(at_end[b.label]) for b in function.blocks]
    for i in phis:
        i.operands = [readers[label].read.get(x.text, x)
                      for x, label in zip(i.operands, i.labels, strict=True)]
    return found


def _is_worth_storing(i: Instruction) -> bool:
    """True if recomputing takes more than a load: it has other operands than a single value.

    Flags that LLVM would store itself are stored here, where they become bytes (`flags_in_memory`).
    """
    if i.opcode not in _RECOMPUTED:
        return is_flags(i.type)
    return i.type.kind == "vec" and len(set(i.locals())) > 1


def _resume_labels(function: Function, block: Block) -> list[str]:
    """Labels of the blocks after the suspensions that control may reach from this block."""
    following = function.reachable([block.label])
    return [label for b in function.blocks if b.label in following
            and any(i.callee == "llvm.coro.suspend" for i in b.instructions)
            for label in b.successors]


class _Reader:
    """Writer of a block: stores its results, and loads others' values at their first use."""

    def __init__(self, block: Block, places: Mapping[str, int], made: Made) -> None:
        self.block, self.places, self.made = block, places, made
        self.read: dict[str, Operand] = {}
        self.written: list[Instruction] = []

    def rewrite(self, at_end: Sequence[Operand]) -> Block:
        """The block; phis of other blocks take the operands `at_end` from it."""
        *body, last = self.block.instructions
        phis, body = body[:len(self.block.phis)], body[len(self.block.phis):]
        self.written += phis
        for i in phis:
            self._store(i)
        for i in body:
            self._append(i)
            self._store(i)
        for operand in at_end:
            self._load_once(operand)
        self._append(last)
        return Block(self.block.label, self.written)

    def _store(self, i: Instruction) -> None:
        if i.result in self.places:
            slot = self._slot(i.value)
            self.written.append(Instruction("store", VOID, [i.value, slot], align=_LINE))

    def _append(self, i: Instruction) -> None:
        if any(map(self._is_from_other_block, i.operands)):
            i = replace(i, operands=[self._load_once(x) for x in i.operands])
        self.written.append(i)

    def _is_from_other_block(self, x: Operand) -> bool:
        return x.text in self.places and self.made[x.text][1] != self.block.label

    def _load_once(self, x: Operand) -> Operand:
        """The value in this block: one of another block is loaded from its slot, once."""
        if not self._is_from_other_block(x):
            return x
        if x.text not in self.read:
            name = f"{x.text}.{self.block.label[1:]}"
            slot = self._slot(x)
            self.written.append(Instruction("load", x.type, [slot], name, align=_LINE))
            self.read[x.text] = Operand(x.type, name)
        return self.read[x.text]

    def _slot(self, x: Operand) -> Operand:
        """Write the address of a value's slot in the frame."""
        name = f"{_SLOTS}.{self.block.label[1:]}.{len(self.written)}"
        self.written.append(Instruction(
            "getelementptr", PTR, [Operand(PTR, _SLOTS), constant(I64, self.places[x.text])],
            name, element=I8))
        return Operand(PTR, name)
