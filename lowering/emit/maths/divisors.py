"""Division by a 32-bit integer that many are divided by: a multiplication, and a correction.

    m = floor((2^32 - 1) / d) ;  q = floor(x m / 2^32) ;  q + 1 where x - q d >= d

For x below 2^32, x / d - x m / 2^32 = x (2^32 - m d) / (2^32 d) is below 1, as 2^32 - m d <= d: so
q is at most one too small.  Signs are taken off before and put back after.

Intel's compiler writes 30 instructions with a branch in place of these 12, and half as many of
doubles where these are fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from triton_xe.hardware.target import Target
from triton_xe.lowering.emit.maths.terms import Term, where
from triton_xe.lowering.emit.types import I32
from triton_xe.lowering.emit.writer import Writer


def pays(target: Target) -> bool:
    """Whether this is shorter than what Intel's compiler writes."""
    if target.architecture == "Xe-HPC":  # its doubles are as fast as its floats
        return False
    return target.has_block_2d  # before, addresses that depend on it are no longer moved


@dataclass(frozen=True)
class Divisor:
    """A divisor without its sign, the sign in all bits (None for unsigned ones), and m."""

    size: ir.Value
    sign: ir.Value | None
    factor: ir.Value

    @classmethod
    def of(cls, em: Writer, value: ir.Value, is_signed: bool) -> Divisor:
        """What divisions by a value need."""
        size, sign = _size(Term(em, value)) if is_signed else (Term(em, value), None)
        factor = em.b.udiv(I32(-1), size.value)
        return cls(size.value, None if sign is None else sign.value, factor)

    def quotient(self, em: Writer, value: ir.Value) -> ir.Value:
        """A value divided, toward zero."""
        _, sign, first, is_more = self._divided(em, value)
        found = first + is_more.resized(I32)
        if sign is None or self.sign is None:
            return found.value
        sign = sign ^ Term(em, self.sign)
        return ((found ^ sign) - sign).value

    def remainder(self, em: Writer, value: ir.Value) -> ir.Value:
        """What is left, with the sign of the value."""
        rest, sign, _, is_more = self._divided(em, value)
        found = where(is_more, rest - Term(em, self.size), rest)
        return found.value if sign is None else ((found ^ sign) - sign).value

    def _divided(self, em: Writer, value: ir.Value) -> tuple[Term, Term | None, Term, Term]:
        """What is left, the sign, the quotient or one less, and whether it is one less."""
        x, size = Term(em, value), Term(em, self.size)
        sign = None
        if self.sign is not None:
            x, sign = _size(x)
        first = x.builtin("mul_hi", Term(em, self.factor), unsigned=True)
        rest = x - first * size
        return rest, sign, first, rest.unsigned(">=", size)


def _size(x: Term) -> tuple[Term, Term]:
    """A signed integer without its sign, as an unsigned one, and the sign in all bits."""
    sign = x.made(x.em.b.ashr(x.value, x.of(31).value))
    return (x ^ sign) - sign, sign
