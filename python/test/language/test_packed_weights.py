"""Weights of 4 bits, unpacked and scaled on their way into a product."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def product(
    a_ptr, b_ptr, scales_ptr, c_ptr, K, N, stride_bk, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ALONG_K: tl.constexpr,
):
    rows, n = tl.arange(0, BLOCK_M), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + k[None, :]
    if ALONG_K:
        b_ptrs = b_ptr + (k[:, None] // 8) * stride_bk + n[None, :]
        shift, step = (k[:, None] % 8) * 4, BLOCK_K // 8 * stride_bk
    else:
        b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] // 8
        shift, step = (n[None, :] % 8) * 4, BLOCK_K * stride_bk
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        scales = tl.load(scales_ptr + start // group * N + n)
        b = (((tl.load(b_ptrs) >> shift) & 15) - 8).to(tl.float16) * scales[None, :]
        acc = tl.dot(tl.load(a_ptrs), b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += step
    tl.store(c_ptr + rows[:, None] * N + n[None, :], acc)


def packed(weights):
    """Eight values of 4 bits, along the last dimension, to a word."""
    words = (weights.reshape(*weights.shape[:-1], -1, 8).long() << (torch.arange(8) * 4)).sum(-1)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


@pytest.mark.parametrize(("m", "warps", "along_k"), [
    (16, 4, False), (64, 8, False), (16, 4, True), (64, 4, True)])
def test_product(m, warps, along_k):
    k, n, group = 128, 128, 64
    weights = torch.randint(0, 16, (k, n))
    b = packed(weights.T).T.contiguous() if along_k else packed(weights)
    a, scales = torch.randn(m, k).half(), torch.rand(k // group, n).half()
    c = torch.empty(m, n, device="xpu")
    product[(n // 64,)](
        a.to("xpu"), b.to("xpu"), scales.to("xpu"), c, k, n, b.shape[1], group, m, 64, 64, along_k,
        num_warps=warps)
    scaled = (weights - 8).half() * scales.repeat_interleave(group, 0)
    torch.testing.assert_close(c.cpu(), a.float() @ scaled.float(), rtol=1e-4, atol=1e-3)


def test_no_exchange_where_warps_share_nothing():
    a, b = (torch.zeros(128 * 128, dtype=d, device="xpu") for d in (torch.half, torch.int32))
    kernel = product.warmup(a, b, a, a, 128, 128, 16, 64, 16, 128, 64, False, grid=(1,))
    assert kernel.metadata.shared == 0


@triton.jit
def to_half(x_ptr, y_ptr, AND: tl.constexpr, ADD: tl.constexpr, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y_ptr + i, ((tl.load(x_ptr + i) & AND) + ADD).to(tl.float16))


@pytest.mark.parametrize(("mask", "added"), [
    (15, -8), (1023, -1024), (1023, 1025), (1023, 1026), (1023, -1025), (2047, 0), (511, 0)])
def test_small_integers_become_half_exactly(mask, added):
    x = torch.arange(4096, dtype=torch.int32)
    y = torch.empty(4096, dtype=torch.half, device="xpu")
    to_half[(1,)](x.to("xpu"), y, mask, added, 4096)
    assert torch.equal(y.cpu(), ((x & mask) + added).half())


@triton.jit
def shifted(x_ptr, q_ptr, scales_ptr, bias_ptr, out_ptr, size: tl.constexpr):
    at = tl.arange(0, size)[:, None] * size + tl.arange(0, size)[None, :]
    scaled = (tl.load(q_ptr + at).to(tl.float32) - 8.0) * tl.load(scales_ptr + at).to(tl.float32)
    b = scaled.to(tl.float16) + tl.load(bias_ptr + at)
    tl.store(out_ptr + at, tl.dot(tl.load(x_ptr + at), b))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
def test_a_product_that_was_rounded_is_rounded_before_a_sum(dtype):
    size = 64
    q = torch.randint(0, 16, (size, size), dtype=dtype)
    scales, bias = (torch.randn(size, size).half() for _ in range(2))
    one = torch.eye(size)
    out = torch.empty(size, size, device="xpu")
    shifted[(1,)](*(t.to("xpu") for t in (one.half(), q, scales, bias)), out, size)
    wanted = ((q.float() - 8) * scales.float()).half() + bias
    assert torch.equal(out.cpu(), wanted.float())
