"""Accesses of one tensor that are checked together: rows at any distance from each other."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from python.test.gemm.pairwise import settings
from triton_xe.errors import SimulatorTrap
from triton_xe.runtime import findings


@triton.jit
def tiles(
    x, starts, pitch, low, high, step, LOADS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """Store a number of its own to a tile for each program; each row begins further right."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLS)[None, :]
    at = x + tl.load(starts + tl.program_id(0)) + row * pitch + column
    inside = (column >= low + row * step) & (column < high)
    v = tl.program_id(0) + 1
    if LOADS:
        v += tl.load(at, inside, other=0)  # which is 0
    tl.store(at, v, inside)


def accessed(start: int, pitch: int, low: int, high: int, step: int, rows: int) -> set[int]:
    return {start + row * pitch + column
            for row in range(rows) for column in range(low + row * step, high)}


@pytest.mark.sample(3)
@pytest.mark.parametrize(*settings(
    dtype=(torch.int8, torch.int16, torch.int32, torch.int64), loads=(False, True), warps=(1, 4),
    shape=((16, 16), (8, 64), (4, 128)), strength=2))
def test_programs_race_if_their_tiles_overlap(
    dtype: torch.dtype, loads: bool, warps: int, shape: tuple[int, int], monkeypatch: Any
) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    random, (rows, columns), size = np.random.default_rng(7), shape, 6000
    # rows that overlap are a race of warps, if one loads what another one stores
    close = () if loads and warps > 1 else (0, 3, -3, columns // 2 + 1)
    for turn in range(24):
        pitch = int(random.choice((*close, -columns, columns + 5, 2 * columns)))
        low, high = (int(k) for k in random.integers((0, columns // 2), (9, columns + 1)))
        step = int(random.integers(0, 2))
        tile = accessed(2500, pitch, low, high, step, rows)
        common = {d: len(tile & {k + d for k in tile}) for d in range(-2400, 2400) if d}
        few = [d for d, count in common.items() if 0 < count < 4]
        none = [d for d, count in common.items() if not count]
        apart = int(random.choice(few if turn % 2 and few else none))
        x = torch.zeros(size, dtype=dtype, device="xpu")
        starts = torch.tensor([2500, 2500 + apart], dtype=torch.int32).to("xpu")
        with pytest.raises(SimulatorTrap, match="data race") if common[apart] else nullcontext():
            tiles[(2,)](x, starts, pitch, low, high, step, loads, rows, columns, num_warps=warps)
        if not common[apart]:
            wanted = np.zeros(size)
            wanted[list(tile)], wanted[[k + apart for k in tile]] = 1, 2
            assert x.cpu().numpy().tolist() == wanted.tolist()


@pytest.mark.parametrize("loads", [False, True])
@pytest.mark.parametrize("row", [0, 1, 2, 6, 15])
def test_the_first_row_that_leaves_a_tensor_is_reported(
    row: int, loads: bool, monkeypatch: Any
) -> None:
    """A tile begins so late that this row is the first that ends behind the tensor."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    size, pitch = 2000, 100
    starts = torch.tensor([size - row * pitch - 15], dtype=torch.int32).to("xpu")
    x = torch.zeros(size, dtype=torch.int32, device="xpu")
    verb = "load" if loads else "store"
    with pytest.raises(SimulatorTrap, match=f"lane 15: out-of-bounds {verb} of 4 bytes: 0 bytes"):
        tiles[(1,)](x, starts, pitch, 0, 16, 0, loads, 16, 16, num_warps=1)


@pytest.mark.parametrize("loads", [False, True])
def test_accesses_of_active_lanes_are_counted(
    loads: bool, monkeypatch: Any, tmp_path: Path
) -> None:
    path = tmp_path / "findings"
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    monkeypatch.setenv("TRITON_XE_FINDINGS", str(path))
    x, starts = (torch.zeros(n, dtype=torch.int32, device="xpu") for n in (4096, 1))
    tiles[(1,)](x, starts, 100, 3, 16, 0, loads, 16, 16, num_warps=1)
    (launch,), found = findings.read_findings(path)
    assert (found, launch.accesses) == ([], 16 * 13 * (1 + loads) + 1)


@triton.jit
def multiples(x, starts, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Store at multiples of 16 bits, which wrap around, from the middle of a tensor on."""
    i = tl.load(starts + tl.program_id(0)) + tl.arange(0, BLOCK).to(tl.int16)
    tl.store(x + 32768 + (i * STRIDE).to(tl.int32), tl.program_id(0) + 1)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
@pytest.mark.parametrize("stride", [2, 3, 5])
def test_products_that_wrap_around_are_checked_where_they_are(
    dtype: torch.dtype, stride: int, monkeypatch: Any
) -> None:
    """Two programs store next to the place where 16 bits wrap around."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    lanes, high = np.arange(64), 32767 // stride
    found = set()
    for first in (high - 100, high - 55, high - 40, high - 7):
        for second in (first + k for k in (-64, -60, 40, 60, 64)):
            starts = np.array([first, second], np.int16)
            a, b = ((start.astype(int) + lanes) * stride + 32768 & 65535 for start in starts)
            x = torch.zeros(70000, dtype=dtype, device="xpu")
            races = bool({*a} & {*b})
            found.add(races)
            with pytest.raises(SimulatorTrap, match="data race") if races else nullcontext():
                multiples[(2,)](x, torch.from_numpy(starts).to("xpu"), stride, 64, num_warps=1)
            if not races:
                wanted = np.zeros(70000)
                wanted[a], wanted[b] = 1, 2
                assert x.cpu().numpy().tolist() == wanted.tolist()
    assert found == {True, False}
