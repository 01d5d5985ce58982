"""What a kernel promises of its values, where it is used."""

from __future__ import annotations

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
def gather(x, out, n, step, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.max_contiguous(tl.multiple_of(i * step, BLOCK), BLOCK)
    tl.store(out + i, tl.load(x + at), i < n)


@triton.jit
def scatter(x, out, step, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.max_contiguous(tl.multiple_of(i * step, BLOCK), BLOCK)
    tl.store(out + at, tl.load(x + i))


@triton.jit
def constant_mask(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = tl.max_constancy(i < n, 16)
    tl.store(out + i, tl.load(x + i, mask, other=0.0))


@triton.jit
def wrapped(x, out, n, BLOCK: tl.constexpr):
    """The promise of the tutorials: false in the last block, where no value shows it."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.max_contiguous(tl.multiple_of(tl.where(i < n, i, 0), BLOCK), BLOCK)
    tl.store(out + i, tl.load(x + at), i < n)


@triton.jit
def assuming(x, n, BLOCK: tl.constexpr):
    tl.assume(n > 8)
    tl.store(x + tl.arange(0, BLOCK), n)


@triton.jit
def multiple(x, n, BLOCK: tl.constexpr):
    first = tl.multiple_of(n + 3, 8)
    tl.store(x + first + tl.arange(0, BLOCK), n)


def tensors() -> tuple[Any, Any]:
    return torch.ones(1024, device="xpu"), torch.zeros(1024, device="xpu")


def report(launch: Any, line: int) -> str:
    with pytest.raises(SimulatorTrap) as caught:
        launch()
    text = str(caught.value)
    assert f"test_promises.py:{line}:" in text
    return text


def test_load_that_is_not_contiguous() -> None:
    x, out = tensors()
    gather[(1,)](x, out, 256, 1, BLOCK=256)
    text = report(lambda: gather[(1,)](x, out, 256, 3, BLOCK=256), 23)
    assert "max_contiguous" in text
    assert "argument 'out'" in text
    assert "element (1,)" in text
    gather[(1,)](x, out, 1, 3, BLOCK=256)


def test_store_that_is_not_contiguous() -> None:
    x, out = tensors()
    scatter[(1,)](x, out, 1, BLOCK=256)
    text = report(lambda: scatter[(1,)](x, out, 3, BLOCK=256), 30)
    assert "max_contiguous" in text
    assert "argument 'out'" in text


def test_mask_that_is_not_constant() -> None:
    x, out = tensors()
    constant_mask[(1,)](x, out, 64, BLOCK=256)
    text = report(lambda: constant_mask[(1,)](x, out, 61, BLOCK=256), 37)
    assert "does not hold" in text
    assert "element (61,)" in text


def test_promise_that_no_value_shows() -> None:
    x, out = tensors()
    wrapped[(4,)](x, out, 999, BLOCK=256)


def test_assumption() -> None:
    x, _ = tensors()
    assuming[(1,)](x, 9, BLOCK=256)
    assert "tl.assume" in report(lambda: assuming[(1,)](x, 8, BLOCK=256), 51)


def test_multiple_of_a_number() -> None:
    x, _ = tensors()
    multiple[(1,)](x, 5, BLOCK=256)
    assert "tl.multiple_of" in report(lambda: multiple[(1,)](x, 6, BLOCK=256), 57)


@triton.jit
def pick(x, at, out, n, AXIS: tl.constexpr):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    values = tl.gather(tl.load(x + i * 16 + j), tl.load(at + i * 16 + j), AXIS)
    tl.store(out + i * 16 + j, values, i < n)


@pytest.mark.covering
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("wrong", [16, -1, 1 << 20])
def test_index_of_a_gather(axis: int, wrong: int) -> None:
    x, at = torch.randn(16, 16), torch.randint(0, 16, (16, 16))
    out = torch.zeros(16, 16, device="xpu")
    pick[(1,)](x.to("xpu"), at.to("xpu"), out, 16, axis)
    assert torch.equal(out.cpu(), torch.gather(x, axis, at))
    at[15, 3] = wrong
    pick[(1,)](x.to("xpu"), at.to("xpu"), out, 15, axis)
    text = report(lambda: pick[(1,)](x.to("xpu"), at.to("xpu"), out, 16, axis), 120)
    assert "index is out of range" in text
    assert "test_promises.py:119:" in text
    assert "argument 'out'" in text
    assert "element (15, 3)" in text


@triton.jit
def of_a_loop(x, out, n, step, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    other, at = n, 0
    for k in range(0, 4 * step, step):
        at = tl.multiple_of(at, 16)
        k = tl.multiple_of(k, 16)
        tl.store(out + i, tl.load(x + at + i) + tl.load(x + k + i))
        at += step
        other = other * 3 + k
    at = tl.multiple_of(at, 16)
    tl.store(out + i, tl.load(x + at + i) + tl.load(x + other + i))


@triton.jit
def inside_a_loop(x, out, step, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for k in range(3):
        at = tl.multiple_of(k * step, 16)
        tl.store(out + i, tl.load(x + at + i))


@pytest.mark.parametrize(("n", "step"), [(0, 16), (1, 16), (1, 12)])
def test_promise_that_triton_drops(n: int, step: int) -> None:
    """Of variables and results of loops: not tested, and no access is wider for it."""
    x, out = torch.arange(4096.0, device="xpu"), torch.zeros(64, device="xpu")
    other = n
    for k in range(0, 4 * step, step):
        other = other * 3 + k
    of_a_loop[(1,)](x, out, n, step, BLOCK=64, num_warps=1)
    assert torch.equal(out.cpu(), 2 * torch.arange(64.0) + 4 * step + other)


def test_promise_inside_a_loop() -> None:
    x, out = tensors()
    inside_a_loop[(1,)](x, out, 16, BLOCK=64)
    assert "tl.multiple_of" in report(lambda: inside_a_loop[(1,)](x, out, 12, BLOCK=64), 158)


@triton.jit
def one_mask(x, keys, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    mask = tl.max_constancy(tl.load(keys + i) > 0, 16)
    tl.store(out + i, tl.load(x + i, mask, other=0.0), mask)


@pytest.mark.parametrize("wrong", [100, 101, 103, 104])
def test_mask_of_a_store_that_is_not_constant(wrong: int) -> None:
    """The first register of a lane is masked off, which tells of the others, or another one is."""
    x, out = tensors()
    keys = torch.ones(256)
    keys[16:32] = -1
    one_mask[(1,)](x, keys.to("xpu"), out, BLOCK=256)
    assert torch.equal(out.cpu()[:256], (keys > 0).float())
    keys[wrong] = -1
    text = report(lambda: one_mask[(1,)](x, keys.to("xpu"), out, BLOCK=256), 182)
    assert "does not hold" in text
    assert "argument 'out'" in text


@triton.jit
def rotated(x, y, out, by, N: tl.constexpr, COMPUTED: tl.constexpr):
    i = tl.arange(0, N)
    other, v = tl.load(y + i), tl.load(x + i)
    if COMPUTED:
        v = tl.exp(v)
    tl.store(out + i, tl.gather(v, i + by, 0) + other)


@pytest.mark.parametrize("computed", [True, False])
def test_tensor_of_a_gather_whose_index_is_computed(computed: bool) -> None:
    x, y, out = (torch.zeros(64, device="xpu") for _ in range(3))
    rotated[(1,)](x, y, out, 0, 64, computed)
    with pytest.raises(SimulatorTrap) as caught:
        rotated[(1,)](x, y, out, 1, 64, computed)
    text = str(caught.value)
    assert "index is out of range, of what was read from argument 'x'" in text
    assert "argument 'out'" in text
    assert "element (63,)" in text


@triton.jit
def aligned(x, out, n, POINTER: tl.constexpr, STORED: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    if POINTER:
        at = tl.multiple_of((out if STORED else x) + n + i, 16)
    else:
        at = (out if STORED else x) + tl.multiple_of(n + i, 16)
    if STORED:
        tl.store(at, tl.load(x + i, i < 60), i < 60)
    else:
        tl.store(out + i, tl.load(at, i < 60), i < 60)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("pointer", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float32], ids=str)
def test_alignment_of_an_access(dtype: torch.dtype, pointer: bool, stored: bool) -> None:
    x, out = (torch.arange(96).to(dtype).to("xpu") for _ in range(2))
    aligned[(1,)](x, out, 16, pointer, stored, N=64, num_warps=1)
    text = report(lambda: aligned[(1,)](x, out, 3, pointer, stored, N=64, num_warps=1),
                  225 if pointer else 227)
    assert "tl.multiple_of" in text
    assert "does not hold" in text


@triton.jit
def shifted(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.max_contiguous(tl.where(n < 32, i << n, i) * n % 64, 16)
    tl.store(out + i, tl.load(x + at))


def test_promise_beside_what_a_select_leaves_out() -> None:
    x, out = tensors()
    assert "does not hold" in report(lambda: shifted[(1,)](x, out, 40, N=256), 249)


@triton.jit
def never(x, n):
    tl.assume(n % n != 0)
    tl.store(x, n)


def test_an_assumption_that_folds_to_false() -> None:
    x, _ = tensors()
    assert "tl.assume" in report(lambda: never[(1,)](x, 8), never.starting_line_number + 2)


@triton.jit
def pick_of_many(x, at, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.gather(tl.load(x + i), tl.load(at + i), 0))


def test_bytes_are_indices_of_as_many_elements_as_they_have_values() -> None:
    x, at = torch.randn(256), torch.randperm(256).to(torch.uint8)
    out = torch.zeros(256, device="xpu")
    pick_of_many[(1,)](x.to("xpu"), at.to("xpu"), out, 256)
    assert torch.equal(out.cpu(), x[at.long()])
