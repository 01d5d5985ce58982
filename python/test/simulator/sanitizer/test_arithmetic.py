"""Operations without a defined result, reported where their results are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap

N = 60


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


@triton.jit
def divide(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i, i < n, other=0), tl.load(y + i, i < n, other=0)
    tl.store(out + i, a // b + a % b, i < n)


@triton.jit
def divide_by_scalar(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) % (n - 5), i < n)


@triton.jit
def shift(x, y, out, n, LEFT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i, i < n, other=0), tl.load(y + i, i < n, other=99)
    tl.store(out + i, a << b if LEFT else a >> b, i < n)


@triton.jit
def cast(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n, other=float("inf")).to(out.dtype.element_ty), i < n)


@triton.jit
def softmax(x, out, columns, rows, BLOCK: tl.constexpr):
    r, c = tl.arange(0, 4)[:, None], tl.arange(0, BLOCK)[None, :]
    x = tl.load(x + r * BLOCK + c, (c < columns) & (r < rows), other=float("-inf"))
    e = tl.exp(x - tl.max(x, 1, keep_dims=True))
    tl.store(out + r * BLOCK + c, e / tl.sum(e, 1, keep_dims=True), r < 3)


def whole(value: int, at: int = -1, other: int = 0, dtype: Any = torch.int32) -> Any:
    made = torch.full((64,), value, dtype=dtype)
    if at >= 0:
        made[at] = other
    return made.to("xpu")


def found(launch: Callable[[], object], what: str, element: str, argument: str = "out") -> None:
    with pytest.raises(SimulatorTrap) as caught:
        launch()
    text = str(caught.value)
    assert what in text
    assert f"argument '{argument}'" in text
    assert f"element {element}" in text
    assert text.count("test_arithmetic.py:") == 2


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
def test_division(dtype: torch.dtype) -> None:
    x, out = whole(9, dtype=dtype), whole(0, dtype=dtype)
    divide[(1,)](x, whole(2, dtype=dtype), out, N, BLOCK=64)
    divide[(1,)](x, whole(2, N, 0, dtype), out, N, BLOCK=64)
    found(lambda: divide[(1,)](x, whole(2, 7, 0, dtype), out, N, BLOCK=64),
          "divides an integer by 0", "(7,)", "y")


def test_division_by_a_scalar() -> None:
    divide_by_scalar[(1,)](whole(9), whole(0), N, BLOCK=64)
    found(lambda: divide_by_scalar[(1,)](whole(9), whole(0), 5, BLOCK=64),
          "divides an integer by 0", "(0,)")


@triton.jit
def divide_where_defined(x, out, n, BLOCK: tl.constexpr):
    """Divides by 0 only where the quotient is not selected, not stored, or loaded from."""
    i = tl.arange(0, BLOCK)
    fits = tl.where(n != 0, i % n, i) < 60
    tl.atomic_add(out + i, tl.where(n != 0, i // n, 1), mask=fits)
    tl.store(out + 64 + i, i // n, mask=(n != 0) & (i % n < 60))
    tl.store(out + 64 + i, tl.load(x + i // n, mask=n > 0, other=5), mask=n <= 0)


@pytest.mark.parametrize("n", [0, 2**35])
def test_quotient_by_a_scalar_that_is_left_out(n: int) -> None:
    out = torch.zeros(128, dtype=torch.int32, device="xpu")
    divide_where_defined[(1,)](whole(9), out, n, BLOCK=64)
    wanted = [1] * 60 + [0] * 4 + [5] * 64 if n == 0 else [0] * 128
    assert out.tolist() == wanted


@pytest.mark.covering
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(("dtype", "amount"), [
    (torch.int16, 16), (torch.int32, 32), (torch.int32, -1), (torch.int64, 64)], ids=str)
def test_shift(dtype: torch.dtype, amount: int, left: bool) -> None:
    x, out = whole(9, dtype=dtype), whole(0, dtype=dtype)
    shift[(1,)](x, whole(3, N + 1, amount, dtype), out, N, left, BLOCK=64)
    found(lambda: shift[(1,)](x, whole(3, 9, amount, dtype), out, N, left, BLOCK=64),
          "shifts by the number of bits, or more", "(9,)", "y")


@pytest.mark.parametrize(("dtype", "inside", "outside"), [
    (torch.int32, -2.0**31, 2.0**31), (torch.int32, 2147483520.0, float("nan")),
    (torch.int64, -2.0**63, 2.0**63), (torch.int64, 0.9, float("-inf")),
], ids=str)
def test_cast(dtype: torch.dtype, inside: float, outside: float) -> None:
    def numbers(at: int, value: float) -> Any:
        made = torch.ones(64)
        made[at] = value
        return made.to("xpu")

    out = whole(0, dtype=dtype)
    cast[(1,)](numbers(3, inside), out, N, BLOCK=64)
    cast[(1,)](numbers(N, outside), out, N, BLOCK=64)
    found(lambda: cast[(1,)](numbers(3, outside), out, N, BLOCK=64),
          "out of its range", "(3,)", "x")


def test_nan_of_a_row_that_is_all_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = torch.randn(4, 64, device="xpu"), torch.zeros(4, 64, device="xpu")
    softmax[(1,)](x, out, 10, 2, BLOCK=64)  # silent without `finite`
    monkeypatch.setenv("TRITON_XE_SANITIZE", "finite")
    softmax[(1,)](x, out, 10, 3, BLOCK=64)  # the row that is all masked is not stored
    found(lambda: softmax[(1,)](x, out, 10, 2, BLOCK=64), "makes a NaN of infinities", "(2, 0)")


@triton.jit
def infinities(x, out, KIND: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    if KIND == 0:
        b = (a + 1.0) / (a - 3.0)
    elif KIND == 1:
        b = tl.exp(a * 100.0)
    elif KIND == 2:
        b = tl.log(a - 3.0)
    elif KIND == 3:
        b = tl.sum(a * 3e38, 0) + a
    elif KIND == 4:
        b = (a * 1e30).to(tl.float16).to(tl.float32)
    else:
        b = a * 1e38 * 1e38
    c = b * 2.0
    d = c + a
    tl.store(out + i, d)


@pytest.mark.parametrize("kind", range(6))
def test_the_first_infinity_is_told_where_it_is_made(
    kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "finite")
    x, out = torch.arange(16.0, device="xpu"), torch.zeros(16, device="xpu")
    lines = infinities.src.splitlines()
    made = [n for n, line in enumerate(lines) if line.startswith("        b = ")][kind]
    place = f"test_arithmetic.py:{infinities.starting_line_number + 1 + made}:"  # the decorator
    with pytest.raises(SimulatorTrap, match="finite operands give") as caught:
        infinities[(1,)](x, out, kind, BLOCK=16)
    assert place in str(caught.value)


@triton.jit
def sizes(counts, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.assume(tl.load(counts + tl.program_id(0)) > 0)
    tl.store(out + i, 8 // tl.load(counts + i, i < 3, other=0))


def test_what_was_read_is_named_and_what_was_masked_off_is_not() -> None:
    out = whole(0)
    found_in = []
    for at in (2, 9):  # the fourth of them is masked off
        counts = whole(4, at, 0)
        with pytest.raises(SimulatorTrap) as caught:
            sizes[(3,)](counts, out, BLOCK=64)
        found_in.append(str(caught.value))
    assert "argument 'counts'" in found_in[0]
    assert "element (2,)" in found_in[0]
    assert "argument 'out'" in found_in[1]
    assert "element (3,)" in found_in[1]
