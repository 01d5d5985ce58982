"""Scans of rows that are shorter than a subgroup, by the emulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_xe.runtime.emulator.device import EmulatedDevice

pytestmark = pytest.mark.intel_compiler


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y)


@triton.jit
def scanned(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, SUM: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    y = tl.cumsum(x, 1, SUM < 0) if SUM else tl.associative_scan(x, 1, maximum)
    tl.store(out_ptr + at, y)


@pytest.mark.parametrize("device", ["bmg", "pvc", "dg2"])
@pytest.mark.parametrize("kind", ["fp32", "fp16", "i32", "i16", "i8"])
@pytest.mark.parametrize("total", [1, -1, 0])
@pytest.mark.parametrize(("rows", "columns", "warps"), [(1, 8, 4), (128, 4, 4), (64, 16, 1)])
def test_each_row_is_scanned(
    rows: int, columns: int, warps: int, total: int, kind: str, device: str
) -> None:
    dtype: Any = {"f": "float", "i": "int"}[kind[0]] + kind.lstrip("fpi")
    x = np.random.default_rng(rows).integers(-5, 6, (rows, columns)).astype(dtype)
    out = np.zeros_like(x)
    types = {"x_ptr": f"*{kind}", "out_ptr": f"*{kind}", "M": "constexpr", "N": "constexpr",
             "SUM": "constexpr"}
    source = ASTSource(scanned, types, {(2,): rows, (3,): columns, (4,): total})
    made = triton.compile(source, GPUTarget("xpu", device, 16), {"num_warps": warps})
    emulated = EmulatedDevice(device)
    loaded = emulated.load(made.asm["spv"], made.metadata.name)
    emulated.launch(loaded, (1, 1, 1), [x.ctypes.data, out.ctypes.data])
    order = slice(None, None, total or 1)
    wanted = (np.cumsum if total else np.maximum.accumulate)(x[:, order], axis=1, dtype=dtype)
    assert np.array_equal(out, wanted[:, order])
