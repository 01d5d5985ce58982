"""Elements of a row are multiplied by the reciprocal of its divisor, whatever that is."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from python.test.filecheck import check_text

ROWS, COLUMNS = 64, 64
DIVISORS = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, 2.0**-149, 1.7 * 2.0**-130, 2.0**-126, 2.0**127,
     -1.3 * 2.0**126, 1.1 * 2.0**96, 1.9 * 2.0**-96, 3e38, 7e-39], np.float32)


@triton.jit
def divided(x_ptr, unit_ptr, divisor_ptr, raise_by, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + k[None, :])
    product = tl.dot(x, tl.load(unit_ptr + k[:, None] * N + n[None, :])) * raise_by
    largest = tl.max(product, 1)
    divisor = tl.where(largest == largest, tl.load(divisor_ptr + m), largest)
    tl.store(out_ptr + m[:, None] * N + n[None, :], product / divisor[:, None])


def test_quotients_are_within_two_units_of_any_divisor() -> None:
    random = np.random.default_rng(1)
    x = random.uniform(0.5, 2, (ROWS, COLUMNS)).astype(np.float16)
    divisors = np.concatenate([
        DIVISORS, np.ldexp(random.uniform(1, 2, ROWS - len(DIVISORS)),
                           random.integers(-149, 127, ROWS - len(DIVISORS))).astype(np.float32)])
    for raise_by in (1.0, 2.0**-110, 2.0**100):
        out = np.zeros((ROWS, COLUMNS), np.float32)
        kernel = divided[(1,)](x, np.eye(COLUMNS, dtype=np.float16), divisors, raise_by, out,
                               M=ROWS, N=COLUMNS, num_warps=4)
        check_text(kernel.asm["xegpu"], f"""
            CHECK-NOT: arith.divf
            CHECK: arith.divf {{{{.*}}}}tensor<{ROWS}xf32
            CHECK-NOT: arith.divf
            """)
        with np.errstate(all="ignore"):
            top = x.astype(np.float32) * np.float32(raise_by)
            exact = top.astype(np.float64) / divisors.astype(np.float64)[:, None]
            near = exact.astype(np.float32)
            unit = np.maximum(np.spacing(np.abs(near)), np.float32(2.0**-149))
        finite = np.isfinite(near)
        assert np.array_equal(out[~finite], near[~finite], equal_nan=True)
        assert np.all(np.abs(out[finite] - exact[finite]) <= 2 * unit[finite])
