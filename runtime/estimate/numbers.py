"""Integers of a sample of work-items as arrays: (groups, subgroups, lanes, elements of a vector).

An axis of length 1 stands for one value; None is a number that nobody knows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.runtime.simulator.ir import Operand, Type

Numbers = NDArray[np.int64]
Known = Numbers | None


def wrapped(values: Numbers, bits: int) -> Numbers:
    """Cut to a signed integer of so many bits."""
    if bits >= 64:
        return values
    if bits == 1:
        return values & 1
    half = 1 << (bits - 1)
    return ((values + half) & ((1 << bits) - 1)) - half


def unsigned(values: Numbers, bits: int) -> Numbers:
    """The same bits as an unsigned integer, as far as int64 can say."""
    return values & ((1 << bits) - 1) if bits < 63 else values


def number(value: int, bits: int) -> Numbers:
    """One integer or address for all."""
    value &= 2**64 - 1
    signed = value - 2**64 if value >> 63 else value
    return wrapped(np.full((1, 1, 1, 1), signed, np.int64), bits)


def constant(operand: Operand) -> Known:
    """The value of a constant of integers or pointers."""
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
    """An arithmetic instruction; None where an operand or the opcode is not known."""
    bits = t.scalar.bits
    if a is None or b is None or t.scalar.kind != "int":
        return None
    if opcode in _UNSIGNED:
        return wrapped(_UNSIGNED[opcode](unsigned(a, bits), unsigned(b, bits)), bits)
    return wrapped(_SIGNED[opcode](a, b), bits) if opcode in _SIGNED else None


def compare(predicate: str, a: Known, b: Known, t: Type) -> Known:
    """An icmp."""
    if a is None or b is None:
        return None
    if predicate[0] == "u":
        a, b = unsigned(a, t.scalar.bits), unsigned(b, t.scalar.bits)
    return _PREDICATES[predicate[-2:]](a, b).astype(np.int64)


def select(condition: Known, a: Known, b: Known) -> Known:
    """One or the other; either where only one is known."""
    if condition is None or a is None or b is None:
        return None
    return np.where(condition != 0, a, b)


def shuffled(a: Known, b: Known, indices: Sequence[int], count: int) -> Known:
    """Elements of two vectors; an undefined one is the first."""
    if a is None:
        return None
    a = broadcast(a, count)
    if b is not None:
        b = broadcast(b, count)
        shape = np.broadcast_shapes(a.shape[:3], b.shape[:3])
        both = np.concatenate([np.broadcast_to(v, (*shape, count)) for v in (a, b)], -1)
    elif max(indices) < count:
        both = a
    else:
        return None
    return both[..., [max(0, i) for i in indices]]


def broadcast(a: Numbers, count: int) -> Numbers:
    """With all elements of a vector."""
    return a if a.shape[-1] == count else np.broadcast_to(a, (*a.shape[:3], count))


def inserted(vector: Known, element: Known, index: Known, count: int) -> Known:
    """A vector with one other element."""
    if vector is None or element is None or index is None or index.size != 1:
        return None
    shape = np.broadcast_shapes(vector.shape[:3], element.shape[:3])
    made = np.array(np.broadcast_to(vector, (*shape, count)))
    made[..., int(index.flat[0])] = element[..., 0]
    return made


def evaluated(
    definition: Callable[..., NDArray[Any]], operands: Sequence[Numbers], bits: int
) -> Known:
    """A function by its readable definition, on integers of so many bits."""
    if bits not in (8, 16, 32, 64):
        return None
    together = np.broadcast_arrays(*operands)
    found = definition(*(v.astype(f"i{bits // 8}").ravel() for v in together))
    return np.asarray(found).astype(np.int64).reshape(together[0].shape)
