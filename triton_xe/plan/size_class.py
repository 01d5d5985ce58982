"""Sizes of a surface relative to its tiles, and whether hardware or software pads the remainder.

The classes are those of the XeTile design (RFC for XeTile and XeGPU, "High level design
consideration").  2D blocks serve the first three, padding by hardware; the fourth is padded in
software.  The RFC's cooperative prefetch is `prefetch.plan_prefetch`.
"""

from __future__ import annotations

from enum import Enum

from triton_xe.hardware.block_2d import Guard
from triton_xe.hardware.dpas import MAX_REPEAT_COUNT
from triton_xe.plan.surface import SurfaceFacts, open_guards


class SizeClass(Enum):
    """Sizes of a surface relative to its tiles."""

    DIVISIBLE = "every tile is inside the surface"
    BOUNDED = "tiles may stick out; the hardware pads with zeros"
    ROW_REMAINDER = "rows end inside a DPAS of 8 rows; the hardware pads with zeros"
    UNALIGNED = "no legal surface for 2D blocks; masks pad in software"

    @property
    def uses_blocks(self) -> bool:
        return self is not SizeClass.UNALIGNED


def size_class(facts: SurfaceFacts, rows: int, columns: int, element_bits: int) -> SizeClass:
    """Return the class of memory tiles of `rows` x `columns` in a surface with these facts.

    >>> facts = SurfaceFacts(width_bytes=2048, height=1001, pitch_bytes=2048)
    >>> size_class(facts, 256, 32, 16).name
    'ROW_REMAINDER'
    """
    if isinstance(open_guards(facts, element_bits, element_bits), Guard):
        return SizeClass.UNALIGNED
    if facts.in_bounds:
        return SizeClass.DIVISIBLE
    if facts.height is not None and facts.height % MAX_REPEAT_COUNT:
        return SizeClass.ROW_REMAINDER
    if facts.height is None or facts.width_bytes is None:
        return SizeClass.BOUNDED
    divides = facts.height % rows == 0 and 8 * facts.width_bytes % (columns * element_bits) == 0
    return SizeClass.DIVISIBLE if divides else SizeClass.BOUNDED
