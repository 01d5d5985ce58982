"""Programs inside all bounds run without masks, and others with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.runtime.simulator.analysis.kernel_sizes import Sizes
from triton_xe.runtime.simulator.rewrites.inside_bounds import inside_bounds

BLOCK, PROGRAMS, WARPS = 256, 3, 4
LEAST, MOST = -(1 << 31), (1 << 31) - 1
EDGES = st.integers(LEAST, MOST) | st.builds(
    lambda edge, near: min(max(edge + near, LEAST), MOST),
    st.sampled_from([LEAST, 0, MOST]), st.integers(-3 * BLOCK, 3 * BLOCK))


@triton.jit(do_not_specialize=["a", "b", "n"])
def below(out, a, b, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = a + tl.program_id(0) * b + tl.arange(0, BLOCK)
    tl.store(out + at, 1, mask=x < n)


@triton.jit(do_not_specialize=["a", "b", "n"])
def at_least(out, a, b, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 1, mask=n + tl.program_id(0) * b >= a + at % 64)


@triton.jit
def add_row(x, b, y, M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < M) & (column < N)[None, :]
    at = row * N + column[None, :]
    added = tl.load(b + column, mask=column < N)[None, :]
    tl.store(y + at, tl.load(x + at, mask=inside) + added, mask=inside)


@triton.jit
def add_below(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


@triton.jit
def add_to_row(x, y, n, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + column
    tl.store(y + at, tl.load(x + at, mask=column < n) + 1, mask=column < n)


@triton.jit
def add_in_loop(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(n):
        tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


@settings(max_examples=40, deadline=None)
@given(EDGES, EDGES, EDGES)
@pytest.mark.parametrize("kernel", [below, at_least])
def test_sums_that_wrap_around(kernel, a, b, n):
    out = torch.zeros(PROGRAMS * BLOCK, dtype=torch.int32, device="xpu")
    kernel[(PROGRAMS,)](out, a, b, n, BLOCK, num_warps=WARPS)
    program, lane = (np.arange(PROGRAMS).repeat(BLOCK), np.tile(np.arange(BLOCK), PROGRAMS))
    at = program * BLOCK + lane
    with np.errstate(over="ignore"):
        moved = program.astype(np.int32) * np.int32(b)
        expected = (np.int32(a) + moved + lane.astype(np.int32) < n if kernel is below else
                    np.int32(n) + moved >= np.int32(a) + (at % 64).astype(np.int32))
    np.testing.assert_array_equal(out.cpu().numpy(), expected)


@pytest.mark.parametrize(("m", "n"), [
    (32, 128), (64, 256), (65, 257), (31, 127), (1, 128), (96, 1)])
def test_matrices(m, n):
    x, b = torch.randn(m, n).half(), torch.randn(n).half()
    y = torch.zeros(m, n, dtype=torch.float16, device="xpu")
    grid = triton.cdiv(m, 32), triton.cdiv(n, 128)
    add_row[grid](x.to("xpu"), b.to("xpu"), y, m, n, ROWS=32, COLUMNS=128, num_warps=WARPS)
    torch.testing.assert_close(y.cpu(), x + b, rtol=0, atol=0)


@pytest.mark.parametrize(("kernel", "sizes", "is_unmasked"), [
    (add_row, {"M": 48, "N": 192, "ROWS": 32, "COLUMNS": 128}, True),
    (add_below, {"n": 1024, "BLOCK": 256}, True),
    (add_below, {"n": 1001, "BLOCK": 256}, False),
    (add_to_row, {"n": 1001, "BLOCK": 1024}, False),
    (add_in_loop, {"n": 5, "BLOCK": 256}, False),
])
def test_kernels_without_masks(kernel, sizes, is_unmasked):
    x = torch.zeros(1 << 16, dtype=torch.float16, device="xpu")
    others = [torch.empty_like(x) for name in kernel.arg_names if name in "by"]
    made = kernel[(1, 1)](x, *others, **sizes, num_warps=WARPS)
    (function,) = parse_module(canonical(made.asm["llir"])).kernels()
    found = inside_bounds(function, Sizes(16, (16 * WARPS, 1, 1)))
    assert (found is not None) == is_unmasked
    if found is not None:
        assert not any("Predicated" in i.callee for i in found.instructions())
        assert any("Predicated" in i.callee for i in function.instructions())
