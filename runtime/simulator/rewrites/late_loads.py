"""Loads move to where their values are first needed, and wait in no register until then.

LLVM keeps the order of what it is given, and spills.  Nothing moves past what may write, nor out of
its block; what only moves elements goes along.
"""

from __future__ import annotations

from dataclasses import replace

from triton_xe.intrinsics import find
from triton_xe.intrinsics.definitions import memory
from triton_xe.runtime.simulator.ir import Block, Function, Instruction

_MOVES = frozenset("bitcast extractelement insertelement shufflevector".split())


def late_loads(function: Function) -> Function:
    """The function with loads where they are needed; the function itself stays as it is."""
    return replace(function, blocks=[_late(b) for b in function.blocks])


def _late(block: Block) -> Block:
    """Each instruction gets the place of the one before which it stands."""
    needed: dict[str, int] = {}
    places, end = [], len(block.instructions)
    writer = end
    for k in range(end - 1, -1, -1):
        i = block.instructions[k]
        place, is_load = k, _is_load(i)
        if is_load or i.opcode in _MOVES:
            first = needed.get(i.result or "", k)
            place = min(first, writer) if is_load else first
        elif not i.is_pure:
            writer = k
        for name in i.locals():
            needed[name] = min(place, needed.get(name, end))
        places.append((place, place == k, k))
    return Block(block.label, [block.instructions[k] for *_, k in sorted(places)])


def _is_load(i: Instruction) -> bool:
    """Whether it reads global or shared memory, and nothing else."""
    if i.opcode == "load":
        return not i.flags and not i.orderings and i.operands[0].type.space in (1, 3)
    return i.opcode == "call" and find(i.callee).definition is memory.masked_load
