"""Accesses by the lanes of a subgroup; atomics of lanes at one address take turns in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Combine = Callable[[Any, Any], Any]

COMBINE: dict[str, Combine] = {
    "add": np.add,
    "sub": np.subtract,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "umax": np.maximum,
    "umin": np.minimum,
    "fadd": np.add,
    "fsub": np.subtract,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "xchg": lambda held, value: value,
}
"""What takes the place of the held value, by LLVM's name of the operation.  `umax` and `umin` are
given unsigned arrays; `fmax` and `fmin` prefer a number to NaN (LLVM language reference,
`atomicrmw`)."""


def masked_load(memory: Values, index: Values, mask: Values, other: Values) -> Values:
    """Element `index[lane]` where the mask is set, else `other[lane]`."""
    return np.where(mask, memory[np.where(mask, index, 0)], other)


def masked_store(memory: Values, index: Values, mask: Values, value: Values) -> None:
    """Change `memory`; of lanes with one index the last wins."""
    for lane in np.flatnonzero(mask):
        memory[index[lane]] = value[lane]


def load(memory: Values, index: Values) -> Values:
    """Element `index[lane]`; a cache policy changes no value."""
    return memory[index]


def store(memory: Values, index: Values, value: Values) -> None:
    """Change `memory`; of lanes with one index the last wins."""
    masked_store(memory, index, np.ones(len(index), bool), value)


def atomic_load(memory: Values, index: Values) -> Values:
    return load(memory, index)


def atomic_store(memory: Values, index: Values, value: Values) -> None:
    store(memory, index, value)


def atomic_rmw(kind: str, memory: Values, index: Values, value: Values) -> Values:
    """Each lane combines `memory[index[lane]]` with `value[lane]`; returns what the lanes found.

    `memory` is changed.

    >>> memory = np.array([10, 20])
    >>> atomic_rmw("add", memory, np.array([0, 0, 1]), np.array([1, 2, 3])).tolist()
    [10, 11, 20]
    >>> memory.tolist()
    [13, 23]
    """
    found = np.empty_like(value)
    for lane, cell in enumerate(index):
        found[lane] = memory[cell]
        memory[cell] = COMBINE[kind](memory[cell], value[lane])
    return found


def atomic_cas(memory: Values, index: Values, expected: Values, value: Values) -> Values:
    """Each lane stores where the cell holds the bits it expects; returns what the lanes found."""
    found = np.empty_like(value)
    for lane, cell in enumerate(index):
        found[lane] = memory[cell]
        if memory[cell] == expected[lane]:
            memory[cell] = value[lane]
    return found
