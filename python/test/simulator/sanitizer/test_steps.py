"""Accesses whose addresses are known but for a base."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from python.test.gemm.pairwise import settings
from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.sanitizer.steps import Steps


@pytest.mark.parametrize(("strides", "count", "size", "low", "span", "fits_window"), [
    ((4, 8, 16, 32), 1, 4, 0, 64, True),
    ((-2, -4, -8, -16), 1, 2, -30, 32, True),
    ((12, 24, 48, 96), 1, 4, 0, 184, True),
    ((16, 32, 64, 128), 4, 4, 0, 256, True),
    ((0, 0, 8, 16), 1, 8, 0, 32, True),
    ((0, 0, 0, 8), 1, 8, 0, 16, False),
    ((64, 128, 256, 512), 1, 4, 0, 964, False),
])
def test_where_elements_are(
    strides: tuple[int, ...], count: int, size: int, low: int, span: int, fits_window: bool,
) -> None:
    steps = Steps(strides, count, size)
    at = [sum(stride * (lane >> k & 1) for k, stride in enumerate(strides)) + e * size
          for e in range(count) for lane in range(16)]
    taken = {a + k for a in at for k in range(size)}
    assert list(steps.offsets) == at
    assert (steps.low, steps.span) == (low, span) == (min(taken), max(taken) - min(taken) + 1)
    assert steps.fits_window == fits_window
    for align in (1, 4, 16):
        lines = [len({(a + base) >> 6 for a in range(low, low + span)})
                 for base in range(-low % align, 64 - low, align)]
        assert steps.chunks(align) >= max(lines)


@triton.jit
def rows(x, y, N, STRIDE, IN_PLACE: tl.constexpr, LOW: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of odd lengths, which take several accesses of each lane."""
    i = tl.arange(0, BLOCK)
    at, inside = tl.program_id(0) * STRIDE + i, (i >= LOW) & (i < N)
    v = tl.load(x + at, inside, other=0)
    tl.store((x if IN_PLACE else y) + at, v + 1 + tl.program_id(0), inside)


@pytest.mark.sample(2)
@pytest.mark.parametrize(*settings(
    dtype=(torch.int8, torch.float16, torch.float32, torch.int64), in_place=(False, True),
    size=((333, 4, 512), (501, 4, 512), (77, 1, 128), (510, 8, 512)), strength=1))
def test_rows_that_take_several_accesses_of_each_lane(
    dtype: torch.dtype, in_place: bool, size: tuple[int, int, int], monkeypatch: Any
) -> None:
    """Rows that end too late are found: in the memory behind, and where the next row begins."""
    n, warps, block = size
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    x = torch.zeros(5, n, dtype=dtype, device="xpu")
    y = torch.empty_like(x)

    def run(length: int, grid: int = 5, low: int = 0) -> None:
        rows[(grid,)](x, y, length, n, in_place, low, block, num_warps=warps)

    run(n)
    wanted = torch.arange(1, 6, dtype=torch.float64)[:, None]
    assert ((x if in_place else y).cpu().double() == wanted).all()
    run(n - 3, low=5)
    with pytest.raises(SimulatorTrap, match=r"out-of-bounds load of .*\n?.*0 bytes past the end"):
        rows[(1,)](x[4], y[4], n + 1, n, in_place, 0, block, num_warps=warps)
    with pytest.raises(SimulatorTrap, match="data race"):
        run(n + 1, 4)
    fresh = torch.empty_like(x)
    rows[(4,)](x, fresh, n, n, False, 7, block, num_warps=warps)
    rows[(4,)](fresh, y, n, n, in_place, 7, block, num_warps=warps)
    with pytest.raises(SimulatorTrap, match="never written"):
        rows[(4,)](fresh, y, n, n, in_place, 6, block, num_warps=warps)


@triton.jit
def stepping(x, out, start, low, high, STEP: tl.constexpr, STORES: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    at, inside = x + start + i * STEP, (i >= low) & (i < high)
    v = tl.load(at, inside, other=0)
    if STORES:
        tl.store(at, v + 1, inside)
    else:
        tl.store(out + i, v)


@pytest.mark.sample(2)
@pytest.mark.parametrize(*settings(
    dtype=(torch.int8, torch.float16, torch.float32, torch.int64), stores=(False, True),
    strength=1))
def test_lanes_that_are_masked_off_may_be_anywhere(
    dtype: torch.dtype, stores: bool, monkeypatch: Any
) -> None:
    """Those that are not are found where they leave the tensor, and nothing else is written."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    random, n, size = np.random.default_rng(3), 64, 300
    steps = (-3, 1, 2) if stores else (-1, 3, 5)
    for _ in range(15):
        x, out = (torch.zeros(size, dtype=dtype, device="xpu") for _ in range(2))
        step, start = int(random.choice(steps)), int(random.integers(-80, 380))
        at = start + step * np.arange(n)
        fits = np.flatnonzero((at >= 0) & (at < size))
        low, high = (int(fits[0]), int(fits[-1]) + 1) if len(fits) else (0, 0)
        stepping[(1,)](x, out, start, low, high, step, stores, n, num_warps=1)
        wanted = np.zeros(size)
        wanted[at[low:high]] = stores
        assert x.cpu().double().numpy().tolist() == wanted.tolist()
        if 0 < low:
            with pytest.raises(SimulatorTrap, match="out-of-bounds"):
                stepping[(1,)](x, out, start, low - 1, high, step, stores, n, num_warps=1)
        if 0 < high < n:
            with pytest.raises(SimulatorTrap, match="out-of-bounds"):
                stepping[(1,)](x, out, start, low, high + 1, step, stores, n, num_warps=1)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_masked_stores_tell_what_was_written(step: int, monkeypatch: Any) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    x = torch.empty(64 * step, device="xpu")
    store_some[(1,)](x, 3, 50, step, 64, num_warps=1)
    sum_some[(1,)](x, x, 3, 50, step, 64, num_warps=1)
    with pytest.raises(SimulatorTrap, match="never written"):
        sum_some[(1,)](x, x, 3, 51, step, 64, num_warps=1)


@triton.jit
def store_some(x, low, high, STEP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i * STEP, 1.0, (i >= low) & (i < high))


@triton.jit
def sum_some(x, out, low, high, STEP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i * STEP, (i >= low) & (i < high), other=0.0)
    tl.store(out + 3 * STEP, tl.sum(v))
