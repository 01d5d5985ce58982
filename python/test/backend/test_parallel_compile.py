"""Kernels that compile at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import triton
import triton.language as tl

SIZES = (16, 32, 64, 128)


@triton.jit
def scaled(x, y, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + at), axis=0)
    tl.store(y + at, tl.load(x + at) * FACTOR + total)


def test_threads_compile_variants_of_a_kernel(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through `AsyncCompileMode`, some asked for twice; then each gives its own result."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x = np.arange(128, dtype=np.float32)
    y = np.zeros_like(x)
    with ThreadPoolExecutor(4) as pool, triton.AsyncCompileMode(pool):
        for size in SIZES * 2:
            scaled.warmup(x, y, FACTOR=size + 1, BLOCK=size, grid=(1,))
    for size in SIZES:
        y[:] = 0
        scaled[(1,)](x, y, FACTOR=size + 1, BLOCK=size)
        expected = np.zeros_like(x)
        expected[:size] = x[:size] * (size + 1) + x[:size].sum()
        np.testing.assert_array_equal(y, expected)
    assert len(list(tmp_path.glob("*/scaled.spv"))) == len(SIZES)
