"""Scans of short rows, and of columns that each lane has completely, by the emulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.operations import calls
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


@triton.jit
def scanned_down(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, SUM: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at).to(out_ptr.dtype.element_ty)
    y = tl.cumsum(x, 0, SUM < 0) if SUM else tl.associative_scan(x, 0, maximum)
    tl.store(out_ptr + at, y)


@triton.jit
def linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, SUM: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    _, y = tl.associative_scan((x % 3 - 1, x), 1, linear)
    tl.store(out_ptr + at, y)


def run(kernel: Any, device: str, warps: int, x: Any, out: Any, kinds: tuple[str, str],
        total: int, align: int = 16) -> str:
    types = {"x_ptr": f"*{kinds[0]}", "out_ptr": f"*{kinds[1]}", "M": "constexpr",
             "N": "constexpr", "SUM": "constexpr"}
    attributes = {(n,): [["tt.divisibility", align]] for n in (0, 1)}
    shape = {(2,): out.shape[0], (3,): out.shape[1], (4,): total}
    source = ASTSource(kernel, types, shape, attributes)
    made = triton.compile(source, GPUTarget("xpu", device, 16), {"num_warps": warps})
    emulated = EmulatedDevice(device)
    loaded = emulated.load(made.asm["spv"], made.metadata.name)
    emulated.launch(loaded, (1, 1, 1), [x.ctypes.data, out.ctypes.data])
    return made.asm["llir"]


def aligned(x: Any) -> Any:
    """A copy at a multiple of 64 bytes."""
    room = np.empty(x.nbytes + 64, np.uint8)
    found = room[-room.ctypes.data % 64 :][: x.nbytes].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize("kinds", [("fp32", "fp32"), ("i32", "i32"), ("fp16", "fp32")])
@pytest.mark.parametrize("total", [1, -1, 0])
@pytest.mark.parametrize(("rows", "columns"), [(8, 512), (32, 64), (4, 1024)])
def test_each_column_is_scanned(
    rows: int, columns: int, total: int, kinds: tuple[str, str], device: str
) -> None:
    numpy = {"fp32": np.float32, "i32": np.int32, "fp16": np.float16}
    numbers = np.random.default_rng(rows).integers(-5, 6, (rows, columns))
    x = aligned(numbers.astype(numpy[kinds[0]]))
    out = aligned(np.zeros(x.shape, numpy[kinds[1]]))
    text = run(scanned_down, device, 4, x, out, kinds, total)
    by_function = kinds[0] == "fp16" if rows == 32 else rows == 8 or kinds[0] != "fp16"
    assert calls(text, "xe.wide.run_") == by_function
    order = slice(None, None, total or 1)
    scan: Any = np.cumsum if total else np.maximum.accumulate
    assert np.array_equal(out, scan(x[order], axis=0, dtype=out.dtype)[order])


@pytest.mark.parametrize("device", ["bmg", "pvc", "dg2"])
@pytest.mark.parametrize("kind", ["i32", "i16"])
@pytest.mark.parametrize(("rows", "columns", "warps"), [(1, 1024, 4), (16, 128, 4), (32, 16, 1)])
def test_each_row_of_two_tensors_is_scanned(
    rows: int, columns: int, warps: int, kind: str, device: str
) -> None:
    dtype: Any = {"i32": np.int32, "i16": np.int16}[kind]
    x = np.random.default_rng(rows).integers(0, 6, (rows, columns)).astype(dtype)
    out, wanted = np.zeros_like(x), x.copy()
    text = run(recurrence, device, warps, x, out, (kind, kind), 0)
    assert calls(text, "xe.wide.previous_") == (device != "dg2")
    for n in range(1, columns):
        wanted[:, n] += wanted[:, n - 1] * (x[:, n] % 3 - 1)
    assert np.array_equal(out, wanted)


@triton.jit
def linear_recurrence(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, SUM: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    _, y = tl.associative_scan((tl.load(x_ptr + M * N + at), tl.load(x_ptr + at)), SUM, linear)
    tl.store(out_ptr + at, y)


@pytest.mark.parametrize("device", ["bmg", "pvc", "dg2"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("rows", "columns", "warps"), [
    (16, 128, 4), (64, 64, 4), (64, 8, 1), (1, 1024, 4), (1, 4096, 8), (1, 64, 4)])
def test_recurrences_of_fp16_are_scanned(
    rows: int, columns: int, warps: int, axis: int, device: str
) -> None:
    rng = np.random.default_rng(rows)
    x = rng.integers(-2, 3, (2, rows, columns)).astype(np.float16)
    x[1] = rng.integers(-1, 2, (rows, columns))
    x, out, wanted = aligned(x), aligned(np.zeros_like(x[0])), x[0].copy()
    text = run(linear_recurrence, device, warps, x, out, ("fp16", "fp16"), axis)
    if axis == 1 and (rows > 1 or columns > 64):
        assert calls(text, "xe.half.both.") == (device != "dg2")
    step, down = np.moveaxis(wanted, axis, 0), np.moveaxis(x[1], axis, 0)
    for n in range(1, len(step)):
        step[n] += step[n - 1] * down[n]
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("device", ["bmg", "pvc", "dg2"])
@pytest.mark.parametrize("kind", ["fp32", "fp16", "i32", "i16", "i8"])
@pytest.mark.parametrize("total", [1, -1, 0])
@pytest.mark.parametrize(("rows", "columns", "warps", "align"), [
    (1, 8, 4, 1), (128, 4, 4, 1), (64, 16, 1, 1), (64, 32, 4, 16)])
def test_each_row_is_scanned(
    rows: int, columns: int, warps: int, align: int, total: int, kind: str, device: str
) -> None:
    dtype: Any = {"f": "float", "i": "int"}[kind[0]] + kind.lstrip("fpi")
    x = np.random.default_rng(rows).integers(-5, 6, (rows, columns)).astype(dtype)
    out = np.zeros_like(x)
    text = run(scanned, device, warps, x, out, (kind, kind), total, align)
    by_function = kind == "i32" and align == 16 and device != "dg2"
    assert calls(text, "xe.wide.run_") == by_function
    order = slice(None, None, total or 1)
    wanted = (np.cumsum if total else np.maximum.accumulate)(x[:, order], axis=1, dtype=dtype)
    assert np.array_equal(out, wanted[:, order])
