"""Compute values that advance as a loop's counter from the counter, which begins with 0.

    %k = phi [0, %before], [%k1, %latch]         %k1 = add %k, 32
    %x = phi [%first, %before], [%x1, %latch]    %x1 = add %x, 32       ->  %x = add %first, %k

Then Intel's compiler has one sum less to carry, and writes a position to a message's payload by the
addition instead of a move.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_xe import llvm as ir
from triton_xe.lowering.emit.links import Links
from triton_xe.lowering.emit.writer import ModuleState

Step = tuple[ir.Type, tuple[str, ...], int]


def share_counters(state: ModuleState) -> None:
    """Let values of a module's loops that advance by the same step share one counter."""
    for function in state.llvm.functions.values():
        phis = [[i for i in b.instructions if i.opcode == "phi"] for b in function.blocks]
        links = Links(function, "")
        for loop in phis:
            if len(loop) > 1:
                _share(loop, links)


def _share(phis: Sequence[ir.Instruction], links: Links) -> None:
    """Replace the phis of a loop that advance as its first counter by sums with the counter."""
    steps = {phi: _step(phi, links) for phi in phis}
    counter = next((phi for phi, step in steps.items() if step and phi.operands[0].is_zero), None)
    if counter is None:
        return
    code = links.home[counter].instructions
    for phi in phis:
        if phi is counter or steps[phi] != steps[counter]:
            continue
        code.remove(phi)
        if phi.operands[0].is_zero:
            links.give_users(phi, counter.value)
            continue
        total = ir.Instruction("add", phi.type, [phi.operands[0], counter.value], debug=phi.debug)
        total.result = phi.result
        code.insert(sum(i.opcode == "phi" for i in code), total)


def _step(phi: ir.Instruction, links: Links) -> Step | None:
    """By how much each iteration advances an integer, with its type and the loop's edges."""
    made = links.maker(phi.operands[1]) if len(phi.operands) == 2 else None
    if made is None or made.opcode != "add" or made.operands[0].text != phi.result:
        return None
    by = made.operands[1].integer_value()
    return None if by is None or phi.type.kind != "int" else (phi.type, tuple(phi.labels), by)
