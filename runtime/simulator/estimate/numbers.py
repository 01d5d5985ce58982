"""Compute with the integers of a sample of work-items.

They are arrays with axes (groups, subgroups, lanes, elements of a vector).  An axis of length 1 has
one value for all; None is an unknown number.  Numbers that are only added and multiplied are
represented as a sum of small arrays, one for each set of axes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.llvm import Operand, Type

Numbers = NDArray[np.int64]
_NARROW = {8: np.int8, 16: np.int16, 32: np.int32}
_NOTHING = np.zeros((1, 1, 1, 1), np.int64)
_ONE = np.ones((1, 1, 1, 1), np.int64)
_MINUS = np.full((1, 1, 1, 1), -1, np.int64)
SMALL = 1024
"""Size below which arrays are added instead of being represented as separate terms."""


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum of terms over different axes, with bounds `low` and `high`."""

    terms: tuple[Numbers, ...]
    low: int
    high: int

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(t.shape for t in self.terms))

    def fits(self, bits: int) -> bool:
        """True if no number overflows a signed integer of this many bits."""
        return -(1 << (bits - 1)) <= self.low and self.high < 1 << (bits - 1)

    def scaled(self, by: int) -> Sum:
        low, high = sorted((self.low * by, self.high * by))
        return Sum(tuple(_cached_term(operator.mul, t, by) for t in self.terms), low, high)


Known = Numbers | Sum | None


def full(value: Numbers | Sum) -> Numbers:
    """Convert to one array."""
    if not isinstance(value, Sum):
        return value
    found = value.terms[0]
    for term in value.terms[1:]:
        found = found + term
    return found


def plain(value: Known) -> Numbers | None:
    """Convert to one array; None if unknown."""
    return None if value is None else full(value)


def terms_of(value: Numbers | Sum) -> tuple[Numbers, ...]:
    return value.terms if isinstance(value, Sum) else (value,)


def _as_sum(value: Numbers | Sum) -> Sum:
    if isinstance(value, Sum):
        return value
    if value.size == 1:
        return Sum((value,), value.item(), value.item())
    return Sum((value,), int(np.minimum.reduce(value, None)), int(np.maximum.reduce(value, None)))


@lru_cache(maxsize=4096)
def _has_axes(large: tuple[int, ...], small: tuple[int, ...]) -> bool:
    """True if arrays of the first shape have all axes of the second."""
    return all(a == b or b == 1 for a, b in zip(large, small, strict=True))


