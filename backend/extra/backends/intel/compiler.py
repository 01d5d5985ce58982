"""What kernels' authors ask of Intel's compiler: how small the operands of a product may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def min_dot_size(device: dict[str, Any]) -> Callable[[Any, Any], tuple[int, int, int]]:
    """The smallest (M, N, K) by the types of both operands; the same on every device."""
    from triton_xe.backend import compiler

    return compiler.min_dot_size
