"""Reductions of reductions: Intel's compiler must not combine steps with different operations."""

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
OPERATIONS = {"min": np.min, "sum": np.sum, "max": np.max}


@triton.jit
def reduced(x, axis: tl.constexpr, operation: tl.constexpr):
    if operation == "min":
        return tl.min(x, axis)
    if operation == "sum":
        return tl.sum(x, axis)
    return tl.max(x, axis)


@triton.jit
def twice(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, FIRST: tl.constexpr,
          SECOND: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr, reduced(reduced(x, 1, FIRST), 0, SECOND))


@triton.jit
def largest(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, FIRST: tl.constexpr,
            SECOND: tl.constexpr):
    """The largest element of each row of a reduction over the first of three dimensions."""
    i = tl.arange(0, M * N)
    x = tl.reshape(tl.load(x_ptr + i), [M, 2, N // 2])
    tl.store(out_ptr + tl.arange(0, 2)[:, None], tl.topk(reduced(x, 0, FIRST), 1))


def run(kernel: Any, device: str, kind: str, x: Any, out: Any, **constants: Any) -> None:
    names = kernel.arg_names
    types = {name: kind if name.endswith("_ptr") else "constexpr" for name in names}
    source = ASTSource(kernel, types, {(names.index(k),): v for k, v in constants.items()})
    made = triton.compile(source, GPUTarget("xpu", device, 16), {"num_warps": 1})
    emulated = EmulatedDevice(device)
    loaded = emulated.load(made.asm["spv"], made.metadata.name)
    emulated.launch(loaded, (1, 1, 1), [x.ctypes.data, out.ctypes.data])


@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize(("kind", "dtype"), [("*i32", np.int32), ("*fp32", np.float32)])
@pytest.mark.parametrize("second", OPERATIONS)
@pytest.mark.parametrize("first", OPERATIONS)
def test_reductions_of_both_dimensions(
    first: str, second: str, kind: str, dtype: Any, device: str
) -> None:
    x = np.random.default_rng(1).integers(-40, 60, (4, 4)).astype(dtype)
    out = np.zeros(1, dtype)
    run(twice, device, kind, x, out, M=4, N=4, FIRST=first, SECOND=second)
    assert out[0] == OPERATIONS[second](OPERATIONS[first](x, axis=1), axis=0)


@pytest.mark.parametrize("rows", [2, 16])
@pytest.mark.parametrize("first", OPERATIONS)
def test_the_largest_of_a_reduction(first: str, rows: int) -> None:
    x = np.random.default_rng(rows).integers(-40, 60, (rows, 2, 4)).astype(np.int32)
    out = np.zeros(2, np.int32)
    run(largest, "bmg", "*i32", x, out, M=rows, N=8, FIRST=first, SECOND="max")
    np.testing.assert_array_equal(out, OPERATIONS[first](x, axis=0).max(axis=1))
