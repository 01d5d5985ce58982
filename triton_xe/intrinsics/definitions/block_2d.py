"""2D blocks between a surface and registers.

Layouts: IGC's documentation of the LSC 2D block messages (plain, VNNI, transposed results).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics.genisa import FIELDS

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Surface:
    """A surface in `memory` (its base is element 0): sizes in bytes and rows."""

    memory: Bytes
    width: int
    height: int
    pitch: int

    def read(self, column: int, row: int, nbytes: int) -> Bytes:
        """The element at a byte column; zero if any part of it is outside."""
        if not (0 <= column and column + nbytes <= self.width and 0 <= row < self.height):
            return np.zeros(nbytes, np.uint8)
        start = row * self.pitch + column
        return self.memory[start : start + nbytes]

    def write(self, column: int, row: int, data: Bytes) -> None:
        """Store an element; drop it if any part of it is outside."""
        if 0 <= column and column + data.size <= self.width and 0 <= row < self.height:
            start = row * self.pitch + column
            self.memory[start : start + data.size] = data


@dataclass(frozen=True)
class Tile:
    """A message: element bytes, tile width and height in elements, blocks side by side."""

    element: int
    width: int
    height: int
    blocks: int = 1
    mode: str = "plain"

    @property
    def block_bytes(self) -> int:
        """Bytes of one block in the registers, padded to whole 64-byte registers."""
        return -(-self.element * self.width * self.height // 64) * 64

    def place(self, x: int, y: int, block: int) -> int:
        """Byte in the register image of element (x, y) of a block."""
        if self.mode == "transpose":
            index = x * self.height + y
        elif self.mode == "vnni":
            n = 4 // self.element
            index = (y - y % n) * self.width + x * n + y % n
        else:
            index = y * self.width + x
        return block * self.block_bytes + index * self.element


def block_read(surface: Surface, x: int, y: int, tile: Tile) -> Bytes:
    """The register image of the tile whose first element is at column x (elements), row y."""
    image = np.zeros(tile.block_bytes * tile.blocks, np.uint8)
    for block in range(tile.blocks):
        for row in range(tile.height):
            for column in range(tile.width):
                at = tile.place(column, row, block)
                where = (x + block * tile.width + column) * tile.element
                image[at : at + tile.element] = surface.read(where, y + row, tile.element)
    return image


def block_write(surface: Surface, x: int, y: int, tile: Tile, image: Bytes) -> None:
    """Store a plain register image to the surface."""
    for row in range(tile.height):
        for column in range(tile.width):
            at = tile.place(column, row, 0)
            surface.write((x + column) * tile.element, y + row, image[at : at + tile.element])


def block_prefetch(surface: Surface, x: int, y: int, tile: Tile) -> None:
    """Prefetch a tile, which has no observable effect."""


def create_payload(*fields: int) -> dict[str, int]:
    return dict(zip(FIELDS, fields, strict=False))


def copy_payload(payload: dict[str, int]) -> dict[str, int]:
    return dict(payload)


def set_payload_field(payload: dict[str, int], field: int, value: int, add: bool) -> None:
    """Set a field of the payload; with `add`, add to x or y instead."""
    name = FIELDS[field - 1]
    payload[name] = value + (payload[name] if add and name in "xy" else 0)
