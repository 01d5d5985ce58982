"""Divide many numbers by one 32-bit integer: a multiplication, and a correction.

    m = floor((2^32 - 1) / d) ;  q = floor(x m / 2^32) ;  q + 1 where x - q d >= d

For x below 2^32, x / d - x m / 2^32 = x (2^32 - m d) / (2^32 d).  This difference is below 1,
because 2^32 - m d <= d, so q is at most one too small.  Signs are removed before and restored
after.  The factor m itself is a function of the module, which `triton_xe.lowering.spirv.quotients`
writes without a division.

This takes 12 instructions.  Intel's compiler divides by 30 instructions and a branch, or by half as
many on devices with fast doubles.  It repeats them, with the branch, for each element of a lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.lowering.emit.helpers import call_internal
from triton_xe.lowering.emit.maths.terms import Term, where
from triton_xe.lowering.emit.types import I32, number
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.facts.divisors import MOST, pays
from triton_xe.spirv import QUOTIENT

FEWEST = 2
"""Elements of a lane from which on a shared factor costs less than separate divisions."""


def _size(x: Term) -> tuple[Term, Term]:
    """Absolute value of a signed integer, and its sign in all bits (0 or -1)."""
    sign = x.with_value(x.em.b.ashr(x.value, x.term(x.width - 1).value))
    return (x ^ sign) - sign, sign


class Divisor(NamedTuple):
    """A scalar divisor of many elements, with the values that all of its divisions share.

    `size` is its absolute value, `sign` its sign in all bits, `factor` is m.  Dividends fit 32 bits
    (see `fits`), so a `size` of more than 32 bits is replaced by the largest number of 32 bits.
    """

    scalar: ir.Operand
    size: ir.Operand
    sign: ir.Operand
    factor: ir.Operand

    @classmethod
    def for_scalar(cls, em: Writer, scalar: ir.Operand, is_signed: bool) -> Divisor:
        """The divisor for a scalar; its values are computed at the first call in a scope."""
        return em.remember(
            _key(scalar, is_signed), lambda: cls._computed(em, scalar, is_signed))

    @classmethod
    def _computed(cls, em: Writer, scalar: ir.Operand, is_signed: bool) -> Divisor:
        size, sign = _size(Term(em, scalar)) if is_signed else (Term(em, scalar), None)
        if size.width > 32:
            size = where(size.compare("ult", MOST), size, MOST).resized(I32)
        held = number(0) if sign is None else sign.resized(I32).value
        at_least_one = where(size.equals(0), 1, size)
        return cls(scalar, size.value, held, _factor(em, at_least_one.value))

    def divide(self, em: Writer, name: str, value: ir.Operand, *, natural: bool) -> ir.Operand:
        """Divide (`sdiv`, `srem`, `udiv`, `urem`) one number of 32 bits, by instructions.

        A `natural` one is not negative.
        """
        x, size, sign = Term(em, value), Term(em, self.size), None
        if name[0] == "s" and not natural:
            x, sign = _size(x)
        first = x.builtin("mul_hi", Term(em, self.factor), unsigned=True)
        rest = x - first * size
        is_more = rest.compare("uge", size)
        if name.endswith("rem"):
            found = where(is_more, rest - size, rest)
        else:
            found = first + is_more.resized(I32)
            sign = Term(em, self.sign) if sign is None else sign ^ Term(em, self.sign)
        return found.value if sign is None else ((found ^ sign) - sign).value

    def division(
        self, em: Writer, name: str, *, natural: bool
    ) -> Callable[[ir.Operand], ir.Operand]:
        """Return a function that emits the division of elements by this scalar.

        It emits a call, whose callee `triton_xe.lowering.spirv.quotients` replaces by products.
        """
        def write(x: ir.Operand) -> ir.Operand:
            count = x.type.lanes
            wide = ".wide" if self.scalar.type != I32 else ""
            return call_internal(
                em, f"{QUOTIENT}{name}.{count}{wide}{'.natural' * natural}", x.type,
                [x, self.scalar, self.size, self.sign, self.factor],
                lambda inner, value, by, *held: getattr(inner.b, name)(
                    value, inner.splat(by, count)))

        return write


def is_known(em: Writer, scalar: ir.Operand, is_signed: bool) -> bool:
    """True if the values that divisions by a scalar need have been computed."""
    return em.knows(_key(scalar, is_signed))


def _key(scalar: ir.Operand, is_signed: bool) -> tuple[object, ...]:
    return "divisor", scalar, is_signed


def _factor(em: Writer, size: ir.Operand) -> ir.Operand:
    """floor((2^32 - 1) / size), of a size that is not 0."""
    if not pays(em.state.target):
        return em.b.udiv(number(-1), size)
    return call_internal(em, f"{QUOTIENT}factor", I32, [size],
                         lambda inner, by: inner.b.udiv(number(-1), by))


def small_quotient(em: Writer, name: str, a: ir.Operand, b: ir.Operand) -> ir.Operand:
    """Emit `name`, "udiv" or "urem", of an i32 from 0 to MOST_DIVIDED - 1 by a positive one.

    The result is a call of a function, which `triton_xe.lowering.spirv.quotients` replaces by a
    product with the reciprocal.
    """
    return call_internal(em, f"{QUOTIENT}{name}", I32, [a, b],
                         lambda inner, x, y: getattr(inner.b, name)(x, y))
