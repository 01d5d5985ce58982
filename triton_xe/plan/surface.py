"""What is known about a surface when a kernel is compiled, and what must hold when it runs.

A rule of the hardware that the facts prove costs nothing; one that they disprove is a refusal; one
that they leave open becomes a `Guard` of the plan, to be tested once before the fast version runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from math import gcd

from triton_xe.errors import LayoutError
from triton_xe.hardware import block_2d


class Relation(Enum):
    """How a guarded quantity relates to the guard's value."""

    MULTIPLE_OF = "is a multiple of"
    AT_LEAST = "is at least"
    BELOW = "is below"
    AT_LEAST_WIDTH = "is at least the width"


@dataclass(frozen=True)
class Guard:
    """One condition on "base", "width", "pitch" (bytes), "height" (rows) or "x" (elements).

    >>> str(Guard("pitch", Relation.MULTIPLE_OF, 16))
    'pitch is a multiple of 16 bytes'
    """

    quantity: str
    relation: Relation
    value: int = 0

    def holds(self, amount: int, width: int = 0) -> bool:
        """Whether `amount` satisfies the guard; `width` is needed for AT_LEAST_WIDTH only."""
        if self.relation is Relation.MULTIPLE_OF:
            return amount % self.value == 0
        if self.relation is Relation.AT_LEAST:
            return amount >= self.value
        if self.relation is Relation.BELOW:
            return amount < self.value
        return amount >= width

    def __str__(self) -> str:
        if self.relation is Relation.AT_LEAST_WIDTH:
            return f"{self.quantity} {self.relation.value}"
        unit = {"height": "row", "x": "element"}.get(self.quantity, "byte")
        plural = "s" * (self.value != 1)
        return f"{self.quantity} {self.relation.value} {self.value} {unit}{plural}"

    @property
    def broken(self) -> str:
        """The sentence that says the guard does not hold."""
        return str(self).replace(" is ", " is not ", 1)


@dataclass(frozen=True)
class SurfaceFacts:
    """What is known of the memory behind a two-dimensional tile.

    `contiguous_dim` is the tensor dimension along which memory is contiguous: 1 for a row-major
    tile, 0 where the tensor is the transpose of what lies in memory.  Memory rows run along that
    dimension.  Of tensors with more dimensions, 0 and 1 are the last two.  Amounts in bytes,
    `height` in memory rows, `x_multiple` in elements; `None` or 1 means not known.  `in_bounds`
    says that no element of the tile lies outside the surface.

    `fold_base` allows a base that is not 64-byte aligned: the plan then counts from the aligned
    address below, which widens the surface by `base % 64` bytes and moves x by as much.  Its
    guards are about that surface, and x must not be negative, as what lies left of it is memory.

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
        """The largest divisor known of a quantity."""
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
        """True or False where the facts decide the guard, None where they leave it open."""
        if guard.relation is Relation.AT_LEAST_WIDTH:
            if self.pitch_bytes is None or self.width_bytes is None:
                return None
            return guard.holds(self.pitch_bytes, self.width_bytes)
        exact = self.known_value(guard.quantity)
        if exact is not None:
            return guard.holds(exact)
        if guard == Guard("x", Relation.AT_LEAST, 0) and self.in_bounds:
            return True
        if guard.relation is Relation.MULTIPLE_OF:
            return True if self.known_multiple(guard.quantity) % guard.value == 0 else None
        return None


    @property
    def is_folded(self) -> bool:
        """Whether the low bits of the base have to be taken over by x and the width."""
        return self.fold_base and self.base_alignment % block_2d.BASE_ALIGNMENT != 0

    def folded(self, unit: int) -> SurfaceFacts:
        """What is known of the surface that starts at the aligned address below the base."""
        aligned = self.base_alignment % unit == 0
        multiple = gcd(self.known_multiple("width"), unit) if aligned else 1
        return replace(self, width_bytes=None, width_multiple=multiple)


def block_2d_guards(element_bits: int, x_unit: int, folded: bool = False) -> Iterator[Guard]:
    """All rules for a surface read in `element_bits` units, x in multiples of `x_unit` elements."""
    unit = max(block_2d.OFFSET_BYTES, element_bits // 8)
    yield Guard("base", Relation.MULTIPLE_OF, unit if folded else block_2d.BASE_ALIGNMENT)
    yield Guard("pitch", Relation.MULTIPLE_OF, block_2d.PITCH_MULTIPLE)
    yield Guard("pitch", Relation.AT_LEAST, block_2d.MIN_SURFACE_BYTES)
    yield Guard("pitch", Relation.BELOW, block_2d.MAX_SURFACE)
    yield Guard("pitch", Relation.AT_LEAST_WIDTH)
    yield Guard("width", Relation.MULTIPLE_OF, unit)
    yield Guard("width", Relation.AT_LEAST, block_2d.MIN_SURFACE_BYTES)
    yield Guard("width", Relation.BELOW, block_2d.MAX_SURFACE)
    yield Guard("height", Relation.AT_LEAST, 1)
    yield Guard("height", Relation.BELOW, block_2d.MAX_SURFACE)
    if x_unit > 1:
        yield Guard("x", Relation.MULTIPLE_OF, x_unit)
    if folded:
        yield Guard("x", Relation.AT_LEAST, 0)


def open_guards(
    facts: SurfaceFacts, element_bits: int, tensor_bits: int
) -> tuple[Guard, ...] | Guard:
    """The guards the facts leave open, or the first one they disprove."""
    unit = max(block_2d.OFFSET_BYTES, element_bits // 8)
    x_unit = max(1, 8 * unit // tensor_bits)
    known = facts.folded(unit) if facts.is_folded else facts
    still_open = []
    for guard in block_2d_guards(element_bits, x_unit, facts.is_folded):
        verdict = known.proves(guard)
        if verdict is False:
            return guard
        if verdict is None:
            still_open.append(guard)
    return tuple(still_open)
