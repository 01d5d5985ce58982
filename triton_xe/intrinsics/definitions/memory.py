"""Memory accesses by the lanes of a subgroup; atomics of lanes at one address run in lane order."""

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
"""Function of old value and operand that an atomic stores, by LLVM's name of the operation.

`umax` and `umin` take unsigned arrays; `fmax` and `fmin` prefer a number to NaN (LLVM language
reference, `atomicrmw`).
"""


def masked_load(memory: Values, index: Values, mask: Values, other: Values) -> Values:
    """Element `index[lane]` if the mask is set, otherwise `other[lane]`."""
    return np.where(mask, memory[np.where(mask, index, 0)], other)


def masked_store(memory: Values, index: Values, mask: Values, value: Values) -> None:
    """Store to `memory`; among lanes with equal index the last one wins."""
    for lane in np.flatnonzero(mask):
        memory[index[lane]] = value[lane]


def load(memory: Values, index: Values) -> Values:
    """Element `index[lane]`; cache policies do not change values."""
    return memory[index]


def store(memory: Values, index: Values, value: Values) -> None:
    """Store to `memory`; among lanes with equal index the last one wins."""
    masked_store(memory, index, np.ones(len(index), bool), value)


def atomic_load(memory: Values, index: Values) -> Values:
    return load(memory, index)


def atomic_store(memory: Values, index: Values, value: Values) -> None:
    store(memory, index, value)


def atomic_rmw(kind: str, memory: Values, index: Values, value: Values) -> Values:
    """Combine `memory[index[lane]]` with `value[lane]` for each lane; return the old values.

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
    """Store in each lane whose cell has the expected bits; return the old values."""
    found = np.empty_like(value)
    for lane, cell in enumerate(index):
        found[lane] = memory[cell]
        if memory[cell] == expected[lane]:
            memory[cell] = value[lane]
    return found
