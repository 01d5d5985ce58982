"""Loads and stores without 2D blocks: 1D blocks, vectors per lane, single elements.

They are used on devices without 2D block messages, and for surfaces that these cannot address.
These have an unaligned pitch, or a width that is not a multiple of 4 bytes.  Elements outside the
surface are masked, which pads in software what a 2D block pads in hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import gcd
from typing import Any

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.dpas import Fragment
from triton_xe.hardware.memory import MAX_LANE_BYTES
from triton_xe.hardware.target import Target
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.block_load import (
    AnyBlockPlan,
    MemoryTile,
    Objective,
    check_rank,
    plan_block,
    union,
)
from triton_xe.plan.candidates import coordinate
from triton_xe.plan.model import BlockLoadPlan, BlockStorePlan, Refusal
from triton_xe.plan.surface import SurfaceFacts

BLOCK_WORD_BITS = 32
MAX_BLOCK_WORDS = 8
"""Words per lane of one 1D block message."""


class Access(Enum):
    """How the elements of an access are distributed over lanes."""

    BLOCK_1D = "1D block"
    VECTOR = "vector gather"
    SCALAR = "scalar gather"


@dataclass(frozen=True)
class GatherPlan:
    """Ordinary memory accesses of a subgroup, in the order of the registers that they fill.

    Each entry of `accesses` lists the registers of one access, in the order of memory.  A gather
    moves them from the address of its first register in each lane.  A 1D block moves consecutive
    32-bit words from the address of lane 0, word i to lane i mod lanes, with `parts` registers per
    word.  `same_as[r]` is the register that r is a copy of, or r.
    """

    layout: LinearLayout
    surface: SurfaceFacts
    element_bits: int
    target: Target
    access: Access
    accesses: tuple[tuple[int, ...], ...]
    same_as: tuple[int, ...]
    masked: bool
    because: str
    """Reason why no 2D block message is used."""

    @property
    def vector(self) -> int:
        """Registers of one access."""
        return len(self.accesses[0])

    @property
    def parts(self) -> int:
        """Tensor elements in one 32-bit word of a 1D block."""
        return max(1, BLOCK_WORD_BITS // self.element_bits)

    @property
    def bytes_per_lane(self) -> int:
        return self.vector * self.element_bits // 8

    @property
    def lane_type(self) -> str:
        """LLVM type that a lane moves with one access."""
        size = self.bytes_per_lane
        if size <= 4 or (size == 8 and self.element_bits == 64):
            return f"i{8 * size}"
        word = 64 if self.element_bits == 64 else 32
        return f"<{8 * size // word} x i{word}>"

    def summary(self) -> dict[str, Any]:
        """The plan as plain data, for JSON and kernel metadata."""
        return {
            "op": self.access.value,
            "target": self.target.name,
            "accesses": len(self.accesses),
            "elements": self.vector,
            "type": self.lane_type,
            "masked": self.masked,
            "because": self.because,
        }


def plan_access(
    plan_type: type[AnyBlockPlan],
    layout: LinearLayout,
    surface: SurfaceFacts,
    element_bits: int,
    target: Target,
    *,
    fragment: Fragment | None = None,
    objective: Objective = Objective.MESSAGES,
) -> AnyBlockPlan | GatherPlan:
    """Plan 2D blocks if they are legal, otherwise the widest other access, with the reason."""
    plan = plan_block(
        plan_type, layout, surface, element_bits, target, fragment=fragment, objective=objective
    )
    if not isinstance(plan, Refusal):
        return plan
    is_load = plan_type.operation == "load"
    return plan_gather(layout, surface, element_bits, target, because=str(plan), blocks=is_load)


plan_load = partial(plan_access, BlockLoadPlan)
plan_store = partial(plan_access, BlockStorePlan)


def plan_gather(
    layout: LinearLayout,
    surface: SurfaceFacts,
    element_bits: int,
    target: Target,
    *,
    because: str = "",
    blocks: bool = True,
) -> GatherPlan:
    """Plan the widest accesses that the layout and the known facts of the surface allow.

    1D blocks (loads only: `blocks`) need a tile inside the surface, and words of 32 bits of which
    neighbours belong to neighbouring lanes.
    """
    if element_bits not in (8, 16, 32, 64):
        raise UnsupportedError(
            f"a tile of {element_bits}-bit elements cannot be gathered; they have 8 to 64 bits"
        )
    refusal = check_rank(layout)
    if refusal:
        raise UnsupportedError(f"the tile cannot be gathered as one matrix: {refusal}")
    tile = MemoryTile.from_layout(layout, surface)
    run = _block_run(tile, surface, element_bits) if blocks else 0
    access = Access.BLOCK_1D
    if not run:
        run = _vector_run(tile, surface, element_bits)
        access = Access.VECTOR if run > 1 else Access.SCALAR
    if access is Access.BLOCK_1D:
        order = _block_order(tile, element_bits, run)
    else:
        order = [coordinate(1 << bit, 0) for bit in range(run.bit_length() - 1)]
    accesses, same_as = _group_registers(tile, order)
    return GatherPlan(
        layout=layout,
        surface=surface,
        element_bits=element_bits,
        target=target,
        access=access,
        accesses=accesses,
        same_as=same_as,
        masked=not surface.in_bounds,
        because=because,
    )


def _known_alignment(surface: SurfaceFacts, element_bits: int) -> int:
    """Bytes that divide the address of the tile's first element in each row."""
    x_bytes = surface.x_multiple * element_bits // 8
    return gcd(surface.base_alignment, surface.known_multiple("pitch"), x_bytes)


