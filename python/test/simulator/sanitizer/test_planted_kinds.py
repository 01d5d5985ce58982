"""Bugs of further shapes, each with its correct twin: what is found, and what must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap

I32 = torch.int32
TWINS = pytest.mark.parametrize("bug", [True, False])


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


def expect(bug: bool, launch: Callable[[], object], *words: str) -> None:
    """A report with these words where there is a bug, none where there is not."""
    if not bug:
        launch()
        return
    with pytest.raises(SimulatorTrap) as caught:
        launch()
    assert "test_planted_kinds.py:" in str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == []


def device(values: Any) -> Any:
    return values.to("xpu")


@triton.jit
def row_maxima(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.atomic_max(out + row % 4, tl.max(tl.load(x + row * n + at, at < n, -1)))


@TWINS
def test_atomic_maximum_of_what_was_never_written(bug: bool) -> None:
    x, out = device(torch.arange(320, dtype=I32)), torch.empty(4, dtype=I32, device="xpu")
    if not bug:
        out.fill_(-5)
    expect(bug, lambda: row_maxima[(16,)](x, out, 20, 32), "never written", "'out'", "(0,)")


@triton.jit
def fill_rows(out, n, stride, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + row * stride + at, at * 1.0, at < n)


@triton.jit
def column_sums(x, out, m, stride, BLOCK: tl.constexpr):
    column, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + column, tl.sum(tl.load(x + at * stride + column, at < m, 0.0)))


@TWINS
def test_column_that_an_earlier_kernel_left_out(bug: bool) -> None:
    x, out = torch.empty(10, 33, device="xpu"), torch.empty(33, device="xpu")
    fill_rows[(10,)](x, 32 if bug else 33, 33, 64)
    expect(bug, lambda: column_sums[(33,)](x, out, 10, 33, 16), "never written", "'x'", "(0, 32)")


@triton.jit
def modulo(out, n, BLOCK: tl.constexpr, BUG: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at % n, at if BUG else at % n)


@pytest.mark.covering
@TWINS
@pytest.mark.parametrize(("block", "warps"), [(32, 1), (1024, 2), (256, 4)])
def test_elements_that_meet_at_an_address(bug: bool, block: int, warps: int) -> None:
    out = torch.zeros(24, dtype=I32, device="xpu")
    expect(bug, lambda: modulo[(1,)](out, 24, block, bug, num_warps=warps), "'out'", "element (")
    assert bug or torch.equal(out.cpu(), torch.arange(24, dtype=I32))


@triton.jit
def called(out, n, BLOCK: tl.constexpr, BUG: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = at & 15 if BUG else at
    tl.store(out + place, tl.umulhi(at << 27, n))


@TWINS
def test_elements_that_meet_where_stored_values_are_computed_by_calls(bug: bool) -> None:
    out = torch.zeros(32, dtype=I32, device="xpu")
    expect(bug, lambda: called[(1,)](out, 24, 32, bug, num_warps=1), "'out'")


@triton.jit
def planes(x, out, rows, plane, stride, C: tl.constexpr, R: tl.constexpr):
    at, r, c = tl.program_id(0), tl.arange(0, R), tl.arange(0, C)
    p = x + at * plane + r[:, None] * stride + c[None, :]
    tl.store(out + at * C + c, tl.sum(tl.load(p, (r < rows)[:, None], 0.0), 0))


@TWINS
def test_row_beyond_a_view_of_three_dimensions(bug: bool) -> None:
    view, out = torch.ones(5, 4, 8, device="xpu")[1:4, :3, :], torch.zeros(3, 8, device="xpu")
    expect(bug, lambda: planes[(3,)](view, out, 4 if bug else 3, 32, 8, 8, 4),
           "out-of-bounds", "'x'", "(2, 3, 0)")


@triton.jit
def to_bytes(x, out, n, BLOCK: tl.constexpr, CLAMPED: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n, 1e30)
    if CLAMPED:
        value = tl.minimum(tl.maximum(value, -128.0), 127.0)
    tl.store(out + at, value.to(out.dtype.element_ty), at < n)


@TWINS
@pytest.mark.parametrize("source", [torch.float32, torch.float16])
def test_numbers_that_a_byte_does_not_hold(bug: bool, source: Any) -> None:
    x, out = device(torch.linspace(-128.9, 127.9, 100)), torch.zeros(
        100, dtype=torch.int8, device="xpu")
    if bug:
        x[77] = 128.0
    x = x.to(source) if bug else x
    expect(bug, lambda: to_bytes[(1,)](x, out, 100, 128, False), "out of its range", "'out'")


@triton.jit
def remainders(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask, 0) % tl.load(y + at, mask, 0), mask)


@TWINS
def test_division_by_zero_where_it_is_masked_off_is_none(bug: bool) -> None:
    y = torch.full((100,), 3, dtype=I32)
    y[66] -= 3 * bug
    x, out = (torch.ones(100, dtype=I32, device="xpu") for _ in range(2))
    expect(bug, lambda: remainders[(2,)](x, device(y), out, 100, 64), "divides", "'y'", "(66,)")


@triton.jit
def bins(x, counts, BLOCK: tl.constexpr):
    tl.atomic_add(counts + tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), 1.0)


@TWINS
def test_sums_into_what_is_zero_only_in_part(bug: bool) -> None:
    counts, x = torch.empty(64, device="xpu"), device(torch.arange(512, dtype=I32) % 64)
    counts[: 64 - bug] = 0
    expect(bug, lambda: bins[(4,)](x, counts, 128), "never written", "'counts'", "(63,)")


@triton.jit
def pick(x, index, out, STEP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    words = index.to(tl.pointer_type(tl.int32))
    tl.store(out + at, tl.load(x + tl.load(words + STEP * at, at < BLOCK)))


@triton.jit
def copy_words(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out.to(tl.pointer_type(tl.int32)) + at,
             tl.load(x.to(tl.pointer_type(tl.int32)) + at, at < n), at < n)


@TWINS
def test_indices_of_64_bits_read_as_32(bug: bool) -> None:
    """The lower halves, or all words for a copy, are nobody's mistake."""
    index, x, out = torch.randperm(64), torch.rand(64), torch.zeros(64, device="xpu")
    expect(bug, lambda: pick[(1,)](device(x), device(index), out, 1 if bug else 2, 64),
           "upper part of a wider integer, of 64 bits", "'index'", "element (0,)")
    if not bug:
        assert torch.equal(out.cpu(), x[index])
        copied = torch.zeros(64, dtype=torch.int64, device="xpu")
        copy_words[(1,)](device(index), copied, 128, 256)
        assert torch.equal(copied.cpu(), index)


