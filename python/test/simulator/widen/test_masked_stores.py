"""Truncated elements are stored alone, whatever is known about the mask."""

import pytest
import torch
import triton
import triton.language as tl

TYPES = {torch.int8: tl.int8, torch.int16: tl.int16, torch.int32: tl.int32}


@triton.jit
def store_some(x, out, FIRST: tl.constexpr, END: tl.constexpr, COUNT: tl.constexpr,
               TYPE: tl.constexpr):
    i = tl.arange(0, COUNT)
    tl.store(out + i, tl.load(x + i).to(TYPE), mask=(i >= FIRST) & (i < END))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [8, 16, 32])
@pytest.mark.parametrize(("first", "end"), [(0, 1), (0, 2), (5, 6), (7, 8), (3, 8)])
def test_stores_with_known_masks(dtype: torch.dtype, count: int, first: int, end: int) -> None:
    """LLVM 22.1 stores the whole element before truncation if a known mask has one element."""
    x = torch.arange(1, count + 1, dtype=torch.int64) * 0x0101010101010101
    out = torch.full((count,), -1, dtype=dtype)
    for source in (x, x.to(torch.int32)):
        found, expected = out.to("xpu"), out.clone()
        store_some[(1,)](source.to("xpu"), found, first, end, count, TYPES[dtype], num_warps=1)
        expected[first:end] = source.to(dtype)[first:end]
        torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)
