"""Facts known about a surface at compile time, and the conditions that remain for run time.

A rule of the hardware that the facts prove needs no test.  One that they disprove is a refusal. One
that they leave open becomes a `Guard` of the plan, which is tested once before the fast version
runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from triton_xe.errors import LayoutError
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import ALIGNED, Alignment, Guard, Relation


@dataclass(frozen=True)
class SurfaceFacts:
    """Facts known about the memory of a two-dimensional tile.

    `contiguous_dim` is the tensor dimension along which memory is contiguous.  It is 1 for a
    row-major tile, and 0 if the tensor is the transpose of the matrix in memory.  Memory rows run
    along that dimension.  For tensors with more dimensions, 0 and 1 are the last two.  Amounts are
    in bytes, `height` in memory rows, `x_multiple` in elements; `None` or 1 means not known.
    `in_bounds` means that no element of the tile is outside the surface.

    `fold_base` allows a base without the alignment that a device needs.  The plan then counts from
    the 64-byte boundary below, which widens the surface and moves x by as much.  The guards
    apply to that surface, and x must not be negative, because the bytes to the left of it are other
    memory.

    >>> SurfaceFacts(pitch_bytes=1024).known_multiple("pitch")
    1024
    """

    contiguous_dim: int = 1
    base_alignment: int = 1
    pitch_bytes: int | None = None
    pitch_multiple: int = 1
    width_bytes: int | None = None
    width_multiple: int = 1
    height: int | None = None
    x_multiple: int = 1
    in_bounds: bool = False
    fold_base: bool = False

    def __post_init__(self) -> None:
        if self.contiguous_dim not in (0, 1):
            raise LayoutError(f"contiguous_dim is 0 or 1, not {self.contiguous_dim}")
        for name in ("base_alignment", "pitch_multiple", "width_multiple", "x_multiple"):
            if getattr(self, name) < 1:
                raise LayoutError(f"{name} is at least 1, not {getattr(self, name)}")

    def known_value(self, quantity: str) -> int | None:
        values = {"pitch": self.pitch_bytes, "width": self.width_bytes, "height": self.height}
        return values.get(quantity)

    def known_multiple(self, quantity: str) -> int:
        """The largest known divisor of a quantity."""
        exact = self.known_value(quantity)
        if exact:
            return exact
        return {
            "base": self.base_alignment,
            "pitch": self.pitch_multiple,
            "width": self.width_multiple,
            "x": self.x_multiple,
        }.get(quantity, 1)

    def proves(self, guard: Guard) -> bool | None:
        """True or False if the facts decide the guard, None if they leave it open."""
        names = [name for name in (guard.amount, guard.bound) if isinstance(name, str)]
        known = {name: self.known_value(name) for name in names}
        exact = {name: value for name, value in known.items() if value is not None}
        if len(exact) == len(names):
            return guard.holds(exact)
        if guard == Guard("x", Relation.AT_LEAST, 0) and self.in_bounds:
            return True
        if guard.relation is Relation.MULTIPLE_OF:
            return True if self.known_multiple(guard.amount) % guard.bound == 0 else None
        return None

    def is_folded(self, needed: Alignment = ALIGNED) -> bool:
        """True if the low bits of the base have to be added to x and the width."""
        return self.fold_base and self.base_alignment % needed.base != 0

    def folded(self, unit: int) -> SurfaceFacts:
        """Facts about the surface that starts at the aligned address below the base."""
        aligned = self.base_alignment % unit == 0
        multiple = gcd(self.known_multiple("width"), unit) if aligned else 1
        return replace(self, width_bytes=None, width_multiple=multiple)


def open_guards(
    facts: SurfaceFacts, element_bits: int, tensor_bits: int, needed: Alignment = ALIGNED
) -> tuple[Guard, ...] | Guard:
    """Return the guards that the facts leave open, or the first one that they disprove."""
    unit = max(block_2d.OFFSET_BYTES, element_bits // 8)
    is_folded = facts.is_folded(needed)
    known = facts.folded(unit) if is_folded else facts
    x_unit = block_2d.x_unit(tensor_bits, element_bits)
    still_open = []
    for guard in block_2d.surface_rules(element_bits, x_unit, is_folded, needed):
        verdict = known.proves(guard)
        if verdict is False:
            return guard
        if verdict is None:
            still_open.append(guard)
    return tuple(still_open)