def test_kernel_for_32_bits_that_is_given_64() -> None:
    index, x, out = torch.arange(64), torch.rand(64, device="xpu"), torch.zeros(64, device="xpu")
    made = pick[(1,)](x, device(index.to(I32)), out, 1, 64)
    expect(True, lambda: made[(1, 1, 1)](x, device(index), out, 1, 64), "upper part", "'index'")


@triton.jit
def odd_rows(x, out, n, ends, begins, BLOCK: tl.constexpr):
    """Rows of a length that no vector divides, so that each element of a lane has its mask."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, at < tl.load(ends + row))
    tl.store(out + row * n + at, value * 2, (at >= tl.load(begins + row)) & (at < n))


@pytest.mark.covering
@TWINS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
@pytest.mark.parametrize("what", ["store", "load", "race", "undefined"])
def test_one_element_of_an_odd_row(bug: bool, what: str, dtype: torch.dtype) -> None:
    n, rows, block = 333, 4, 512
    x, out = (device(torch.ones(rows * n, dtype=dtype)) for _ in range(2))
    ends, begins = (device(torch.full((rows,), v, dtype=I32)) for v in (n, 0))
    if what == "store":
        out = out[: rows * n - bug]
        words = ("out-of-bounds store", "'out'", f"element ({rows * n - 1},)", "program (3, 0, 0)")
    elif what == "load":
        x = x[: rows * n - bug]
        words = ("out-of-bounds load", "'x'", f"element ({rows * n - 1},)", "program (3, 0, 0)")
    elif what == "race":
        begins[2] -= int(bug)
        expect(bug, lambda: odd_row_starts[(rows,)](x, out, n, begins, block),
               "data race", "'out'", f"element ({2 * n - 1},)", "(2, 0, 0)")
        return
    else:
        ends[1] -= int(bug)
        words = ("masked off", "'x'", f"element ({2 * n - 1},)")
    expect(bug, lambda: odd_rows[(rows,)](x, out, n, ends, begins, block), *words)
    assert bug or (out.cpu() == 2).all()


@triton.jit
def odd_row_starts(x, out, n, starts, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK) + tl.load(starts + tl.program_id(0))
    value = tl.load(x + row * n + at, at < n)
    tl.store(out + row * n + at, value + row, at < n)
