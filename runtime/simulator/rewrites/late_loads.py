"""Move loads to the first use of their values, so that fewer registers are live.

LLVM keeps the order of its input, and spills.  Loads do not move past instructions that may write,
nor out of their block.  Moves of elements, and arithmetic on loaded values, move as well.  Each of
the sums of several rows is computed before the next row is loaded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from triton_xe.intrinsics import Effect, find
from triton_xe.intrinsics.definitions import memory
from triton_xe.llvm import Block, Function, Instruction
from triton_xe.runtime.simulator.rewrites.neighbours import is_elementwise
from triton_xe.runtime.simulator.rewrites.scalar_extracts import without_unused
from triton_xe.runtime.simulator.rewrites.split_vectors import SUMS

_READ = Effect.READS | Effect.CONVERGENT
_ARITHMETIC = SUMS | {"fpext", "zext", "shl"}
_MOVES = frozenset("bitcast extractelement insertelement shufflevector".split())


def late_loads(function: Function) -> Function:
    """A copy of the function with loads at their first uses."""
    needed = without_unused([Block(b.label, b.instructions) for b in function.blocks])
    return replace(function, blocks=[_late(b) for b in needed])


def _late(block: Block) -> Block:
    """Move each instruction to the position before its first user."""
    needed: dict[str, int] = {}
    end = writer = len(block.instructions)
    waiting: dict[int, list[Instruction]] = defaultdict(list)
    """Number of an instruction -> instructions that are moved before it."""
    sums = _sums_of_loads(block)
    for k in range(end - 1, -1, -1):
        i = block.instructions[k]
        place, is_late = k, _is_load(i) or i.result in sums
        if is_late or i.opcode in _MOVES:
            first = needed.get(i.result or "", k)
            place = min(first, writer) if is_late else first
        elif _writes(i):
            writer = k
        for name in i.locals():
            needed[name] = min(place, needed.get(name, end))
        if place != k:
            waiting[place].append(i)
    moved = {i for each in waiting.values() for i in each}
    return Block(block.label, [x for k, i in enumerate(block.instructions) if i not in moved
                               for x in _in_order(i, waiting.get(k, ()))])


def _in_order(last: Instruction, before: Sequence[Instruction]) -> list[Instruction]:
    """An instruction after those that are moved before it, each right after its operands.

    Other instructions keep their order, which is reversed in `before`.
    """
    if not before:
        return [last]
    left = {i.result or "": i for i in before}
    first = [left[name] for name in last.locals() if name in left]
    needed = {name for i in before for name in i.locals()}
    ends = [i for i in before if i.result not in needed]
    todo, order = [*ends, *reversed(first)], list[Instruction]()
    while todo:
        i = todo[-1]
        wanted = next((left[name] for name in i.locals() if name in left), None)
        if i.result in left and wanted is not None:
            todo.append(wanted)
            continue
        todo.pop()
        order += [i] if left.pop(i.result or "", None) else []
    return [*order, last]


def _sums_of_loads(block: Block) -> set[str]:
    """Results of arithmetic whose operands are all loaded in this block."""
    loaded, sums = set[str](), set[str]()
    for i in block.instructions:
        is_sum = i.opcode in _ARITHMETIC or is_elementwise(i)
        follows = (is_sum or i.opcode in _MOVES) and loaded.issuperset(i.locals())
        if i.result and (follows or _is_load(i)):
            loaded.add(i.result)
            sums.update([i.result] if is_sum else [])
    return sums


def _only_reads(i: Instruction) -> bool:
    """True if it is a call that loads may move past."""
    return i.opcode == "call" and not find(i.callee).effects & ~_READ


def _writes(i: Instruction) -> bool:
    """True if loads may not move past it."""
    return not (_is_load(i) or i.is_pure or _only_reads(i))


def _is_load(i: Instruction) -> bool:
    """True if it only reads global or shared memory."""
    if i.opcode == "load":
        return not i.flags and not i.orderings and i.operands[0].type.space in (1, 3)
    return i.opcode == "call" and find(i.callee).definition is memory.masked_load
