"""Evaluate integer and pointer instructions on known numbers (`estimate.numbers`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from triton_xe.llvm import Instruction
from triton_xe.runtime.simulator.estimate.numbers import (
    Known,
    Sum,
    binary,
    compare,
    cut,
    element,
    full,
    inserted,
    plain,
    plus,
    select,
    shuffled,
    times,
)

Computed = Callable[[Sequence[Known]], Known]
_CASTS = frozenset("zext sext trunc ptrtoint inttoptr bitcast addrspacecast freeze".split())


def is_same(i: Instruction) -> bool:
    """True for a cast whose result is the same signed number as its operand."""
    return _is_cast(i) and i.opcode != "zext" and (
        i.type.scalar.bits >= i.operands[0].type.scalar.bits)


def _is_cast(i: Instruction) -> bool:
    if i.opcode not in _CASTS:
        return False
    source = i.operands[0].type
    return i.type.lanes == source.lanes and all(
        t.scalar.kind in ("int", "ptr") for t in (i.type, source))


def computed(i: Instruction, owns: bool) -> Computed:
    """Return a function from known operands to the result, which is None if unknown.

    With `owns`, `insertelement` may change its vector in place.
    """
    opcode, t = i.opcode, i.type
    if opcode in _CASTS:
        return _cast(i) if _is_cast(i) else _unknown
    if opcode == "icmp":
        of = i.operands[0].type
        return lambda v: compare(i.extra, v[0], v[1], of)
    if opcode == "select":
        return lambda v: select(v[0], v[1], v[2])
    if opcode == "getelementptr":
        return _address(i)
    if opcode == "extractelement":
        return _extracted
    if opcode == "insertelement":
        if i.operands[0].is_undefined:
            return lambda v: v[1]
        return lambda v: inserted(v[0], v[1], v[2], t.count, owns)
    if opcode == "shufflevector":
        count = i.operands[0].type.count
        return lambda v: shuffled(v[0], v[1], i.indices, count)
    return (lambda v: binary(opcode, v[0], v[1], t)) if len(i.operands) == 2 else _unknown


def _unknown(values: Sequence[Known]) -> Known:
    return None


def _cast(i: Instruction) -> Computed:
    bits, before = i.type.scalar.bits, i.operands[0].type.scalar.bits
    if i.opcode == "zext" and before < 64:
        return lambda v: _widened(v[0], before)
    return lambda v: v[0] if v[0] is None or bits >= before else cut(v[0], bits)


def _widened(value: Known, bits: int) -> Known:
    if value is None or (isinstance(value, Sum) and value.low >= 0):
        return value
    return full(value) & ((1 << bits) - 1)


def _address(i: Instruction) -> Computed:
    if i.element is None or len(i.operands) != 2:
        return _unknown
    size = np.full((1, 1, 1, 1), i.element.size)
    return lambda v: None if v[0] is None or v[1] is None else plus(v[0], times(v[1], size))


def _extracted(values: Sequence[Known]) -> Known:
    vector, index = values[0], plain(values[1])
    return None if vector is None or index is None or index.size != 1 else (
        element(vector, index.item()))
