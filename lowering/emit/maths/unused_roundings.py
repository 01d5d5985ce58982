"""Remove roundings to bf16 without uses, which no later compiler removes.

A value that is rounded and widened again is computed by one function (`maths.floats.from_bf16`),
which leaves the separate rounding unused.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from llvmlite import ir

from triton_xe.lowering.emit.links import instructions_of, operands_of
from triton_xe.lowering.emit.types import callee_of, opcode_of
from triton_xe.lowering.emit.writer import ModuleState

ROUNDED = "llvm.genx.GenISA.ftobf"
_MOVES = ("shufflevector", "extractelement", "insertelement", "bitcast")


def drop_unused_roundings(state: ModuleState) -> None:
    """Take roundings to bf16 away that no instruction uses, with what only moves their results."""
    for function in state.llvm.functions:
        if any(map(is_rounding, instructions_of(function))):
            _drop(function)


def is_rounding(value: Any) -> bool:
    """True if a value is an fp32 value rounded to bf16 by the hardware."""
    return callee_of(value).startswith(ROUNDED)


def _drop(function: ir.Function) -> None:
    """Remove unused roundings, and operands that are then unused."""
    uses = Counter(id(v) for i in instructions_of(function) for v in operands_of(i))
    waiting = [i for i in instructions_of(function) if _may_go(i) and not uses[id(i)]]
    gone: set[int] = set()
    while waiting:
        dead = waiting.pop()
        gone.add(id(dead))
        for value in operands_of(dead):
            uses[id(value)] -= 1
            if not uses[id(value)] and _may_go(value):
                waiting.append(value)
    for block in function.blocks:
        if any(id(i) in gone for i in block.instructions):
            block.instructions[:] = [i for i in block.instructions if id(i) not in gone]


def _may_go(value: Any) -> bool:
    return is_rounding(value) or opcode_of(value) in _MOVES
