"""What a per-work-item value becomes on the host.

A varying `<n x T>` is ONE flat host vector of n*S elements, element-major and lane-minor
(index = element * S + lane), S being the subgroup size: the register image of the hardware.
`type` is always that of one work-item.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from triton_xe.runtime.simulator.analysis.shapes import Table
from triton_xe.runtime.simulator.ir import Operand, Type, vector


@dataclass(frozen=True)
class Uniform:
    """The same in every lane: a host value of the per-work-item type."""

    value: Operand
    type: Type


@dataclass(frozen=True, eq=False)
class Tabled:
    """`base + table[element, lane]`; `base` None is zero.  Pointers: table in bytes."""

    base: Operand | None
    table: Table
    type: Type


@dataclass(frozen=True)
class Wide:
    """A flat host vector."""

    value: Operand
    type: Type


@dataclass(frozen=True)
class Pieces:
    """A vector as its elements, joined only when it is needed whole."""

    parts: tuple[Value, ...]
    type: Type


@dataclass(frozen=True)
class Slot:
    """A flat host vector in memory at `pointer`, valid as long as the value is live."""

    pointer: Operand
    type: Type


@dataclass(frozen=True)
class Private:
    """A pointer into a private array: `offset` bytes of each work-item into `array`."""

    array: Operand
    offset: int
    type: Type


@dataclass(frozen=True)
class Aggregate:
    """A literal struct, field by field."""

    parts: tuple[Value, ...]
    type: Type


Value = Uniform | Tabled | Wide | Pieces | Slot | Private | Aggregate


def uniform(value: Operand) -> Uniform:
    return Uniform(value, value.type)


def contiguous_start(pointer: Value, nbytes: int) -> tuple[Operand, int] | None:
    """(base, byte offset) when lane l is at `start + l * nbytes`."""
    if not isinstance(pointer, Tabled) or pointer.base is None:
        return None
    row = np.broadcast_to(pointer.table, (1, pointer.table.shape[1]))[0]
    if (np.diff(row) == nbytes).all():
        return pointer.base, int(row[0])
    return None


def wide_type(t: Type, lanes: int) -> Type:
    """The flat host vector of a value of type `t`."""
    return vector(t.lanes * lanes, t.scalar)


def slice_mask(first: int, count: int) -> range:
    return range(first, first + count)
