"""Names of what a stage's text consists of, for tests that count operations or look for one."""

from __future__ import annotations

from triton_xe.intrinsics import find
from triton_xe.llvm import Instruction
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.lowering.pipeline import stage_of

SHARED = 3
"""Address space of shared local memory."""


def operations(text: str, after: str = "", before: str = "") -> list[str]:
    """Names of the operations of a stage of MLIR, in the order of the text.

    `after` and `before` name operations: only what is between the first of each is listed.
    """
    names = [op.name for op in stage_of(text).module.walk()]
    first = names.index(after) + 1 if after else 0
    return names[first : names.index(before, first) if before else None]


def instructions(text: str, block: str = "", *, helpers: bool = False) -> list[str]:
    """Names of the instructions of a kernel's LLVM IR, or of one of its blocks, in their order.

    A call is named after its function as the table of intrinsics has it, and an access to shared
    local memory ends in `.slm`. With `helpers`, those of functions that the compiler adds follow.
    """
    return [name_of(each) for each in parsed(text, block, helpers=helpers)]


def calls(text: str, prefix: str) -> bool:
    """True if a kernel's LLVM IR calls a function whose name begins like this."""
    return any(i.callee.startswith(prefix) for i in parsed(text))


def parsed(text: str, block: str = "", *, helpers: bool = False) -> list[Instruction]:
    """The instructions of which `instructions` returns the names."""
    return [i for function in parse_module(canonical(text)).functions.values()
            if helpers or not function.name.startswith(("xe.", "__xe"))
            for each in function.blocks if block in ("", each.label.removeprefix("%"))
            for i in each.instructions]


def name_of(instruction: Instruction) -> str:
    """Opcode of an instruction, or name of the function that it calls."""
    if instruction.callee:
        known = find(instruction.callee).name
        return (known or instruction.callee).removeprefix("llvm.genx.")
    shared = any(each.type.scalar.space == SHARED for each in instruction.operands)
    is_access = instruction.opcode in ("load", "store", "atomicrmw", "cmpxchg")
    return instruction.opcode + ".slm" * (is_access and shared)
