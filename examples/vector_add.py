"""c = a + b, the smallest kernel.  Run: python -m examples.vector_add"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    a = tl.load(a_ptr + index, mask=inside)
    b = tl.load(b_ptr + index, mask=inside)
    tl.store(c_ptr + index, a + b, mask=inside)


def add(a: torch.Tensor, b: torch.Tensor, block: int = 1024) -> torch.Tensor:
    """The sum of two tensors of one shape."""
    import torch

    c = torch.empty_like(a)
    add_kernel[(triton.cdiv(a.numel(), block),)](a, b, c, a.numel(), BLOCK=block)
    return c


def main() -> None:
    import torch

    a, b = (torch.rand(98_432, device="xpu") for _ in range(2))
    error = (add(a, b) - (a + b)).abs().max().item()
    print(f"vector add of {a.numel()} floats on {a.device}: largest error {error}")
    assert error == 0


if __name__ == "__main__":
    main()
