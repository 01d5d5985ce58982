"""Split vectors into parts of the size of a host instruction, and concatenate the results."""

from __future__ import annotations

from collections.abc import Callable

from triton_xe.llvm.values import Value


def in_parts(size: int, make: Callable[..., Value], *vectors: Value) -> Value:
    """Apply `make` to each part of `size` elements, and concatenate the results."""
    return joined([make(*(x.shuffled(None, range(first, first + size)) for x in vectors))
                   for first in range(0, vectors[0].type.count, size)])


def joined(parts: list[Value]) -> Value:
    """Concatenate vectors of one size, a power of two of them."""
    while len(parts) > 1:
        parts = [x.shuffled(y, range(2 * x.type.count))
                 for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
