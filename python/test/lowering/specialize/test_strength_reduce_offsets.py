"""Products through descriptors at loaded pointers, and their versions with gathers."""

import dataclasses

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from benchmarks import loop_kernels, loops
from python.test.gemm.pairwise import settings
from triton_xe.tools import intel
from triton_xe.tools.native_figures import loops as loops_of

ALIGNED, ODD_ROWS, ODD_DEPTH = (128, 64, 64), (100, 33, 64), (70, 129, 35)


def of_groups(*sizes, seed=0):
    random = np.random.default_rng(seed)

    def made(*shape):
        return torch.from_numpy(random.integers(-4, 5, shape).astype(np.float16)).to("xpu")

    a = [made(m, k) for m, _, k in sizes]
    b = [made(n, k) for _, n, k in sizes]
    c = [torch.full((m, n), 7, dtype=torch.float16, device="xpu") for m, n, _ in sizes]
    return a, b, c


def addresses(tensors):
    return torch.tensor([t.data_ptr() for t in tensors], dtype=torch.int64, device="xpu")


@pytest.mark.sample(2)
@pytest.mark.parametrize(*settings(
    sizes=((ODD_DEPTH,), (ODD_ROWS,), (ALIGNED, ODD_DEPTH, ODD_ROWS, (1, 1, 1))),
    blocks=((32, 64, 32, 4), (64, 32, 64, 4), (16, 64, 64, 2)), strength=1))
def test_products_of_all_sizes(sizes, blocks):
    a, b, c = of_groups(*sizes)
    shapes = torch.tensor(sizes, dtype=torch.int32, device="xpu")
    *tile, warps = blocks
    loop_kernels.grouped_gemm[(3,)](
        addresses(a), addresses(b), addresses(c), shapes, len(sizes), *tile, num_warps=warps)
    for left, right, out in zip(a, b, c, strict=True):
        assert torch.equal(out.cpu().float(), left.cpu().float() @ right.cpu().float().T)


@triton.jit
def product_at(
    a_ptr, b_ptr, c_ptr, M, N, K, row, column, first,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """One block of a product, from any place on; what lies outside is zero, or not written."""
    element: tl.constexpr = tl.pointer_type(tl.float16)
    a = tl.make_tensor_descriptor(tl.load(a_ptr).to(element), [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(tl.load(b_ptr).to(element), [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c = tl.make_tensor_descriptor(tl.load(c_ptr).to(element), [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(first, K, BLOCK_K):
        acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
    c.store([row, column], acc.to(tl.float16))


def rows_from(matrix, start, count):
    """Rows of a matrix, zeros where it has none."""
    found = np.zeros((count, matrix.shape[1]), matrix.dtype)
    inside = [i for i in range(count) if 0 <= start + i < matrix.shape[0]]
    found[inside] = matrix[[start + i for i in inside]]
    return found


@pytest.mark.sample(4)
@pytest.mark.parametrize(*settings(
    row=(-70, -64, -5, 0, 41, 60, 70, 2**31 - 64), others=((-9, 0), (0, -13), (30, 5)),
    strength=1))
def test_blocks_that_begin_before_a_matrix_or_end_behind_it(row, others):
    column, first = others
    (a,), (b,), (c,) = of_groups((70, 40, 35))
    product_at[(1,)](addresses([a]), addresses([b]), addresses([c]), 70, 40, 35, row, column, first,
                     64, 32, 32, num_warps=2)
    left, right = a.cpu().numpy().astype(np.float32), b.cpu().numpy().astype(np.float32)
    start = max(first, 0)
    made = rows_from(left, row, 64)[:, start:] @ rows_from(right, column, 32)[:, start:].T
    wanted = np.full((70, 40), 7, np.float32)
    for i in range(64):
        for j in range(32):
            if 0 <= row + i < 70 and 0 <= column + j < 40:
                wanted[row + i, column + j] = made[i, j]
    np.testing.assert_array_equal(c.cpu().numpy(), wanted)


@pytest.mark.sample(1)
@pytest.mark.intel_compiler
@pytest.mark.parametrize(*settings(
    device=("bmg", "pvc", "ptl"), blocks=((128, 128, 64), (64, 128, 64), (128, 64, 32)),
    strength=1))
def test_all_versions_fit_into_the_registers(device, blocks):
    row = loops.ROWS["grouped"]
    row = dataclasses.replace(row, constants=dict(zip(row.constants, blocks, strict=True)))
    made = triton.compile(row.source(), target=GPUTarget("xpu", device, 16),
                          options={"num_warps": 8, "num_stages": 3})
    native = intel.compile_spirv(made.asm["spv"], device, made.metadata.build_flags)
    found = native.figures
    assert found.spill_size == 0
    assert found.whole.instructions < 2100


@pytest.mark.intel_compiler
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_the_version_with_gathers_is_short(device):
    """Loops over K and over rows, which Intel's compiler does not unroll."""
    row = dataclasses.replace(loops.ROWS["grouped"], constants={
        "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32})
    made = triton.compile(row.source(), target=GPUTarget("xpu", device, 16),
                          options={"num_warps": 16, "num_stages": 3})
    native = intel.compile_spirv(made.asm["spv"], device, made.metadata.build_flags)
    assert native.figures.whole.issued <= 1200
    found = loops_of(native.program)
    assert [loop.scatters for loop in found if loop.scatters and not loop.dpas] == [8]
    assert min(loop.dpas for loop in found if loop.gathers >= 16) == 8
