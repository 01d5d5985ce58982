"""Remove roundings to bf16 without uses, which no later compiler removes.

A value that is rounded and widened again is computed by one function (`maths.floats.from_bf16`),
which leaves the separate rounding unused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from triton_xe.lowering.emit.writer import ModuleState

ROUNDED = "llvm.genx.GenISA.ftobf"
_MOVES = ("shufflevector", "extractelement", "insertelement", "bitcast")


def drop_unused_roundings(state: ModuleState) -> None:
    """Take roundings to bf16 away that no instruction uses, with what only moves their results."""
    for function in state.llvm.functions:
        if any(map(is_rounding, _instructions(function))):
            _drop(function)


def is_rounding(value: Any) -> bool:
    """True if a value is an fp32 value rounded to bf16 by the hardware."""
    return isinstance(value, ir.CallInstr) and getattr(value.callee, "name", "").startswith(ROUNDED)


def _drop(function: ir.Function) -> None:
    uses = Counter(id(v) for i in _instructions(function) for v in _operands(i))
    waiting = [i for i in _instructions(function) if _may_go(i) and not uses[id(i)]]
    gone: set[int] = set()
    while waiting:
        dead = waiting.pop()
        gone.add(id(dead))
        for value in _operands(dead):
            uses[id(value)] -= 1
            if not uses[id(value)] and _may_go(value):
                waiting.append(value)
    for block in function.blocks:
        if any(id(i) in gone for i in block.instructions):
            block.instructions[:] = [i for i in block.instructions if id(i) not in gone]


def _may_go(value: Any) -> bool:
    return is_rounding(value) or getattr(value, "opname", "") in _MOVES


def _instructions(function: ir.Function) -> Iterator[Any]:
    return (i for block in function.blocks for i in block.instructions)


def _operands(instruction: Any) -> Iterator[Any]:
    if isinstance(instruction, ir.PhiInstr):
        return (value for value, _ in instruction.incomings)
    return iter(instruction.args if isinstance(instruction, ir.CallInstr) else instruction.operands)
