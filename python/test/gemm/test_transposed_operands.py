"""Products whose first factor lies transposed in memory: right, whatever is done with the sum."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from python.test.gemm.pairwise import settings


@triton.jit
def product(a_ptr, b_ptr, c_ptr, m, n, k, sa, sb, sc, HOW: tl.constexpr,
            M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_ptrs = a_ptr + inner[None, :] * sa + rows[:, None]
    b_ptrs = b_ptr + inner[:, None] * sb + columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    if HOW == "begins with rows":
        total += rows[:, None].to(tl.float32)
    for step in range(0, tl.cdiv(k, K)):
        a = tl.load(a_ptrs, inner[None, :] < k - step * K, 0.0)
        b = tl.load(b_ptrs, inner[:, None] < k - step * K, 0.0)
        total = tl.dot(a, b, total)
        if HOW == "also untransposed":
            total = tl.dot(tl.load(b_ptr + rows[:, None] * 0 + inner[None, :]), b, total)
        if HOW == "scaled":
            total *= 2.0
        a_ptrs += K * sa
        b_ptrs += K * sb
    if HOW == "rows added":
        total += tl.max(total, 1)[:, None]
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    c_ptrs = c_ptr + rows[:, None] * sc + columns[None, :]
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), inside)


def expected(a, b, how, step):
    rows = np.arange(a.shape[1], dtype=np.float32)[:, None]
    total = np.zeros((a.shape[1], b.shape[1]), np.float32)
    if how == "begins with rows":
        total += rows
    for first in range(0, a.shape[0], step):
        left, right = a[first : first + step], b[first : first + step]
        total += left.T @ right
        if how == "also untransposed":
            total += b.reshape(-1)[None, :step] @ right
        if how == "scaled":
            total *= 2
    return total + total.max(1, keepdims=True) if how == "rows added" else total


@pytest.mark.sample(4)
@pytest.mark.parametrize(*settings(
    kinds=(("float16", "float16"), ("bfloat16", "float32")),
    how=("plain", "rows added", "begins with rows", "also untransposed", "scaled"),
    tile=((64, 64, 32, 4), (16, 32, 64, 1))))
def test_sums_of_transposed_factors(kinds, how, tile):
    into = getattr(torch, kinds[0])
    m_tile, n_tile, k_tile, warps = tile
    m, n, k = 2 * m_tile - 8, n_tile, 2 * k_tile  # rows are added over whole blocks
    rng = np.random.default_rng(len(how))
    a, b = (rng.integers(-2, 3, (k, size)).astype(np.float32) for size in (2 * m_tile, n))
    c = torch.zeros(m, n, dtype=getattr(torch, kinds[1])).to("xpu")
    product[(2, 1)](
        torch.from_numpy(a).to(into).to("xpu"), torch.from_numpy(b).to(into).to("xpu"), c,
        m, n, k, 2 * m_tile, n, n, how, m_tile, n_tile, k_tile, num_warps=warps)
    assert np.array_equal(c.float().cpu().numpy(), expected(a, b, how, k_tile)[:m])


@triton.jit
def narrowed_product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + inner[None, :] * M + rows[:, None]).to(tl.int32) + 1
    b = tl.load(b_ptr + columns[None, :] * K + inner[:, None]).to(tl.int32) + 1
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], tl.dot(a.to(tl.int8), b.to(tl.int8)))


@pytest.mark.parametrize(*settings(
    kind=("int16", "int32", "int64", "float32"), offset=(0, 1), strength=1,
    in_turns=True))
def test_factors_become_narrower_after_a_transposed_load(kind, offset):
    """Fragments of 32 values that are no run of a message: too long for a vector of 16."""
    m, n, k = 32, 64, 32
    rng = np.random.default_rng(offset)
    a, b = rng.integers(-20, 20, (k, m)), rng.integers(-20, 20, (n, k))
    on_device = [
        torch.from_numpy(np.concatenate([np.zeros(offset, int), x.ravel()])).to(
            getattr(torch, kind)).to("xpu")[offset:] for x in (a, b)]
    c = torch.zeros(m, n, dtype=torch.int32, device="xpu")
    narrowed_product[(1,)](*on_device, c, m, n, k, num_warps=2)
    assert np.array_equal(c.cpu().numpy(), (a.T + 1) @ (b.T + 1))


@triton.jit
def added_product(a_ptr, b_ptr, d_ptr, c_ptr, stride, M: tl.constexpr, N: tl.constexpr,
                  K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    a = tl.load(a_ptr + inner[None, :] * stride + rows)
    b = tl.load(b_ptr + inner[:, None] * N + columns)
    d = tl.load(d_ptr + columns * stride + rows)
    tl.store(c_ptr + rows * N + columns, tl.dot(a, b) + d)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_few_rows_of_bytes_that_lie_transposed(m):
    """Messages bring four rows, as words; fewer are gathered."""
    n, k, stride = 64, 32, 64
    rng = np.random.default_rng(m)
    shapes = (k, stride), (k, n), (n, stride)
    a, b, d = (rng.integers(-128, 128, shape, np.int8) for shape in shapes)
    c = torch.zeros(m, n, dtype=torch.int32, device="xpu")
    added_product[(1,)](*(torch.from_numpy(x).to("xpu") for x in (a, b, d)), c, stride, m, n, k)
    left, right, more = (x.astype(np.int32) for x in (a[:, :m].T, b, d[:, :m].T))
    assert np.array_equal(c.cpu().numpy(), left @ right + more)
