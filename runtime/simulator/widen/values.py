"""What a per-work-item value becomes on the host.

A varying `<n x T>` is ONE flat host vector of n*S elements, S being the subgroup size.  Its
elements lie in the order of registers (index = element * S + lane, the register image of the
hardware), or in that of memory, where `group` neighbouring elements of a lane are together: so they
are loaded and stored, and what works element by element leaves them so.
`type` is always that of one work-item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, eq=False)
class Moved:
    """Elements of flat host vectors that are brought together only where they are used.

    A lane's elements are cut into pieces of `size` bytes; `places` (pieces x lanes) says which of
    those of the `sources`, one behind the other, each of them is; -1 is any.
    """

    sources: tuple[Operand, ...]
    places: Table
    size: int
    type: Type

    @property
    def pieces(self) -> int:
        """Of each element."""
        return len(self.places) // self.type.lanes

    def held(self, source: Operand) -> int:
        """Pieces of a source."""
        return source.type.size // self.size


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


Value = Uniform | Tabled | Wide | Lazy | Moved | Pieces | Slot | Private | Aggregate


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
        """True if no two lanes have the same address."""
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


# --- elements that move -------------------------------------------------------------------------

REGISTER_BYTES = 64


def as_moved(value: Moved | Wide, lanes: int) -> Moved:
    """A flat vector by its elements."""
    if isinstance(value, Moved):
        return value
    e, lane = np.arange(value.type.lanes)[:, None], np.arange(lanes)[None, :]
    places = (e // value.group * lanes + lane) * value.group + e % value.group
    return Moved((value.value,), places, value.type.scalar.size, value.type)


def can_move(t: Type) -> bool:
    """True if elements of the type can be told by their bytes."""
    return t.scalar.kind in ("int", "float") and t.scalar.bits % 8 == 0


def cut(value: Moved, size: int) -> Moved:
    """The same in pieces of at most so many bytes."""
    k = value.size // size
    if k <= 1:
        return value
    rows = value.places[:, None, :]
    rows = np.where(rows < 0, -1, rows * k + np.arange(k)[None, :, None])
    return replace(value, places=rows.reshape(-1, rows.shape[-1]), size=size)


def recast(value: Moved, t: Type) -> Moved:
    """The same bits as elements of another size."""
    return replace(cut(value, t.scalar.size), type=t)


def selected(values: Sequence[Moved], indices: Sequence[int], t: Type) -> Moved:
    """Elements of several values one behind the other, by number; -1 is any."""
    size = min(v.size for v in values)
    sources: list[Operand] = []
    rows, end = [], 0
    for v in (cut(v, size) for v in values):
        rows.append(np.where(v.places < 0, -1, v.places + end).reshape(v.type.lanes, v.pieces, -1))
        sources += v.sources
        end += sum(map(v.held, v.sources))
    every = np.concatenate(rows)
    found = every[list(indices)]
    found[np.array(indices) < 0] = -1
    return used(Moved(tuple(sources), found.reshape(-1, found.shape[-1]), size, t))


def used(value: Moved) -> Moved:
    """The same without sources that nothing is taken from, and each once."""
    kept: dict[Operand, int] = {}
    places, start, end = np.full_like(value.places, -1), 0, 0
    for x in value.sources:
        own = (value.places >= start) & (value.places < start + value.held(x))
        if own.any():
            if x not in kept:
                kept[x] = end
                end += value.held(x)
            places[own] = value.places[own] - start + kept[x]
        start += value.held(x)
    return replace(value, sources=tuple(kept), places=places)


def in_order(value: Moved, group: int) -> Table:
    """Its pieces as they lie in a flat vector of that order."""
    rows = value.places.reshape(value.type.lanes // group, group, value.pieces, -1)
    return rows.transpose(0, 3, 1, 2).reshape(-1)


def effort(value: Moved, group: int) -> int:
    """How many registers are read for those of a flat vector of that order, and then moves."""
    per, flat = max(1, REGISTER_BYTES // value.size), in_order(value, group)
    moves = int((np.diff(flat) != 1).sum())
    if len(flat) % per:
        return moves
    registers = np.sort((flat // per).reshape(-1, per), axis=1)
    return int((np.diff(registers, axis=1) != 0).sum()) * len(flat) + moves


def best_order(values: Sequence[Moved], count: int) -> int:
    """The order of `count` elements in which these are brought together most easily."""
    groups = [g for g in (1, 2, 4, 8, 16, 32) if count % g == 0]
    efforts = {g: sum(effort(v, g) for v in values) for g in groups}
    return min(groups, key=efforts.__getitem__)
