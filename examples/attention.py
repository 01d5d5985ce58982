"""softmax(Q·Kᵀ·scale)·V without the matrix of scores.  Run: python -m examples.attention

Flash attention (Dao, arXiv 2307.08691): each program owns BLOCK_M rows of Q.  It walks over K and
V in steps of BLOCK_N, with a running maximum and sum per row.  The probabilities of one step are
the first operand of the second product, so they stay in the registers of their subgroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def attend(
    acc, total, top, q, k_ptrs, v_ptrs, stride_kn, stride_vn, rows, first, last, scale,
    BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):
    columns = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        k = tl.load(k_ptrs)
        scores = tl.dot(q, k)
        if MASKED:
            scores = tl.where(rows[:, None] >= start + columns[None, :], scores, -1.0e6)
        higher = tl.maximum(top, tl.max(scores, 1) * scale)
        p = tl.exp2(scores * scale - higher[:, None])
        faded = tl.exp2(top - higher)
        total = total * faded + tl.sum(p, 1)
        v = tl.load(v_ptrs)
        acc = tl.dot(p.to(v.dtype), v, acc * faded[:, None])
        top = higher
        k_ptrs += BLOCK_N * stride_kn
        v_ptrs += BLOCK_N * stride_vn
    return acc, total, top, k_ptrs, v_ptrs


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, length, stride_h, stride_n, scale,
    DEPTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):
    head = tl.program_id(1) * stride_h
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    depth = tl.arange(0, DEPTH)
    at = rows[:, None] * stride_n + depth[None, :]
    k_ptrs = k_ptr + head + columns[None, :] * stride_n + depth[:, None]
    v_ptrs = v_ptr + head + columns[:, None] * stride_n + depth[None, :]
    q = tl.load(q_ptr + head + at)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, DEPTH), tl.float32)
    diagonal = tl.program_id(0) * BLOCK_M if CAUSAL else length
    acc, total, top, k_ptrs, v_ptrs = attend(
        acc, total, top, q, k_ptrs, v_ptrs, stride_n, stride_n, rows, 0, diagonal, scale,
        BLOCK_N, False,
    )
    if CAUSAL:
        k_ptrs = k_ptr + head + (diagonal + columns[None, :]) * stride_n + depth[:, None]
        v_ptrs = v_ptr + head + (diagonal + columns[:, None]) * stride_n + depth[None, :]
        acc, total, top, k_ptrs, v_ptrs = attend(
            acc, total, top, q, k_ptrs, v_ptrs, stride_n, stride_n, rows, diagonal,
            diagonal + BLOCK_M, scale, BLOCK_N, True,
        )
    tl.store(o_ptr + head + at, (acc / total[:, None]).to(o_ptr.dtype.element_ty))


def launch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    blocks: tuple[int, int] = (64, 32), **options: int,
) -> tuple[torch.Tensor, Any]:
    """(output, compiled kernel); q, k, v: (batch, heads, length, depth), contiguous."""
    batch, heads, length, depth = q.shape
    block_m, block_n = blocks
    if length % block_m or length % block_n or block_m % block_n:
        raise ValueError(f"the length {length} must be a multiple of the blocks {blocks}")
    out = q.new_empty(q.shape)
    scale = 1.44269504 / depth**0.5
    kernel = attention_kernel[(length // block_m, batch * heads)](
        q, k, v, out, length, q.stride(1), q.stride(2), scale, depth, block_m, block_n, causal,
        **options,
    )
    return out, kernel


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    blocks: tuple[int, int] = (64, 32), **options: int,
) -> torch.Tensor:
    """Attention of each head separately."""
    return launch(q, k, v, causal, blocks, **options)[0]


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Attention in float32 with the whole matrix of scores."""
    import torch

    q, k, v = (x.cpu().float() for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def main() -> None:
    import torch

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 128, 64, dtype=torch.float16).to("xpu") for _ in range(3))
    for causal in (False, True):
        out = attention(q, k, v, causal, num_warps=4)
        error = (out.cpu().float() - reference(q, k, v, causal)).abs().max().item()
        print(f"attention{', causal' if causal else ''}: largest error {error:.2g}")
        assert error < 1e-2


if __name__ == "__main__":
    main()
