"""Instructions that a rewrite adds to a function."""

from __future__ import annotations

from collections.abc import Sequence

from triton_xe.llvm import Function, Instruction, Operand, Type, vector
from triton_xe.llvm.facts import Facts


class Rewriter:
    """Facts of a function, with the instructions that are added, whose names have a prefix."""

    def __init__(self, function: Function, prefix: str) -> None:
        self.facts, self.prefix, self.count = Facts(function), prefix, 0

    def new(
        self, opcode: str, t: Type, operands: list[Operand], at: Instruction,
        indices: Sequence[int] = (),
    ) -> Instruction:
        """Create an instruction at the source line of `at`."""
        self.count += 1
        made = Instruction(opcode, t, operands, f"{self.prefix}{self.count}",
                           indices=tuple(indices), line=at.line, debug=at.debug)
        self.facts.makers[made.value.text] = made
        return made

    def concatenated(self, parts: Sequence[Operand], at: Instruction) -> list[Instruction]:
        """Instructions that concatenate a power of two of vectors, the whole one last."""
        made: list[Instruction] = []
        while len(parts) > 1:
            joined = [self.new("shufflevector", vector(2 * x.type.lanes, x.type.scalar), [x, y], at,
                               range(2 * x.type.lanes))
                      for x, y in zip(parts[::2], parts[1::2], strict=True)]
            made += joined
            parts = [i.value for i in joined]
        return made
