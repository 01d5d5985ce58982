"""Work of a launch: instructions, messages, and the positions of its blocks in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Issue:
    """Mean number of instructions of a subgroup; an instruction on 16 lanes counts as 1."""

    dpas: float = 0
    """DPAS instructions of repeat count 8."""
    fp: float = 0
    integer: float = 0
    maths: float = 0
    messages: float = 0
    barriers: float = 0
    waits: float = 0
    """Messages whose latency is exposed, because no other instruction can run."""


MOST_CELLS = 1 << 21
"""Largest number of cells of the grid of block edges for which a union is computed exactly.

For more it is estimated: the sum of the blocks, or their bounding box if that is smaller.
"""


@dataclass(frozen=True)
class Blocks:
    """Blocks of one surface (a pointer argument): one row per work-group, in order of launch.

    Columns are first byte, end byte, first row, end row (ends are exclusive); a plain range of
    memory has one row.  `density` is the fraction of a block's bytes that is touched.  Work-groups
    with equal blocks touch the same bytes.  Those with overlapping blocks are assumed to touch
    different bytes, until all bytes of the overlap are touched.

    >>> Blocks(np.array([[0, 64, 0, 8], [64, 128, 0, 8]])).union()
    1024.0
    """

    bounds: NDArray[np.int64]
    density: float = 1.0

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Distinct blocks in order of appearance, and the index of each work-group's block."""
        which = np.zeros(len(self.bounds), np.int64)
        first = np.zeros(1, np.int64)
        known: list[NDArray[np.int64]] = []
        for column in self.bounds.T:
            if _constant(column) or any(_constant(column - other) for other in known):
                continue
            known.append(column)
            _, number = np.unique(column, return_inverse=True)
            pair = which * (int(number.max()) + 1) + number
            _, first, which = np.unique(pair, return_index=True, return_inverse=True)
        return self.bounds[first], which

    @cached_property
    def _edges(self) -> tuple[NDArray[np.int64], ...]:
        """Distances of adjacent block edges in x and y, and indices of each block's four edges."""
        x0, x1, y0, y1 = self._distinct[0].T
        xs, ys = np.unique([x0, x1]), np.unique([y0, y1])
        left, right, low, high = (np.searchsorted(edges, values) for edges, values in (
            (xs, x0), (xs, x1), (ys, y0), (ys, y1)))
        return np.diff(xs), np.diff(ys), left, right, low, high

    @cached_property
    def _is_range(self) -> bool:
        """True if all blocks have the same rows."""
        return all(_constant(rows) for rows in self.bounds.T[2:])

    @cached_property
    def _unions(self) -> dict[tuple[int, int | None], float]:
        return {}

    def union(self, first: int = 0, last: int | None = None) -> float:
        """Bytes in the union of the blocks of these work-groups."""
        if (first, last) not in self._unions:
            self._unions[first, last] = self._union(first, last)
        return self._unions[first, last]

    def _union(self, first: int, last: int | None) -> float:
        distinct, which = self._distinct
        present = np.zeros(len(distinct), bool)
        present[which[first:last]] = True
        found = distinct[present]
        if not len(found):
            return 0.0
        if self._is_range and self.density == 1:
            return _length(*found[:, :2].T) * float(found[0, 3] - found[0, 2])
        widths, heights, *corners = self._edges
        left, right, low, high = (of[present] for of in corners)
        if self._is_range:
            edges = len(widths) + 1
            steps = np.bincount(left, minlength=edges) - np.bincount(right, minlength=edges)
            covered = steps.cumsum()[:-1] * self.density
            return float((widths * np.minimum(covered, 1.0)).sum() * (found[0, 3] - found[0, 2]))
        sides = len(widths) + 1, len(heights) + 1
        cells = sides[0] * sides[1]
        if cells > MOST_CELLS:
            return min(self._hull(found), self._sum(found) * self.density)
        one, two, three, four = (
            np.bincount(x * sides[1] + y, minlength=cells) for x, y in (
                (left, low), (right, high), (left, high), (right, low)))
        steps = (one + two - three - four).reshape(sides)
        covered = steps.cumsum(0).cumsum(1)[:-1, :-1] * self.density
        return float((widths * (np.minimum(covered, 1.0) * heights).sum(1)).sum())

    @staticmethod
    def _hull(b: NDArray[np.int64]) -> float:
        return float(b[:, 1].max() - b[:, 0].min()) * float(b[:, 3].max() - b[:, 2].min())

    @staticmethod
    def _sum(b: NDArray[np.int64]) -> float:
        return float(((b[:, 1] - b[:, 0]) * (b[:, 3] - b[:, 2])).sum())

    def touched(self, first: int = 0, last: int | None = None) -> float:
        """Sum of the bytes of each work-group's block."""
        return self._sum(self.bounds[first:last]) * self.density


def _constant(values: NDArray[np.int64]) -> bool:
    return not len(values) or bool((values == values[0]).all())


def _length(start: NDArray[np.int64], end: NDArray[np.int64]) -> float:
    """Length of the union of ranges that are sorted by start."""
    reached = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], np.maximum(reached[:-1], start[1:])])
    return float(np.maximum(reached - before, 0).sum())


@dataclass(frozen=True)
class Work:
    """Work of a launch.  Bytes are those of a mean work-group.

    `reads` and `writes` have a row for each work-group, or for each of `numbers`.
    """

    groups: int
    subgroups: int
    registers: int
    issue: Issue
    l1_bytes: float = 0
    """Bytes between registers and L1 or beyond."""
    slm_bytes: float = 0
    l2_bytes: float = 0
    """Bytes beyond L1, where bytes shared by subgroups of a work-group count once."""
    reads: tuple[Blocks, ...] = field(default=(), repr=False)
    writes: tuple[Blocks, ...] = field(default=(), repr=False)
    slm_held: int = 0
    """Bytes of shared local memory allocated to a resident work-group."""
    numbers: NDArray[np.int64] | None = field(default=None, repr=False)

    def read(self, first: int, last: int) -> float:
        """Bytes in the union of what the work-groups from `first` to before `last` read."""
        rows = self._rows(first, last)
        return sum(blocks.union(*rows) for blocks in self.reads)

    def written(self, first: int, last: int) -> float:
        """Bytes in the union of what these work-groups write."""
        rows = self._rows(first, last)
        return sum(blocks.union(*rows) for blocks in self.writes)

    def touched(self, first: int, last: int) -> float:
        """Sum of the bytes that each of these work-groups reads."""
        rows = self._rows(first, last)
        return sum(blocks.touched(*rows) for blocks in self.reads)

    def _rows(self, first: int, last: int) -> tuple[int, int]:
        if self.numbers is None:
            return first, last
        low, high = np.searchsorted(self.numbers, (first, last))
        return int(low), int(high)
