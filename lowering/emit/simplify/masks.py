"""Comparisons and masks."""

from __future__ import annotations

from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.lowering.emit.simplify.code import Code, Made
from triton_xe.lowering.emit.types import I1

LEAST = {"slt": -(1 << 31), "ult": 0}
"""Limits of comparisons of 32 bits below which no number is."""


def compare_scalar(i: ir.Instruction, code: Code) -> Made:
    """splat(x) + C == y  ->  splat(x) == y - C, if y is loop-invariant"""
    found = code.shifted(i.operands[0]) if i.extra in ("eq", "ne") else None
    if found is None or not code.is_invariant(i.operands[1]):
        return None
    wanted = ir.Instruction("sub", found.numbers.type, [i.operands[1], found.numbers])
    operands = [code.splat(found.scalar, i.type.count), code.named(wanted)]
    return [wanted, ir.Instruction("icmp", i.type, operands, extra=i.extra)]


class Limit(NamedTuple):
    """A comparison of 32-bit integers with limits."""

    predicate: str
    numbers: ir.Operand
    limits: ir.Operand


def join_conditions(i: ir.Instruction, code: Code) -> Made:
    """(x < y) & c  ->  x < (c ? y : least)

    This takes one comparison, and a selection per distinct value of the condition.  Intel's
    compiler joins conditions of lanes by two selections, a logic operation and moves of flags.
    """
    if i.type.scalar is not I1 or i.type.kind != "vec":
        return None
    for tested, known in (i.operands, i.operands[::-1]):
        test = _limit(tested, code)
        if test is None or not (_limit(known, code) or code.made(known, "shufflevector")):
            continue
        limits = _limits_where(known, test, code)
        return [ir.Instruction("icmp", i.type, [test.numbers, limits], extra=test.predicate)]
    return None


def _limit(value: ir.Operand, code: Code) -> Limit | None:
    """The comparison that computes a condition, of moved numbers if the condition is moved."""
    found = code.origin(value)
    test = None if found is None else code.made(found[0], "icmp")
    if (found is None or test is None or test.extra not in LEAST or test.type.kind != "vec"
            or test.operands[0].type.scalar.bits != 32 or test.defines):
        return None
    return Limit(test.extra, *(code.pick(o, found[1]) for o in test.operands))


def _limits_where(known: ir.Operand, test: Limit, code: Code) -> ir.Operand:
    """Limits of which those are the least for which a condition is false.

    They are selected before the condition is moved, if they are equal.
    """
    limit, found, limits = code.scalar(test.limits), code.origin(known), test.limits
    order = None
    if limit is not None and found is not None:
        known, order = found
        limits = code.splat(limit, known.type.lanes)
    least = ir.constant(limits.type, LEAST[test.predicate])
    chosen = code.share(ir.Instruction("select", limits.type, [known, limits, least]))
    return chosen if order is None else code.pick(chosen, order)
