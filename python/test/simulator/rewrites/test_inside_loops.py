"""Iterations inside all bounds run without masks, and others with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from python.test.filecheck import check_text
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.analysis.kernel_sizes import Sizes
from triton_xe.runtime.simulator.rewrites.inside_loops import inside_loops
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

BLOCK, STEPS, WARPS = 64, 3, 2
LEAST, MOST = -(1 << 31), (1 << 31) - 1
EDGES = st.integers(LEAST, MOST) | st.builds(
    lambda edge, near: min(max(edge + near, LEAST), MOST),
    st.sampled_from([LEAST, 0, MOST]), st.integers(-3 * BLOCK, 3 * BLOCK))


@pytest.fixture(autouse=True, scope="module")
def host_without_mask_registers(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostCpu, "has_mask_registers", False)
        patch.setenv("TRITON_XE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TRITON_XE_IN_STEP_AFTER", "0")
        yield


@triton.jit
def column_sums(x, y, M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, M, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (column < N)[None, :]
        total += tl.load(x + row * N + column[None, :], mask=inside, other=0.0)
    tl.store(y + column, tl.sum(total, axis=0), mask=column < N)


@triton.jit
def add_in_loop(x, y, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    last = tl.zeros((BLOCK,), tl.float32)
    for step in range(STEPS):
        at = (tl.program_id(0) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        last = tl.load(x + at, mask=at < n, other=0.0) + 1
        tl.store(y + at, last, mask=at < n)
    tl.store(y + n + tl.arange(0, BLOCK), last, mask=tl.program_id(0) == 0)


@triton.jit(do_not_specialize=["a", "b", "n"])
def below(out, a, b, n, steps, BLOCK: tl.constexpr):
    for step in range(steps):
        at = step * 2 * BLOCK + tl.arange(0, BLOCK)
        inside = a + step * b + tl.arange(0, BLOCK) < n
        tl.store(out + at, 1, mask=inside)
        tl.store(out + BLOCK + at, 2, mask=inside)


@triton.jit
def add_to_row(x, y, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for step in range(STEPS):
        value = tl.load(x + step * n + at, mask=at < n)
        tl.store(y + step * n + at, value + 1, mask=at < n)


@triton.jit
def add_and_count(x, y, counts, n, steps, BLOCK: tl.constexpr):
    first, runs = tl.program_id(0) * steps * BLOCK, 0
    for _ in range(steps):
        at = first + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0) + 1, mask=at < n)
        first, runs = first + BLOCK, runs + 1
    tl.store(counts + tl.program_id(0) * 2, first)
    tl.store(counts + tl.program_id(0) * 2 + 1, runs)


@pytest.mark.parametrize(("m", "n", "rows", "columns"), [
    (64, 128, 32, 64), (65, 127, 32, 64), (31, 40, 32, 64), (1, 1, 16, 32), (0, 64, 32, 64),
    (200, 100, 64, 32), (100, 33, 128, 16)])
def test_column_sums(m, n, rows, columns):
    x = torch.randn(m, n)
    y = torch.full((n,), torch.nan, device="xpu")
    column_sums[(triton.cdiv(n, columns),)](x.to("xpu"), y, m, n, ROWS=rows, COLUMNS=columns)
    parts = torch.nn.functional.pad(x, (0, 0, 0, -m % rows)).reshape(-1, rows, n)
    torch.testing.assert_close(y.cpu(), parts.sum((0, 1)), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 3 * 64, 6 * 64 - 1, 6 * 64])
def test_values_that_are_used_after_a_loop(n):
    x = torch.randn(6 * BLOCK)
    y = torch.zeros(8 * BLOCK, device="xpu")
    add_in_loop[(2,)](x.to("xpu"), y, n, STEPS, BLOCK, num_warps=WARPS)
    masked = torch.where(torch.arange(6 * BLOCK) < n, x, 0.0) + 1
    expected = torch.zeros(8 * BLOCK)
    expected[:n] = masked[:n]
    expected[n : n + BLOCK] = masked[2 * BLOCK : 3 * BLOCK]
    torch.testing.assert_close(y.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("n", [0, 63, 64, 3 * 64, 6 * 64 - 1, 6 * 64])
def test_counters_that_are_used_after_a_loop(n):
    x = torch.randn(6 * BLOCK)
    y = torch.zeros(6 * BLOCK, device="xpu")
    counts = torch.zeros(4, dtype=torch.int32, device="xpu")
    add_and_count[(2,)](x.to("xpu"), y, counts, n, STEPS, BLOCK, num_warps=WARPS)
    torch.testing.assert_close(y.cpu()[:n], x[:n] + 1, rtol=0, atol=0)
    assert not y.cpu()[n:].any()
    assert counts.tolist() == [3 * BLOCK, STEPS, 6 * BLOCK, STEPS]


@settings(max_examples=60, deadline=None)
@given(EDGES, EDGES, EDGES)
def test_sums_that_wrap_around(a, b, n):
    out = torch.zeros(STEPS * 2 * BLOCK, dtype=torch.int32, device="xpu")
    below[(1,)](out, a, b, n, STEPS, BLOCK, num_warps=WARPS)
    step, lane = np.arange(STEPS, dtype=np.int32)[:, None], np.arange(BLOCK, dtype=np.int32)
    with np.errstate(over="ignore"):
        inside = np.int32(a) + step * np.int32(b) + lane < n
    expected = np.stack([inside, 2 * inside], axis=1).reshape(-1)
    np.testing.assert_array_equal(out.cpu().numpy(), expected)


@pytest.mark.parametrize(("kernel", "sizes", "is_split"), [
    (column_sums, {"M": 48, "N": 200, "ROWS": 32, "COLUMNS": 64}, True),
    (add_in_loop, {"n": 999, "STEPS": STEPS, "BLOCK": 256}, True),
    (add_to_row, {"n": 999, "STEPS": STEPS, "BLOCK": 1024}, False),
])
def test_loops_that_have_two_versions(kernel, sizes, is_split):
    x = torch.zeros(1 << 14, device="xpu")
    made = kernel[(1,)](x, torch.empty_like(x), **sizes, num_warps=4)
    (function,) = parse_module(canonical(made.asm["llir"])).kernels()
    found = inside_loops(function, Sizes(16, (64, 1, 1)), together=True)
    assert (found is not function) == is_split
    if is_split:
        check_text(print_module([found], []), """
            CHECK: {{^}}loop:
            CHECK: br i1 {{.*}}, label %loop.inside, label %loop.partial
            CHECK: {{^}}loop.inside:
            CHECK-NOT: Predicated
            CHECK: load float
            CHECK: br i1 {{.*}}, label %loop.again, label %{{.*}}
            CHECK: {{^}}loop.again:
            CHECK-NEXT: br label %loop
            CHECK: {{^}}loop.partial:
            CHECK: phi i32 {{.*}}%loop{{.*}}%loop.partial
            CHECK: PredicatedLoad
            CHECK: br i1 {{.*}}, label %loop.partial, label
            """)


@pytest.mark.parametrize(("together", "columns"), [(True, 64), (False, 16)])
def test_columns_for_which_a_loop_tests_its_bounds(together, columns):
    x = torch.zeros(1 << 14, device="xpu")
    made = column_sums[(1,)](x, x, 48, 200, ROWS=32, COLUMNS=64, num_warps=4)
    (function,) = parse_module(canonical(made.asm["llir"])).kernels()
    found = inside_loops(function, Sizes(16, (64, 1, 1)), together=together)
    (head,) = (b for b in found.blocks if b.label == "%loop")
    added = {i.operands[1].integer_value() for i in head.instructions if i.opcode == "add"}
    assert added & {16, 64} == {columns}
