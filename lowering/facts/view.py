"""Tabulate a layout: coordinates of each register of a lane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from triton_xe.layout import LinearLayout
from triton_xe.plan.lane_shuffles import independent_registers

Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class View:
    """Registers of one lane without duplicates, and the coordinates that lane and warp add.

    The coordinates of the element in register r of lane l of warp w are `registers[r] ^ L ^ W`.
    L is the xor of lanes[i] for each bit i of l, and W is the xor of warps[i] for each bit i of w.
    """

    shape: Coordinates
    registers: tuple[Coordinates, ...]
    lanes: tuple[Coordinates, ...]
    warps: tuple[Coordinates, ...]

    @property
    def index(self) -> dict[Coordinates, int]:
        return _index(self.registers)

    @property
    def lane_free(self) -> int:
        """Mask of the lane bits that do not change the coordinates: such lanes have copies."""
        return sum(1 << i for i, c in enumerate(self.lanes) if not any(c))

    @property
    def warp_free(self) -> int:
        """Mask of the warp bits that do not change the coordinates: such warps have copies."""
        return sum(1 << i for i, c in enumerate(self.warps) if not any(c))


@cache
def _index(registers: tuple[Coordinates, ...]) -> dict[Coordinates, int]:
    return {coordinates: i for i, coordinates in enumerate(registers)}


@cache
def view_of(layout: LinearLayout) -> View:
    """The view of a distributed layout."""
    shape = tuple(layout.out_dims.values())
    bases = [tuple(b) for b in layout.bases["register"] if any(b)]
    registers: list[Coordinates] = [(0,) * len(shape)]
    for base in bases:
        registers += [tuple(a ^ b for a, b in zip(c, base, strict=True)) for c in registers]
    if len(set(registers)) != len(registers):
        registers = list(dict.fromkeys(registers))
    return View(
        shape,
        tuple(registers),
        tuple(tuple(b) for b in layout.bases["lane"]),
        tuple(tuple(b) for b in layout.bases["warp"]),
    )


def without_copies(layout: LinearLayout) -> LinearLayout:
    """Drop the register bases that depend on earlier ones, as `view_of` drops duplicates."""
    kept = independent_registers(layout)
    if len(kept) == len(layout.bases["register"]):
        return layout
    return LinearLayout(
        {**layout.bases, "register": kept}, layout.out_dims, require_surjective=False
    )


def consecutive(view: View, dim: int, count: int) -> bool:
    """True if each lane has aligned runs of `count` consecutive elements."""
    first = view.registers[0]
    return all(
        view.registers[i] == (*first[:dim], first[dim] + i, *first[dim + 1:])
        for i in range(count)
    ) and all(c[dim] % count == 0 for group in (view.lanes, view.warps) for c in group)
