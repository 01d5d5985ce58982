"""Kernels whose subgroups run in step give the bits that they give one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe.runtime.simulator import device as simulated
from triton_xe.runtime.simulator.analysis.in_step import shared_values
from triton_xe.runtime.simulator.ir.parser import parse_module

Text = Callable[..., str]
P, S = "ptr addrspace(1)", "ptr addrspace(3)"
BARRIER = "  call void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)\n"
IDS = """  %lane = call i32 @_Z22get_sub_group_local_idv()
  %sg = call i32 @_Z16get_sub_group_idv()
  %base = mul i32 %sg, 16
  %at = add i32 %base, %lane
"""


@triton.jit
def norm(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + column, mask=column < N, other=0.0)
    top = tl.max(x, axis=0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) + top)
    tl.store(y_ptr + tl.program_id(0) * N + column, x * scale, mask=column < N)


@triton.jit
def chunks(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """A barrier in each pass, and what the passes hand on."""
    row = tl.program_id(0) * N
    top, total = -float("inf"), 0.0
    for start in range(0, N, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + column, mask=column < N, other=-float("inf"))
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    for start in range(0, N, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + column, mask=column < N)
        tl.store(y_ptr + row + column, tl.exp(x - top) / total, mask=column < N)


@triton.jit
def rows(x_ptr, y_ptr, N: tl.constexpr, ROWS: tl.constexpr):
    """Sums along the second axis, and a change of layout through shared memory."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = tl.load(x_ptr + row[:, None] * N + tl.arange(0, N)[None, :])
    product = tl.trans(x) * tl.sum(x, axis=1)[None, :]
    place = tl.arange(0, N)[:, None] * ROWS + tl.arange(0, ROWS)[None, :]
    tl.store(y_ptr + tl.program_id(0) * ROWS * N + place, product)


def both(monkeypatch: pytest.MonkeyPatch, launch: Callable[[np.ndarray[Any, Any]], object],
         y: np.ndarray[Any, Any]) -> None:
    """Launch one subgroup after another, then in step, which must have been possible."""
    made: list[object] = []
    translated = simulated.KernelSource.translated

    def noted(*arguments: Any, **named: Any) -> Any:
        found = translated(*arguments, **named)
        made.append(found.in_step)
        return found

    monkeypatch.setattr(simulated.KernelSource, "translated", noted)
    results = []
    for after in (1 << 60, 0):
        monkeypatch.setattr(simulated, "IN_STEP_AFTER", after)
        y[...] = 0
        launch(y)
        results.append(y.copy())
    assert made[-1] is True
    np.testing.assert_array_equal(results[0].view(np.uint8), results[1].view(np.uint8))


@pytest.mark.parametrize(
    ("N", "BLOCK", "num_warps"), [(1000, 1024, 4), (256, 256, 8), (70, 128, 2)])
def test_rows_in_step(monkeypatch: pytest.MonkeyPatch, N: int, BLOCK: int, num_warps: int) -> None:
    x = np.random.default_rng(1).standard_normal((5, N), np.float32)
    y = np.empty_like(x)
    both(monkeypatch, lambda y: norm[(5,)](x, y, N, BLOCK=BLOCK, num_warps=num_warps), y)
    expected = x / np.sqrt((x * x).sum(1) + x.max(1))[:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_loops_with_barriers_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).standard_normal((3, 300), np.float32)
    y = np.empty_like(x)
    both(monkeypatch, lambda y: chunks[(3,)](x, y, 300, BLOCK=128, num_warps=4), y)
    e = np.exp(x - x.max(1)[:, None])
    np.testing.assert_allclose(y, e / e.sum(1)[:, None], rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_sums_along_rows_and_layouts_in_step(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (16, 64)).astype(dtype)
    y = np.empty((2, 64, 8), dtype)
    both(monkeypatch, lambda y: rows[(2,)](x, y, N=64, ROWS=8), y)
    blocks = x.reshape(2, 8, 64)
    expected = (blocks * blocks.sum(2)[:, :, None]).transpose(0, 2, 1)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(("body", "is_fit"), [
    (IDS + BARRIER, True),
    (IDS, False),
    (IDS + BARRIER + "  %old = atomicrmw add ptr addrspace(1) %a, i32 1 monotonic\n", False),
    (IDS + BARRIER + f"  %v = load volatile i32, {P} %a\n", False),
    (IDS + BARRIER + "  %c = icmp eq i32 %sg, 0\n  br i1 %c, label %x, label %y\n"
     f"x:\n  store i32 1, {P} %a\n  br label %y\ny:\n", False),
    (IDS + BARRIER + f"  %n = load i32, {P} %a\n  %c = icmp eq i32 %n, 0\n"
     f"  br i1 %c, label %x, label %y\nx:\n  store i32 1, {P} %a\n  br label %y\ny:\n", True),
], ids=["barrier", "none", "atomic", "volatile", "ways part", "one way"])
def test_which_kernels_can_run_in_step(kernel: Text, body: str, is_fit: bool) -> None:
    module = parse_module(kernel(f"{P} %a", body, warps=4))
    (function,) = module.kernels()
    found = shared_values(function, module.functions, 4, 16)
    assert (found is not None) == is_fit
    if found is not None:
        assert "%lane" in found
        assert found.isdisjoint({"%sg", "%at"})
    assert shared_values(function, module.functions, 1, 16) is None
