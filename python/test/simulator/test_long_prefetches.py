"""Prefetches of rows of 256 bytes, which Xe3P has."""

from __future__ import annotations

import re

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe.runtime.opening import get, open_device, put
from triton_xe.tools.commands.compile import compile_kernel


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, DEPTH: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, DEPTH)
    total = tl.zeros((M, N), tl.float32)
    for i in range(0, K, DEPTH):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        total = tl.dot(x, tl.load(b + (i + k)[:, None] * N + n[None, :]), total)
    tl.store(c + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize(("name", "prefetched"), [("cri", ["128, i32 16"]), ("ptl", [])])
def test_operands_that_short_rows_do_not_cover(name: str, prefetched: list[str]) -> None:
    """64 rows of B on four warps: one message for each warp has 16 rows of 256 bytes."""
    signature = "a=*fp16:16 b=*fp16:16 c=*fp32:16 K=i32:16 M=64 N=128 DEPTH=64"
    kernel = compile_kernel(product, signature, name, {"num_warps": 4})
    sizes = re.findall(r"BlockPrefetch.*i32 16, i32 (128, i32 \d+), i32 1,", kernel.asm["llir"])
    assert sorted(set(sizes)) == prefetched
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(size).astype(np.float16) for size in ((64, 256), (256, 128)))
    device = open_device(f"sim:{name}")
    buffers = [put(device, each) for each in (x, y, np.zeros((64, 128), np.float32))]
    built = device.load(kernel.asm["spv"], kernel.name, build_flags=kernel.metadata.build_flags)
    device.launch(built, (1, 1, 1), [*(each.pointer for each in buffers), 256])
    wanted = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_allclose(get(device, buffers[2], (64, 128), np.float32), wanted, 1e-4, 1e-3)
