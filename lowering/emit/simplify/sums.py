"""Sums of a scalar and known numbers: positions of a lane's registers."""

from __future__ import annotations

from dataclasses import replace

from triton_xe import llvm as ir
from triton_xe.llvm import folding
from triton_xe.lowering.emit.simplify.code import Code, Made, Shifted
from triton_xe.lowering.emit.values import elements_of


def add_scalars_first(i: ir.Instruction, code: Code) -> Made:
    """(splat(x) + C) + splat(y)  ->  splat(x + y) + C"""
    if i.type.kind != "vec":
        return None
    for one, other in (i.operands, i.operands[::-1]):
        by = code.scalar(other)
        if by is None or one.is_constant:
            continue
        same, found = code.scalar(one), code.shifted(one)
        if same is not None:
            total = code.hoist(ir.Instruction("add", by.type, [same, by], flags=i.flags))
            return code.splat(total, i.type.count)
        if found is not None:
            return _combined("add", i, by, found, found.numbers, code)
    return None


def multiply_scalar_first(i: ir.Instruction, code: Code) -> Made:
    """(splat(x) + C) * splat(2)  ->  splat(x * 2) + C * 2"""
    one, other = i.operands
    by, found = code.scalar(other), code.shifted(one)
    if found is None or by is None or not by.is_constant:
        return None
    products = [folding.binary("mul", n, by) for n in elements_of(found.numbers)]
    return _combined("mul", i, by, found, ir.constant_vector([p for p in products if p]), code)


def _combined(
    opcode: str, i: ir.Instruction, by: ir.Operand, found: Shifted, numbers: ir.Operand, code: Code
) -> list[ir.Instruction]:
    """splat(scalar op by) + numbers; nsw if both operations have it, and the scalar is exact, too.

    It is if 0 is between the numbers.  That of a tensor's later registers, from 16 on, is also that
    of the first one, which is usually written before.
    """
    both = tuple(flag for flag in i.flags if flag in found.total.flags)
    added = [n.integer_value() or 0 for n in elements_of(numbers)]
    exact = ir.Instruction(opcode, by.type, [found.scalar, by], flags=both)
    is_exact = min(added) <= 0 <= max(added) or code.known(exact) is not None
    flags = both if is_exact else ()
    scalar = code.hoist(replace(exact, flags=flags))
    return [ir.Instruction("add", i.type, [code.splat(scalar, i.type.count), numbers], flags=flags)]
