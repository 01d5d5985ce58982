"""Products whose first factor is one row in memory, for all rows of a block."""

import pytest
import torch
import triton
import triton.language as tl

from examples.matmul import matmul
from triton_xe.tools.loop_counts import main_loop

K, N = 256, 64


@triton.jit
def row_product(a_ptr, b_ptr, c_ptr, last_ptr, K, last, HOW: tl.constexpr, N: tl.constexpr):
    m, n, k = tl.arange(0, 8)[:, None], tl.arange(0, N)[None, :], tl.arange(0, 64)
    a_ptrs, b_ptrs = a_ptr + m * 0 + k[None, :], b_ptr + k[:, None] * N + n
    total = tl.zeros((8, N), tl.float32)
    for start in range(0, K, 64):
        a = tl.load(a_ptrs, mask=k[None, :] < K - start, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - start, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += 64
        b_ptrs += 64 * N
    at = c_ptr + m * N + n
    if HOW == "first":
        tl.store(at, total, mask=(m < 1) & (n < N))
    if HOW == "two":
        tl.store(at, total, mask=(m < 2) & (n < N))
    if HOW == "some":
        tl.store(at, total, mask=(m < last) & (n < N))
    if HOW == "loaded":
        tl.store(at, total, mask=(m + tl.load(last_ptr) < 1) & (n < N))
    if HOW == "other":
        tl.store(at, total, mask=(m >= 7) & (n < N))
    if HOW == "summed":
        tl.store(at, tl.zeros_like(total) + tl.sum(total, 0)[None, :], mask=(m < 1) & (n < N))


STORED = {"first": [0], "two": [0, 1], "some": [0, 1, 2], "loaded": [0, 1, 2],
          "other": [7], "summed": [0]}


@pytest.mark.parametrize("how", list(STORED))
def test_rows_that_repeat_are_one_row_if_no_store_shows_others(how):
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(shape, generator=generator).to(torch.float16) for shape in ((K,), (K, N)))
    c = torch.zeros(8, N, device="xpu")
    last = torch.tensor([-2], dtype=torch.int32, device="xpu")
    kernel = row_product[(1,)](a.to("xpu"), b.to("xpu"), c, last, K, 3, how, N, num_warps=1)
    want = torch.zeros(8, N)
    want[STORED[how]] = (a.float() @ b.float()) * (8 if how == "summed" else 1)
    torch.testing.assert_close(c.cpu(), want, atol=1e-2, rtol=1e-3)
    counts = main_loop(kernel.asm["llir"])
    assert (counts.gathers == 0) == (how == "first")


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8])
@pytest.mark.parametrize("k", [128, 192, 200])
def test_a_product_of_one_row(dtype, k):
    """`row % M` is 0 if M is 1; K of 200 ends inside a block."""
    generator = torch.Generator().manual_seed(k)
    a, b = (torch.randint(-8, 8, shape, generator=generator).to(dtype)
            for shape in ((1, k), (k, 96)))
    wide = torch.int32 if dtype == torch.int8 else torch.float32
    c = matmul(a.to("xpu"), b.to("xpu"), out_dtype=wide, blocks=(8, 32, 64), num_warps=1)
    assert torch.equal(c.cpu().double(), a.double() @ b.double())
