"""Remove moves between vectors, integers and roundings to bf16 that no instruction uses, and
functions.

    %v = shufflevector %a, %b, <0, 1, 2, 3> ; %x = extractelement %b, 0     if %v has no user
 -> %x = extractelement %b, 0

Instructions take elements from where they come from (`builder.element_of`), and integers of which
only some elements are used are simplified to these.  A value that is rounded and widened again is
computed by one function (`maths.floats.from_bf16`).  All leave instructions without a use.
"""

from __future__ import annotations

from collections import Counter

from triton_xe import llvm as ir
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import reached
from triton_xe.lowering.emit.writer import ModuleState

ROUNDED = "llvm.genx.GenISA.ftobf"
_PLAIN = frozenset((
    "shufflevector", "extractelement", "insertelement", "bitcast",
    "add", "sub", "mul", "shl", "or", "and", "icmp", "select", "zext", "sext"))


def drop_unused_values(state: ModuleState) -> None:
    """Remove unused values from a module, and operands that are then unused."""
    for function in state.llvm.functions.values():
        _drop(function)


def _drop(function: ir.Function) -> None:
    uses = Counter(name for i in function.instructions() for name in i.locals())
    waiting = [i for i in function.instructions() if i.result not in uses and _may_go(i)]
    if not waiting:
        return
    makers, gone = Facts(function).makers, set[ir.Instruction]()
    while waiting:
        dead = waiting.pop()
        gone.add(dead)
        for name in dead.locals():
            uses[name] -= 1
            if not uses[name] and name in makers and _may_go(makers[name]):
                waiting.append(makers[name])
    for block in function.blocks:
        if not gone.isdisjoint(block.instructions):
            block.instructions[:] = [i for i in block.instructions if i not in gone]


def drop_unused_functions(state: ModuleState) -> None:
    """Remove functions that no kernel calls, directly or through others."""
    known = state.llvm.functions
    used = reached([f.name for f in state.llvm.kernels()], lambda name: [
        i.callee for i in known[name].instructions() if i.callee in known])
    for name in known.keys() - used:
        del known[name]


def is_rounding(i: ir.Instruction) -> bool:
    """True if an instruction rounds an fp32 value to bf16 by the hardware."""
    return i.callee.startswith(ROUNDED)


def _may_go(i: ir.Instruction) -> bool:
    return (i.opcode in _PLAIN and not i.defines) or is_rounding(i)
