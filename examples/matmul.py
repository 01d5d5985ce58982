"""C = A·B with tensors of pointers, and an optional leaky ReLU.  Run: python -m examples.matmul

Row and column offsets wrap around at the matrix edges, so that no load leaves A or B; only K is
masked.  The strides make it work for A·B, A·Bᵀ and Aᵀ·B: pass a transposed view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def grouped_tile(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Tile of this program: GROUP_M rows of tiles, column by column, so that B stays in cache."""
    rows = tl.cdiv(M, BLOCK_M)
    columns = tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * columns)
    first_row = group * GROUP_M
    height = min(rows - first_row, GROUP_M)
    within = pid % (GROUP_M * columns)
    return first_row + within % height, within // height


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    tile_m, tile_n = grouped_tile(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)

    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows[:, None] * stride_am + k[None, :] * stride_ak)
    b_ptrs = b_ptr + (k[:, None] * stride_bk + columns[None, :] * stride_bn)

    sum_type: tl.constexpr = tl.int32 if a_ptr.dtype.element_ty == tl.int8 else tl.float32
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=sum_type)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        total = tl.dot(a, b, total, out_dtype=sum_type)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)

    out_rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    out_columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * out_rows[:, None] + stride_cn * out_columns[None, :]
    inside = (out_rows[:, None] < M) & (out_columns[None, :] < N)
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=inside)


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    activation: str = "",
    out_dtype: torch.dtype | None = None,
    blocks: tuple[int, int, int] = (128, 128, 32),
    group_m: int = 8,
    **options: int | str,
) -> torch.Tensor:
    """`a @ b` in the type of `a`, or in `out_dtype`; `options` are num_warps, num_stages, ..."""
    return launch(a, b, activation, out_dtype, blocks, group_m, options)[0]


def launch(
    a: torch.Tensor, b: torch.Tensor, activation: str, out_dtype: torch.dtype | None,
    blocks: tuple[int, int, int], group_m: int, options: dict[str, int | str],
) -> tuple[torch.Tensor, Any]:
    """The result and the compiled kernel."""
    c, sizes, grid = result_of(a, b, out_dtype, blocks)
    kernel = matmul_kernel[grid](
        a, b, c, *sizes, *a.stride(), *b.stride(), *c.stride(), *blocks,
        GROUP_M=group_m, ACTIVATION=activation, **options,
    )
    return c, kernel


def result_of(
    a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype | None, blocks: tuple[int, int, int]
) -> tuple[torch.Tensor, tuple[int, int, int], tuple[int]]:
    """An uninitialised matrix for the product; M, N and K; and the grid of its tiles."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"shapes do not multiply: {tuple(a.shape)} @ {tuple(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    c = a.new_empty((m, n), dtype=out_dtype or a.dtype)
    return c, (m, n, k), (triton.cdiv(m, blocks[0]) * triton.cdiv(n, blocks[1]),)


def operands(
    m: int, n: int, k: int, layout: str = "AB", dtype: torch.dtype | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random A (m, k) and B (k, n); a `t` after a letter stores that matrix transposed.

    `layout` is one of AB, ABt, AtB, AtBt; `dtype` is float16 by default.
    """
    import torch

    generator = torch.Generator().manual_seed(m * n + k)

    def matrix(rows: int, columns: int, transposed: bool) -> torch.Tensor:
        shape = (columns, rows) if transposed else (rows, columns)
        stored = torch.randn(shape, generator=generator).to(dtype or torch.float16).to("xpu")
        return stored.T if transposed else stored

    return matrix(m, k, "At" in layout), matrix(k, n, "Bt" in layout)


def check(name: str, multiply: Callable[..., torch.Tensor]) -> None:
    """Compare products of stored and transposed matrices with those of torch."""
    import torch

    for layout in ("AB", "ABt", "AtB"):
        for dtype in (torch.float16, torch.bfloat16):
            a, b = operands(512, 512, 512, layout, dtype)
            c = multiply(a, b, blocks=(64, 64, 32), num_warps=4)
            expected = (a.cpu().double() @ b.cpu().double()).to(dtype)
            error = (c.cpu().double() - expected.double()).abs().max().item()
            print(f"{name} {layout:4} {dtype} 512x512x512 on {a.device}: largest error {error:.3g}")
            assert error < (1.0 if dtype == torch.bfloat16 else 0.1)


def main() -> None:
    check("matmul", matmul)


if __name__ == "__main__":
    main()
