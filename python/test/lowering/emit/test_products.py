"""Products of a scalar and numbers of rows: one for each lane, and sums of known steps."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def products(out, factor, FIRST: tl.constexpr, ROWS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, 16)[None, :]
    made = (tl.program_id(0) * ROWS + rows + FIRST) * factor + columns
    tl.store(out + (tl.program_id(0) * ROWS + rows) * 16 + columns, made)


@pytest.mark.parametrize("factor", [3, -7, 2**31 - 1, 65537])
@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("rows", [16, 128])
def test_products_wrap_around_as_those_of_each_row(rows: int, first: int, factor: int) -> None:
    out = torch.zeros(2 * rows, 16, dtype=torch.int32, device="xpu")
    made = products[(2,)](out, factor, first, rows)
    numbers = np.arange(first, first + 2 * rows, dtype=np.int64)[:, None] * factor + np.arange(16)
    assert np.array_equal(out.cpu().numpy(), numbers.astype(np.int32))
    if rows == 128:
        assert not re.findall(r"mul .*<\d+ x i32> %\S+, %", made.asm["llir"])
