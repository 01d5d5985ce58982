"""Registers that masked loads leave undefined: reported where they are used, and only there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap

N = 1000


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


def xpu(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.ones(shape, device="xpu", dtype=dtype)


def found(
    kernel: Any, grid: tuple[int, ...], *arguments: Any, of: str = "load", **options: Any
) -> str:
    """The report of a launch, which must name the kernel, this file, a program, warp and lane."""
    with pytest.raises(SimulatorTrap) as caught:
        kernel[grid](*arguments, **options)
    text = str(caught.value)
    assert f"kernel {kernel.fn.__name__}, " in text
    assert re.search(r"test_undefined_values\.py:\d+:\d+, program \(\d+, \d+, \d+\), warp \d+, "
                     r"lane \d+: ", text)
    assert re.search(rf"the {of} at \S*test_undefined_values\.py:\d+:\d+ is masked off", text)
    return text


@triton.jit
def total(x, out, n, MODE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    if MODE == "select":
        v = tl.where(i < n, v * 2, 0)
    if MODE == "logic":
        v = ((v > 0) & (i < n)).to(tl.float32)
    if MODE == "stored":
        tl.store(out + i, v)
    elif MODE == "masked":
        tl.store(out + i, tl.exp(v), mask=i < n)
    else:
        tl.store(out + tl.program_id(0), tl.sum(v, 0))


def test_sum_over_lanes_that_were_masked_off() -> None:
    """Found behind shuffles, shared memory and a barrier."""
    text = found(total, (4,), xpu(N), xpu(4), N, "sum", 256)
    assert "program (3, 0, 0)" in text
    assert "a store of a value that is undefined here" in text
    assert "argument 'x': float32 tensor of shape (1000,), strides (1,), element (1000,)" in text


def test_store_that_is_not_masked_off() -> None:
    text = found(total, (4,), xpu(N), xpu(1024), N, "stored", 256)
    assert "element (1000,), which it does not have" in text


@pytest.mark.parametrize("mode", ["select", "logic", "masked"])
def test_values_that_are_not_used(mode: str) -> None:
    out = xpu(1024)
    total[(4,)](xpu(N), out, N, mode, 256)
    if mode != "masked":
        assert out[3].item() == (464 if mode == "select" else 232)


@triton.jit
def low_bits(x, out, n, FACTOR: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, (i - v * FACTOR * n - 1) & 3)


@pytest.mark.parametrize(("factor", "used"), [(1, True), (2, True), (3, True), (4, False),
                                              (-8, False)])
def test_bits_below_a_product_are_defined(factor: int, used: bool) -> None:
    x, out = xpu(60, dtype=torch.int32), xpu(64, dtype=torch.int32)
    if used:
        found(low_bits, (1,), x, out, 60, factor)
    else:
        low_bits[(1,)](x, out, 60, factor)
        assert out.tolist() == [(k - 1) & 3 for k in range(64)]


@triton.jit
def lookup(x, table, out, n, MODE: tl.constexpr):
    i = tl.arange(0, 64)
    k = tl.load(x + i, mask=i < n)
    if MODE == "address":
        v = tl.load(table + k)
    elif MODE == "mask":
        v = tl.load(table + i, mask=k > 0, other=0)
    else:
        v = tl.load(table + k, mask=i < n, other=0)
    tl.store(out + i, v, mask=i < n)


def test_address_and_mask() -> None:
    x, t = xpu(64, dtype=torch.int32), xpu(64)
    text = found(lookup, (1,), x, t, xpu(64), 50, "address")
    assert "a load through a value that is undefined" in text
    assert "element (50,)" in text
    text = found(lookup, (1,), x, t, xpu(64), 50, "mask")
    assert "the mask of a load made of a value that is undefined" in text
    lookup[(1,)](x, t, xpu(64), 50, "both masked")


@triton.jit
def branch(x, out, n):
    k = tl.load(x + tl.program_id(0), mask=tl.program_id(0) < n)
    if k > 0:
        tl.store(out + tl.program_id(0), 1.0)


def test_branch() -> None:
    text = found(branch, (3,), xpu(3), xpu(3), 2)
    assert "a branch on a value that is undefined" in text
    assert "program (2, 0, 0)" in text
    branch[(3,)](xpu(3), xpu(3), 3)


@triton.jit
def tally(x, bins, n, MASKED: tl.constexpr):
    i = tl.arange(0, 64)
    k = tl.load(x + i, mask=i < n)
    if MASKED:
        tl.atomic_add(bins + k, 1, mask=i < n)
    else:
        tl.atomic_add(bins + i, k)


def test_atomic() -> None:
    x = xpu(64, dtype=torch.int32)
    text = found(tally, (1,), x, xpu(64, dtype=torch.int32), 60, False)
    assert "an atomic on a value that is undefined" in text
    bins = xpu(64, dtype=torch.int32)
    tally[(1,)](x, bins, 60, True)
    assert bins[1].item() == 61


@triton.jit
def product(a, b, c, m, k, ROWS_ONLY: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr):
    i, j, s = tl.arange(0, BLOCK), tl.arange(0, BLOCK), tl.arange(0, STEP)
    mine = (i[:, None] < m) if ROWS_ONLY else (i[:, None] < m) & (s[None, :] < k)
    x = tl.load(a + i[:, None] * 3 * STEP + s[None, :] * 3, mask=mine)
    y = tl.load(b + s[:, None] * BLOCK + j[None, :])
    where = c + i[:, None] * BLOCK + j[None, :]
    tl.store(where, tl.dot(x, y), mask=i[:, None] < m)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.float32])
def test_dot(dtype: Any) -> None:
    """Rows that are missing only make rows of the result undefined; missing columns all."""
    a, b = xpu(32, 3 * 32, dtype=dtype), xpu(32, 32, dtype=dtype)
    c = xpu(32, 32, dtype=torch.int32 if dtype == torch.int8 else torch.float32)
    product[(1,)](a, b, c, 27, 32, True, 32, 32)
    assert (c.cpu()[:27] == 32).all()
    assert (c.cpu()[27:] == 1).all()
    text = found(product, (1,), a, b, c, 27, 30, False, 32, 32)
    assert "argument 'a'" in text
    assert f"of shape (32, {3 * 32})" in text


@triton.jit
def running(x, out, n, BLOCK: tl.constexpr, CUT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    sums = tl.cumsum(tl.load(x + i, mask=i < n), 0)
    tl.store(out + i, sums, mask=i < n + CUT)


def test_scan() -> None:
    """What comes before the first undefined element is defined."""
    out = xpu(256)
    running[(1,)](xpu(256), out, 200, 256, 0)
    assert out[199].item() == 200
    text = found(running, (1,), xpu(256), out, 200, 256, 1)
    assert "element (200,)" in text


@triton.jit(noinline=True)
def doubled(v, times):
    for _ in range(times):
        v = v * 2.0
    return v


@triton.jit(noinline=True)
def put(p, v, times):
    for k in range(times):
        tl.store(p, v + k)


@triton.jit(noinline=True)
def chosen(condition, v, w):
    return tl.where(condition, v, w), w


@triton.jit(noinline=True)
def fetched(p, inside):
    return tl.load(p, mask=inside)


@triton.jit
def calls(x, out, n, times, MODE: tl.constexpr):
    """Each function is called twice, once with what is defined."""
    me = tl.program_id(0)
    v = tl.load(x + me, mask=me < n)
    first = doubled(1.0 * times, times) + fetched(x + me, me < 2 * n)
    put(out + me, first, times)
    if MODE == "result":
        first = doubled(v, times)
    elif MODE == "argument":
        put(out + me, v, times)
    elif MODE == "inside":
        first = fetched(x + me, me < n)
    elif MODE == "choice":
        a, _ = chosen(me < n, v, first)
        _, b = chosen(me < n, v, first)
        first = a + b
    if MODE == "masked":
        tl.store(out + me, doubled(v, times), mask=me < n)
    else:
        tl.store(out + me, first)


@pytest.mark.parametrize(("mode", "line"), [
    ("result", "mask=me < n)"), ("argument", "mask=me < n)"), ("inside", "mask=inside)"),
])
def test_functions_that_are_not_inlined(mode: str, line: str) -> None:
    text = found(calls, (3,), xpu(3), xpu(3), 2, 2, mode)
    assert "program (2, 0, 0)" in text
    source = Path(__file__).read_text().splitlines()
    load = next(k for k, words in enumerate(source, 1) if f"tl.load(x + me, {line}" in words
                or f"tl.load(p, {line}" in words)
    assert f"test_undefined_values.py:{load}:" in text


@pytest.mark.parametrize("mode", ["choice", "masked"])
def test_functions_whose_undefined_results_are_not_used(mode: str) -> None:
    out = xpu(3)
    calls[(3,)](xpu(3), out, 2, 2, mode)
    assert out[1].item() == (10 if mode == "choice" else 4)


@triton.jit
def sum_of_marked(a, a_marked, b, b_marked):
    if a_marked > 0:
        if b_marked > 0:
            v, marked = a + b, a_marked + b_marked
        else:
            v, marked = a, a_marked
    else:
        v, marked = b * 1, b_marked
    return v, marked


@triton.jit
def larger(a, b):
    if a > b:
        v = a * 2 / 2
    else:
        v = b
    return v


@triton.jit
def sum_in_steps(a, a_marked, b, b_marked):
    v = a
    marked = a_marked
    while marked < a_marked + b_marked:
        v += b / b_marked
        marked += 1
    return v, marked


@triton.jit
def combined(x, out, n, MODE: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i, mask=i < n)
    marked = (i < n).to(tl.int32)
    if MODE == "one value":
        tl.store(out + i, tl.reduce(v, 0, larger))
    elif MODE == "loop":
        tl.store(out + i, tl.reduce((v, marked), 0, sum_in_steps)[0])
    elif MODE == "scan":
        tl.store(out + i, tl.associative_scan((v, marked), 0, sum_of_marked)[0])
    elif MODE == "other mark":
        tl.store(out + i, tl.reduce((v, 1 - marked), 0, sum_of_marked)[0])
    else:
        tl.store(out + i, tl.reduce((v, marked), 0, sum_of_marked)[0])


@pytest.mark.parametrize("mode", ["reduction", "scan"])
def test_combining_by_branches_that_leave_undefined_values_out(mode: str) -> None:
    x, out = torch.arange(64.0), xpu(64)
    combined[(1,)](x.to("xpu"), out, 50, mode)
    want = x[:50].sum().expand(64) if mode == "reduction" else (x * (x < 50)).cumsum(0)
    assert torch.equal(out.cpu(), want)


@pytest.mark.parametrize("mode", ["one value", "loop", "other mark"])
def test_combining_by_branches_that_take_undefined_values(mode: str) -> None:
    assert "a store of a value that is undefined" in found(
        combined, (1,), xpu(64), xpu(64), 50, mode)


@triton.jit
def exchanged(x, values, take, distance: tl.constexpr):
    """Elements a distance apart change places where the first is larger; and values with them."""
    shape: tl.constexpr = [x.numel // (2 * distance), 2, distance]
    first = tl.arange(0, 2)[None, :, None] == 0
    key, value = tl.reshape(x, shape), tl.reshape(values, shape)
    left, right = tl.sum(tl.where(first, key, 0), 1), tl.sum(tl.where(first, 0, key), 1)
    one, other = tl.sum(value * first, 1), tl.sum(value * (1 - first.to(value.dtype)), 1)
    swap = tl.broadcast_to((left > right)[:, None, :], shape)
    keys = tl.where(swap, tl.broadcast_to((left ^ right)[:, None, :], shape), 0)
    both = tl.where(swap, tl.broadcast_to((one ^ other)[:, None, :], shape), 0)
    if take != 1:
        return x ^ tl.reshape(keys, x.shape), values ^ tl.reshape(both, x.shape)
    return x, tl.reshape(tl.broadcast_to((one ^ other)[:, None, :], shape), x.shape)


@triton.jit
def sorted_by_key(keys, values, out, n, TAKE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x, v = tl.load(keys + i, i < n, other=1 << 30), tl.load(values + i, i < n)
    for distance in tl.static_range(1, 3):
        x, v = exchanged(x, v, TAKE, distance)
    if TAKE == 2:
        tl.store(out, tl.xor_sum(v, 0))
    tl.store(out + i, v, (i < n) | (TAKE == 3))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("take", "used"), [(0, False), (1, True), (2, True), (3, True)])
def test_values_that_exclusive_ors_exchange(take: int, used: bool, dtype: Any) -> None:
    """What is undefined changes places, too; two such values give no defined one."""
    n = 27 if take == 1 else 28
    keys = torch.randperm(n).to(torch.int32)
    out, values = xpu(32, dtype=dtype), torch.arange(n).to(dtype).to("xpu")
    if used:
        assert "a store of a value that is undefined" in found(
            sorted_by_key, (1,), keys.to("xpu"), values, out, n, take, 32, num_warps=1)
    else:
        sorted_by_key[(1,)](keys.to("xpu"), values, out, n, take, 32, num_warps=1)


@triton.jit
def scaled_rows(x, weight, bias, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside, at = i < N, x + tl.program_id(0) * N + i
    v = tl.load(at, inside, 0.0).to(tl.float32)
    v = tl.where(inside, v - tl.sum(v) / N, 0.0)
    tl.store(at, v * tl.load(weight + i, inside) + tl.load(bias + i, inside), inside)


def test_rows_of_whole_vectors_whose_weights_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """One mask for all elements of a lane, kept across the barrier of the sum."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    x, weight = torch.randn(2, 2048).bfloat16(), torch.randn(2048).bfloat16()
    wide = x.double()
    wanted = (wide - wide.mean(1, keepdim=True)) * weight.double() + weight.double()
    y, w = x.to("xpu"), weight.to("xpu")
    scaled_rows[(2,)](y, w, w, 2048, 2048, num_warps=8)
    assert (y.cpu().double() - wanted).abs().max() < 0.1


