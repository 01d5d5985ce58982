"""What a walk needs to know of a kernel's code, found once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from triton_xe.intrinsics import Family, find
from triton_xe.runtime.estimate.numbers import Known, constant
from triton_xe.runtime.simulator.ir import Block, Function, Instruction, Operand

MESSAGES = (Family.BLOCK_2D, Family.BLOCK_1D, Family.MASKED, Family.ATOMIC,
            Family.HELPER)
SLM_SPACE = 3
PLACES = ("pointer", "address", "payload", "base", "pitch", "x", "y")
ACCESSES = frozenset(("load", "store", "atomicrmw", "cmpxchg"))


class Program:
    """A kernel's blocks in the order of a walk, its loops, and the numbers that decide where
    messages lie and how often blocks run; all others need not be followed."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.blocks: dict[str, Block] = {b.label: b for b in function.blocks}
        self.order = _reverse_postorder(function)
        self.loops = _loops(function, self.order)
        self.makers = {i.result: i for i in function.instructions()}
        self._constants: dict[int, Known] = {}

    def constant(self, operand: Operand) -> Known:
        """The value of a constant operand of this code."""
        key = id(operand)
        if key not in self._constants:
            self._constants[key] = constant(operand)
        return self._constants[key]

    @cached_property
    def needed(self) -> frozenset[str]:
        """Results that a branch, or the place of a message, depends on."""
        found: set[str] = set()
        todo = [name for i in self.function.instructions() for name in _deciding(i)]
        shared = [i.operands[0].local for i in self.function.instructions()
                  if i.opcode == "store" and is_shared(i)]
        while todo:
            name = todo.pop()
            made = self.makers.get(name)
            if name not in found and made is not None:
                found.add(name)
                todo += [o.local for o in made.operands if o.local is not None]
                if made.opcode == "load" and is_shared(made):
                    todo += [one for one in shared if one is not None]
        return frozenset(found)

    @cached_property
    def shared_decides(self) -> bool:
        """Whether something that is needed was kept in shared local memory."""
        made = (self.makers[name] for name in self.needed)
        return any(i.opcode == "load" and is_shared(i) for i in made)


def _deciding(i: Instruction) -> Iterator[str]:
    """Operands that say where an instruction goes, or where what it moves lies."""
    if i.opcode in ACCESSES:
        operands = [] if is_shared(i) else placed_by(i)
    elif i.opcode in ("br", "switch"):
        operands = list(i.operands[:1])
    elif i.opcode == "call" and find(i.callee).family is Family.PAYLOAD:
        operands = list(i.operands)
    elif i.opcode == "call" and is_message(i):
        operands = [*placed_by(i), *masked_by(i)]
    else:
        return
    yield from (o.local for o in operands if o.local is not None)


def is_message(call: Instruction) -> bool:
    """Whether a call is a message; of the module's own functions, those that get an address are."""
    known = find(call.callee)
    return known.family in MESSAGES and (known.family is not Family.HELPER or known.has("address"))


def is_shared(access: Instruction) -> bool:
    """Whether a load or store is to shared local memory."""
    return placed_by(access)[0].type.space == SLM_SPACE


def placed_by(i: Instruction) -> list[Operand]:
    """Operands that say where a message goes."""
    if i.opcode in ACCESSES:
        return list(i.operands[1:2] if i.opcode == "store" else i.operands[:1])
    names = [p.name for p in find(i.callee).parameters]
    return [o for name, o in zip(names, i.operands, strict=False) if name in PLACES]


def masked_by(call: Instruction) -> list[Operand]:
    """The operand that says which lanes of a message take part, if there is one."""
    if find(call.callee).family is Family.HELPER:
        return list(call.operands[-1:])
    names = [p.name for p in find(call.callee).parameters]
    return [o for name, o in zip(names, call.operands, strict=False) if name == "mask"]


def _reverse_postorder(function: Function) -> list[str]:
    following = {b.label: b.successors for b in function.blocks}
    order: list[str] = []
    seen = {function.blocks[0].label}
    stack = [(function.blocks[0].label, iter(following[function.blocks[0].label]))]
    while stack:
        label, rest = stack[-1]
        for target in rest:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(following[target])))
                break
        else:
            stack.pop()
            order.append(label)
    return order[::-1]


def _loops(function: Function, order: Sequence[str]) -> dict[str, set[str]]:
    """Header -> the blocks of its natural loop."""
    place = {label: k for k, label in enumerate(order)}
    found: dict[str, set[str]] = {}
    for label in order:
        for target in next(b for b in function.blocks if b.label == label).successors:
            if place[target] <= place[label]:
                body = found.setdefault(target, {target})
                todo = [label]
                while todo:
                    block = todo.pop()
                    if block not in body:
                        body.add(block)
                        todo += [p for p in function.predecessors[block] if p in place]
    return found
