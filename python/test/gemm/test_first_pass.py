"""Products with any number of steps."""


import numpy as np
import pytest
import torch
import triton
import triton.language as tl

BLOCK, DEPTH = 64, 32


def operands(steps):
    k, rng = steps * DEPTH, np.random.default_rng(steps)
    return [rng.integers(-4, 5, shape).astype(np.float16) for shape in ((BLOCK, k), (k, BLOCK))]


@triton.jit
def product(a_ptr, b_ptr, c_ptr, k, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    i, j = tl.arange(0, BLOCK), tl.arange(0, DEPTH)
    a_ptrs, b_ptrs = a_ptr + i[:, None] * k + j[None, :], b_ptr + j[:, None] * BLOCK + i[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, k, DEPTH):
        total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total)
        a_ptrs += DEPTH
        b_ptrs += DEPTH * BLOCK
    tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], total)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6])
def test_any_number_of_steps(steps):
    k, (a, b) = steps * DEPTH, operands(steps)
    c = torch.full((BLOCK, BLOCK), 7.0, device="xpu")
    padded = (np.append(x.ravel(), np.zeros(64, np.float16)) for x in (a, b))
    product[(1,)](*(torch.from_numpy(x).to("xpu") for x in padded), c, k, BLOCK, DEPTH, num_warps=4)
    assert np.array_equal(c.cpu().numpy(), a.astype(np.float32) @ b.astype(np.float32))
