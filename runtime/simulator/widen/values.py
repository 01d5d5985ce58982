"""What a per-work-item value becomes on the host.

A varying `<n x T>` is ONE flat host vector of n*S elements, S being the subgroup size.  Its
elements lie in the order of registers (index = element * S + lane, the register image of the
hardware), or in that of memory, where `group` neighbouring elements of a lane are together: so they
are loaded and stored, and what works element by element leaves them so.
`type` is always that of one work-item.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from triton_xe.runtime.simulator.analysis.shapes import Table
from triton_xe.runtime.simulator.ir import Instruction, Operand, Type, vector


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
    """A flat host vector, in the order of registers (`group` 1) or of memory."""

    value: Operand
    type: Type
    group: int = 1


@dataclass(frozen=True, eq=False)
class Lazy:
    """An operation on each element that is written anew wherever it is used.

    So it takes no memory while other subgroups run, and, on values that are no flat vectors, is
    there in any order.
    """

    instruction: Instruction
    operands: tuple[Value, ...]
    type: Type
    size: int
    """Operations in it."""
    group: int = 1
    """The order of the flat vectors among the operands."""


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


Value = Uniform | Tabled | Wide | Lazy | Pieces | Slot | Private | Aggregate


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


@dataclass(frozen=True)
class Runs:
    """Lanes in the order of their addresses, cut where it jumps into parts of one size.

    `starts` are bytes after `base`, one for each `count` lanes; `places`: where each lane is.
    """

    base: Operand
    starts: tuple[int, ...]
    count: int
    places: tuple[int, ...]

    @property
    def is_unique(self) -> bool:
        """Whether no two lanes have the same address."""
        return len(set(self.places)) == len(self.places)


def runs_of(pointer: Value, nbytes: int) -> Runs | None:
    """The runs of lanes that access `nbytes` each, where addresses are known but for a base.

    None where lanes overlap in part.
    """
    if not isinstance(pointer, Tabled) or pointer.base is None:
        return None
    row = np.broadcast_to(pointer.table, (1, pointer.table.shape[1]))[0]
    offsets, places = np.unique(row, return_inverse=True)
    steps = np.diff(offsets)
    if (steps < nbytes).any():
        return None
    cuts = [0, *(np.flatnonzero(steps != nbytes) + 1), len(offsets)]
    count = int(np.gcd.reduce(cuts))
    return Runs(pointer.base, tuple(int(x) for x in offsets[::count]), count,
                tuple(int(x) for x in places))


def wide_type(t: Type, lanes: int) -> Type:
    """The flat host vector of a value of type `t`."""
    return vector(t.lanes * lanes, t.scalar)


def index_of(element: int, lane: int, lanes: int, group: int) -> int:
    """Where an element of a lane lies in a flat vector of that order."""
    return (element // group * lanes + lane) * group + element % group


def places(count: int, lanes: int, group: int) -> list[tuple[int, int]]:
    """(element, lane) at each place of a flat vector of that order; `group` divides `count`."""
    return [(first + e, lane) for first in range(0, count, group) for lane in range(lanes)
            for e in range(group)]


def slice_mask(first: int, count: int) -> range:
    return range(first, first + count)
