"""Instructions of a written function with their users, for passes over the finished LLVM module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

from triton_xe import llvm as ir
from triton_xe.intrinsics import find
from triton_xe.intrinsics.intrinsic import Family, Intrinsic
from triton_xe.llvm.facts import Facts
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.spirv import HALVES, WIDE


class Links(Facts):
    """Users and blocks of a function's instructions; a pass that changes them creates new ones.

    Results of new instructions have names that begin with `prefix`, which is the pass's own.
    """

    def __init__(self, function: ir.Function, prefix: str) -> None:
        super().__init__(function)
        self.prefix = prefix
        self.count = 0

    @cached_property
    def home(self) -> dict[ir.Instruction, ir.Block]:
        """Instruction -> its block."""
        return {i: b for b in self.function.blocks for i in b.instructions}

    def named(self, i: ir.Instruction) -> ir.Operand:
        """Name the result of a new instruction."""
        self.count += 1
        i.result = f"%{self.prefix}{self.count}"
        return i.value

    def users_through(
        self, i: ir.Instruction, moves: Collection[str]
    ) -> Iterator[tuple[ir.Instruction, ir.Instruction]]:
        """The users of a result, and of the results of `moves` that it goes through.

        Each is given with the instruction whose result it uses; `moves` are names of instructions.
        """
        seen, waiting = {i}, [i]
        while waiting:
            moved = waiting.pop()
            for user in dict.fromkeys(self.users.get(moved.result or "", ())):
                yield moved, user
                if user.opcode in moves and user not in seen:
                    seen.add(user)
                    waiting.append(user)

    def put(self, old: ir.Instruction, instructions: Sequence[ir.Instruction]) -> None:
        """Put instructions in place of one; its users take the result of the last."""
        self.give_users(old, instructions[-1].value)
        block = self.home[old].instructions
        at = block.index(old)
        block[at : at + 1] = instructions

    def give_users(self, old: ir.Instruction, value: ir.Operand) -> None:
        """Let the users of a result take another value."""
        for user in self.users.get(old.result or "", ()):
            user.operands = [value if o.text == old.result else o for o in user.operands]


def rewrite(
    state: ModuleState, prefix: str, matches: Callable[[ir.Instruction], bool],
    change: Callable[[ModuleState, ir.Instruction, Links], None],
) -> None:
    """Let `change` rewrite the matching instructions of a module."""
    for function in list(state.llvm.functions.values()):
        if found := [i for i in function.instructions() if matches(i)]:
            links = Links(function, prefix)
            for each in found:
                change(state, each, links)


def row_of(i: ir.Instruction) -> Intrinsic | None:
    """The row of the function that an instruction calls; None for other instructions."""
    return find(i.callee) if i.opcode == "call" else None


def calls_assembly(i: ir.Instruction) -> bool:
    """True for calls of functions that are inline assembly in SPIR-V."""
    return i.callee.startswith((HALVES, WIDE))


def calls_own_function(i: ir.Instruction) -> bool:
    """True for calls of the module's functions into which IGC sees, as it inlines them."""
    row = row_of(i)
    return (row is not None and row.family in (Family.UNKNOWN, Family.HELPER)
            and not calls_assembly(i))
