"""Vectors in parts of the size that an instruction of the host takes."""

from __future__ import annotations

from collections.abc import Callable

from triton_xe.runtime.simulator.ir.values import Value


def in_parts(size: int, make: Callable[..., Value], *vectors: Value) -> Value:
    """What `make` makes of each so many elements, one behind the other."""
    return joined([make(*(x.shuffled(None, range(first, first + size)) for x in vectors))
                   for first in range(0, vectors[0].type.count, size)])


def joined(parts: list[Value]) -> Value:
    """Vectors of one size, as many as a power of two, one behind the other."""
    while len(parts) > 1:
        parts = [x.shuffled(y, range(2 * x.type.count))
                 for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
