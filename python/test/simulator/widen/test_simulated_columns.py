"""Columns of a matrix are read in runs, also if nothing says that offsets are positive."""

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.hardware.target import target
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.runtime.simulator import pipeline

M, N = 100, 77


@triton.jit
def column_sums(x, y, M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, M, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (column < N)[None, :]
        total += tl.load(x + row * N + column[None, :], mask=inside, other=0.0)
    tl.store(y + column, tl.sum(total, axis=0), mask=column < N)


@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (64, 32), (16, 128)])
def test_columns_are_read_in_runs(rows: int, columns: int) -> None:
    x, y = torch.randn(M, N, device="xpu"), torch.empty(N, device="xpu")
    code = column_sums[(triton.cdiv(N, columns),)](x, y, M, N, ROWS=rows, COLUMNS=columns)
    torch.testing.assert_close(y.cpu(), x.cpu().sum(0), atol=1e-4, rtol=1e-4)
    kernel = parse_module(canonical(code.asm["llir"]))
    host = parse_module(pipeline.translate(kernel, "column_sums", target("bmg")).text)
    called = [i.callee for f in host.functions.values() for i in f.instructions()]
    assert sum("gather" in name for name in called) < 3  # of shared local memory
