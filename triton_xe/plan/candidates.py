"""Every legal message as a layout: the coordinates that its lanes and elements receive.

A coordinate of the memory tile is one integer, x in the low 24 bits (tensor elements), y above. All
sizes are powers of 2, so a message is defined by the coordinate of each bit of its result:

    d16 16x32 v2, elements of 16 bits:   lanes x1 x2 x4 x8,   elements y1 y2 y4 y8 y16 x16

Planning is then set inclusion: the message's lanes must be the layout's lanes, and its elements
must be among the layout's registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import Bit, BlockShape
from triton_xe.hardware.target import Target

Y_SHIFT = 24
X_MASK = (1 << Y_SHIFT) - 1
ELEMENT_BITS = block_2d.ELEMENT_BITS
"""Widths of a vector element that a message's result can be declared with."""
LANE_BITS = block_2d.SUBGROUP_SIZE.bit_length() - 1
_SUB_BITS = {
    tensor: tuple(
        (register, (register // tensor).bit_length() - 1)
        for register in ELEMENT_BITS
        if register >= tensor
    )
    for tensor in ELEMENT_BITS
}


def coordinate(x: int, y: int) -> int:
    return x | y << Y_SHIFT


def split(vector: int) -> tuple[int, int]:
    """(x, y) of a coordinate."""
    return vector & X_MASK, vector >> Y_SHIFT


@dataclass(frozen=True)
class Candidate:
    """A legal shape with a choice of vector element.

    `lanes` and `slots` are the coordinates of each lane bit and of each result bit.  The lowest
    `sub_bits` slots are inside one vector element; the others number the elements.  A slot of 0 is
    padding.
    """

    shape: BlockShape
    register_bits: int
    sub_bits: int
    lanes: tuple[int, ...]
    slots: tuple[int, ...]

    @property
    def mask(self) -> int:
        """Union of the slots."""
        return sum(self.slots)

    @property
    def area(self) -> int:
        """Union of slots and lanes: the low bits of the rectangle's extent."""
        return self.mask | sum(self.lanes)

    @property
    def elements(self) -> int:
        """Vector elements of the result, padding included."""
        return 1 << (len(self.slots) - self.sub_bits)


@cache
def candidates(
    operation: str, target: Target, tensor_bits: int, lanes: tuple[int, ...]
) -> tuple[Candidate, ...]:
    """Return the messages ("load" or "store") for elements of `tensor_bits` whose lanes are
    `lanes`.

    No table of all messages is built beforehand, so that the first plan of a process is fast, too.
    """
    if 0 in lanes:
        return ()
    padded = operation == "load"
    shapes = _useful(block_2d.legal_shapes(operation, target), tensor_bits)
    found = [
        candidate
        for shape in _reaching(shapes, tensor_bits, lanes)
        for candidate in _readings(shape, tensor_bits, lanes, padded=padded)
    ]
    return tuple(sorted(found, key=lambda candidate: str(candidate.shape)))


def _reaching(
    shapes: Iterable[BlockShape], tensor_bits: int, lanes: tuple[int, ...]
) -> Iterator[BlockShape]:
    """Yield the shapes that are large enough for an element per lane: a cheap preselection."""
    area = sum(lanes)
    x, y = split(area)
    row_bits = (x + 1) * tensor_bits
    for shape in shapes:
        if shape.height > y and 8 * shape.row_bytes >= row_bits:
            yield shape


def _useful(shapes: frozenset[BlockShape], tensor_bits: int) -> Iterator[BlockShape]:
    """Yield shapes that do not split tensor elements; of plain shapes of equal bytes, the closest
    in type.
    """
    closest: dict[tuple[int, int, int], BlockShape] = {}
    for shape in shapes:
        if shape.transpose or shape.vnni:
            if shape.element_bits == tensor_bits or (
                shape.transpose and shape.element_bits > tensor_bits
            ):
                yield shape
            continue
        key = (shape.element_bits * shape.width, shape.height, shape.blocks)
        if key[0] < tensor_bits:
            continue
        best = closest.get(key)
        if best is None or _distance(shape, tensor_bits) < _distance(best, tensor_bits):
            closest[key] = shape
    yield from closest.values()


def _distance(shape: BlockShape, tensor_bits: int) -> tuple[int, int]:
    return abs(shape.element_bits - tensor_bits), shape.element_bits


def _readings(
    shape: BlockShape, tensor_bits: int, wanted: tuple[int, ...], *, padded: bool
) -> Iterator[Candidate]:
    """Declare the result of one message with each width of vector element that fits `wanted`.

    A load writes whole registers, so its result has to be declared with its padding.  The value of
    a store may end before the padding.
    """
    vectors = tensor_vectors(shape, tensor_bits)
    for register_bits, sub_bits in _SUB_BITS[tensor_bits]:
        after = sub_bits + LANE_BITS
        if vectors[sub_bits:after] != wanted:
            continue
        slots = vectors[:sub_bits] + vectors[after:]
        while not padded and slots and slots[-1] == 0:
            slots = slots[:-1]
        yield Candidate(shape, register_bits, sub_bits, wanted, slots)


def tensor_vectors(shape: BlockShape, tensor_bits: int) -> tuple[int, ...]:
    """Coordinates of the bits of a tensor element's index inside the result; 0 is padding.

    >>> [split(v) for v in tensor_vectors(BlockShape(32, 2, 4, transpose=True), 16)]
    [(1, 0), (0, 1), (0, 2), (2, 0), (0, 0)]
    """
    known = element_coordinates(shape.element_bytes, tensor_bits // 8)
    return tuple([known[bit] for bit in block_2d.result_bits(shape) if bit in known])


@cache
def element_coordinates(element_bytes: int, tensor_bytes: int) -> Mapping[Bit, int]:
    """Bit of a result -> coordinate; the bits inside a tensor element are left out."""
    result: dict[Bit, int] = {None: 0}
    for i in range(block_2d.MAX_SURFACE.bit_length() - 1):
        weight = 1 << i
        result["y", weight] = coordinate(0, weight)
        if weight * element_bytes >= tensor_bytes:
            result["x", weight] = coordinate(weight * element_bytes // tensor_bytes, 0)
        if tensor_bytes <= weight < element_bytes:
            result["byte", weight] = coordinate(weight // tensor_bytes, 0)
    return result
