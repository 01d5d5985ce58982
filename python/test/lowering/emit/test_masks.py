"""Conditions of accesses that are joined: rows, columns and programs, signed and unsigned."""

import re

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from python.test.operations import parsed

FULL = 7.0


@triton.jit
def fill(y_ptr, stride, rows, columns, low, KIND: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    if KIND == "rows first":
        inside = (i[:, None] < rows) & (j[None, :] < columns)
    elif KIND == "columns first":
        inside = (j < columns)[None, :] & (i < rows)[:, None]
    elif KIND == "unsigned":
        inside = (i.to(tl.uint32)[:, None] < rows.to(tl.uint32)) & (
            j.to(tl.uint32)[None, :] < columns.to(tl.uint32))
    elif KIND == "three":
        inside = (i[:, None] < rows) & (j[None, :] < columns) & (j[None, :] + i[:, None] >= low)
    elif KIND == "program":
        inside = (tl.program_id(0) * M < rows) & ((i[:, None] < rows) & (j[None, :] < columns))
    elif KIND == "loaded":
        bounds = tl.load(y_ptr - 1 + i * 0).to(tl.int32)
        inside = (j[None, :] + low * i[:, None] < columns) & (i < bounds)[:, None]
    else:
        inside = ((i < rows) & (i >= low))[:, None] & (j[None, :] < columns)
    tl.store(y_ptr + i[:, None] * stride + j[None, :], (i[:, None] * N + j[None, :]).to(tl.float32),
             mask=inside)


WANTED = {
    "rows first": lambda i, j, rows, columns, low: (i < rows) & (j < columns),
    "columns first": lambda i, j, rows, columns, low: (i < rows) & (j < columns),
    "unsigned": lambda i, j, rows, columns, low: (
        (i < rows % 2**32) & (j < columns % 2**32)),
    "three": lambda i, j, rows, columns, low: (i < rows) & (j < columns) & (i + j >= low),
    "program": lambda i, j, rows, columns, low: (i // 16 * 16 < rows) & (i < rows) & (j < columns),
    "loaded": lambda i, j, rows, columns, low: (j + low * i < columns) & (i < rows),
    "window": lambda i, j, rows, columns, low: (i < rows) & (i >= low) & (j < columns),
}


@pytest.mark.covering
@pytest.mark.parametrize("kind", WANTED)
@pytest.mark.parametrize(
    ("rows", "columns"), [(27, 29), (0, 32), (-3, 40), (40, -(2**31)), (31, 5)])
def test_conditions_are_joined(kind, rows, columns):
    size, stride, low = 32, 37, 3
    y = torch.full((1 + size * stride,), FULL, device="xpu")
    y[0] = rows
    fill[(2,)](y[1:], stride, rows, columns, low, kind, 16, size, num_warps=2)
    i, j = np.indices((size, stride))
    inside = WANTED[kind](i, j, rows, columns, low) & (j < size)
    wanted = np.where(inside, i * size + j, FULL)
    assert np.array_equal(y[1:].cpu().numpy().reshape(size, stride), wanted)


@triton.jit
def sums(x_ptr, y_ptr, rows_ptr, stride, columns, limit, FIRST: tl.constexpr, M: tl.constexpr,
         N: tl.constexpr):
    """Sums of rows in blocks of columns, of those rows that are named."""
    i, j = tl.arange(0, M), FIRST + tl.arange(0, N)
    at = tl.load(rows_ptr + i)
    inside = (at < limit)[:, None]
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, columns, N):
        mask = inside & (j[None, :] < columns - start)
        total += tl.load(x_ptr + at[:, None] * stride + start + j[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + i, tl.sum(total, 1))


@pytest.mark.covering
@pytest.mark.parametrize("first", [0, -4])
@pytest.mark.parametrize("columns", [32, 40, 5])
def test_conditions_of_all_passes_are_joined_with_those_of_each(columns, first):
    x = torch.arange(16 * 64, dtype=torch.float32, device="xpu").view(16, 64)
    rows = (torch.arange(16, dtype=torch.int32) * 5 % 16).to("xpu")
    y = torch.empty(16, device="xpu")
    sums[(1,)](x[:, 16:], y, rows, 64, columns, 11, first, 16, 32, num_warps=1)
    given, wanted = x.cpu().numpy(), np.zeros(16)
    for row, at in enumerate(rows.tolist()):
        seen = [start + first + n for start in range(0, columns, 32) for n in range(32)
                if first + n < columns - start]
        wanted[row] = sum(given[at, 16 + s] for s in seen) if at < 11 else 0
    assert np.array_equal(y.cpu().numpy(), wanted)


@triton.jit
def shifted_rows(x_ptr, y_ptr, n, by, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.where(i < n, x - by, 3.0))


@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
@pytest.mark.parametrize("n", [64, 48, 50, 0])
def test_elements_of_a_lane_that_are_inside_together_are_compared_once(kind, n):
    x, y = torch.rand(256).to(kind).to("xpu"), torch.empty(256, dtype=kind, device="xpu")
    made = shifted_rows[(1,)](x, y, n, 0.5, 256, num_warps=1)
    wanted = torch.full((256,), 3.0, dtype=kind)
    wanted[:n] = x.cpu()[:n] - 0.5
    assert torch.equal(y.cpu(), wanted)
    if kind == torch.float16:  # eight of them are one access
        code = parsed(made.asm["llir"])
        tests = [i.result for i in code if (i.opcode, i.extra) == ("icmp", "slt")]
        used = {i.opcode for i in code if not tests or (i.operands and i.operands[0].text in tests)}
        assert ("select" in used) == (n == 50)


@triton.jit
def scaled(x_ptr, w_ptr, y_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x, w = tl.load(x_ptr + i, mask=i < n), tl.load(w_ptr + i, mask=i < n)
    tl.store(y_ptr + i, (x * w).to(tl.float16), mask=i < n)


@pytest.mark.parametrize("n", [64, 52])
def test_accesses_to_parts_of_a_group_share_its_comparison(n):
    """Eight fp16 are one access, eight fp32 are two."""
    x = torch.rand(128).half().to("xpu")
    w, y = torch.rand(128).to("xpu"), torch.zeros(128, dtype=torch.float16, device="xpu")
    made = scaled[(1,)](x, w, y, n, 128, num_warps=1)
    wanted = torch.zeros(128, dtype=torch.float16)
    wanted[:n] = (x.cpu()[:n] * w.cpu()[:n]).half()
    assert torch.equal(y.cpu(), wanted)
    tested = re.findall(r"extractelement <8 x i1> \S+ i32 (\d)", made.asm["llir"])
    assert (set(tested) <= {"0"}) == (n == 64)
