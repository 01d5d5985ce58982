"""C = A·B with tensor descriptors created in the kernel.  Run: python -m examples.matmul_descriptor

A descriptor states base, shape and strides, so loads and stores past an edge need no mask.  Its
last dimension is the contiguous one.  A transposed operand is described as it is stored, and
transposed after the load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

from examples.matmul import check, grouped_tile, leaky_relu, result_of

if TYPE_CHECKING:
    import torch


@triton.jit
def matmul_descriptor_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    TRANSPOSED_A: tl.constexpr, TRANSPOSED_B: tl.constexpr, ACTIVATION: tl.constexpr,
):
    tile_m, tile_n = grouped_tile(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    row = tile_m * BLOCK_M
    column = tile_n * BLOCK_N

    if TRANSPOSED_A:
        a_desc = tl.make_tensor_descriptor(a_ptr, [K, M], [stride_a, 1], [BLOCK_K, BLOCK_M])
    else:
        a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [stride_a, 1], [BLOCK_M, BLOCK_K])
    if TRANSPOSED_B:
        b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [stride_b, 1], [BLOCK_N, BLOCK_K])
    else:
        b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], [BLOCK_M, BLOCK_N])

    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if TRANSPOSED_A:
            a = a_desc.load([k, row]).T
        else:
            a = a_desc.load([row, k])
        if TRANSPOSED_B:
            b = b_desc.load([column, k]).T
        else:
            b = b_desc.load([k, column])
        total = tl.dot(a, b, total)

    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    c_desc.store([row, column], total.to(c_ptr.dtype.element_ty))


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
    """`a @ b` in the type of `a`, or in `out_dtype`; one dimension of each is contiguous."""
    return launch(a, b, activation, out_dtype, blocks, group_m, options)[0]


def launch(
    a: torch.Tensor, b: torch.Tensor, activation: str, out_dtype: torch.dtype | None,
    blocks: tuple[int, int, int], group_m: int, options: dict[str, int | str],
) -> tuple[torch.Tensor, Any]:
    """The result and the compiled kernel."""
    transposed_a, stride_a = _stored(a)
    transposed_b, stride_b = _stored(b)
    c, sizes, grid = result_of(a, b, out_dtype, blocks)
    kernel = matmul_descriptor_kernel[grid](
        a, b, c, *sizes, stride_a, stride_b, c.stride(0), *blocks, GROUP_M=group_m,
        TRANSPOSED_A=transposed_a, TRANSPOSED_B=transposed_b, ACTIVATION=activation, **options,
    )
    return c, kernel


def _stored(x: torch.Tensor) -> tuple[bool, int]:
    """True if the matrix is stored transposed, and the stride between its stored rows."""
    if x.stride(1) == 1:
        return False, x.stride(0)
    if x.stride(0) == 1:
        return True, x.stride(1)
    raise ValueError(f"neither dimension is contiguous: strides {x.stride()}")


def main() -> None:
    check("descriptors", matmul)


if __name__ == "__main__":
    main()
