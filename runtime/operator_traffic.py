"""What torch's own operators did on the simulated devices: told by those who run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Traffic(NamedTuple):
    """Operators, bytes, and additions and multiplications of matrix products by their operands."""

    operators: int = 0
    read: float = 0
    written: float = 0
    narrow_products: float = 0
    """With elements of up to two bytes, which the matrix unit takes."""
    wide_products: float = 0


SOURCES: dict[int, Callable[[], Traffic]] = {}
"""One entry for each device: it answers what happened since it was last asked."""
