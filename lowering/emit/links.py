"""Instructions of a written function with their users, for passes over the finished LLVM module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Any

from llvmlite import ir

from triton_xe.intrinsics import find
from triton_xe.intrinsics.intrinsic import Intrinsic
from triton_xe.lowering.emit.types import callee_of
from triton_xe.lowering.emit.writer import ModuleState

Uses = dict[int, list[Any]]


def rewrite(
    state: ModuleState, matches: Callable[[Any], bool],
    change: Callable[[ModuleState, Any, Uses], None],
) -> None:
    """Let `change` rewrite the matching instructions of a module, given the users of values."""
    for function in state.llvm.functions:
        if found := [i for i in instructions_of(function) if matches(i)]:
            uses = uses_of(function)
            for each in found:
                change(state, each, uses)


def users_through(
    value: Any, uses: Uses, moves: Collection[str]
) -> Iterator[tuple[Any, Any]]:
    """The users of a value, and of the results of `moves` that it goes through.

    Each is given with the value that it uses; `moves` are names of instructions.
    """
    seen, waiting = {id(value)}, [value]
    while waiting:
        moved = waiting.pop()
        for user in uses[id(moved)]:
            yield moved, user
            if user.opname in moves and id(user) not in seen:
                seen.add(id(user))
                waiting.append(user)


def replace_with(old: Any, instructions: Sequence[Any], uses: Uses) -> None:
    """Put instructions in place of one; its users take the result of the last."""
    for user in uses[id(old)]:
        user.replace_usage(old, instructions[-1])
    at = old.parent.instructions.index(old)
    old.parent.instructions[at : at + 1] = instructions


def uses_of(function: ir.Function) -> Uses:
    """Value by identity -> the instructions that use it, each once."""
    found: Uses = defaultdict(list)
    for i in instructions_of(function):
        for value in operands_of(i):
            users = found[id(value)]
            if not users or users[-1] is not i:
                users.append(i)
    return found


def instructions_of(function: ir.Function) -> Iterator[Any]:
    """All instructions of a function."""
    return chain.from_iterable(block.instructions for block in function.blocks)


def operands_of(i: Any) -> list[Any]:
    """The values that an instruction reads, and for a call the function."""
    return [v for v, _ in i.incomings] if isinstance(i, ir.PhiInstr) else i.operands


def row_of(i: Any) -> Intrinsic | None:
    """The row of the function that an instruction calls; None for others."""
    return find(callee_of(i)) if isinstance(i, ir.CallInstr) else None
