"""Weights of 4 bits, unpacked and scaled on their way into a product."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.filecheck import check_text
from python.test.gemm.pairwise import settings


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


@pytest.mark.sample(2)
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


@triton.jit
def by_row(
    a_ptr, b_ptr, zeros_ptr, scales_ptr, c_ptr, M, N, K, stride_bk, stride_bn, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, INDEX: tl.constexpr,
):
    """The group of each row of a block."""
    m = tl.arange(0, BLOCK_M)
    n, k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N).to(INDEX), tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + (k[:, None] // 2) * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        b = (tl.load(b_ptrs) >> ((k[:, None] % 2) * 4)) & 15
        at = (k[:, None] + BLOCK_K * step) // group
        zeros = tl.load(zeros_ptr + at * (N // 2) + n[None, :] // 2)
        zeros = (zeros >> ((n[None, :] % 2) * 4)) & 15
        scales = tl.load(scales_ptr + at * N + n[None, :])
        b = (b.to(tl.float32) - zeros.to(tl.float32)) * scales.to(tl.float32)
        acc = tl.dot(tl.load(a_ptrs, mask=m[:, None] < M, other=0.0), b.to(tl.float16), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K // 2 * stride_bk
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)


@triton.jit
def by_step(
    a_ptr, b_ptr, zeros_ptr, scales_ptr, c_ptr, M, N, K, stride_bk, stride_bn, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, INDEX: tl.constexpr,
):
    """The group of a block; zero points and scales are brought to its columns as fp32."""
    m = tl.arange(0, BLOCK_M)
    n, k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * K + k[None, :]
    b_ptrs = b_ptr + (k[:, None] // 2) * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        b = (tl.load(b_ptrs) >> ((k[:, None] % 2) * 4)) & 15
        at = step * BLOCK_K // group
        zeros = (tl.load(zeros_ptr + at * (N // 2) + n // 2) >> ((n % 2) * 4)) & 15
        scales = tl.load(scales_ptr + at * N + n)
        b = (b.to(tl.float32) - zeros.to(tl.float32)[None, :]) * scales.to(tl.float32)[None, :]
        acc = tl.dot(tl.load(a_ptrs, mask=m[:, None] < M, other=0.0), b.to(tl.float16), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K // 2 * stride_bk
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=m[:, None] < M)


def halves(nibbles, dim):
    """Two neighbours along a dimension in a byte."""
    low, high = (nibbles.index_select(dim, torch.arange(i, nibbles.shape[dim], 2)) for i in (0, 1))
    return (low | high << 4).to(torch.uint8)


def product_in_groups(kernel, m, k, n, group, blocks, turned, warps=4, index=tl.int32, pad=0):
    """The kernel's product, and that of the weights in fp16."""
    generator = torch.Generator().manual_seed(k * n + group)
    groups = -(-k // group)
    weights = torch.randint(0, 16, (k, n), generator=generator)
    zeros = torch.randint(0, 16, (groups, n), generator=generator)
    scales = torch.rand(groups, n, generator=generator).half()
    a = torch.randn(m, k, generator=generator).half()
    b = halves(weights, 0)
    held = torch.nn.functional.pad(b.T if turned else b, (0, pad)).contiguous()
    strides = held.stride()[::-1] if turned else held.stride()
    c = torch.empty(m, n, device="xpu")
    made = kernel[(n // blocks[1],)](
        a.to("xpu"), held.to("xpu"), halves(zeros, 1).to("xpu"), scales.to("xpu"), c, m, n, k,
        *strides, group, *blocks, index, num_warps=warps)
    row = torch.arange(k) // group
    wanted = (weights - zeros[row]).half() * scales[row]
    return made, c.cpu(), a.float() @ wanted.float()


@pytest.mark.sample(4)
@pytest.mark.parametrize(*settings(
    turned=(False, True), grouping=(
        (by_row, 128), (by_row, 64), (by_row, 32), (by_row, 16), (by_row, 48), (by_row, 24),
        (by_step, 128), (by_step, 64)), strength=1, in_turns=True))
def test_groups(grouping, turned):
    kernel, group = grouping
    _, found, wanted = product_in_groups(kernel, 16, 256, 64, group, (16, 64, 64), turned)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-3)


@pytest.mark.sample(3)
@pytest.mark.parametrize(*settings(
    kernel=((False, (16, 64, 64), 4), (False, (32, 128, 32), 8), (False, (16, 32, 128), 2),
            (True, (16, 64, 64), 4), (True, (64, 64, 32), 4)),
    pad=(0, 1, 2, 8, 16), strength=1))
def test_rows_of_weights_in_memory(kernel, pad):
    turned, blocks, warps = kernel
    _, found, wanted = product_in_groups(
        by_row, 13, 256, 128, 128, blocks, turned, warps, tl.int64, pad)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("turned", [False, True])
def test_weights_come_by_blocks(turned):
    made, _, _ = product_in_groups(by_row, 16, 256, 64, 128, (16, 64, 64), turned)
    kind = "16x32xi8" if turned else "32x16xi8"
    check_text(made.asm["xetile"], f"CHECK: !xetile.tile<{kind}")


@triton.jit
def of_bytes(
    a_ptr, b_ptr, zeros_ptr, scales_ptr, c_ptr, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    m, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + n[None, :]).to(tl.float32)
        zeros = tl.load(zeros_ptr + start // BLOCK_K * N + n).to(tl.float32)
        scales = tl.load(scales_ptr + start // BLOCK_K * N + n).to(tl.float32)
        acc = tl.dot(a, ((b - zeros[None, :]) * scales[None, :]).to(tl.float16), acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize(*settings(
    kind=(torch.int8, torch.uint8), rows=((16, 4), (64, 8), (32, 4)), strength=1, in_turns=True))
def test_bytes_with_zero_points(kind, rows):
    """Weights and their zero points are exact in fp16, and so is their difference."""
    m, warps = rows
    low, high = torch.iinfo(kind).min, torch.iinfo(kind).max + 1
    k, n = 128, 128
    weights, zeros = (torch.randint(low, high, size, dtype=kind) for size in ((k, n), (2, n)))
    a, scales = torch.eye(m, k).half() * 3, torch.rand(2, n).half()
    c = torch.empty(m, n, device="xpu")
    of_bytes[(2,)](a.to("xpu"), weights.to("xpu"), zeros.to("xpu"), scales.to("xpu"), c, n, k,
                   m, 64, 64, num_warps=warps)
    row = torch.arange(k) // 64
    wanted = (weights.int() - zeros.int()[row]).half() * scales[row]
    torch.testing.assert_close(c.cpu(), a.float() @ wanted.float(), rtol=0, atol=0)


def test_launch_checks_whole_groups():
    made, _, _ = product_in_groups(by_row, 16, 256, 64, 128, (16, 64, 64), True)
    assert "groups are a multiple of 64 long" in made.metadata.launch_conditions


def test_rows_of_one_group_share_scales_and_zero_points():
    x, n = torch.zeros(64 * 64, device="xpu"), 64
    made = by_row.warmup(
        x.half(), x.byte(), x.byte(), x.half(), x, 16, n, 64, n, 1, 32, 16, 64, 64, tl.int32,
        grid=(1,),
        guards="kernel")
    check_text(made.asm["xetile"], """
        CHECK-COUNT-4: times = 16
        CHECK-NOT: times = 16
        """)  # both versions: zero points, scales
