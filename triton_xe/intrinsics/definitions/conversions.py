"""Number formats of the matrix unit and their conversions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def bf16_to_float(bits: NDArray[np.uint16]) -> Floats:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float_to_bf16(values: Floats) -> NDArray[np.uint16]:
    """Round to nearest even; NaN stays a quiet NaN."""
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def float_to_half(values: NDArray[np.floating]) -> NDArray[np.float16]:
    """Round to nearest even; too large numbers become infinities."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16)


def float_to_tf32(values: Floats) -> NDArray[np.uint32]:
    """Round to 10 mantissa bits, nearest even; NaN stays a quiet NaN."""
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = bits + 0xFFF + ((bits >> 13) & 1)
    quiet = bits | (1 << 22)
    return (np.where(np.isnan(values), quiet, rounded) & 0xFFFFE000).astype(np.uint32)


def e4m3_to_float(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The numbers of e4m3fn bytes: its exponents are those of fp16 eight lower, all ones are NaN.

    >>> e4m3_to_float(np.array([0x38, 0xC0, 0x7E], np.uint8)).tolist()
    [1.0, -2.0, 448.0]
    """
    word = raw.astype(np.uint16)
    half = ((word & 0x80) << 8 | (word & 0x7F) << 7).view(np.float16)
    numbers = half.astype(np.float32) * np.float32(256)
    return np.where(raw & 0x7F == 0x7F, np.float32(np.nan), numbers)


def e2m1_to_float(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The numbers of pairs of e2m1, low bits first: as fp16 with exponents 14 higher.

    >>> e2m1_to_float(np.array([0x21, 0xF7], np.uint8)).tolist()
    [0.5, 1.0, 6.0, -6.0]
    """
    word = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1).astype(np.uint16)
    half = ((word & 8) << 12 | (word & 7) << 9).view(np.float16)
    return half.astype(np.float32) * np.float32(2**14)


def e8m0_to_double(raw: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The scales of E8M0 bytes: 2^(byte - 127), NaN for 255."""
    powers = np.exp2(raw.astype(np.float64) - 127)
    return np.where(raw == 255, np.float64(np.nan), powers)


def unpack(raw: NDArray[np.uint8], kind: str) -> NDArray[np.float32] | NDArray[np.int32]:
    """Elements of a raw operand as fp32 or i32, lowest bits first."""
    if kind == "f16":
        return raw.view(np.float16).astype(np.float32)
    if kind == "bf16":
        return bf16_to_float(raw.view(np.uint16))
    if kind == "tf32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if kind == "bf8":
        return (raw.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    if kind == "hf8":
        return e4m3_to_float(raw)
    if kind == "e2m1":
        return e2m1_to_float(raw)
    if kind in ("u8", "s8"):
        return raw.view(np.uint8 if kind == "u8" else np.int8).astype(np.int32)
    bits = int(kind[1:])
    parts = np.stack([raw >> first & ((1 << bits) - 1) for first in range(0, 8, bits)], axis=-1)
    values, sign = parts.reshape(-1).astype(np.int32), 1 << bits - 1
    return values if kind[0] == "u" else (values ^ sign) - sign
