"""Tables of the elements of a block that each register of each lane has, without IR.

A slot is (register, lane), an element (block, row, column) of the descriptor's array of blocks.
`wanted` follows from the op's types, `delivered` from a 2D message.  A message fits if it delivers
the wanted elements to every lane, in any order of registers.

Source: the XeGPU RFC on sg_map, vectors and VNNI; result layouts in `hardware.block_2d`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from triton_xe.dialects.access_attributes import SgMapAttr
from triton_xe.dialects.xegpu.types import TensorDescType, vnni_factor
from triton_xe.errors import LegalityError
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import BlockShape

Slot = tuple[int, int]
Element = tuple[int, int, int]
Table = Mapping[Slot, Element]


@dataclass(frozen=True)
class Spread:
    """Distribution of a vector over the lanes of a subgroup: units of `unit` elements, round-robin.

    Element p is in unit q = p // unit, which is unit q // lanes of lane q % lanes.  With `own`,
    each lane has a whole vector (a fragment).

    >>> Spread(16, 2).slot(35)
    (3, 1)
    """

    lanes: int
    unit: int = 1
    own: bool = False

    def __post_init__(self) -> None:
        if self.lanes < 1 or self.unit < 1:
            raise LegalityError(f"a spread over {self.lanes} lanes by {self.unit} elements")

    def slot(self, element: int) -> Slot:
        """(register, lane) of an element; a fragment's are given for lane 0."""
        if self.own:
            return element, 0
        unit, inside = divmod(element, self.unit)
        register, lane = divmod(unit, self.lanes)
        return register * self.unit + inside, lane

    def registers(self, elements: int) -> int:
        """Registers of a lane that hold so many elements."""
        if self.own:
            return elements
        return -(-elements // (self.lanes * self.unit)) * self.unit


class Access(NamedTuple):
    """A block access: descriptor, shape of its vector, and transformations of a load's elements.

    `ratio` is the number of the program's elements in one element of the descriptor, such as a
    byte.
    """

    desc: TensorDescType
    shape: tuple[int, ...]
    packed: bool = False
    transpose: bool = False
    unit_bits: int = 0
    ratio: int = 1


@lru_cache(maxsize=512)
def wanted(access: Access, spread: Spread) -> Table:
    """The element that each slot of the access's vector stands for."""
    lanes = access.desc.lane_map
    if lanes is not None:
        return _elements_of_map(access.desc, lanes)
    count = prod(access.shape)
    return {spread.slot(p): _element(access, p) for p in range(count)}


def _element(access: Access, flat: int) -> Element:
    """The element of memory at a position of the whole vector, counted row by row."""
    desc = access.desc
    if desc.rank == 1:
        return 0, 0, flat
    columns = desc.get_shape()[1]
    index = _unflatten(flat, access.shape)
    block = 0
    factor = vnni_factor(desc.element_type)
    if len(index) > (3 if access.packed else 2):
        block, index = index[0], index[1:]
    if access.packed:
        y, x = index[0] * factor + index[2], index[1]
    elif access.transpose:
        wide = max(1, access.unit_bits // desc.element_bits)
        x, y = index[0] * wide + index[1] % wide, index[1] // wide
    else:
        y, x = index
    return block + x // columns, y, x % columns


def _unflatten(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        flat, rest = divmod(flat, size)
        index.append(rest)
    return tuple(reversed(index))


def _elements_of_map(desc: TensorDescType, lanes: SgMapAttr) -> Table:
    """Elements of each slot by an sg_map: steps row by row, each with a rectangle per lane."""
    (across, (height, width)), data = _grid(desc, lanes), lanes.data
    steps_y, steps_x = height // (across[0] * data[0]), width // (across[1] * data[1])
    size = data[0] * data[1]
    table: dict[Slot, Element] = {}
    for block in range(desc.array_length):
        for step in range(steps_y * steps_x):
            sy, sx = divmod(step, steps_x)
            for lane in range(lanes.lanes):
                ly, lx = divmod(lane, across[1])
                for inside in range(size):
                    iy, ix = divmod(inside, data[1])
                    register = (block * steps_y * steps_x + step) * size + inside
                    y = (sy * across[0] + ly) * data[0] + iy
                    x = (sx * across[1] + lx) * data[1] + ix
                    table[register, lane] = (block, y, x)
    return table


def _grid(desc: TensorDescType, lanes: SgMapAttr) -> tuple[tuple[int, int], tuple[int, int]]:
    """(lanes below and beside each other, size of the block); 1D blocks are one row."""
    shape = desc.get_shape()
    if len(shape) == 1:
        return (1, lanes.lanes), (1, shape[0])
    return lanes.layout, (shape[0], shape[1])


@lru_cache(maxsize=1024)
def delivered(shape: BlockShape, element_bits: int, register_bits: int) -> Table:
    """Elements that a 2D message delivers, declared with vector elements of `register_bits`.

    Registers are counted in tensor elements: part s of vector element i is i * parts + s.
    """
    lanes = block_2d.SUBGROUP_SIZE
    parts = register_bits // element_bits
    bits = block_2d.result_bits(shape)
    ratio = shape.element_bits // element_bits
    table: dict[Slot, Element] = {}
    for address in range(0, shape.result_bytes * 8, element_bits):
        found = _position_at(address // 8, bits, element_bits // 8, ratio)
        if found is None:
            continue
        y, x = found
        width = shape.width * ratio
        unit, inside = divmod(address // element_bits, parts)
        index, lane = divmod(unit, lanes)
        table[index * parts + inside, lane] = (x // width, y, x % width)
    return table


def _position_at(
    address: int, bits: tuple[block_2d.Bit, ...], size: int, ratio: int
) -> tuple[int, int] | None:
    """(row, column in tensor elements) at a byte of the result; None in the padding."""
    y = x = 0
    for number, bit in enumerate(bits):
        if not address >> number & 1:
            continue
        if bit is None:
            return None
        name, weight = bit
        if name == "y":
            y += weight
        elif name == "x":
            x += weight * ratio
        else:
            x += weight // size
    return y, x


def order_of(need: Table, have: Table) -> tuple[int, ...] | None:
    """For each needed register, the delivered one that matches in every lane; None if any lacks."""
    home: dict[Element, Slot] = {element: slot for slot, element in have.items()}
    order: dict[int, int] = {}
    for (register, lane), element in need.items():
        slot = home.get(element)
        if slot is None or slot[1] != lane:
            return None
        if order.setdefault(register, slot[0]) != slot[0]:
            return None
    return tuple(order[r] for r in sorted(order))


class Choice(NamedTuple):
    """A message, the declared type of its vector, and its register for each wanted one."""

    shape: BlockShape
    register_bits: int
    order: tuple[int, ...]


@lru_cache(maxsize=512)
def choose_load(access: Access, spread: Spread, vnni: bool) -> Choice | None:
    """The message that loads a block as wanted; `vnni` allows packing it."""
    desc = access.desc
    need = wanted(access, spread)
    bits = max(desc.element_bits, 8)
    for shape in _shapes(access, vnni):
        unit = 32 if shape.vnni else shape.element_bits if shape.transpose else 0
        widths = (unit, 8, 16, 32, 64) if unit else (8, 16, 32, 64)
        for width in widths:
            if width < bits or 8 * shape.result_bytes % (width * block_2d.SUBGROUP_SIZE):
                continue
            order = order_of(need, delivered(shape, desc.element_bits, width))
            if order is not None:
                return Choice(shape, width, order)
    return None


def _shapes(access: Access, vnni: bool) -> list[BlockShape]:
    """The message of the access, and others that read the same block."""
    desc = access.desc
    height, width = desc.get_shape()
    bits, blocks = desc.element_bits, desc.array_length
    if access.transpose:
        unit = max(access.unit_bits, bits)
        return [BlockShape(unit, width * bits // unit, height, blocks, transpose=True)]
    factor = vnni_factor(desc.element_type)
    packs = factor > 1 and height % factor == 0
    plain = [BlockShape(bits, width, height, blocks)]
    if blocks > 1:
        plain.append(BlockShape(bits, width * blocks, height))
    mixed = [BlockShape(bits, width, height, blocks, vnni=True)] if packs else []
    if access.packed:
        return mixed
    return mixed + plain if vnni else plain + mixed


@lru_cache(maxsize=512)
def choose_store(access: Access, spread: Spread) -> Choice | None:
    """The message that stores a block in its current distribution."""
    desc = access.desc
    height, width = desc.get_shape()
    bits = desc.element_bits
    shape = BlockShape(max(bits, 8), width * bits // max(bits, 8), height, desc.array_length)
    need = wanted(access, spread)
    for register_bits in (8, 16, 32, 64):
        if register_bits < bits:
            continue
        order = order_of(need, delivered(shape, bits, register_bits))
        if order is not None and len(order) * bits % register_bits == 0:
            return Choice(shape, register_bits, order)
    return None


def lane_parts(table: Table, lanes: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Addend of each bit of the lane number to row and column, equal for all registers.

    None if lanes do not simply add.  Lanes without elements are ignored.
    """
    origin = {register: element for (register, lane), element in table.items() if lane == 0}
    bits = [1 << i for i in range(lanes.bit_length() - 1)]
    first = next(iter(origin))
    steps = []
    for bit in bits:
        there = table.get((first, bit))
        steps.append((0, 0, 0) if there is None else tuple(
            a - b for a, b in zip(there, origin[first], strict=True)))
    for (register, lane), element in table.items():
        total = list(origin.get(register, (-1, 0, 0)))
        for bit, step in zip(bits, steps, strict=True):
            if lane & bit:
                total = [a + b for a, b in zip(total, step, strict=True)]
        if tuple(total) != element:
            return None
    if any(step[0] for step in steps):
        return None
    return tuple(s[1] for s in steps), tuple(s[2] for s in steps)
