"""Offsets of a buffer's elements in shared local memory, and the widest messages for them.

Offsets are counted in elements and are linear in the bits of the coordinates; padding is added
last.  Leading dimensions that the layout does not have are indices of consecutive buffers.
Partitions of other vendors' memories are stored consecutively, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.memory import MAX_LANE_BYTES
from triton_xe.layout import f2
from triton_xe.layout.shared import (
    PaddedSharedEncoding,
    PartitionedSharedEncoding,
    SharedEncoding,
)

MOST_ELEMENTS = 8
"""Elements of the widest message, as values of LLVM."""


@dataclass(frozen=True)
class SharedView:
    """Offsets of the elements of a buffer.

    The offset of an element is the xor of `columns[dim][bit]` over the set bits of its coordinates.
    `slice_elements` is the distance of two buffers if the first dimension is an index of buffers,
    otherwise 0.  `paddings` are pairs (interval, padding): `padding` unused elements after each
    `interval` elements.
    """

    columns: tuple[tuple[int, ...], ...]
    elements: int
    slice_elements: int = 0
    paddings: tuple[tuple[int, int], ...] = ()

    def offset(self, coordinates: Sequence[int]) -> int:
        """Offset of an element without padding."""
        total = 0
        for columns, at in zip(self.columns, coordinates, strict=True):
            total ^= f2.apply(columns, at)
        return total

    def padded(self, offset: int) -> int:
        """Add the padding before an element to its offset."""
        return offset + sum(offset // interval * extra for interval, extra in self.paddings)

    def reach(self, shape: Sequence[int]) -> int:
        """Offset bits that differ between parts (subviews) of a shape at different positions."""
        total = 0
        for columns, size in zip(self.columns, shape, strict=True):
            for column in columns[size.bit_length() - 1:]:
                total |= column
        return total

    @property
    def unpadded(self) -> int:
        """Length of the aligned runs of elements without padding in between."""
        return min((n for pair in self.paddings for n in pair), default=1 << 30)


@lru_cache(maxsize=256)
def shared_view(encoding: SharedEncoding, alloc_shape: tuple[int, ...]) -> SharedView:
    """Return the view of a buffer with this layout."""
    front, inner = alloc_shape[: -encoding.rank], alloc_shape[-encoding.rank :]
    layout = encoding.linear_layout(inner)
    if not layout.is_surjective or layout.in_dims.keys() - {"offset", "partition", "block"}:
        raise UnsupportedError(f"buffers in the layout {encoding} are not supported")
    offsets_layout = layout.sublayout(layout.in_dims.keys() - {"block"}, layout.out_dims)
    inverse = offsets_layout.pseudo_inverse().bases
    partition_elements = offsets_layout.in_dims["offset"]
    size = prod(offsets_layout.in_dims.values())
    strides = [size * prod(front[d + 1 :]) for d in range(len(front))]
    columns = [
        tuple(stride << bit for bit in range((count - 1).bit_length()))
        for stride, count in zip(strides, front, strict=True)
    ] + [tuple(at + partition_elements * sum(partition) for at, *partition in inverse[name])
         for name in offsets_layout.out_dims]
    paddings: tuple[tuple[int, int], ...] = ()
    if isinstance(encoding, PartitionedSharedEncoding):
        encoding = encoding.partition_layout
    if isinstance(encoding, PaddedSharedEncoding):
        paddings = tuple(zip(encoding.intervals, encoding.paddings, strict=True))
    return SharedView(tuple(columns), size * prod(front), strides[0] if front else 0, paddings)


def buffer_bytes(view: SharedView, element_bytes: int) -> int:
    """Bytes that a buffer takes."""
    return view.padded(view.elements) * element_bytes


def messages(
    offsets: Sequence[int], moving: Iterable[int], unpadded: int, element_bytes: int
) -> list[tuple[int, ...]]:
    """Group registers into messages of a lane, as wide as possible; registers in memory order.

    `offsets` are those of the registers; `moving` are the bits that the lane, warp or position adds
    to them.
    """
    present, touched = set(offsets), 0
    for column in moving:
        touched |= column
    width = 1
    while (
        width * 2 <= min(MOST_ELEMENTS, MAX_LANE_BYTES // element_bytes, unpadded)
        and not touched & width
        and all(at ^ width in present for at in offsets)
    ):
        width *= 2
    found: dict[int, dict[int, int]] = {}
    for register, at in enumerate(offsets):
        found.setdefault(at // width, {})[at % width] = register
    return [tuple(group[i] for i in range(width)) for group in found.values()]


__all__ = ["SharedView", "buffer_bytes", "messages", "shared_view"]
