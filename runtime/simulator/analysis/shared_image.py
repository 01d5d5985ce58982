"""Track the contents of shared local memory from store to store.

If the code generator knows which element of which vector is stored to which byte, it replaces a
load by a shuffle of vectors.  A byte is unknown if an unknown value was stored there, or several
elements at once.  A load of an unknown byte is unknown.

>>> image = SharedImage[str](64)
>>> image.store(np.arange(0, 64, 4)[None, :], 4, ["x"], np.arange(16)[None, :])
>>> image.load(np.array([[8, 4]]), 4)
(['x'], array([[2, 1]]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from triton_xe.runtime.simulator.analysis.shapes import Table

T = TypeVar("T")
_UNKNOWN = -1


class SharedImage(Generic[T]):
    """`nbytes` of shared memory, unknown at first; `T` names vectors."""

    def __init__(self, nbytes: int) -> None:
        self._source = np.full(nbytes, _UNKNOWN, np.int64)
        """Number of the vector, by byte."""
        self._byte = np.zeros(nbytes, np.int64)
        """Offset of the byte in that vector."""
        self._sources: list[T] = []

    def forget(self) -> None:
        """Make all bytes unknown."""
        self._source[:] = _UNKNOWN

    def store(self, addresses: Table, size: int, sources: Sequence[T], positions: Table) -> None:
        """Store elements of `size` bytes to `addresses`.

        `positions` has the position of each element: k * `STEP` + i for element i of `sources[k]`;
        -1 is undefined.
        """
        at = _bytes(addresses, size)
        if not self._holds(at):
            self.forget()
            return
        known = np.repeat((positions >= 0).reshape(-1), size)
        self._source[at] = np.where(
            known, np.repeat(positions.reshape(-1) // STEP, size) + len(self._sources), _UNKNOWN)
        self._byte[at] = _bytes(positions % STEP * size, size)
        self._sources += sources
        found, counts = np.unique(at, return_counts=True)
        self._source[found[counts > 1]] = _UNKNOWN

    def load(self, addresses: Table, size: int) -> tuple[list[T], Table] | None:
        """The vectors and positions, as in `store`, of the elements at `addresses`.

        None if they are not known.
        """
        at = _bytes(addresses, size)
        if not self._holds(at):
            return None
        source, byte = (x[at].reshape(*addresses.shape, size) for x in (self._source, self._byte))
        first, whole = source[..., 0], byte[..., 0]
        if (first == _UNKNOWN).any() or (source != first[..., None]).any() or (
                byte != whole[..., None] + np.arange(size)).any() or (whole % size).any():
            return None
        numbers, which = np.unique(first, return_inverse=True)
        return ([self._sources[k] for k in numbers],
                which.reshape(first.shape) * STEP + whole // size)

    def _holds(self, at: Table) -> bool:
        return bool((at >= 0).all() and (at < len(self._source)).all())


STEP = 1 << 32
"""Distance between the positions of consecutive vectors, larger than any vector."""


def _bytes(starts: Table, size: int) -> Table:
    """Byte addresses of elements that begin at `starts`, in order."""
    return (np.asarray(starts)[..., None] + np.arange(size)).reshape(-1)
