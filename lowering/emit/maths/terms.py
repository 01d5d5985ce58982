"""Emit formulas on LLVM values, scalars or vectors, through Python's operators.

    where(x < 0.0, -x, x)

Numbers stand for constants of the other operand's type.  Comparisons of floats are ordered, those
of integers signed; `>>` shifts zeros in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from triton_xe import llvm as ir
from triton_xe.intrinsics import ROWS, llvm
from triton_xe.lowering.emit.types import DOUBLE, FLOAT, I1, bits_of, shaped
from triton_xe.lowering.emit.writer import Writer

Operand = Any
"""A term or a number."""


def _operator(integer: str, real: str = "") -> Callable[[Term, Operand], Term]:
    """Method for `term + other` and the like; `integer` and `real` name the builder's methods."""
    def write(self: Term, other: Operand) -> Term:
        return self.with_value(self._method(integer, real)(self.value, self.term(other).value))

    return write


def _reflected(integer: str, real: str = "") -> Callable[[Term, Operand], Term]:
    """Method for `other + term` and the like."""
    def write(self: Term, other: Operand) -> Term:
        return self.with_value(self._method(integer, real)(self.term(other).value, self.value))

    return write


def _comparison(predicate: str) -> Callable[[Term, Operand], Term]:
    """Method for a signed or ordered comparison."""
    def write(self: Term, other: Operand) -> Term:
        sign = "s" if predicate not in ("eq", "ne") else ""
        return self.compare(f"{sign if self.is_integer else 'o'}{predicate}", other)

    return write


