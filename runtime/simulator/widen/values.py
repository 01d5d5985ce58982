"""Host representations of per-work-item values.

A varying `<n x T>` is ONE flat host vector of n*S elements, S being the subgroup size.  In register
order, the index of an element is element * S + lane, as in the hardware's register image.  In
memory order, `group` neighbouring elements of a lane are adjacent, as they are loaded and stored.
Elementwise operations keep either order.  `type` is always that of one work-item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from triton_xe.llvm import Instruction, Operand, Type, vector
from triton_xe.runtime.simulator.analysis.shapes import Table


@dataclass(frozen=True)
class Uniform:
    """A value that is equal in all lanes: a host value of the per-work-item type."""

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
    """A flat host vector, in register order (`group` 1) or memory order."""

    value: Operand
    type: Type
    group: int = 1


@dataclass(frozen=True, eq=False)
class Lazy:
    """An elementwise operation that is recomputed at each use.

    Between its uses it takes no memory, while other subgroups run.  If its operands are not flat
    vectors, it is available in any order.
    """

    instruction: Instruction
    operands: tuple[Value, ...]
    type: Type
    size: int
    """Number of operations in it."""
    group: int = 1
    """Order of the flat vectors among the operands."""


@dataclass(frozen=True)
class Pieces:
    """A vector as its elements, joined only when it is needed whole."""

    parts: tuple[Value, ...]
    type: Type


@dataclass(frozen=True, eq=False)
class Moved:
    """Elements of flat host vectors that are combined at their use.

    A lane's elements are cut into pieces of `size` bytes.  `places` (pieces x lanes) has the index
    of each piece in the concatenation of the `sources`; -1 is undefined.
    """

    sources: tuple[Operand, ...]
    places: Table
    size: int
    type: Type

    @property
    def pieces(self) -> int:
        """Number of pieces of each element."""
        return len(self.places) // self.type.lanes

    def piece_count(self, source: Operand) -> int:
        """Number of pieces of a source."""
        return source.type.size // self.size


@dataclass(frozen=True)
class Slot:
    """A flat host vector in memory at `pointer`, valid as long as the value is live."""

    pointer: Operand
    type: Type


@dataclass(eq=False)
class PrivateArray:
    """Host memory of a private array."""

    memory: Operand
    granule: int
    """Bytes of its elements."""


@dataclass(frozen=True)
class Private:
    """A pointer into a private array: `offset` bytes of each work-item into `array`."""

    array: PrivateArray
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
    """Base, and byte offset of lane 0, if lanes are `nbytes` from each other; else None."""
    if not isinstance(pointer, Tabled) or pointer.base is None:
        return None
    row = np.broadcast_to(pointer.table, (1, pointer.table.shape[1]))[0]
    if (np.diff(row) == nbytes).all():
        return pointer.base, int(row[0])
    return None


@dataclass(frozen=True)
class Runs:
    """Lanes in address order, cut at gaps into parts of one size.

    `starts` are bytes after `base`, one for each `count` lanes; `places` has the position of each
    lane.
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
    """Runs of lanes that access `nbytes` each, if addresses are known relative to a base.

    None if lanes overlap in part.
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
    """Index of an element of a lane in a flat vector of that order."""
    return (element // group * lanes + lane) * group + element % group


def places(count: int, lanes: int, group: int) -> list[tuple[int, int]]:
    """(element, lane) at each index of a flat vector of that order; `group` divides `count`."""
    return [(first + e, lane) for first in range(0, count, group) for lane in range(lanes)
            for e in range(group)]


def slice_mask(first: int, count: int) -> range:
    """Shuffle mask of `count` consecutive elements."""
    return range(first, first + count)


# --- elements that move -------------------------------------------------------------------------

REGISTER_BYTES = 64


def as_moved(value: Moved | Wide, lanes: int) -> Moved:
    """A flat vector in the form of `Moved`."""
    if isinstance(value, Moved):
        return value
    e, lane = np.arange(value.type.lanes)[:, None], np.arange(lanes)[None, :]
    places = (e // value.group * lanes + lane) * value.group + e % value.group
    return Moved((value.value,), places, value.type.scalar.size, value.type)


def can_move(t: Type) -> bool:
    """True if elements of the type can be represented by their bytes."""
    return t.scalar.kind in ("int", "float") and t.scalar.bits % 8 == 0


def cut(value: Moved, size: int) -> Moved:
    """The value in pieces of at most so many bytes."""
    k = value.size // size
    if k <= 1:
        return value
    rows = value.places[:, None, :]
    rows = np.where(rows < 0, -1, rows * k + np.arange(k)[None, :, None])
    return replace(value, places=rows.reshape(-1, rows.shape[-1]), size=size)


def recast(value: Moved, t: Type) -> Moved:
    """The bits as elements of another size."""
    return replace(cut(value, t.scalar.size), type=t)


def selected(values: Sequence[Moved], indices: Sequence[int], t: Type) -> Moved:
    """Elements of the concatenation of several values, by index; -1 is undefined."""
    size = min(v.size for v in values)
    sources: list[Operand] = []
    rows, end = [], 0
    for v in (cut(v, size) for v in values):
        moved = np.where(v.places < 0, -1, v.places + end) if end else v.places
        rows.append(moved.reshape(v.type.lanes, v.pieces, -1))
        sources += v.sources
        end += sum(map(v.piece_count, v.sources))
    found = np.concatenate(rows)[list(indices)]
    found[[k < 0 for k in indices]] = -1
    return used(Moved(tuple(sources), found.reshape(-1, found.shape[-1]), size, t))


def used(value: Moved) -> Moved:
    """The value without unused and duplicate sources."""
    if len(value.sources) == 1 and (value.places >= 0).any():
        return value
    kept: dict[Operand, int] = {}
    places, start, end = np.full_like(value.places, -1), 0, 0
    for x in value.sources:
        own = (value.places >= start) & (value.places < start + value.piece_count(x))
        if own.any():
            if x not in kept:
                kept[x] = end
                end += value.piece_count(x)
            places[own] = value.places[own] - start + kept[x]
        start += value.piece_count(x)
    return replace(value, sources=tuple(kept), places=places)


def in_order(value: Moved, group: int) -> Table:
    """Its pieces in the order of a flat vector."""
    rows = value.places.reshape(value.type.lanes // group, group, value.pieces, -1)
    return rows.transpose(0, 3, 1, 2).reshape(-1)


def effort(value: Moved, group: int) -> int:
    """Cost of building a flat vector of that order: registers to read, then moves."""
    per, flat = max(1, REGISTER_BYTES // value.size), in_order(value, group)
    moves = int((np.diff(flat) != 1).sum())
    if len(flat) % per:
        return moves
    registers = np.sort((flat // per).reshape(-1, per), axis=1)
    return int((np.diff(registers, axis=1) != 0).sum()) * len(flat) + moves


def best_order(values: Sequence[Moved], count: int) -> int:
    """The order of `count` elements in which these values are cheapest to build."""
    groups = [g for g in (1, 2, 4, 8, 16, 32) if count % g == 0]
    efforts = {g: sum(effort(v, g) for v in values) for g in groups}
    return min(groups, key=efforts.__getitem__)
