"""Products on a device of eight lanes, whose operands go through shared local memory as words."""

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


@triton.jit
def product(a_ptr, b_ptr, c_ptr, m, n, k, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr,
            K: tl.constexpr, DESCRIPTORS: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    rows, columns, inner = row + tl.arange(0, M), column + tl.arange(0, N), tl.arange(0, K)
    a_ptrs = a_ptr + rows[:, None] * am + inner[None, :] * ak
    b_ptrs = b_ptr + inner[:, None] * bk + columns[None, :] * bn
    total = tl.zeros((M, N), tl.float32)
    if DESCRIPTORS:
        a_desc = tl.make_tensor_descriptor(a_ptr, [m, k], [am, 1], [M, K])
        b_desc = tl.make_tensor_descriptor(b_ptr, [k, n], [bk, 1], [K, N])
    for start in range(0, k, K):
        if DESCRIPTORS:
            a, b = a_desc.load([row, start]), b_desc.load([start, column])
        else:
            a = tl.load(a_ptrs, (rows[:, None] < m) & (inner[None, :] < k - start), 0.0)
            b = tl.load(b_ptrs, (inner[:, None] < k - start) & (columns[None, :] < n), 0.0)
            a_ptrs += K * ak
            b_ptrs += K * bk
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total,
             (rows[:, None] < m) & (columns[None, :] < n))


@pytest.fixture
def eight_lanes(choose: Callable[[str], None]) -> Iterator[None]:
    """Device xpu:0 is one of eight lanes; what was compiled for it is forgotten afterwards."""
    product.device_caches.clear()
    choose("sim:dg2")
    yield
    product.device_caches.clear()


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=() if seed < 5 else pytest.mark.slow) for seed in range(12)])
def test_random_products(eight_lanes: None, seed: int) -> None:
    pick = random.Random(seed)
    rng = np.random.default_rng(seed)
    tile = [pick.choice((16, 32, 64)), pick.choice((16, 32, 64)), pick.choice((16, 32, 64))]
    m, n, k = (pick.choice((t, 2 * t, t + 8, 3 * t - 16)) for t in tile)
    dtype = DTYPES[pick.choice(list(DTYPES))]
    turned_a, turned_b, descriptors = pick.choice(
        ((False, False, False), (False, False, True), (False, True, False), (True, False, False)))
    a, b = (torch.from_numpy(rng.integers(-4, 5, shape).astype(np.float32)).to(dtype)
            for shape in ((m, k), (k, n)))
    held = [(x.T.contiguous().T if turned else x).to("xpu")
            for x, turned in ((a, turned_a), (b, turned_b))]
    c = torch.zeros(m, n, device="xpu")
    grid = (triton.cdiv(m, tile[0]), triton.cdiv(n, tile[1]))
    product[grid](*held, c, m, n, k, *held[0].stride(), *held[1].stride(), *tile, descriptors,
                  num_warps=pick.choice((1, 2, 4, 8)))
    assert torch.equal(c.cpu(), a.float() @ b.float())
