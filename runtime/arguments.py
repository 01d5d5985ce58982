"""Kernel arguments as the bits that a device reads."""

from __future__ import annotations

import operator
from typing import Any

from triton_xe.errors import DeviceError


def integer_bits(kernel: str, index: int, kind: str, value: Any) -> int:
    """Argument `index` of type i1 to i64, or an address, signed or unsigned.

    `DeviceError` when it does not fit.
    """
    number = operator.index(value)
    bits = int(kind[1:]) if kind[1:].isdigit() else 64
    if -(1 << bits - 1) * (bits > 1) <= number < 1 << bits:
        return number & ((1 << max(bits, 8)) - 1)
    raise DeviceError(
        f"cannot launch kernel {kernel!r}: argument {index} ({number}) does not fit the type of "
        "the parameter"
    )
