"""Matrices that are loaded and stored without a product between: by blocks where that is legal."""


import pytest
import torch
import triton
import triton.language as tl

from python.test.operations import operations


@triton.jit
def by_pointers(
    x, y, z, M, N, stride,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TRANSPOSE: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (i[:, None] < M) & (j[None, :] < N)
    a = tl.load(x + i[:, None] * stride + j[None, :], mask=inside, other=0)
    b = tl.load(y + i[:, None] * stride + j[None, :], mask=inside, other=0)
    c = (a * 2 + b).to(z.dtype.element_ty)
    if TRANSPOSE:
        tl.store(z + j[:, None] * M + i[None, :], c.T, mask=inside.T)
    else:
        tl.store(z + i[:, None] * stride + j[None, :], c, mask=inside)


@triton.jit
def by_descriptors(
    x, y, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TRANSPOSE: tl.constexpr
):
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    a = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).load([i, j])
    if TRANSPOSE:
        tl.make_tensor_descriptor(y, [N, M], [M, 1], [BLOCK_N, BLOCK_M]).store([j, i], a.T)
    else:
        tl.make_tensor_descriptor(y, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).store([i, j], a)


def numbers(m, n, dtype):
    return torch.randint(-100, 100, (m, n)).to(dtype)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("block", "dtype", "transpose", "size"), [
    ((32, 128), torch.float32, False, (96, 192)),
    ((64, 64), torch.float32, True, (72, 132)),
    ((128, 16), torch.float16, False, (70, 136)),
    ((16, 64), torch.float16, True, (72, 136)),
    ((32, 64), torch.int8, False, (70, 144)),
    ((32, 64), torch.int64, True, (70, 132)),
])
def test_by_descriptors(block, dtype, transpose, size):
    m, n = size
    x = numbers(m, n, dtype)
    y = torch.full((n, m) if transpose else (m, n), 77, dtype=dtype, device="xpu")
    grid = (triton.cdiv(m, block[0]), triton.cdiv(n, block[1]))
    by_descriptors[grid](x.to("xpu"), y, m, n, *block, transpose)
    assert torch.equal(y.cpu(), x.T if transpose else x)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("block", "dtype", "out", "transpose", "size"), [
    ((32, 128), torch.float32, torch.float32, False, (96, 192)),
    ((64, 32), torch.float32, torch.float32, True, (61, 117)),
    ((32, 64), torch.float16, torch.float32, False, (61, 118)),
    ((64, 64), torch.int8, torch.int32, False, (61, 124)),
])
def test_by_pointers(block, dtype, out, transpose, size):
    m, n = size
    x, y = numbers(m, n, dtype) // 4, numbers(m, n, dtype) // 4
    z = torch.full((n, m) if transpose else (m, n), 77, dtype=out, device="xpu")
    grid = (triton.cdiv(m, block[0]), triton.cdiv(n, block[1]))
    by_pointers[grid](x.to("xpu"), y.to("xpu"), z, m, n, n, *block, transpose)
    expected = (x * 2 + y).to(out)
    assert torch.equal(z.cpu(), expected.T if transpose else expected)


@pytest.mark.parametrize("size", [32, 128])
def test_in_place(size):
    """Warps load what others store: all of a block is loaded before any of it is stored."""
    x = numbers(size, size, torch.float32)
    y = x.to("xpu")
    by_descriptors[(1, 1)](y, y, size, size, size, size, True, num_warps=8)
    assert torch.equal(y.cpu(), x.T)


@pytest.mark.parametrize(("dtype", "transpose"), [
    (torch.float32, False), (torch.float32, True), (torch.float16, False)])
def test_blocks_are_used(dtype, transpose):
    x = numbers(64, 128, dtype).to("xpu")
    y = torch.empty_like(x)
    kernel = by_descriptors.warmup(x, y, 64, 128, 64, 64, transpose, grid=(1,))
    found = operations(kernel.asm["xegpu"])
    assert found.count("xegpu.load_nd") in range(1, 9)
    assert not {"tt.load", "tt.store"} & {*found}


@triton.jit
def squared_and_masked(x, y, z, s, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + i[:, None] * N + j[None, :] * s)
    b = tl.trans(a)
    tl.store(z + i[:, None] * M + i[None, :], tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16)))
    tl.store(y + j[:, None] * M + i[None, :], (b != 0).to(tl.float32))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("m", "n"), [(32, 64), (64, 32), (16, 64), (64, 16), (32, 32)])
def test_a_transpose_beside_a_product_has_the_layout_of_its_own_shape(m, n):
    x = torch.randint(-2, 3, (m, n)).float()
    y, z = torch.empty(n, m, device="xpu"), torch.empty(m, m, device="xpu")
    squared_and_masked[(1,)](x.to("xpu"), y, z, 1, m, n)
    assert torch.equal(y.cpu(), (x.T != 0).float())
    assert torch.equal(z.cpu(), x @ x.T)


@triton.jit
def exchanged(x, y, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    a = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).load([i, j])
    b = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).load([i, j])
    tl.make_tensor_descriptor(x, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).store([i, j], b)
    tl.make_tensor_descriptor(y, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).store([i, j], a)


@pytest.mark.parametrize(("m", "n"), [(64, 256), (50, 144)])
def test_matrices_are_exchanged(m, n):
    x, y = numbers(m, n, torch.float32), numbers(m, n, torch.float32)
    held, other = x.to("xpu"), y.to("xpu")
    exchanged[(2, 2)](held, other, m, n, 32, 128)
    assert torch.equal(held.cpu(), y)
    assert torch.equal(other.cpu(), x)


@triton.jit
def in_turns(x, y, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The second load is of the first matrix again, behind the store."""
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    to = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    other = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    a = to.load([i, j])
    other.store([i, j], a)
    tl.debug_barrier()
    b = other.load([i, j])
    to.store([i + M // 2, j], b)


def test_a_payload_that_is_used_again_is_not_moved():
    x = numbers(64, 128, torch.float32)
    held, y = x.to("xpu"), torch.zeros(64, 128, device="xpu")
    in_turns[(1, 1)](held, y, 64, 128, 32, 128)
    assert torch.equal(y.cpu()[:32], x[:32])
    assert torch.equal(held.cpu()[32:], x[:32])
    assert torch.equal(held.cpu()[:32], x[:32])
