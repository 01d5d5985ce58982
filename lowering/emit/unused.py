"""Remove moves between vectors and roundings to bf16 that no instruction uses, and functions.

    %v = shufflevector %a, %b, <0, 1, 2, 3> ; %x = extractelement %b, 0     if %v has no user
 -> %x = extractelement %b, 0

Instructions take elements from where they come from (`quick_builder.element_of`).  A value that is
rounded and widened again is computed by one function (`maths.floats.from_bf16`).  Both leave
instructions that no later compiler removes.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from llvmlite import ir

from triton_xe.lowering.emit.links import instructions_of, operands_of
from triton_xe.lowering.emit.types import callee_of, opcode_of
from triton_xe.lowering.emit.writer import ModuleState

ROUNDED = "llvm.genx.GenISA.ftobf"
_MOVES = ("shufflevector", "extractelement", "insertelement", "bitcast")


def drop_unused_moves(state: ModuleState) -> None:
    """Remove unused moves and roundings from a module, and operands that are then unused."""
    for function in state.llvm.functions:
        _drop(function)


def _drop(function: ir.Function) -> None:
    uses = Counter(map(id, chain.from_iterable(map(operands_of, instructions_of(function)))))
    waiting = [i for i in instructions_of(function) if id(i) not in uses and _may_go(i)]
    gone: set[int] = set()
    while waiting:
        dead = waiting.pop()
        gone.add(id(dead))
        for value in operands_of(dead):
            uses[id(value)] -= 1
            if not uses[id(value)] and _may_go(value):
                waiting.append(value)
    for block in function.blocks if gone else ():
        if any(id(i) in gone for i in block.instructions):
            block.instructions[:] = [i for i in block.instructions if id(i) not in gone]


def drop_unused_functions(state: ModuleState) -> None:
    """Remove functions that no kernel calls, directly or through others."""
    known = state.llvm.globals
    waiting = [f for f in state.llvm.functions if f.calling_convention == "spir_kernel"]
    used = {id(f) for f in waiting}
    while waiting:
        called = {id(i.callee): i.callee for i in instructions_of(waiting.pop())
                  if isinstance(i, ir.CallInstr) and isinstance(i.callee, ir.Function)}
        waiting += [f for f in called.values() if id(f) not in used]
        used |= called.keys()
    for name in [n for n, f in known.items() if isinstance(f, ir.Function) and id(f) not in used]:
        del known[name]


def is_rounding(value: Any) -> bool:
    """True if a value is an fp32 value rounded to bf16 by the hardware."""
    return callee_of(value).startswith(ROUNDED)


def _may_go(value: Any) -> bool:
    return opcode_of(value) in _MOVES or is_rounding(value)
