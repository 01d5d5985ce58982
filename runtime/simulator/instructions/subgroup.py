"""Moves and reductions over the lanes of a subgroup; the last axis of every array is the lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Lanes = NDArray[Any]


def shuffle_index(value: Lanes, index: Lanes) -> Lanes:
    """result[l] = value[index[l] mod S]."""
    lanes = value.shape[-1]
    return np.take(value, np.asarray(index, np.int64) % lanes, axis=-1)


def shuffle_xor(value: Lanes, mask: int) -> Lanes:
    """result[l] = value[l xor mask]."""
    return shuffle_index(value, np.arange(value.shape[-1]) ^ mask)


def reduce(value: Lanes, combine: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
    """All lanes, lane l combined with lane l + half at each step."""
    while value.shape[-1] > 1:
        half = value.shape[-1] // 2
        value = combine(value[..., :half], value[..., half:])
    return value[..., 0]


def scan(value: Lanes, combine: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
    """Inclusive prefix: lane l combines lanes 0..l."""
    result = [value[..., 0]]
    for lane in range(1, value.shape[-1]):
        result.append(combine(result[-1], value[..., lane]))
    return np.stack(result, axis=-1)
