"""Moves and reductions over the lanes of a subgroup; the last axis of every array is the lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Lanes = NDArray[Any]
Combine = Callable[[Lanes, Lanes], Lanes]


def shuffle_index(value: Lanes, index: Lanes) -> Lanes:
    """result[l] = value[index[l] mod S]."""
    lanes = value.shape[-1]
    return np.take(value, np.asarray(index, np.int64) % lanes, axis=-1)


def shuffle_xor(value: Lanes, mask: int) -> Lanes:
    """result[l] = value[l xor mask]."""
    return shuffle_index(value, np.arange(value.shape[-1]) ^ mask)


def clustered_broadcast(value: Lanes, size: int, index: int) -> Lanes:
    """result[l] = value[l - l mod size + index]: all lanes of a run get the value of one."""
    return shuffle_index(value, np.arange(value.shape[-1]) & -size | index)


def shuffle_up(value: Lanes, by: int) -> Lanes:
    """result[l] = value[l - by mod S]."""
    return shuffle_index(value, np.arange(value.shape[-1]) - by)


def shuffle_down(value: Lanes, by: int) -> Lanes:
    """result[l] = value[l + by mod S]."""
    return shuffle_index(value, np.arange(value.shape[-1]) + by)


def reduce(value: Lanes, combine: Combine) -> Lanes:
    """Combine all lanes: lane l with lane l + half at each step."""
    while value.shape[-1] > 1:
        half = value.shape[-1] // 2
        value = combine(value[..., :half], value[..., half:])
    return value[..., 0]


def clustered(value: Lanes, combine: Combine, size: int) -> Lanes:
    """Reduce each run of `size` lanes; all lanes of a run get its result."""
    runs = value.reshape(*value.shape[:-1], -1, size)
    return np.repeat(reduce(runs, combine), size, axis=-1)


def interleaved(value: Lanes, combine: Combine, size: int) -> Lanes:
    """Reduce each group of lanes whose numbers differ by multiples of `size`."""
    groups = value.reshape(*value.shape[:-1], -1, size).swapaxes(-1, -2)
    return np.tile(reduce(groups, combine), value.shape[-1] // size)


def scan(value: Lanes, combine: Combine) -> Lanes:
    """Inclusive prefix: lane l combines lanes 0..l.

    At each step, the later half of a block of 2, 4, 8 and more lanes combines with the last lane of
    the earlier half.  The code of IGC 2.40 for `WavePrefix` does the same.
    """
    lane, step = np.arange(value.shape[-1]), 1
    while step < len(lane):
        last = value[..., lane & -2 * step | step - 1]
        value = np.where(lane & step, combine(last, value), value)
        step *= 2
    return value


def exclusive_scan(value: Lanes, combine: Combine, neutral: Any) -> Lanes:
    """Exclusive prefix: lane l combines the lanes before it; lane 0 is the neutral element."""
    first = np.full_like(value[..., :1], neutral)
    return np.concatenate([first, scan(value, combine)[..., :-1]], axis=-1)


def group_operation(
    value: Lanes, combine: Combine, operation: int, size: int = 1, neutral: Any = 0
) -> Lanes:
    """A group operation of SPIR-V: reduce, inclusive or exclusive scan, clustered reduce."""
    if operation == 0:
        return reduce(value, combine)
    if operation == 3:
        return clustered(value, combine, size)
    return scan(value, combine) if operation == 1 else exclusive_scan(value, combine, neutral)


def ballot(value: Lanes) -> int:
    """Integer whose bit l is the truth value of lane l."""
    return sum(1 << lane for lane, held in enumerate(value) if held)


def vote_any(value: Lanes) -> bool:
    return bool(value.any())


def vote_all(value: Lanes) -> bool:
    return bool(value.all())
