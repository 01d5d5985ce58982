"""Kernel arguments as the bits that a device reads."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from triton_xe.errors import DeviceError, too_large

MOST_PROGRAMS = (1 << 31) - 1
"""Limit of a grid dimension, because the number of a program is a signed 32-bit integer."""


ELEMENTS = {
    "fp64": ("float64", 8), "fp32": ("float32", 4), "fp16": ("float16", 2), "bf16": ("bfloat16", 2),
    "fp8e4nv": ("float8_e4m3fn", 1), "fp8e5": ("float8_e5m2", 1), "i1": ("bool", 1),
    **{f"{letter}{8 * n}": (f"{name}{8 * n}", n)
       for letter, name in (("i", "int"), ("u", "uint")) for n in (1, 2, 4, 8)},
}
"""numpy's name and bytes of the element type of a Triton pointer."""


@dataclass(frozen=True)
class Elements:
    """Elements that a pointer of Triton's type `triton` points to; their number is unknown."""

    address: int
    triton: str

    @property
    def dtype(self) -> str:
        return ELEMENTS.get(self.triton.removeprefix("*"), ("uint8", 1))[0]

    def element_size(self) -> int:
        return ELEMENTS.get(self.triton.removeprefix("*"), ("uint8", 1))[1]

    def data_ptr(self) -> int:
        return self.address


def check_grid(kernel: str, grid: Sequence[Any]) -> None:
    """Raise `DeviceError` unless the grid is three sizes."""
    if len(grid) == 3:
        x, y, z = grid
        if type(x) is type(y) is type(z) is int or all(hasattr(n, "__index__") for n in grid):
            if 0 <= x <= MOST_PROGRAMS and 0 <= y <= MOST_PROGRAMS and 0 <= z <= MOST_PROGRAMS:
                return
    shown = ", ".join(map(str, grid))
    raise DeviceError(
        f"cannot launch kernel {kernel!r}: the grid ({shown}) is not of three whole numbers "
        "between 0 and 2**31 - 1; triton.cdiv(a, b) divides, rounds up, and gives an integer"
    )


def check_resident(kernel: str, grid: Sequence[int], most: int) -> None:
    """Raise `DeviceError` if a cooperative launch has more programs than the device runs at
    once.
    """
    if math.prod(grid) > most:
        raise too_large(DeviceError(
            f"cannot launch kernel {kernel!r} with launch_cooperative_grid=True: of its "
            f"{math.prod(grid)} programs the device holds {most} at once; launch no more, or use "
            "fewer warps, less shared memory or 128 registers"
        ), math.prod(grid), most, "programs at once")


def integer_bits(kernel: str, index: int, kind: str, value: Any) -> int:
    """Argument `index` of type i1 to i64, or an address, signed or unsigned, as bits.

    Raise `DeviceError` if it does not fit.
    """
    number = operator.index(value)
    bits = int(kind[1:]) if kind[1:].isdigit() else 64
    if -(1 << bits - 1) * (bits > 1) <= number < 1 << bits:
        return number & ((1 << max(bits, 8)) - 1)
    raise DeviceError(
        f"cannot launch kernel {kernel!r}: argument {index} ({number}) does not fit the type of "
        "the parameter"
    )
