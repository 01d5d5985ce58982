"""64-bit products of a scalar and numbers that differ by constants."""

from __future__ import annotations

from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.lowering.emit.simplify.code import Code, Made, Multiples
from triton_xe.lowering.emit.types import I64, number

DEEPEST = 16
"""Sums of sums that are looked through."""


class Sum(NamedTuple):
    """A sum of scalars and a known number."""

    terms: tuple[ir.Operand, ...]
    number: int = 0


def multiply_as_sums(i: ir.Instruction, code: Code) -> Made:
    """(splat(x) + <0, 1, 2, 3>) * splat(y)  ->  <x * y, x * y + y, ...>

    A 64-bit product takes Intel's compiler ten instructions, a sum one.  Therefore each multiple is
    a sum: the multiple with one bit less set, plus a power of two times `y`.
    """
    if i.type.kind != "vec" or i.type.scalar is not I64 or not code.state.target.has_block_2d:
        return None  # on eight lanes copies through descriptors became longer
    for one, other in (i.operands, i.operands[::-1]):
        by = code.scalar(other)
        if by is not None and code.scalar(one) is None:
            found = _scaled(one, by, code) if by.is_constant else _multiples(one, by, code)
            return None if found is None else _packed(found, i, code)
    return None


def _multiples(vector: ir.Operand, by: ir.Operand, code: Code) -> Multiples | None:
    """The products of a vector's elements and a scalar, if the elements differ by constants."""
    found = [_sum(vector, k, code, DEEPEST) for k in range(vector.type.count)]
    sums = [each for each in found if each is not None]
    if len(sums) < len(found) or any(each.terms != sums[0].terms for each in sums):
        return None
    total, *others = sums[0].terms
    for each in others:
        total = code.share(ir.Instruction("add", I64, [total, each]))
    first = code.share(ir.Instruction("mul", I64, [total, by]))
    return Multiples(first, by, tuple(each.number for each in sums))


def _sum(vector: ir.Operand, index: int, code: Code, depth: int) -> Sum | None:
    """An element as a sum of scalars, and a number that is not negative."""
    place = code.element(vector, index)
    if place is None or not depth:
        return None
    scalar = code.scalar(place.vector)
    if scalar is not None:
        return Sum((scalar,))
    total = code.made(place.vector, "add")
    if total is None:
        return _extended(place.vector, place.index, code)
    one, other = (_sum(x, place.index, code, depth - 1) for x in total.operands)
    return None if one is None or other is None else Sum(
        tuple(sorted(one.terms + other.terms)), one.number + other.number)


def _extended(vector: ir.Operand, index: int, code: Code) -> Sum | None:
    """zext(x + 1) as zext(x) + 1, if the sum does not wrap around."""
    i = code.made(vector, "zext", "sext")
    place = None if i is None else code.element(i.operands[0], index)
    found = None if place is None else code.shifted(place.vector)
    if i is None or place is None or found is None:
        return None
    added = elements[place.index].integer_value() if (elements := found.numbers.elements) else 0
    # if the result is not negative, a sum with a number that is not negative did not wrap around
    exact = "nneg" in i.flags or (i.opcode == "sext" and "nsw" in found.total.flags)
    if added is None or added < 0 or not exact:
        return None
    return Sum((code.share(ir.Instruction("sext", I64, [found.scalar])),), added)


def _scaled(vector: ir.Operand, by: ir.Operand, code: Code) -> Multiples | None:
    """Multiples, in another order perhaps, times a constant."""
    found = code.origin(vector)
    known = None if found is None else code.multiples.get(found[0].text)
    if found is None or known is None:
        return None
    first, step = (code.share(ir.Instruction("mul", I64, [x, by])) for x in known[:2])
    return Multiples(first, step, tuple(known.numbers[k] for k in found[1]))


def _packed(found: Multiples, i: ir.Instruction, code: Code) -> list[ir.Instruction]:
    """Build a vector of multiples."""
    made: list[ir.Instruction] = []
    value = ir.undef(i.type)
    for k, times in enumerate(found.numbers):
        made.append(ir.Instruction("insertelement", i.type, [
            value, _multiple(found, times, code), number(k)]))
        value = code.named(made[-1])
    code.multiples[i.value.text] = found
    return made


def _multiple(found: Multiples, times: int, code: Code) -> ir.Operand:
    """The sum of the first product and `times` the factor."""
    if times == 0:
        return found.first
    rest = times & (times - 1)
    bit = ir.constant(I64, (times ^ rest).bit_length() - 1)
    power = code.share(ir.Instruction("shl", I64, [found.by, bit]))
    return code.share(ir.Instruction("add", I64, [_multiple(found, rest, code), power]))
