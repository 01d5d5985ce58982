"""What a launch has to do, whoever says it: instructions, messages, and where its blocks lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Issue:
    """Instructions of one subgroup, mean over the launch; one of 16 lanes counts 1."""

    dpas: float = 0
    """Of repeat count 8."""
    fp: float = 0
    integer: float = 0
    maths: float = 0
    messages: float = 0
    barriers: float = 0
    waits: float = 0
    """Messages whose answer is waited for with nothing else to do."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of one surface (a pointer argument): one row per work-group, in order of launch.

    Columns are first byte, byte behind the last, first row, row behind the last; a plain range of
    memory is one row.  `density` is the part of each block that is touched.

    >>> Blocks(np.array([[0, 64, 0, 8], [64, 128, 0, 8]])).union()
    1024.0
    """

    bounds: NDArray[np.int64]
    density: float = 1.0

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The different blocks in their order, and which of them each work-group has."""
        which = np.zeros(len(self.bounds), np.int64)
        for column in self.bounds.T:
            _, number = np.unique(column, return_inverse=True)
            pair = which * (int(number.max()) + 1) + number
            _, first, which = np.unique(pair, return_index=True, return_inverse=True)
        return self.bounds[first], which

    def union(self, first: int = 0, last: int | None = None) -> float:
        """Bytes that these work-groups touch together."""
        distinct, which = self._distinct
        present = np.zeros(len(distinct), bool)
        present[which[first:last]] = True
        bounds = distinct[present]
        return _area(bounds) * self.density if len(bounds) else 0.0

    def touched(self, first: int = 0, last: int | None = None) -> float:
        """Bytes, each work-group's counted on its own."""
        b = self.bounds[first:last]
        return float(((b[:, 1] - b[:, 0]) * (b[:, 3] - b[:, 2])).sum()) * self.density


def _length(start: NDArray[np.int64], end: NDArray[np.int64]) -> float:
    """Of the union of ranges that are sorted by their starts."""
    reached = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], np.maximum(reached[:-1], start[1:])])
    return float(np.maximum(reached - before, 0).sum())


def _area(bounds: NDArray[np.int64]) -> float:
    """Of the union of rectangles that are sorted by their columns, the first one first."""
    x0, x1, y0, y1 = bounds.T
    if (y0 == y0[0]).all() and (y1 == y1[0]).all():
        return _length(x0, x1) * float(y1[0] - y0[0])
    if (x0 == x0[0]).all() and (x1 == x1[0]).all():
        return _length(y0, y1) * float(x1[0] - x0[0])
    xs, ys = np.unique(bounds[:, :2]), np.unique(bounds[:, 2:])
    left, right = np.searchsorted(xs, x0), np.searchsorted(xs, x1)
    low, high = np.searchsorted(ys, y0), np.searchsorted(ys, y1)
    corners = np.concatenate([(x * len(ys) + y) for x, y in (
        (left, low), (right, high), (left, high), (right, low))])
    signs = np.repeat([1.0, 1.0, -1.0, -1.0], len(bounds))
    steps = np.bincount(corners, signs, len(xs) * len(ys)).reshape(len(xs), len(ys))
    inside = steps.cumsum(0).cumsum(1)[:-1, :-1] > 0
    return float(np.diff(xs) @ inside @ np.diff(ys))


@dataclass(frozen=True)
class Work:
    """A launch.  Bytes are those of a mean work-group."""

    groups: int
    subgroups: int
    registers: int
    issue: Issue
    l1_bytes: float = 0
    """Between registers and L1 or beyond."""
    slm_bytes: float = 0
    l2_bytes: float = 0
    """Beyond L1: what the subgroups of a work-group share counts once."""
    reads: tuple[Blocks, ...] = field(default=(), repr=False)
    writes: tuple[Blocks, ...] = field(default=(), repr=False)
    slm_held: int = 0
    """Shared local memory that a resident work-group holds."""
