"""Rounding, saturation and conversion of numbers as in the execution units.

Exact sums and products are computed in fp64 with their error.  Results that fp64 cannot represent
are rounded to odd first.  Then one more rounding to a narrower format is correct (Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57(4),
2008).  Rounding modes and denormals follow cr0.0 (Intel PRM, volume "3D and GPGPU Programs",
"Control Register").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.runtime.emulator.registers import (
    DTYPES,
    FLOATS,
    ROUND_DOWN,
    ROUND_TO_ZERO,
    ROUND_UP,
    SIZES,
    Array,
    Threads,
)

Doubles = NDArray[np.float64]
_SPLITTER = 134217729.0
_LEAST = 5e-324
_LIMITS = {t: (int(np.iinfo(d).min), int(np.iinfo(d).max))
           for t, d in DTYPES.items() if t not in FLOATS}
_SMALLEST_NORMAL = {"hf": 2.0**-14, "f": 2.0**-126, "df": 2.0**-1022}


def bf16_to_float(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def sum_with_error(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """The rounded sum and its rounding error (Knuth's TwoSum)."""
    total = x + y
    t = total - x
    return total, (x - (total - t)) + (y - t)


def product_with_error(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """The rounded product and its rounding error (Dekker's product).

    Computed on the mantissas, so that nothing overflows.  An error below fp64's range becomes the
    least number of its sign.
    """
    total = x * y
    (x, x_exponent), (y, y_exponent) = np.frexp(x), np.frexp(y)
    exponent, product = x_exponent + y_exponent, x * y
    t = _SPLITTER * x
    x_high = t - (t - x)
    t = _SPLITTER * y
    y_high = t - (t - y)
    x_low, y_low = x - x_high, y - y_high
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    error = (product - np.ldexp(total, -exponent)) + error
    scaled = np.ldexp(error, exponent)
    return total, np.where((scaled == 0) & (error != 0), np.copysign(_LEAST, error), scaled)


def sum_with_overflow(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """`sum_with_error`; the error of a sum that is too large for fp64 is infinite."""
    total, error = sum_with_error(x, y)
    too_large = np.isinf(total) & np.isfinite(x) & np.isfinite(y)
    return total, np.where(too_large, -total, error)


def to_odd(total: Doubles, error: Doubles) -> Doubles:
    """The exact sum of both rounded to odd: an inexact even result moves towards the error."""
    total = np.ascontiguousarray(total)
    bits = total.view(np.int64)
    moves = (error != 0) & ((bits & 1) == 0) & np.isfinite(total) & np.isfinite(error)
    if not moves.any():
        return total
    return np.where(moves, np.where((error > 0) == (total > 0), bits + 1, bits - 1),
                    bits).view(np.float64)


def fused_to_odd(x: Doubles, y: Doubles, z: Doubles) -> Doubles:
    """x * y + z of numbers with at most 24 significant bits, rounded to odd in fp64."""
    return to_odd(*sum_with_error(x * y, z))


DROPPED, TIE = np.int64((1 << 29) - 1), np.int64(1 << 28)
"""Bits of fp64 that fp32 lacks, and their value halfway between two fp32 numbers."""
_SMALL = 2.0**-125
"""Above it fp32 numbers have the same bits as fp64 ones, up to those of `DROPPED`."""


def fused_to_single(x: Doubles, y: Doubles, z: Doubles) -> Doubles:
    """x * y + z of fp32 numbers in fp64, so that rounding it to nearest fp32 rounds once.

    Products are exact.  Rounding the rounded fp64 sum to fp32 may be wrong if it is halfway between
    two fp32 numbers, or denormal in fp32.  Such sums are rounded to odd instead.
    """
    product = x * y
    total = np.ascontiguousarray(product + z)
    doubtful = (total.view(np.int64) & DROPPED) == TIE
    doubtful |= (np.abs(total) < _SMALL) & (total != 0)
    return to_odd(*sum_with_error(product, z)) if doubtful.any() else total


Scaled = tuple[Doubles, NDArray[Any]]
"""A mantissa below 1 and an exponent, which has no limits (`numpy.frexp`)."""
_FAR = 130


def fused(x: Scaled, y: Scaled, z: Scaled) -> tuple[Doubles, Doubles, NDArray[Any]]:
    """x * y + z of fp64 numbers, rounded once: (result, rounding error, exponent).

    Result and error are scaled by two to the power of the exponent, so that no step overflows or
    underflows.  The product's error is added to the error of the sum, rounded to odd.  If one
    summand is more than `_FAR` bits below the other, only its sign matters.
    """
    x_part, y_part, z_part = np.broadcast_arrays(x[0], y[0], z[0])
    exponent = np.where((x_part == 0) | (y_part == 0), z[1] - _FAR, x[1] + y[1])
    distance = np.where(z_part == 0, 0, z[1] - exponent)
    exponent = np.where(distance > _FAR, z[1] - _FAR, exponent)
    z_part = np.ldexp(z_part, np.clip(distance, -_FAR, _FAR))
    product, low = product_with_error(x_part, y_part)
    high, rest = sum_with_error(product, z_part)
    result, error = sum_with_error(high, to_odd(*sum_with_error(low, rest)))
    finite = np.isfinite(result) & np.isfinite(low)
    return np.where(finite, result, product + z_part), np.where(finite, error, 0), exponent


def scaled_doubles(
    total: Doubles, error: Doubles, exponent: NDArray[Any], threads: Threads
) -> Doubles:
    """A scaled result and its error in fp64, rounded once by each thread's rounding mode.

    A denormal result has fewer bits than `total`.  It is the nearest one, except that where
    `total` is halfway between two denormals the error decides.
    """
    nearest = np.ldexp(total, exponent)
    back = np.ldexp(nearest, -exponent)
    lack = np.where(np.isfinite(back), total - back, 0)
    beyond = np.nextafter(nearest, np.where(lack > 0, np.inf, -np.inf))
    is_half = (lack != 0) & (np.ldexp(beyond, -exponent) - total == lack)
    nearest = np.where(is_half & (lack * error > 0), beyond, nearest)
    lack = np.where(is_half, total - np.ldexp(nearest, -exponent), lack)
    overflows = np.isinf(nearest) & np.isfinite(total)
    return doubles(nearest, np.where(overflows, -nearest, np.where(lack == 0, error, lack)),
                   threads)


def _round_by_mode(nearest: Array, exact: Array, mode: Array) -> Array:
    """Move the nearest result to its neighbour where the rounding mode requires the other side."""
    wide = nearest.astype(np.float64)
    above, below = wide > exact, wide < exact
    to_zero = mode == ROUND_TO_ZERO
    down = above & ((mode == ROUND_DOWN) | to_zero & (exact > 0))
    up = below & ((mode == ROUND_UP) | to_zero & (exact < 0))
    infinite = nearest.dtype.type(np.inf)
    return np.where(down, np.nextafter(nearest, -infinite),
                    np.where(up, np.nextafter(nearest, infinite), nearest))


def narrowed(exact: Array, dtype: Any, threads: Threads) -> Array:
    """Round exact or rounded-to-odd fp64 numbers to a narrower format, by each thread's mode."""
    nearest = exact.astype(dtype)
    return nearest if threads.rounding is None else _round_by_mode(nearest, exact, threads.rounding)


def doubles(total: Doubles, error: Doubles, threads: Threads) -> Doubles:
    """Move fp64 results that were rounded to nearest to each thread's rounding mode."""
    if threads.rounding is None:
        return total
    down, up = (error < 0), (error > 0)
    mode, to_zero = threads.rounding, threads.rounding == ROUND_TO_ZERO
    down &= (mode == ROUND_DOWN) | to_zero & (total > 0)
    up &= (mode == ROUND_UP) | to_zero & (total < 0)
    return np.where(down, np.nextafter(total, -np.inf),
                    np.where(up, np.nextafter(total, np.inf), total))


def flushed(values: Array, kind: str, threads: Threads) -> Array:
    """Replace denormals of a type by zero of their sign, in threads that flush them."""
    off = threads.flushed.get(kind)
    if off is None:
        return values
    small = off & (np.abs(values) < _SMALLEST_NORMAL[kind])
    return np.where(small, np.copysign(np.zeros((), values.dtype), values), values)


def _truncated_bits(values: Array, dropped: int, threads: Threads) -> NDArray[np.uint32]:
    """Round fp32 numbers to fewer bits: the last `dropped` bits become 0, NaN becomes quiet."""
    floats = np.ascontiguousarray(narrowed(values, np.float32, threads)
                                  if values.dtype == np.float64 else values, dtype=np.float32)
    bits = floats.view(np.uint32)
    rest = np.uint32((1 << dropped) - 1)
    nearest = bits + (rest >> np.uint32(1)) + (bits >> np.uint32(dropped) & np.uint32(1))
    if threads.rounding is not None:
        away = np.where(np.signbit(floats), ROUND_DOWN, ROUND_UP) == threads.rounding
        directed = np.where(away, bits + rest, bits)
        nearest = np.where(threads.rounding == 0, nearest, directed)
    special = ~np.isfinite(floats)
    quiet = np.where(np.isnan(floats), bits | np.uint32(0x400000), bits)
    return np.where(special, quiet, nearest) & ~rest


def convert(values: Array, kind: str, saturate: bool, threads: Threads) -> Array:
    """Convert values of any numpy type to an operand of type `kind`."""
    dtype = DTYPES[kind]
    if kind in FLOATS:
        return _to_float(values, kind, dtype, saturate, threads)
    if values.dtype.kind == "f":
        return _float_to_integer(values, kind, threads)
    if values.dtype == dtype:
        return values
    if saturate:
        values = np.clip(values, *_LIMITS[kind])
    return values.astype(dtype)


def _to_float(
    values: Array, kind: str, dtype: Any, saturate: bool, threads: Threads
) -> Array:
    """Round numbers to a float type, in the rounding mode of their thread."""
    if values.dtype.kind in "iubO":
        values = _integer_to_double(_machine_integers(values), kind, threads)
    if saturate:
        values = np.where(np.isnan(values), values.dtype.type(0), np.clip(values, 0, 1))
    if kind == "bf":
        return (_truncated_bits(values, 16, threads) >> np.uint32(16)).astype(np.uint16)
    if kind == "tf32":
        return _truncated_bits(values, 13, threads).view(np.float32)
    if values.dtype == dtype:
        return values
    if values.dtype.itemsize > SIZES[kind] and threads.rounding is not None:
        return narrowed(values.astype(np.float64), dtype, threads)
    return values.astype(dtype)


def _machine_integers(values: Array) -> Array:
    """Python integers as 64-bit ones, signed unless a value needs the last bit."""
    if values.dtype != object:
        return values
    return values.astype(np.uint64 if (values > _LIMITS["q"][1]).any() else np.int64)


def _integer_to_double(values: Array, kind: str, threads: Threads) -> Array:
    """Integers as fp64: exact, or rounded to odd if a narrower format follows."""
    result = values.astype(np.float64)
    if values.dtype.itemsize < 8:
        return result
    low = (values & values.dtype.type(0x7FF)).astype(np.float64)
    total, error = sum_with_error((values & ~values.dtype.type(0x7FF)).astype(np.float64), low)
    return doubles(total, error, threads) if kind == "df" else to_odd(total, error)


def _rounded_to_integers(numbers: Doubles, threads: Threads) -> Doubles:
    """Round numbers to integers by each thread's rounding mode."""
    if threads.rounding is None:
        return np.rint(numbers)
    modes = np.broadcast_to(threads.rounding, np.broadcast_shapes(
        threads.rounding.shape, numbers.shape))
    found: Doubles = np.choose(
        modes, (np.rint(numbers), np.ceil(numbers), np.floor(numbers), np.trunc(numbers)))
    return found


def _float_to_integer(values: Array, kind: str, threads: Threads) -> Array:
    """Truncate floats, or round them if cr0.0 says so, and clamp to the type; NaN becomes 0."""
    dtype, (low, high) = DTYPES[kind], _LIMITS[kind]
    numbers = np.where(np.isnan(values), 0, values).astype(np.float64)
    whole = np.trunc(numbers)
    if threads.rounds_integers is not None:
        whole = np.where(threads.rounds_integers, _rounded_to_integers(numbers, threads), whole)
    above, below = whole >= float(high), whole <= float(low)
    inside = np.where(above | below, 0, whole).astype(np.uint64 if kind == "uq" else np.int64)
    return np.where(above, dtype(high), np.where(below, dtype(low), inside.astype(dtype)))