def plus(a: Numbers | Sum, b: Numbers | Sum) -> Numbers | Sum:
    """The sum; numbers over different axes remain separate terms."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.size == 1 or b.size == 1 or _has_axes(a.shape, b.shape) or _has_axes(b.shape, a.shape):
            return a + b
        if np.broadcast(a, b).size <= SMALL:
            return a + b
    a, b = _as_sum(a), _as_sum(b)
    terms = list(a.terms)
    for term in b.terms:
        _add_term(terms, term)
    low, high = a.low + b.low, a.high + b.high
    return terms[0] if len(terms) == 1 else Sum(tuple(terms), low, high)


_CACHED_TERMS: dict[tuple[Any, int, int], tuple[Numbers, Any, Any]] = {}
"""Cached terms of one walk, so that equal terms are one object."""


def forget() -> None:
    """Clear the cached terms before another walk."""
    _CACHED_TERMS.clear()


def _cached_term(compute: Callable[[Any, Any], Numbers], a: Numbers, b: Numbers | int) -> Numbers:
    """Compute a term from two operands, or return the cached one, so that equal terms are one."""
    key = compute, id(a), b if isinstance(b, int) else id(b)
    found = _CACHED_TERMS.get(key)
    if found is None:
        found = _CACHED_TERMS[key] = compute(a, b), a, b
    return found[0]


def _add_term(terms: list[Numbers], term: Numbers) -> None:
    """Add a term to the smallest one that has all of its axes."""
    fit = [k for k, t in enumerate(terms) if _has_axes(t.shape, term.shape)]
    if fit:
        k = min(fit, key=lambda k: terms[k].size)
        terms[k] = _cached_term(operator.add, terms[k], term)
        return
    inside = [k for k, t in enumerate(terms) if _has_axes(term.shape, t.shape)]
    for k in reversed(inside):
        term = _cached_term(operator.add, term, terms.pop(k))
    terms.append(term)


def difference(after: Numbers | Sum, before: Numbers | Sum) -> Numbers:
    """The difference of two numbers, computed from the terms in which they differ."""
    if isinstance(after, Sum) and isinstance(before, Sum) and len(after.terms) == len(before.terms):
        changed = [a - b for a, b in zip(after.terms, before.terms, strict=True) if a is not b]
        found = np.zeros((1, 1, 1, 1), np.int64)
        for one in changed:
            found = found + one
        return found
    return full(after) - full(before)


def times(a: Numbers | Sum, b: Numbers | Sum) -> Numbers | Sum:
    """The product."""
    if isinstance(a, Sum) and isinstance(b, np.ndarray) and b.size == 1:
        return a.scaled(b.item())
    if isinstance(b, Sum) and isinstance(a, np.ndarray) and a.size == 1:
        return b.scaled(a.item())
    return full(a) * full(b)


def _divide_sum(value: Sum, opcode: str, by: int) -> Numbers | Sum | None:
    """Quotient or remainder of a sum, or None if it may be negative.

    Terms that `by` divides remain separate terms.
    """
    if by <= 0 or value.low < 0:
        return None
    whole = [term for term in value.terms if not (term % by).any()]
    rest = full(Sum(tuple(t for t in value.terms if not any(t is w for w in whole)) or (_NOTHING,),
                    0, 0))
    if opcode == "rem":
        return rest % by if value.high >= by else value
    found: Numbers | Sum = rest // by
    for term in whole:
        found = plus(found, _cached_term(operator.floordiv, term, by))
    return found


_DIVISIONS = {"udiv": "div", "sdiv": "div", "urem": "rem", "srem": "rem", "lshr": "div",
              "ashr": "div", "and": "rem"}


def _divisor(opcode: str, b: Numbers) -> int:
    """Divisor of an instruction, or 0 if it does not divide by a constant."""
    if opcode not in _DIVISIONS or b.size != 1:
        return 0
    number = b.item()
    if opcode in ("lshr", "ashr"):
        return 1 << number if 0 <= number < 62 else 0
    return number + 1 if opcode == "and" and number & (number + 1) == 0 else (
        0 if opcode == "and" else number)


_LINEAR: dict[str, Callable[[Any, Any], Numbers | Sum]] = {
    "add": plus, "sub": lambda a, b: plus(a, times(b, _MINUS)), "mul": times,
    "shl": lambda a, b: times(a, 1 << np.clip(full(b), 0, 62)),
}


def wrapped(values: Numbers, bits: int) -> Numbers:
    """Truncate to a signed integer of this many bits."""
    if bits >= 64:
        return values
    if bits == 1:
        return values & 1
    if bits in _NARROW:
        return values.astype(_NARROW[bits]).astype(np.int64)
    half = 1 << (bits - 1)
    return ((values + half) & ((1 << bits) - 1)) - half


def unsigned(values: Numbers, bits: int) -> Numbers:
    """Reinterpret as an unsigned integer, as far as int64 can represent it."""
    return values & ((1 << bits) - 1) if bits < 63 else values


def number(value: int, bits: int) -> Numbers:
    """One integer or address for all work-items."""
    value &= 2**64 - 1
    signed = value - 2**64 if value >> 63 else value
    return wrapped(np.full((1, 1, 1, 1), signed, np.int64), bits)


def constant(operand: Operand) -> Known:
    """The value of a constant of integers or pointers; None if unknown."""
    if operand.expression is not None:
        return None
    value = operand.integer_value()
    if value is not None:
        return number(value, operand.type.bits or 64)
    t = operand.type
    if t.scalar.kind not in ("int", "ptr"):
        return None
    if operand.is_zero or operand.is_undefined:
        return np.zeros((1, 1, 1, 1), np.int64)
    if operand.elements and operand.is_splat:
        return constant(operand.elements[0])
    if operand.elements:
        found = [constant(e) for e in operand.elements]
        if all(f is not None for f in found):
            return np.concatenate([f for f in found if f is not None], -1)
    return None


def _divide(a: Numbers, b: Numbers) -> Numbers:
    b = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def _remainder(a: Numbers, b: Numbers) -> Numbers:
    return a - _divide(a, b) * np.where(b == 0, 1, b)


_SIGNED: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "sdiv": _divide,
    "srem": _remainder, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "shl": lambda a, b: a << np.clip(b, 0, 63), "ashr": lambda a, b: a >> np.clip(b, 0, 63),
}
_UNSIGNED: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "udiv": _divide, "urem": _remainder, "lshr": lambda a, b: a >> np.clip(b, 0, 63),
}
_PREDICATES: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge,
}


def binary(opcode: str, a: Known, b: Known, t: Type) -> Known:
    """The result of an arithmetic instruction; None if an operand or the opcode is unknown."""
    bits = t.scalar.bits
    if a is None or b is None or t.scalar.kind != "int":
        return None
    if opcode in _LINEAR and (opcode in ("add", "sub") or isinstance(a, Sum) or isinstance(b, Sum)):
        return cut(_LINEAR[opcode](a, b), bits)
    b = full(b)
    if isinstance(a, Sum) and (by := _divisor(opcode, b)):
        found = _divide_sum(a, _DIVISIONS[opcode], by)
        if found is not None:
            return found
    a = full(a)
    if opcode in _UNSIGNED:
        return wrapped(_UNSIGNED[opcode](unsigned(a, bits), unsigned(b, bits)), bits)
    return wrapped(_SIGNED[opcode](a, b), bits) if opcode in _SIGNED else None


def cut(value: Numbers | Sum, bits: int) -> Numbers | Sum:
    """Truncate to a signed integer of this many bits."""
    if isinstance(value, Sum):
        return value if value.fits(bits) else wrapped(full(value), bits)
    return wrapped(value, bits)


def compare(predicate: str, a: Known, b: Known, t: Type) -> Known:
    """The result of an icmp."""
    if a is None or b is None:
        return None
    if isinstance(a, Sum) or isinstance(b, Sum):
        one, two = _as_sum(a), _as_sum(b)
        found = _compare_bounds(predicate[-2:], one, two)
        if found is not None and (predicate[0] != "u" or min(one.low, two.low) >= 0):
            return _ONE if found else _NOTHING
    a, b = full(a), full(b)
    if predicate[0] == "u":
        a, b = unsigned(a, t.scalar.bits), unsigned(b, t.scalar.bits)
    compared = _PREDICATES[predicate[-2:]](a, b)
    if compared.all():
        return _ONE
    return compared.astype(np.int64) if compared.any() else _NOTHING


def _compare_bounds(predicate: str, a: Sum, b: Sum) -> bool | None:
    """The result of a comparison if the bounds decide it, otherwise None."""
    if predicate in ("gt", "ge"):
        return _compare_bounds({"gt": "lt", "ge": "le"}[predicate], b, a)
    if predicate == "lt":
        return True if a.high < b.low else False if a.low >= b.high else None
    if predicate == "le":
        return True if a.high <= b.low else False if a.low > b.high else None
    return predicate == "ne" if a.high < b.low or a.low > b.high else None


def select(condition: Known, a: Known, b: Known) -> Known:
    """The result of a select; None if the condition or one of the values is unknown."""
    if condition is None or a is None or b is None:
        return None
    condition = full(condition)
    if condition.size == 1:
        return a if condition.item() else b
    return np.where(condition != 0, full(a), full(b))


def shuffled(a: Known, b: Known, indices: Sequence[int], count: int) -> Known:
    """Elements of two vectors; an undefined index selects the first element."""
    if a is None:
        return None
    if max(indices) < count:
        first = [max(0, i) for i in indices]
        return chosen(a, first) if any(first) else element(a, 0)
    if b is None:
        return None
    a, b = (broadcast(full(v), count) for v in (a, b))
    shape = np.broadcast_shapes(a.shape[:3], b.shape[:3])
    both = np.concatenate([np.broadcast_to(v, (*shape, count)) for v in (a, b)], -1)
    return both[..., [max(0, i) for i in indices]]


def chosen(vector: Known, elements: Sequence[int]) -> Known:
    """Selected elements of a vector."""
    if vector is None:
        return None
    terms = tuple(t if t.shape[-1] == 1 else t[..., list(elements)] for t in terms_of(vector))
    return Sum(terms, vector.low, vector.high) if isinstance(vector, Sum) else terms[0]


def element(vector: Numbers | Sum, k: int) -> Numbers | Sum:
    """One element of a vector."""
    if not isinstance(vector, Sum):
        return vector if vector.shape[-1] == 1 else vector[..., k : k + 1]
    terms = [t if t.shape[-1] == 1 else t[..., k : k + 1] for t in vector.terms]
    return Sum(tuple(terms), vector.low, vector.high)


def broadcast(a: Numbers, count: int) -> Numbers:
    """Expand the last axis to all elements of a vector."""
    return a if a.shape[-1] == count else np.broadcast_to(a, (*a.shape[:3], count))


def inserted(vector: Known, one: Known, index: Known, count: int, owns: bool = False) -> Known:
    """A vector with one element replaced; it is changed in place if the caller `owns` it."""
    index = plain(index)
    if vector is None or one is None or index is None or index.size != 1:
        return None
    k = index.item()
    if isinstance(vector, Sum) and isinstance(one, Sum) and len(vector.terms) == len(one.terms):
        terms = (v if v is o else _insert_element(v, o, k, count, owns=False)
                 for v, o in zip(vector.terms, one.terms, strict=True))
        return Sum(tuple(terms), min(vector.low, one.low), max(vector.high, one.high))
    return _insert_element(full(vector), full(one), k, count, owns)


def _insert_element(vector: Numbers, one: Numbers, k: int, count: int, owns: bool) -> Numbers:
    """Replace one element of a vector, in place if `owns`."""
    shape = (*np.broadcast_shapes(vector.shape[:3], one.shape[:3]), count)
    made = vector if owns and vector.shape == shape else np.array(np.broadcast_to(vector, shape))
    made[..., k] = one[..., 0]
    return made


def evaluated(
    definition: Callable[..., NDArray[Any]], operands: Sequence[Numbers], bits: int
) -> Known:
    """Evaluate a function by its readable definition, on integers of `bits` bits."""
    if bits not in (8, 16, 32, 64):
        return None
    together = np.broadcast_arrays(*operands)
    found = definition(*(v.astype(f"i{bits // 8}").ravel() for v in together))
    return np.asarray(found).astype(np.int64).reshape(together[0].shape)
