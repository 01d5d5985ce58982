"""Work of torch's own operators on simulated devices, as reported by the code that runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Traffic(NamedTuple):
    """Number of operators, bytes, and multiply-adds of matrix products by the size of operands."""

    operators: int = 0
    read: float = 0
    written: float = 0
    narrow_products: float = 0
    """Multiply-adds of elements of up to two bytes, which the matrix unit takes."""
    wide_products: float = 0


SOURCES: dict[int, Callable[[], Traffic]] = {}
"""Function per device that returns the work since its last call."""
