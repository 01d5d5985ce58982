"""Device memory that nothing has written, through launches and torch's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap
from triton_xe.runtime import torch_memory

N = 1000


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


def empty(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.empty(shape, device="xpu", dtype=dtype)


def ones(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.ones(shape, device="xpu", dtype=dtype)


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n), i < n)


@triton.jit
def accumulate(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(out + i, i < n) + tl.load(x + i, i < n), i < n)


@triton.jit
def add_atomically(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 7, tl.load(x + i, i < n, other=0.0), i < n)


@triton.jit
def swap(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_cas(out + i, i * 0, i)


@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i, i < n, other=0.0)))


@triton.jit
def double_below(x, out, n, limit, BLOCK: tl.constexpr):
    """Reads all of x, but shows only what is below a limit."""
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n, other=0.0) * 2
    tl.store(out + i, tl.where(i < limit, value, 0.0), i < n)


@triton.jit
def product(a, b, c, M, N, K, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, K, BLOCK):
        left = tl.load(a + m[:, None] * K + (first + k)[None, :])
        acc = tl.dot(left, tl.load(b + (first + k)[:, None] * N + n[None, :]), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


def found(launch: Callable[[], object]) -> str:
    with pytest.raises(SimulatorTrap) as caught:
        launch()
    text = str(caught.value)
    assert "never written" in text
    return text


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_accumulating_into_fresh_memory(dtype: torch.dtype) -> None:
    x, out = ones(N, dtype=dtype), empty(N, dtype=dtype)
    text = found(lambda: accumulate[(4,)](x, out, N, BLOCK=256))
    assert "argument 'out'" in text
    assert "element (0,)" in text
    assert "test_unwritten_memory.py:41" in text
    accumulate[(4,)](x, torch.zeros_like(out), N, BLOCK=256)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_atomics_on_fresh_memory(dtype: torch.dtype) -> None:
    x, out = ones(N, dtype=dtype), empty(7, dtype=dtype)
    text = found(lambda: add_atomically[(4,)](x, out, N, BLOCK=256))
    assert "argument 'out'" in text
    assert "element (0,)" in text
    add_atomically[(4,)](x, out.zero_(), N, BLOCK=256)


def test_compare_and_swap_of_a_fresh_lock() -> None:
    text = found(lambda: swap[(1,)](empty(64, dtype=torch.int32), BLOCK=64))
    assert "argument 'out'" in text
    swap[(1,)](torch.zeros(64, device="xpu", dtype=torch.int32), BLOCK=64)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_tail_that_the_first_kernel_left_out(dtype: torch.dtype) -> None:
    middle, out = empty(N, dtype=dtype), empty(1, dtype=dtype)
    copy[(4,)](ones(N, dtype=dtype), middle, N - 3, BLOCK=256)
    text = found(lambda: total[(1,)](middle, out, N, BLOCK=1024))
    assert "argument 'x'" in text
    assert f"element ({N - 3},)" in text
    total[(1,)](middle, out, N - 3, BLOCK=1024)
    assert out.item() == torch.tensor(N - 3).to(dtype).item()


def test_values_that_are_not_shown_do_not_count() -> None:
    middle, out = empty(N), empty(N)
    copy[(4,)](ones(N), middle, 500, BLOCK=256)
    double_below[(1,)](middle, out, N, 500, BLOCK=1024)
    found(lambda: double_below[(1,)](middle, out, N, 501, BLOCK=1024))


@pytest.mark.parametrize("make", [
    lambda: empty(N).fill_(1), lambda: empty(N).copy_(torch.ones(N)), lambda: empty(N) * 0 + 1,
    lambda: torch.cat([ones(400), ones(600)]), lambda: torch.add(ones(N), 0, out=empty(N)),
    lambda: empty(N).uniform_(), lambda: torch.ones(N).to("xpu"), lambda: empty(N).clone(),
    lambda: torch._foreach_add([empty(N)], 1)[0], lambda: ones(10).resize_(N),
    lambda: ones(2 * N)[::2], lambda: empty(N).index_fill_(0, torch.arange(N, device="xpu"), 1.0),
], ids=range(12))
def test_what_operators_wrote(make: Callable[[], Any]) -> None:
    total[(1,)](make(), empty(1), N, BLOCK=1024)


def test_part_that_an_operator_wrote() -> None:
    x = empty(40, 25)
    x[:, 1:] = 1
    text = found(lambda: total[(1,)](x, empty(1), N, BLOCK=1024))
    assert "element (0, 0)" in text
    x[:, 0].zero_()
    total[(1,)](x, empty(1), N, BLOCK=1024)


def test_matrices_of_a_product() -> None:
    def operand() -> Any:
        made = empty(64, 64, dtype=torch.float16)
        made[:, :63] = 1
        return made

    whole, c = ones(64, 64, dtype=torch.float16), empty(64, 64)
    for a, b, name in ((operand(), whole, "a"), (whole, operand(), "b")):
        text = found(lambda a=a, b=b: product[(2, 2)](a, b, c, 64, 64, 64, BLOCK=32))
        assert f"argument '{name}'" in text
    product[(2, 2)](whole, whole, c, 64, 64, 64, BLOCK=32)


def test_launch_without_checks_counts_as_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where none was checked before."""
    torch_memory.unwritten_maps.is_active = False
    middle = empty(N)
    monkeypatch.delenv("TRITON_XE_SANITIZE")
    copy[(4,)](ones(N), middle, N, BLOCK=256)
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    total[(1,)](middle, empty(1), N, BLOCK=1024)