def _vector_run(tile: MemoryTile, surface: SurfaceFacts, element_bits: int) -> int:
    """Adjacent elements of a row that each lane can move at once, a power of 2."""
    size = gcd(_known_alignment(surface, element_bits), MAX_LANE_BYTES)
    if not surface.in_bounds:
        size = gcd(size, surface.known_multiple("width"))
    most = max(1, 8 * size // element_bits)
    run = 1
    taken = union(tile.lane_bases) | union(tile.other_bases)
    while 2 * run <= most and tile.units & run and not taken & run:
        run *= 2
    return run


def _block_run(tile: MemoryTile, surface: SurfaceFacts, element_bits: int) -> int:
    """Registers that a 1D block fills in each lane; 0 if none is possible."""
    aligned = _known_alignment(surface, element_bits) % (BLOCK_WORD_BITS // 8) == 0
    if not (surface.in_bounds and aligned) or element_bits > BLOCK_WORD_BITS:
        return 0
    parts = BLOCK_WORD_BITS // element_bits
    lanes = tuple(coordinate(parts << bit, 0) for bit in range(len(tile.lane_bases)))
    if tile.lane_bases != lanes or tile.units & (parts - 1) != parts - 1:
        return 0
    row = parts - 1 | union(lanes)
    if union(tile.other_bases) & row or union(tile.register_bases) & union(lanes):
        return 0
    words, x = 1, parts << len(lanes)
    while words < MAX_BLOCK_WORDS and tile.units & x:
        words, x = 2 * words, 2 * x
    return words * parts


def _block_order(tile: MemoryTile, element_bits: int, run: int) -> list[int]:
    """Coordinates that number a 1D block's registers: inside a word, then from word to word."""
    parts = BLOCK_WORD_BITS // element_bits
    inside = [1 << bit for bit in range(parts.bit_length() - 1)]
    words = (run // parts).bit_length() - 1
    return inside + [parts << (len(tile.lane_bases) + bit) for bit in range(words)]


def _group_registers(
    tile: MemoryTile, order: list[int]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Registers of each access in the given order, and the copies."""
    where = [0]
    for base in tile.register_bases:
        where += [base ^ other for other in where]
    first: dict[int, int] = {}
    same_as = tuple(first.setdefault(at, register) for register, at in enumerate(where))
    inside = union(tuple(order))
    offsets = [0]
    for vector in order:
        offsets += [vector ^ other for other in offsets]
    starts = dict.fromkeys(at & ~inside for at in where)
    accesses = tuple(tuple(first[start ^ at] for at in offsets) for start in starts)
    return accesses, same_as
