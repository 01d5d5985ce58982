"""DPAS: D[M,N] = C[M,N] + A[M,K] * B[K,N] on register images.

A is row-major; each dword of B contains consecutive k of one column (VNNI).  In order of ascending
k, each product is added to the fp32 (or wrapping i32) accumulator and rounded once (fused). fp16
and bf16 accumulators are widened, and rounded once at the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from triton_xe.hardware.dpas import ELEMENT_BITS, Dpas
from triton_xe.intrinsics.definitions.conversions import (
    bf16_to_float,
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
    """Register image of the result."""
    kind, size = shape.accumulator, (shape.repeat_count, shape.execution_size)
    rows = unpack(a, shape.a).reshape(shape.repeat_count, shape.k)
    columns = unpack_b(b, shape)
    if kind == "i32":
        total = accumulator.view(np.int32).reshape(size).astype(np.int64)
        total += rows.astype(np.int64) @ columns.astype(np.int64)
        return total.astype(np.int32).reshape(-1).view(np.uint8)
    if kind == "f32":
        c = accumulator.view(np.float32)
    elif kind == "f16":
        c = accumulator.view(np.float16).astype(np.float32)
    else:
        c = bf16_to_float(accumulator.view(np.uint16))
    result = _accumulate(c.reshape(size), rows.astype(np.float32), columns.astype(np.float32))
    flat = result.reshape(-1)
    if kind == "f32":
        return flat.view(np.uint8)
    with np.errstate(over="ignore"):
        rounded = flat.astype(np.float16) if kind == "f16" else float_to_bf16(flat)
    return rounded.view(np.uint8)


def _accumulate(
    c: NDArray[np.float32], a: NDArray[np.float32], b: NDArray[np.float32]
) -> NDArray[np.float32]:
    """One fused multiply-add per k; the product is exact in double, the sum rounded to odd."""
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            product = a[:, k : k + 1].astype(np.float64) * b[k : k + 1].astype(np.float64)
            c = add_once(product, c.astype(np.float64))
    return c


def add_once(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float32]:
    """x + y rounded once to fp32: the double sum rounded to odd, then to fp32.

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
