"""Find loops that wait for other programs: their end depends on concurrent stores.

Such a loop reads global memory by atomics or volatile loads.  One of the branches that leave it
depends on the value it read, possibly through shared memory or phis of such branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triton_xe import llvm as ir
from triton_xe.intrinsics import Effect, Family, find
from triton_xe.llvm import Block, Function, Instruction

SLM = 3
Functions = Mapping[str, Function]


@dataclass(frozen=True)
class Loop:
    """The branches back to the head of a loop, and its blocks."""

    backs: tuple[Instruction, ...]
    blocks: tuple[Block, ...]

    @property
    def instructions(self) -> Iterator[Instruction]:
        for block in self.blocks:
            yield from block.instructions


def waits(function: Function, functions: Functions) -> dict[Instruction, Instruction]:
    """Back edges of loops that wait, each with the access that it waits for."""
    found: dict[Instruction, Instruction] = {}
    if not any(_polls(i, functions) for i in function.instructions()):
        return found
    for loop in _loops(function):
        polled = _polled(loop, functions)
        if polled is not None:
            found.update(dict.fromkeys(loop.backs, polled))
    return found


def takes(function: Function, functions: Functions) -> frozenset[Instruction]:
    """Atomics in loops that take the next item of a queue.

    The program uses their results, and the loop does not wait for them.  Which program gets which
    item depends on the order of programs.
    """
    used = {name for i in function.instructions() for name in i.locals()}
    found = [(loop, [i for i in loop.instructions
                     if i.result in used and _is_read_modify_write(i, functions)])
             for loop in (_loops(function) if changes(function, functions) else ())]
    return frozenset(i for loop, some in found for i in some
                     if not _polls(i, functions) or _polled(loop, functions) is None)


def after_waits(function: Function, functions: Functions) -> frozenset[Instruction]:
    """First instructions after a loop that waits inside of another loop, as in a ring.

    Values read in the loop may be stale there: the progress of other programs depends on their
    order.
    """
    loops = {frozenset(b.label for b in x.blocks): x for x in _loops(function)}
    inner = [(inside, x) for inside, x in loops.items() if any(inside < y for y in loops)
             and _polled(x, functions) is not None]
    left = {label for inside, x in inner for b in x.blocks for label in b.successors
            if label not in inside}
    return frozenset(next(i for i in b.instructions if i.opcode != "phi")
                     for b in function.blocks if b.label in left)


def changes(function: Function, functions: Functions) -> bool:
    """True if a function has atomics that read and write global memory."""
    return any(_is_read_modify_write(i, functions) for i in function.instructions())


def _is_read_modify_write(i: Instruction, functions: Functions) -> bool:
    """True if an instruction is, or calls, an atomic that reads and writes global memory."""
    if i.opcode == "call" and i.callee in functions:
        return changes(functions[i.callee], functions)
    if i.opcode == "call":
        known = find(i.callee)
        both = Effect.READS in known.effects and Effect.WRITES in known.effects
        return known.family is Family.ATOMIC and both and not _local(i)
    return i.opcode in ir.ATOMICS and not _local(i)


def _loops(function: Function) -> Iterator[Loop]:
    """Natural loops, outer ones first."""
    by_label = {b.label: b for b in function.blocks}
    for head, inside in function.loops().items():
        backs = (by_label[t].instructions[-1] for t in function.predecessors[head] if t in inside)
        yield Loop(tuple(backs), tuple(b for b in function.blocks if b.label in inside))


def _polls(i: Instruction, functions: Functions) -> bool:
    """True if an instruction reads memory that other programs may write concurrently.

    An atomic add of a non-zero value changes what it reads, so that it does not poll.
    """
    if i.opcode == "call":
        if i.callee in functions:
            return _calls_polling(i, functions[i.callee], functions)
        known = find(i.callee)
        return known.family is Family.ATOMIC and Effect.READS in known.effects and not _local(i)
    if i.opcode == "load":
        return "volatile" in i.flags and not _local(i)
    return i.opcode in ir.ATOMICS and not _local(i) and not _counts(i, {})


def _local(i: Instruction) -> bool:
    """True if an access is to shared local memory."""
    return i.operands[0].type.space == SLM


def _calls_polling(call: Instruction, callee: Function, functions: Functions) -> bool:
    """True if a callee polls, for the constant arguments of a call."""
    given = {name: value for (name, _), value in zip(
        callee.parameters, (o.integer_value() for o in call.operands), strict=True)}
    return any(_polls(i, functions) and not _counts(i, given) for i in callee.instructions())


def _counts(i: Instruction, given: Mapping[str, int | None]) -> bool:
    """True if an atomic adds a constant other than zero; `given` are values of parameters."""
    if i.opcode != "atomicrmw" or i.extra not in ("add", "sub"):
        return False
    amount = i.operands[1]
    return bool(given.get(amount.local or "") or amount.integer_value())


def _polled(loop: Loop, functions: Functions) -> Instruction | None:
    """The first access whose result, alone or with others, decides whether a loop ends."""
    first = next((i for i in loop.instructions if _polls(i, functions)), None)
    if first is None:
        return None
    inside = {b.label for b in loop.blocks}
    known = _tainted(loop, functions)
    leaves = any(known & set(b.instructions[-1].locals()) for b in loop.blocks
                 if not set(b.successors) <= inside)
    return first if leaves else None


def _tainted(loop: Loop, functions: Functions) -> set[str]:
    """Values of a loop that depend on what it polls."""
    inside = {b.label for b in loop.blocks}
    found = {i.result for i in loop.instructions if i.result and _polls(i, functions)}
    shared = branched = False
    while True:
        before = len(found), shared, branched
        for i in loop.instructions:
            depends = not found.isdisjoint(i.locals())
            if i.opcode in ("br", "switch"):
                branched |= depends
            elif i.opcode == "store":
                shared |= depends and i.operands[1].type.space == SLM
            elif i.result is not None:
                loaded = shared and i.opcode == "load" and _local(i)
                merged = branched and i.opcode == "phi" and sum(x in inside for x in i.labels) > 1
                if depends or loaded or merged:
                    found.add(i.result)
        if before == (len(found), shared, branched):
            return found
