"""Maps of a function: the instruction that computes each value, its users, its blocks."""

from __future__ import annotations

from functools import cached_property

from triton_xe.llvm.records import Block, Function, Instruction, Operand


class Facts:
    """Maps of a function's values and blocks, each built when it is first needed."""

    def __init__(self, function: Function) -> None:
        self.function = function

    @cached_property
    def makers(self) -> dict[str, Instruction]:
        """Value -> the instruction that computes it."""
        return {i.result: i for i in self.function.instructions() if i.result is not None}

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """Value -> the instructions that use it, once for each operand."""
        found: dict[str, list[Instruction]] = {}
        for i in self.function.instructions():
            for name in i.locals():
                found.setdefault(name, []).append(i)
        return found

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """Label -> block."""
        return {b.label: b for b in self.function.blocks}

    @cached_property
    def order(self) -> list[Block]:
        """The blocks that can run, in reverse postorder."""
        return [self.blocks[label] for label in self.function.reverse_postorder()]

    @cached_property
    def homes(self) -> dict[Instruction, str]:
        """Instruction -> the label of its block."""
        return {i: b.label for b in self.function.blocks for i in b.instructions}

    @cached_property
    def used_in(self) -> dict[str, list[str]]:
        """Value -> labels of the blocks that use it; for a phi's operand, of the predecessor."""
        found: dict[str, list[str]] = {}
        for i, label in self.homes.items():
            for k, x in enumerate(i.operands):
                found.setdefault(x.text, []).append(i.labels[k] if i.opcode == "phi" else label)
        return found

    def maker(self, x: Operand) -> Instruction | None:
        """The instruction that computes an operand; None for parameters and constants."""
        return self.makers.get(x.text)

    def results(self, name: str) -> list[str]:
        """Values that are computed from a value."""
        return [i.result for i in self.users.get(name, ()) if i.result is not None]

    def extraction(self, x: Operand) -> tuple[Operand, int] | None:
        """The vector and index that an element is extracted from; None if it is not, or unknown."""
        i = self.maker(x)
        if i is None or i.opcode != "extractelement" or i.operands[0].local is None:
            return None
        index = i.operands[1].integer_value()
        return None if index is None else (i.operands[0], index)

    def inserted(self, x: Operand) -> dict[int, Operand]:
        """Values that were inserted into a vector last, by index; {} if an index is unknown."""
        found: dict[int, Operand] = {}
        while (i := self.maker(x)) is not None and i.opcode == "insertelement":
            index = i.operands[2].integer_value()
            if index is None:
                return {}
            found.setdefault(index, i.operands[1])
            x = i.operands[0]
        return found
