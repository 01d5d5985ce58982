"""C = A·B in Gluon: the program specifies layouts, 2D blocks and prefetches.

Run: python -m examples.gluon_matmul

Two steps in one iteration of the loop share its counter and branch.  On Xe2 it therefore has fewer
instructions per DPAS than the compiler's own loop for `examples.matmul`.
"""

from __future__ import annotations

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language import intel

WARPS = 32
MATRIX = intel.DPAS(warps_per_cta=[8, 4], rep_cluster=[4, 4])


@gluon.jit
def step(
    a, b, row, column, k, total, MATRIX: gl.constexpr,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr, AHEAD: gl.constexpr,
):
    """One step of K, which also prefetches the tiles that are needed `AHEAD` steps later."""
    left = intel.load_2d(a, [row, k], [BLOCK_M, BLOCK_K], MATRIX.operand(0, [BLOCK_M, BLOCK_K]))
    right = intel.load_2d(
        b, [k, column], [BLOCK_K, BLOCK_N], MATRIX.operand(1, [BLOCK_K, BLOCK_N]))
    intel.prefetch_2d(a, [row, k + AHEAD * BLOCK_K], [BLOCK_M, BLOCK_K])
    intel.prefetch_2d(b, [k + AHEAD * BLOCK_K, column], [BLOCK_K, BLOCK_N])
    return intel.dpas(left, right, total)


@gluon.jit
def gluon_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    MATRIX: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    AHEAD: gl.constexpr, STEPS: gl.constexpr,
):
    a = intel.surface(a_ptr, [M, K], [stride_am, 1])
    b = intel.surface(b_ptr, [K, N], [stride_bk, 1])
    c = intel.surface(c_ptr, [M, N], [stride_cm, 1])
    row = gl.program_id(0) * BLOCK_M
    column = gl.program_id(1) * BLOCK_N
    for i in gl.static_range(AHEAD):
        intel.prefetch_2d(a, [row, i * BLOCK_K], [BLOCK_M, BLOCK_K])
        intel.prefetch_2d(b, [i * BLOCK_K, column], [BLOCK_K, BLOCK_N])
    total = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, MATRIX.result([BLOCK_M, BLOCK_N]))
    for k in range(0, K, STEPS * BLOCK_K):
        for i in gl.static_range(STEPS):
            total = step(
                a, b, row, column, k + i * BLOCK_K, total, MATRIX, BLOCK_M, BLOCK_N, BLOCK_K, AHEAD)
    intel.store_2d(c, [row, column], total.to(c_ptr.dtype.element_ty))


def gluon_matmul(a, b, matrix=MATRIX, blocks=(256, 256, 32), warps=WARPS, ahead=2, steps=2):
    """`a @ b` of contiguous matrices, and the kernel."""
    (m, k), n = a.shape, b.shape[1]
    c = a.new_empty((m, n))
    grid = (triton.cdiv(m, blocks[0]), triton.cdiv(n, blocks[1]))
    kernel = gluon_matmul_kernel[grid](
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0), matrix, *blocks, ahead, steps,
        num_warps=warps)
    return c, kernel


def main() -> None:
    import torch

    for size in (512, 500):
        a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(i))
                .to(torch.float16).to("xpu") for i in (1, 2))
        c, kernel = gluon_matmul(a, b)
        expected = a.cpu().double() @ b.cpu().double()
        error = (c.cpu().double() - expected).abs().max().item()
        print(f"gluon_matmul {size}x{size}x{size} on {a.device}: largest error {error:.3g}, "
              f"{kernel.metadata.n_dpas} DPAS, {kernel.metadata.n_block_loads} block loads")
        assert error < 0.1


if __name__ == "__main__":
    main()
