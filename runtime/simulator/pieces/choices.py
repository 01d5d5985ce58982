"""Represent a branch with two ways to compute one result as one instruction.

      br i1 %all, label %whole, label %some
    whole:
      %x = load <64 x float>, ptr %p                      %z = choice %all:
      br label %end                                ->            whole: load <64 x float>, ptr %p
    some:                                                        some: masked load
      %y = masked load <64 x float>, ptr %p, %mask
      br label %end
    end:
      %z = phi <64 x float> [%x, %whole], [%y, %some]

Masked accesses have this form on hosts where masks are expensive.  The blocks before and after are
merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from triton_xe.llvm.records import TERMINATORS, Block, Instruction, Operand
from triton_xe.llvm.types import VOID

_MOST = 8
"""Largest number of operations of an arm."""
SIMPLE = frozenset("int float ptr vec void".split())
"""Kinds of types that pieces of a function compute with."""
_STAYS = TERMINATORS | {"phi", "alloca", "atomicrmw", "cmpxchg", "fence"}


@dataclass(slots=True, eq=False)
class Choice(Instruction):
    """Runs one of two `arms`, whose results are `taken`; operands are all values used inside."""

    arms: tuple[list[Instruction], list[Instruction]] = field(default_factory=lambda: ([], []))
    taken: tuple[Operand, ...] = ()

    @property
    def condition(self) -> Operand:
        return self.operands[0]


def with_choices(blocks: Sequence[Block]) -> list[Block]:
    """Replace every such branch of a function by one instruction."""
    own = {b.label: Block(b.label, list(b.instructions)) for b in blocks}
    before: dict[str, list[str]] = {label: [] for label in own}
    for block in own.values():
        for label in block.successors:
            before[label].append(block.label)
    ends: dict[str, str] = {}
    for label in list(own):
        while label in own:
            arms = _arms(own[label], own, before)
            if arms is None:
                break
            end, = own[arms[0]].successors
            own[label].instructions[-1:] = _joined(own[label], *(own[x] for x in (*arms, end)))
            ends[end] = label
            for after in own[label].successors:
                before[after] = [label if x == end else x for x in before[after]]
            for gone in (*arms, end):
                del own[gone]
    return [Block(b.label, [_renamed(i, ends) for i in b.instructions]) for b in own.values()]


def _arms(
    block: Block, own: dict[str, Block], before: dict[str, list[str]]
) -> tuple[str, str] | None:
    """Labels of the two blocks of a branch that can become one instruction; None if it cannot."""
    last = block.instructions[-1]
    if last.opcode != "br" or len(set(last.labels)) != 2:
        return None
    first, second = last.labels
    ends = {x for label in last.labels if label in own for x in own[label].successors}
    if len(ends) != 1 or not all(
            label in own and before[label] == [block.label] and _is_arm(own[label])
            for label in last.labels):
        return None
    (end,) = ends
    if end not in own or sorted(before[end]) != sorted(last.labels) or end == block.label:
        return None
    phis = own[end].phis
    works = any("vec" in kinds(i) for label in last.labels for i in own[label].instructions)
    fits = len(phis) <= 1 and all(i.type.kind == "vec" for i in phis) and (phis or works)
    return (first, second) if fits else None


def _is_arm(block: Block) -> bool:
    """True if a block is short, and its operations can be those of a choice."""
    *body, last = block.instructions
    return last.opcode == "br" and len(last.labels) == 1 and len(body) <= _MOST and not any(
        i.opcode in _STAYS or not kinds(i) <= SIMPLE
        or (i.opcode == "call" and not i.callee.startswith("llvm.masked."))
        for i in body)


def kinds(i: Instruction) -> set[str]:
    """Kinds of the types of an instruction's result and operands."""
    return {i.type.kind, *[o.type.kind for o in i.operands]}


def _joined(block: Block, first: Block, second: Block, end: Block) -> list[Instruction]:
    """Instructions that replace the branch at the end of `block`."""
    arms = first.instructions[:-1], second.instructions[:-1]
    taken: tuple[Operand, ...] = ()
    made = Choice("choice", VOID, [block.instructions[-1].operands[0]], arms=arms)
    for phi in end.phis:
        by_label = dict(zip(phi.labels, phi.operands, strict=True))
        taken = by_label[first.label], by_label[second.label]
        made.type, made.result = phi.type, phi.result
    made.taken = taken
    inside = {i.result for arm in arms for i in arm}
    used = [o for arm in arms for i in arm for o in i.operands] + list(taken)
    made.operands += dict.fromkeys(o for o in used if o.local and o.local not in inside)
    return [made, *end.instructions[len(end.phis):]]


def _renamed(i: Instruction, ends: dict[str, str]) -> Instruction:
    """Replace labels of blocks that were merged in a phi."""
    if i.opcode != "phi" or ends.keys().isdisjoint(i.labels):
        return i
    labels = []
    for label in i.labels:
        while label in ends:
            label = ends[label]
        labels.append(label)
    return replace(i, labels=labels)
