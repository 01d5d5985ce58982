"""Subgroups whose stores are all masked off end before the kernel's loops."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from benchmarks.simulator_speed import column_sum_kernel
from python.test.filecheck import check_text
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.rewrites.idle_subgroups import without_idle_subgroups

BLOCK = 64


@triton.jit
def two_stores(x, y, m, n, steps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(steps):
        total += tl.load(x + step * BLOCK + at)
    tl.store(y + at, total, mask=at < m)
    tl.store(y + at, total + 1, mask=at >= n)


@triton.jit
def counted(x, y, m, n, steps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(steps):
        tl.atomic_add(y + m, 1.0)
    tl.store(y + at, tl.load(x + at), mask=at < n)


@triton.jit
def bound_in_memory(x, y, m, n, steps, BLOCK: tl.constexpr):
    at, total = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 0.0
    for step in range(steps):
        total += tl.load(x + step)
    tl.store(y + at, total, mask=at < tl.load(x + n))


@triton.jit
def bound_in_loop(x, y, m, n, steps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for step in range(steps):
        tl.store(y + step * n + at, tl.load(x + at), mask=at + step < m)


@triton.jit
def no_loop(x, y, m, n, steps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at), mask=at < n)


@pytest.mark.parametrize("n", [1, 9, 16, 17, 63, 64, 65, 777 % 128, 128])
def test_columns_of_idle_subgroups_are_not_stored(n):
    x = torch.randn(100, n)
    y = torch.full((n + 200,), 7.0, device="xpu")
    column_sum_kernel[(triton.cdiv(n, 64) + 1,)](x.to("xpu"), y, 100, n, ROWS=32, COLUMNS=64)
    torch.testing.assert_close(y.cpu()[:n], x.sum(0), rtol=1e-5, atol=1e-4)
    assert (y[n:] == 7).all()


@pytest.mark.parametrize(("m", "n"), [(0, 2 * BLOCK), (0, 0), (5, 100), (20, 20), (70, 70)])
def test_a_subgroup_runs_if_one_of_two_stores_has_a_lane(m, n):
    x = torch.randn(4 * BLOCK)
    y = torch.zeros(2 * BLOCK, device="xpu")
    two_stores[(2,)](x.to("xpu"), y, m, n, 3, BLOCK)
    total, at = sum(x[k * BLOCK :][: 2 * BLOCK] for k in range(3)), torch.arange(2 * BLOCK)
    expected = torch.where(at < m, total, 0.0)
    torch.testing.assert_close(y.cpu(), torch.where(at >= n, total + 1, expected))


@pytest.mark.parametrize(("kernel", "has_test"), [
    (two_stores, True), (counted, False), (bound_in_memory, False), (bound_in_loop, False),
    (no_loop, False)])
def test_kernels_with_a_test(kernel, has_test):
    x = torch.zeros(1 << 10, device="xpu")
    made = kernel[(1,)](x, torch.empty_like(x), 3, 5, 3, BLOCK=BLOCK)
    (function,) = parse_module(canonical(made.asm["llir"])).kernels()
    found = without_idle_subgroups(function)
    assert (found is not function) == has_test
    if has_test:
        check_text(print_module([found], []), """
            CHECK: {{^}}entry:
            CHECK-DAG: icmp slt i32
            CHECK: or i1
            CHECK: call {{.*}}sub_group_any
            CHECK: br i1 {{.*}}, label %body, label %xe.idle
            CHECK: {{^}}xe.idle:
            CHECK-NEXT: ret void
            """)
