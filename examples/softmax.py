"""Softmax of each row, one program per row.  Run: python -m examples.softmax"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def softmax_kernel(in_ptr, out_ptr, stride_in, stride_out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(in_ptr + row * stride_in + column, mask=inside, other=float("-inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride_out + column, power / tl.sum(power, axis=0), mask=inside)


def softmax(x: torch.Tensor, **options: int) -> torch.Tensor:
    """Softmax along the rows of a matrix whose rows are contiguous."""
    y = x.new_empty(x.shape)
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](x, y, x.stride(0), y.stride(0), columns, BLOCK=block, **options)
    return y


def main() -> None:
    import torch

    x = torch.randn(1823, 781, device="xpu")
    error = (softmax(x) - torch.softmax(x, dim=1)).abs().max().item()
    print(f"softmax of {tuple(x.shape)} on {x.device}: largest error {error:.3g}")
    assert error < 1e-6


if __name__ == "__main__":
    main()
