"""The table of simplify-llvm, and its driver.

Emission writes each register of a tensor as an element of vectors, in the form that the operation
has.  What registers have in common is visible then: they differ by known numbers, or are equal.

    %x = add splat (%a), <0, 1, 2, 3>          %c = add %a, %b
    %y = add %x, splat (%b)               ->   %y = add splat (%c), <0, 1, 2, 3>

The driver visits the instructions in order, and gives each to the rules for its opcode.  The first
rule that applies replaces it.
"""

from __future__ import annotations

from collections.abc import Callable

from triton_xe import llvm as ir
from triton_xe.lowering.emit.simplify.code import Code, Made
from triton_xe.lowering.emit.simplify.masks import compare_scalar, join_conditions
from triton_xe.lowering.emit.simplify.multiples import multiply_as_sums
from triton_xe.lowering.emit.simplify.sums import add_scalars_first, multiply_scalar_first
from triton_xe.lowering.emit.writer import ModuleState

Rule = Callable[[ir.Instruction, Code], Made]
RULES: dict[str, tuple[Rule, ...]] = {
    "add": (add_scalars_first,),
    "mul": (multiply_as_sums, multiply_scalar_first),
    "icmp": (compare_scalar,),
    "and": (join_conditions,),
}
"""Rules by the opcode of the instructions that they replace."""


def simplify_llvm(state: ModuleState) -> None:
    """Apply the rules to each instruction of a module."""
    for function in state.llvm.functions.values():
        _simplify(Code(function, state))


def _simplify(code: Code) -> None:
    for block in code.order:
        code.enter(block)
        for i in block.instructions:
            if code.replaced:
                code.take_operands(i)
            _rewrite(i, code)
        block.instructions = code.written
    if code.replaced:
        for i in code.function.instructions():  # phis, and code that is not reached
            code.take_operands(i)


def _rewrite(i: ir.Instruction, code: Code) -> None:
    for rule in RULES.get(i.opcode, ()):
        made = rule(i, code)
        if isinstance(made, ir.Operand):
            code.replaced[i.value.text] = made
            return
        if made is not None:
            code.put_in_place(i, made)
            return
    code.written.append(i)
