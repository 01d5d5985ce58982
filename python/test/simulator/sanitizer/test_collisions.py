"""Elements of one store that go to one address."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


@triton.jit
def scatter(out, places, values, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.load(places + i), tl.load(values + i), i < n)


@triton.jit
def to_one(out, BLOCK: tl.constexpr):
    tl.store(out + tl.zeros((BLOCK,), tl.int32), tl.arange(0, BLOCK))


@triton.jit
def again(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for k in tl.static_range(3):
        tl.store(out + i, i + k)
    for k in range(3):
        tl.store(out + i, i - k)


def launch(places: Any, values: Any, dtype: Any, n: int = 64, BLOCK: int = 64) -> Any:
    out = torch.zeros(4 * BLOCK, dtype=dtype, device="xpu")
    scatter[(1,)](out, places.to("xpu"), values.to(dtype).to("xpu"), n, BLOCK=BLOCK, num_warps=1)
    return out


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize(("first", "second"), [(3, 7), (3, 3 + 16), (1, 60)])
def test_lanes_and_registers_of_one_warp(first: int, second: int, dtype: torch.dtype) -> None:
    places, values = torch.arange(64, dtype=torch.int32) * 3 % 200, torch.arange(64) % 50
    launch(places, values, dtype)
    places[second] = places[first]
    with pytest.raises(SimulatorTrap, match="where another element of the same tensor") as caught:
        launch(places, values, dtype)
    text = str(caught.value)
    assert re.search(r"test_collisions\.py:24:\d+, program \(0, 0, 0\), warp 0, lane \d+: ", text)
    assert "argument 'out'" in text
    assert f"element ({int(places[first])},)" in text
    values[second] = values[first]
    launch(places, values, dtype)
    values[second] += 1
    launch(places, values, dtype, n=second)


@pytest.mark.parametrize("second", [7, 3 + 16, 60])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.int64], ids=str)
def test_elements_far_apart(second: int, dtype: torch.dtype) -> None:
    """Their check knows which elements have been stored to before."""
    places, values = torch.arange(64, dtype=torch.int32) * 611, torch.arange(64)
    out = torch.zeros(64 * 611, dtype=dtype, device="xpu")
    given = places.to("xpu"), values.to(dtype).to("xpu")
    for _ in range(2):
        scatter[(1,)](out, *given, 64, BLOCK=64, num_warps=1)
    places[second] = places[3]
    with pytest.raises(SimulatorTrap, match="where another element of the same tensor"):
        scatter[(1,)](out, places.to("xpu"), given[1], 64, BLOCK=64, num_warps=1)


def test_one_address_for_all() -> None:
    with pytest.raises(SimulatorTrap, match="different value"):
        to_one[(1,)](torch.zeros(1, dtype=torch.int32, device="xpu"), BLOCK=64, num_warps=1)


def test_stores_one_after_another_are_in_order() -> None:
    out = torch.zeros(256, dtype=torch.int32, device="xpu")
    again[(1,)](out, BLOCK=256, num_warps=1)
    assert torch.equal(out.cpu(), torch.arange(256, dtype=torch.int32) - 2)


@triton.jit
def rows(out, first, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.arange(0, ROWS)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(out + first + row * stride + i, row * BLOCK + i)


@pytest.mark.parametrize("stride", [16, 17, 40, 15, 1, 0, -16, -33, -15])
def test_rows_whose_distance_is_known_late(stride: int) -> None:
    """They are compared with what is there only where they may overlap."""
    out = torch.zeros(8 * 40, dtype=torch.int32, device="xpu")
    first = max(0, -7 * stride)
    at = torch.arange(8)[:, None] * stride + torch.arange(16) + first
    if abs(stride) < 16:
        with pytest.raises(SimulatorTrap, match="where another element of the same tensor"):
            rows[(1,)](out, first, stride, ROWS=8, BLOCK=16, num_warps=1)
        return
    rows[(1,)](out, first, stride, ROWS=8, BLOCK=16, num_warps=1)
    assert torch.equal(out.cpu()[at.flatten()], torch.arange(128, dtype=torch.int32))
