"""Rounding of one number to the device's formats; `triton_xe.intrinsics.definitions` rounds
arrays.
"""

from __future__ import annotations

import struct


def bf16_bits(value: float) -> int:
    """The nearest bfloat16, ties to even, as an integer; NaN stays a quiet NaN of its sign.

    >>> hex(bf16_bits(1.0)), hex(bf16_bits(float("-nan")))
    ('0x3f80', '0xffc0')
    """
    bits: int
    (bits,) = struct.unpack("<I", struct.pack("<f", float(value)))
    return bits >> 16 | 0x40 if value != value else bits + 0x7FFF + (bits >> 16 & 1) >> 16


def to_float32(value: float) -> float:
    """The nearest fp32 number, ties to even.

    >>> to_float32(0.1) == 0.1, to_float32(0.5)
    (False, 0.5)
    """
    rounded: float
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    return rounded
