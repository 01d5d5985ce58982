"""Cast a value to a type once in each block: an operand of several DPAS is then prepared once."""

from __future__ import annotations

from dataclasses import replace

from triton_xe.llvm import Block, Function, Operand, Type, substitute


def equal_casts(function: Function) -> Function:
    """A copy of the function without equal bitcasts in a block."""
    same: dict[str, Operand] = {}
    blocks = []
    for block in function.blocks:
        first: dict[tuple[str, Type], Operand] = {}
        for i in block.instructions:
            if i.opcode == "bitcast" and i.operands[0].local is not None:
                known = first.setdefault((i.operands[0].text, i.type), i.value)
                if known != i.value:
                    same[i.value.text] = known
        blocks.append(Block(block.label, [i for i in block.instructions if i.result not in same]))
    substitute(blocks, same)
    return replace(function, blocks=blocks) if same else function
