"""Rows that fill the registers have no masks where they are as long as their block."""

import numpy as np
import pytest
import triton
import triton.language as tl

from python.test.filecheck import check_text

BLOCK = 2048


@triton.jit
def softmax_gradient(dy_ptr, y_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    dy = tl.load(dy_ptr + at, inside, other=0.0)
    y = tl.load(y_ptr + at, inside, other=0.0)
    d = tl.where(inside, dy - tl.sum(dy * y, 0), 7.0)
    tl.store(dx_ptr + at, y * d, inside)


@pytest.mark.sample(2)
@pytest.mark.parametrize("n", [BLOCK, BLOCK - 48, 100])
def test_rows_of_any_length_are_right(n):
    rng = np.random.default_rng(n)
    dy, y = (rng.standard_normal((3, n), dtype=np.float32) for _ in range(2))
    dx = np.zeros(3 * n + BLOCK, np.float32)
    kernel = softmax_gradient[(3,)](dy, y, dx, n, BLOCK, num_warps=1)
    wanted = y * (dy - (dy * y).sum(1, keepdims=True))
    np.testing.assert_allclose(dx[:3 * n].reshape(3, n), wanted, rtol=1e-4, atol=1e-4)
    assert not dx[3 * n:].any()
    assert "without masks, if rows are as long as their block" in " ".join(kernel.metadata.remarks)
    check_text(kernel.asm["llir"], "CHECK-NOT: Predicated")
