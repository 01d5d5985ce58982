"""The function of Intel's compiler that authors of kernels call: the smallest operands of a
product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def min_dot_size(device: dict[str, Any]) -> Callable[[Any, Any], tuple[int, int, int]]:
    """The smallest (M, N, K) by the types of both operands; equal on every device."""
    from triton_xe.backend import compiler

    return compiler.min_dot_size
