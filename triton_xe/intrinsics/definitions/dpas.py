"""DPAS: D[M,N] = C[M,N] + A[M,K] * B[K,N] on register images.

A is row-major; each dword of B contains consecutive k of one column (VNNI).  In order of ascending
k, each product is added to the fp32 (or wrapping i32) accumulator and rounded once (fused).
Accumulators of fp16 and bf16 are widened, and rounded once at the end.

The scaled DPAS multiplies each product by the scales of its row and column, which is exact, before
it is added.  How hardware rounds sums within a scaled DPAS is not published; here it is as in the
plain DPAS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from triton_xe.hardware.dpas import ELEMENT_BITS, Dpas
from triton_xe.intrinsics.definitions.conversions import (
    bf16_to_float,
    e8m0_to_double,
    float_to_bf16,
    unpack,
)

Bytes = NDArray[np.uint8]


def unpack_b(raw: Bytes, shape: Dpas) -> NDArray[np.float32] | NDArray[np.int32]:
    """B as K x N from its dwords: dword d of lane n holds k = d*ops ... d*ops + ops - 1."""
    ops, columns = 32 // ELEMENT_BITS[shape.b], shape.execution_size
    elements = unpack(raw, shape.b).reshape(shape.k // ops, columns, ops)
    return elements.transpose(0, 2, 1).reshape(shape.k, columns)


def dpas(accumulator: Bytes, a: Bytes, b: Bytes, shape: Dpas) -> Bytes:
    """Execute a DPAS on register images; return that of the result."""
    kind, size = shape.accumulator, (shape.repeat_count, shape.execution_size)
    rows = unpack(a, shape.a).reshape(shape.repeat_count, shape.k)
    columns = unpack_b(b, shape)
    if kind == "i32":
        total = accumulator.view(np.int32).reshape(size).astype(np.int64)
        total += rows.astype(np.int64) @ columns.astype(np.int64)
        return total.astype(np.int32).reshape(-1).view(np.uint8)
    with np.errstate(invalid="ignore"):
        return _sums(accumulator, rows.astype(np.float64), columns.astype(np.float64), kind)


def scaled_dpas(
    accumulator: Bytes, a: Bytes, b: Bytes, scale_a: Bytes, scale_b: Bytes, shape: Dpas
) -> Bytes:
    """Execute a scaled DPAS on register images; return that of the result.

    Lane l has the scales of column l of B, and, for l below the repeat count, of row l of A.
    """
    with np.errstate(invalid="ignore"):
        rows = unpack(a, shape.a).astype(np.float64).reshape(shape.repeat_count, shape.k)
        columns = unpack_b(b, shape).astype(np.float64)
    times = shape.k // shape.scales
    left, right = (e8m0_to_double(each).reshape(shape.scales, shape.execution_size)
                   for each in (scale_a, scale_b))
    rows *= left.T[: shape.repeat_count].repeat(times, axis=1)
    columns *= right.repeat(times, axis=0)
    return _sums(accumulator, rows, columns, shape.accumulator)


def _sums(
    accumulator: Bytes, rows: NDArray[np.float64], columns: NDArray[np.float64], kind: str
) -> Bytes:
    """Add the products to accumulators of a float type; return their register image."""
    if kind == "f32":
        c = accumulator.view(np.float32)
    elif kind == "f16":
        c = accumulator.view(np.float16).astype(np.float32)
    else:
        c = bf16_to_float(accumulator.view(np.uint16))
    flat = _accumulate(c.reshape(rows.shape[0], columns.shape[1]), rows, columns).reshape(-1)
    if kind == "f32":
        return flat.view(np.uint8)
    with np.errstate(over="ignore"):
        rounded = flat.astype(np.float16) if kind == "f16" else float_to_bf16(flat)
    return rounded.view(np.uint8)


def _accumulate(
    c: NDArray[np.float32], a: NDArray[np.float64], b: NDArray[np.float64]
) -> NDArray[np.float32]:
    """One fused multiply-add per k; the product is exact in double, the sum rounded to odd."""
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            c = add_once(a[:, k : k + 1] * b[k : k + 1], c.astype(np.float64))
    return c


def add_once(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float32]:
    """x + y rounded once to fp32: the fp64 sum is rounded to odd, then to fp32.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
    rounding to odd", IEEE Transactions on Computers 57(4), 2008.
    """
    total = x + y
    t = total - x
    error = (x - (total - t)) + (y - t)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    away = (error > 0) == (total > 0)
    odd = np.where(inexact, bits + np.where(away, 1, -1), bits)
    return odd.view(np.float64).astype(np.float32)
