"""Reports name what values come from: indices of any width, and arguments that alias."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


def report(launch: Callable[[], object]) -> str:
    with pytest.raises(SimulatorTrap) as caught:
        launch()
    return str(caught.value)


@triton.jit
def pick_in_rows(table, picks, out, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    values = tl.load(table + at).to(tl.float32) * 2
    tl.store(out + at, tl.gather(values, tl.load(picks + at).to(tl.int32), 1))


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("wrong", [16, -1])
def test_gather_names_values_and_indices(dtype: torch.dtype, wrong: int) -> None:
    table, picks = torch.randn(8, 16).half(), torch.randint(0, 16, (8, 16)).to(dtype)
    out = torch.zeros(8, 16, device="xpu")
    pick_in_rows[(1,)](table.to("xpu"), picks.to("xpu"), out, 8, 16)
    assert torch.equal(out.cpu(), 2 * table.float().gather(1, picks.long()))
    picks[5, 3] = wrong
    text = report(lambda: pick_in_rows[(1,)](table.to("xpu"), picks.to("xpu"), out, 8, 16))
    assert "index is out of range, of what was read from argument 'table'" in text
    assert "by what was read from argument 'picks'" in text
    assert "test_sources.py:30:" in text
    assert "element (5, 3)" in text


@triton.jit
def at_narrow(x, places, out, step, n, NARROW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(places + i, i < n, 0).to(NARROW)
    tl.store(out + i, tl.load(x + at * step, i < n), i < n)


@triton.jit
def block_at_narrow(x, places, out, BLOCK: tl.constexpr):
    program, i = tl.program_id(0), tl.arange(0, BLOCK)
    first = tl.load(places + program).to(tl.int32) * BLOCK
    tl.store(out + program * BLOCK + i, tl.load(x + first + i))


@pytest.mark.parametrize(("dtype", "narrow"), [
    (torch.int64, tl.int32), (torch.int64, tl.int16), (torch.int32, tl.int16)], ids=str)
@pytest.mark.parametrize("extra", [1, -3])
def test_index_that_a_cast_cuts_off(dtype: torch.dtype, narrow: tl.dtype, extra: int) -> None:
    x, places = torch.randn(100), torch.randperm(100).to(dtype)
    out = torch.zeros(100, device="xpu")
    at_narrow[(2,)](x.to("xpu"), places.to("xpu"), out, 1, 100, narrow, 64)
    assert torch.equal(out.cpu(), x[places.long()])
    places[61] += extra << narrow.primitive_bitwidth
    text = report(lambda: at_narrow[(2,)](
        x.to("xpu"), places.to("xpu"), out, 1, 100, narrow, 64))
    assert "makes a narrower integer of one that does not fit" in text
    assert "argument 'places'" in text
    assert "element (61,)" in text


def test_block_whose_number_a_cast_cuts_off() -> None:
    x, places = torch.randn(8, 32), torch.randperm(8)
    out = torch.zeros(8, 32, device="xpu")
    block_at_narrow[(8,)](x.to("xpu"), places.to("xpu"), out, 32)
    assert torch.equal(out.cpu(), x[places])
    places[5] += 1 << 33
    text = report(lambda: block_at_narrow[(8,)](x.to("xpu"), places.to("xpu"), out, 32))
    assert "program (5, 0, 0)" in text
    assert "argument 'places'" in text
    assert "element (5,)" in text


@triton.jit
def hashed(x, keys, out, low, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    key = tl.load(keys + i)
    tl.store(low + i, key.to(tl.int32))
    tl.store(out + i, tl.load(x + (key.to(tl.int32) & BLOCK - 1)))


def test_low_bits_that_are_meant() -> None:
    x, keys = torch.randn(64), torch.randint(-(1 << 50), 1 << 50, (64,))
    out, low = torch.zeros(64, device="xpu"), torch.zeros(64, dtype=torch.int32, device="xpu")
    hashed[(1,)](x.to("xpu"), keys.to("xpu"), out, low, 64)
    assert torch.equal(out.cpu(), x[keys & 63])
    assert torch.equal(low.cpu(), keys.to(torch.int32))


@triton.jit
def times_row(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + column[None, :]
    tl.store(y + at, tl.load(x + at) * tl.load(x + column)[None, :])


@pytest.mark.parametrize(("columns", "words"), [(16, "1"), (64, "strict")])
def test_a_row_that_another_argument_stores_to(
    columns: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", words)
    x = torch.randn(16, columns)
    given, out = x.to("xpu"), torch.zeros(16, columns, device="xpu")
    times_row[(1,)](given, out, 16, columns)
    assert torch.equal(out.cpu(), x * x[0])
    text = report(lambda: times_row[(1,)](given, given, 16, columns))
    assert "data race" in text
    assert "argument 'x'" in text
    assert "argument 'y'" in text
