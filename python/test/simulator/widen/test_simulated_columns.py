"""Columns of a matrix are read in runs, also if nothing says that offsets are positive."""

import pytest
import torch
import triton

from benchmarks.simulator_speed import column_sum_kernel
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.runtime.simulator import pipeline

M, N = 100, 77


@pytest.mark.parametrize(("rows", "columns"), [(32, 64), (64, 32), (16, 128)])
def test_columns_are_read_in_runs(rows: int, columns: int) -> None:
    x, y = torch.randn(M, N, device="xpu"), torch.empty(N, device="xpu")
    code = column_sum_kernel[(triton.cdiv(N, columns),)](x, y, M, N, ROWS=rows, COLUMNS=columns)
    torch.testing.assert_close(y.cpu(), x.cpu().sum(0), atol=1e-4, rtol=1e-4)
    kernel = parse_module(canonical(code.asm["llir"]))
    host = parse_module(pipeline.translate(kernel, "column_sum_kernel", target("bmg")).text)
    called = [i.callee for f in host.functions.values() for i in f.instructions()]
    assert sum("gather" in name for name in called) < 3  # of shared local memory