class Term:
    """A value in a formula."""

    __slots__ = ("em", "value")

    def __init__(self, em: Writer, value: ir.Operand) -> None:
        self.em, self.value = em, value

    @property
    def kind(self) -> ir.Type:
        """The type of one element."""
        return self.value.type.scalar

    @property
    def width(self) -> int:
        """Bits of one element."""
        return bits_of(self.kind)

    @property
    def is_integer(self) -> bool:
        return self.kind.kind == "int"

    @property
    def is_double(self) -> bool:
        return self.kind is DOUBLE

    def with_value(self, value: ir.Operand) -> Term:
        """A term for another value, emitted by the same writer."""
        return Term(self.em, value)

    def term(self, value: Operand) -> Term:
        """Convert a number to a constant of this term's type; return a term unchanged."""
        if isinstance(value, Term):
            return value
        number = value if self.is_integer else float(value)
        return self.with_value(ir.constant(self.value.type, number))

    def _method(self, integer: str, real: str) -> Callable[..., ir.Operand]:
        """The builder's method for values of this type."""
        method: Callable[..., ir.Operand] = getattr(self.em.b, integer if self.is_integer else real)
        return method

    __add__, __radd__ = _operator("add", "fadd"), _reflected("add", "fadd")
    __sub__, __rsub__ = _operator("sub", "fsub"), _reflected("sub", "fsub")
    __mul__, __rmul__ = _operator("mul", "fmul"), _reflected("mul", "fmul")
    __truediv__, __rtruediv__ = _operator("sdiv", "fdiv"), _reflected("sdiv", "fdiv")
    __and__, __or__, __xor__ = _operator("and_"), _operator("or_"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("lshr")
    arithmetic_shift = _operator("ashr")
    __lt__, __le__ = _comparison("lt"), _comparison("le")
    __gt__, __ge__ = _comparison("gt"), _comparison("ge")
    equals, differs = _comparison("eq"), _comparison("ne")

    def __neg__(self) -> Term:
        return 0 - self if self.is_integer else self.with_value(self.em.b.fneg(self.value))

    def __invert__(self) -> Term:
        return self.with_value(self.em.b.not_(self.value))

    def compare(self, predicate: str, other: Operand) -> Term:
        """A comparison with a predicate of LLVM, such as `ult` of integers or `uno` of floats."""
        opcode = "icmp" if self.is_integer else "fcmp"
        return self.with_value(
            self.em.b.compare(opcode, predicate, self.value, self.term(other).value))

    def is_nan(self) -> Term:
        return self.compare("uno", self)

    def is_infinite(self) -> Term:
        return self.size.equals(math.inf)

    def is_finite(self) -> Term:
        return self.size < math.inf

    def is_negative(self) -> Term:
        """True if the sign of a float is set, also of zero and NaN."""
        return self.bits < 0

    # -- conversions ---------------------------------------------------------------------------

    def _cast(self, name: str, kind: ir.Type) -> Term:
        into = shaped(self.value.type, kind)
        return self if into == self.value.type else self.with_value(
            getattr(self.em.b, name)(self.value, into))

    def bitcast(self, kind: ir.Type) -> Term:
        return self._cast("bitcast", kind)

    @property
    def bits(self) -> Term:
        """Reinterpret as an integer."""
        return self.bitcast(ir.integer(self.width))

    def resized(self, kind: ir.Type, *, signed: bool = False) -> Term:
        """Extend or truncate: a float to another float type, an integer to another integer."""
        wider = self.width < bits_of(kind)
        if self.is_integer:
            return self._cast(("sext" if signed else "zext") if wider else "trunc", kind)
        if self.kind == DOUBLE and kind == FLOAT:
            self.em.state.narrows_doubles = True
        return self._cast("fpext" if wider else "fptrunc", kind)

    def to_integer(self, kind: ir.Type, *, signed: bool = True) -> Term:
        """Convert a float to an integer, toward zero."""
        return self._cast("fptosi" if signed else "fptoui", kind)

    def to_float(self, kind: ir.Type, *, signed: bool = True) -> Term:
        """Convert an integer to a float, rounded to nearest."""
        return self._cast("sitofp" if signed else "uitofp", kind)

    # -- functions -----------------------------------------------------------------------------

    def intrinsic(self, name: str, *others: Operand) -> Term:
        """An LLVM intrinsic that is overloaded on its one type."""
        values = [self.value, *(self.term(x).value for x in others)]
        return self.with_value(self.em.call(llvm.named(name), values))

    def builtin(self, name: str, *others: Operand, unsigned: bool = False) -> Term:
        """An OpenCL builtin whose result has this term's type."""
        values = [self.value, *(self.term(x).value for x in others)]
        return self.with_value(builtin(self.em, name, *values, unsigned=unsigned))

    def fma(self, factor: Operand, summand: Operand) -> Term:
        """self * factor + summand, rounded once."""
        return self.intrinsic("fma", factor, summand)

    @property
    def size(self) -> Term:
        """Absolute value of a float."""
        return self.intrinsic("fabs")

    def count_bits(self, name: str) -> Term:
        """Call ctpop, ctlz or cttz; the latter two return the width for zero."""
        extra = [] if name == "ctpop" else [ir.constant(I1, 0)]
        return self.with_value(self.em.call(llvm.named(name), [self.value, *extra]))


def exact_root(x: Term) -> Term:
    """The correctly rounded square root."""
    _note_precise(x)
    return x.intrinsic("sqrt")


def exact_quotient(a: Term, b: Operand) -> Term:
    """The correctly rounded quotient."""
    _note_precise(a)
    return a / b


def _note_precise(x: Term) -> None:
    """Note that fp32 divisions and roots of this module must be correctly rounded."""
    if x.kind == FLOAT:
        x.em.state.precise = True


def where(test: Term, a: Operand, b: Operand) -> Term:
    """Select `a` where the test is true, else `b`; one of them must be a term."""
    like = a if isinstance(a, Term) else b
    return test.with_value(test.em.b.select(test.value, like.term(a).value, like.term(b).value))


def builtin(
    em: Writer, name: str, *args: ir.Operand, result: ir.Type | None = None, unsigned: bool = False
) -> ir.Operand:
    """Call an OpenCL builtin; its type is `result`, or else that of the first argument."""
    return em.call(ROWS[name], args, result, unsigned=unsigned)
