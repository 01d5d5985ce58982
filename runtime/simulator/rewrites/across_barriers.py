"""Freeze vectors that are live across a barrier, so that LLVM stores them in the coroutine's frame.

    %s = add <16 x i32> %x, %y        %s.made = add <16 x i32> %x, %y
                                 ->   %s = freeze <16 x i32> %s.made

LLVM recomputes results of arithmetic after every barrier, from their operands, and those too.  The
code of many barriers in a row, as in a sort, then grows with the square of their number.  It does
not recompute a `freeze`.  Flags are frozen as bytes, which are compared again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from triton_xe.llvm import I8, Block, Function, Instruction, vector, zero
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import BINARY, CASTS
from triton_xe.runtime.simulator.rewrites.flags_in_memory import is_flags

_RECOMPUTED = BINARY | CASTS | {"icmp", "fcmp", "select", "getelementptr"}
"""Operations that LLVM's coroutines recompute instead of storing their results."""


def frozen_across_barriers(function: Function) -> Function:
    """A copy of a coroutine with frozen vectors."""
    used_in = Facts(function).used_in
    after = {b.label: function.reachable(_resume_labels(function, b)) for b in function.blocks}
    return replace(function, blocks=[
        Block(b.label, [x for i in b.instructions for x in (
            _frozen(i) if _is_worth_storing(i) and not after[b.label].isdisjoint(
                used_in.get(str(i.result), ())) else (i,))])
        for b in function.blocks])


def _is_worth_storing(i: Instruction) -> bool:
    """True if recomputing takes more than a load: it has other operands than a single value."""
    return i.opcode in _RECOMPUTED and i.type.kind == "vec" and len(set(i.locals())) > 1


def _frozen(i: Instruction) -> Iterator[Instruction]:
    made = replace(i, result=f"{i.result}.made")
    yield made
    if not is_flags(i.type):
        yield Instruction("freeze", i.type, [made.value], i.result)
        return
    numbers = Instruction("sext", vector(i.type.count, I8), [made.value], f"{i.result}.bytes")
    frozen = Instruction("freeze", numbers.type, [numbers.value], f"{i.result}.frozen")
    yield from (numbers, frozen, Instruction(
        "icmp", i.type, [frozen.value, zero(frozen.type)], i.result, extra="slt"))


def _resume_labels(function: Function, block: Block) -> list[str]:
    """Labels of the blocks after the suspensions that control may reach from this block."""
    following = function.reachable([block.label])
    return [label for b in function.blocks if b.label in following
            and any(i.callee == "llvm.coro.suspend" for i in b.instructions)
            for label in b.successors]