@triton.jit
def claimed(counter, out, n, KIND: tl.constexpr, USE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if KIND == "add":
        old = tl.atomic_add(counter + i, 1, mask=i < n)
    elif KIND == "max":
        old = tl.atomic_max(counter + i, 7, mask=i < n)
    else:
        old = tl.atomic_xchg(counter + i, 3, mask=i < n)
    if USE == "store":
        tl.store(out + i, old)
    elif USE == "sum":
        tl.store(out, tl.sum(old, 0))
    elif USE == "address":
        tl.store(out + old, 1)
    elif USE == "mask":
        tl.store(out + i, 1, mask=old == 0)
    elif USE == "masked":
        tl.store(out + i, old, mask=i < n)
    else:
        tl.store(out + i, tl.where(i < n, old, -1))


@pytest.mark.parametrize(("kind", "use", "warps"), [
    ("add", "store", 1), ("max", "store", 4), ("xchg", "sum", 4), ("add", "address", 1),
    ("xchg", "mask", 4), ("max", "sum", 16),
])
def test_an_atomic_that_is_masked_off_returns_nothing(kind: str, use: str, warps: int) -> None:
    text = found(claimed, (1,), xpu(64, dtype=torch.int32), xpu(64, dtype=torch.int32), 50, kind,
                 use, 64, num_warps=warps, of="atomic")
    assert "is masked off, and returns nothing" in text


@pytest.mark.covering
@pytest.mark.parametrize("kind", ["add", "max", "xchg"])
@pytest.mark.parametrize("use", ["masked", "where"])
def test_results_of_atomics_that_took_place_are_defined(kind: str, use: str) -> None:
    for warps in (1, 16):
        counter, out = (xpu(64, dtype=torch.int32) for _ in range(2))
        claimed[(1,)](counter, out, 50, kind, use, 64, num_warps=warps)
        assert out[:50].eq(1).all()


@triton.jit
def first_of(counter, out, n, USE: tl.constexpr):
    p = tl.program_id(0)
    old = tl.atomic_add(counter, 1, mask=p < n)
    if USE == "branch":
        if old == 1:
            tl.store(out + p, 1)
    elif USE == "loop":
        for k in range(old):
            tl.store(out + p, k)
    elif p < n:
        tl.store(out + p, old)


@pytest.mark.parametrize("warps", [1, 4])
def test_a_scalar_atomic_that_is_masked_off_returns_nothing(warps: int) -> None:
    for use in ("branch", "loop"):
        text = found(first_of, (6,), xpu(1, dtype=torch.int32), xpu(6, dtype=torch.int32), 3, use,
                     num_warps=warps, of="atomic")
        assert "program (3, 0, 0)" in text
    out = xpu(6, dtype=torch.int32)
    first_of[(6,)](xpu(1, dtype=torch.int32), out, 3, "guarded", num_warps=warps)
    assert sorted(out.tolist()) == [1, 1, 1, 1, 2, 3]
