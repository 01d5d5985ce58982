"""Fold integer operations whose result constants determine.

With the kind of an access as a constant, the sanitizer's functions have a third of the
instructions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from triton_xe.llvm.records import Operand, constant
from triton_xe.llvm.types import I1, Type, with_elements

_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_,
    "or": operator.or_, "xor": operator.xor, "shl": operator.lshift, "lshr": operator.rshift,
    "udiv": operator.floordiv, "urem": operator.mod}
"""Operations on unsigned integers."""
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "ult": operator.lt, "ule": operator.le,
    "ugt": operator.gt, "uge": operator.ge}
_NEUTRAL_ZERO = frozenset("add sub or xor shl lshr ashr".split())
"""Operations whose result is the first operand if the second is 0."""


def number(x: Operand) -> int | None:
    """The unsigned integer in all elements of a constant, else None."""
    if x.local is not None or x.type.scalar.kind != "int" or x.is_undefined:
        return None
    if x.type.kind == "vec" and not x.is_splat:
        return None
    found = (x.elements[0] if x.elements else x).integer_value()
    if found is None:
        return 0 if x.is_zero else None
    return found & (1 << x.type.scalar.bits) - 1


def binary(opcode: str, x: Operand, y: Operand) -> Operand | None:
    """The result if constants determine it, else None."""
    first, second = number(x), number(y)
    if first is None and second is None:
        return None
    if first is not None and second is not None:
        return _fold_constants(opcode, x.type, first, second)
    if first is not None:
        commutes = opcode in ("add", "and", "or", "xor")
        return _fold_constant(opcode, y, first, x) if commutes else None
    assert second is not None
    return _fold_constant(opcode, x, second, y)


def _fold_constants(opcode: str, t: Type, first: int, second: int) -> Operand | None:
    bits = t.scalar.bits
    is_defined = (second < bits if opcode in ("shl", "lshr") else
                  second != 0 if opcode in ("udiv", "urem") else opcode in _OPERATIONS)
    return _constant(t, _OPERATIONS[opcode](first, second)) if is_defined else None


def _fold_constant(opcode: str, x: Operand, known: int, y: Operand) -> Operand | None:
    """The result for an operand and the constant `y`, if it is one of the two."""
    every = (1 << x.type.scalar.bits) - 1
    if known == {"and": every}.get(opcode, 0 if opcode in _NEUTRAL_ZERO else None):
        return x
    return y if known == {"and": 0, "or": every}.get(opcode) else None


def comparison(predicate: str, x: Operand, y: Operand) -> Operand | None:
    """The result for two constants, else None."""
    first, second = number(x), number(y)
    if first is None or second is None or predicate not in _COMPARISONS:
        return None
    return constant(with_elements(x.type, I1), _COMPARISONS[predicate](first, second))


def resized(opcode: str, x: Operand, t: Type) -> Operand | None:
    """Extend or truncate a constant to element type `t`; None for other operands."""
    known = number(x)
    if known is None or opcode not in ("zext", "sext", "trunc") or t.kind != "int":
        return None
    if opcode == "sext":
        known -= (known >> x.type.scalar.bits - 1) << x.type.scalar.bits
    return _constant(with_elements(x.type, t), known)


def _constant(t: Type, value: int) -> Operand:
    """A constant, spelled as a signed number of its width."""
    bits = t.scalar.bits
    value &= (1 << bits) - 1
    return constant(t, value - (value >> bits - 1 << bits) if bits > 1 else value)
