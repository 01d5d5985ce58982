"""Integers have their bits: quotients are cut towards zero, narrow numbers and hashes wrap around.

Each kernel uses such a number where the compiler knows much of usual ones: as an address, a mask, a
row of a dot, a scale of a group.
"""

import numpy as np
import pytest
import triton
import triton.language as tl

N = 64


def quotient(a, b):
    """The quotient as C and Triton round it."""
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


@triton.jit
def load_at_remainder(x, o, base, N: tl.constexpr, BY: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + 64 + (i + base) % BY))


@triton.jit
def load_at_quotient(x, o, base, N: tl.constexpr, BY: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + 64 + (i + base) // BY))


@triton.jit
def masked_load(x, o, base, N: tl.constexpr, BY: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i, mask=(i + base) // BY == 0, other=-1.0))


@triton.jit
def masked_store(x, o, base, N: tl.constexpr, BY: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i), mask=(i + base) // BY == 0)


@pytest.mark.covering
@pytest.mark.parametrize("base", [-32, -24, -16, 0, 16])
@pytest.mark.parametrize("by", [8, 16, 12])
def test_dividends_of_both_signs(base, by):
    x, i = np.arange(128, dtype=np.float32), np.arange(N)
    divided = quotient(i + base, by)
    inside = np.where(divided == 0, x[:N], np.float32(-1))
    for kernel, expected in (
        (load_at_remainder, x[64 + i + base - divided * by]), (load_at_quotient, x[64 + divided]),
        (masked_load, inside), (masked_store, inside),
    ):
        out = np.full(N, -1, np.float32)
        kernel[(1,)](x, out, base, N, by, num_warps=1)
        np.testing.assert_array_equal(out, expected, kernel.__name__)


@triton.jit
def scaled_dot(a, b, scales, o, first, size, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    w = tl.load(b + k[:, None] * M + m[None, :]).to(tl.float16)
    group = (first + k) // size
    scale = tl.load(scales + 4 * M + group[:, None] * M + m[None, :])
    tl.store(o + m[:, None] * M + m[None, :], tl.dot(x, w * scale))


@pytest.mark.parametrize("first", [-32, -16, 0, 32])
def test_scales_of_groups_around_zero(first):
    draw, m, k = np.random.default_rng(0), 32, 64
    a = draw.standard_normal((m, k)).astype(np.float16)
    b = draw.integers(-8, 8, (k, m)).astype(np.int8)
    scales = draw.random((12, m)).astype(np.float16)
    out = np.zeros((m, m), np.float32)
    scaled_dot[(1,)](a, b, scales, out, first, 16, m, k)
    used = scales[4 + quotient(first + np.arange(k), 16)]
    np.testing.assert_allclose(out, a.astype(float) @ (b * used).astype(float), atol=0.02)


@triton.jit
def ring_dot(x, w, o, start, M: tl.constexpr, K: tl.constexpr):
    rows, k = (start + tl.arange(0, M)).to(tl.uint8), tl.arange(0, K)
    a = tl.load(x + rows[:, None].to(tl.int32) * K + k[None, :])
    b = tl.load(w + k[:, None] * K + k[None, :])
    tl.store(o + tl.arange(0, M)[:, None] * K + k[None, :], tl.dot(a, b))


@pytest.mark.parametrize("start", [0, 100, 240, 255])
def test_rows_of_a_ring(start):
    draw = np.random.default_rng(1)
    x, w = (draw.standard_normal((n, 32)).astype(np.float16) for n in (256, 32))
    out = np.zeros((32, 32), np.float32)
    ring_dot[(1,)](x, w, out, start, 32, 32)
    rows = (start + np.arange(32)) % 256
    np.testing.assert_allclose(out, x[rows].astype(float) @ w.astype(float), atol=0.02)


@triton.jit
def narrow_mask(x, o, n: tl.int8, N: tl.constexpr):
    i = tl.arange(0, N)
    keep = (i.to(tl.int8) + n) < 100
    tl.store(o + i, tl.load(x + i, mask=keep, other=-1.0))


@pytest.mark.parametrize("n", [0, 36, 99, -100])
def test_masks_of_numbers_that_wrap_around(n):
    x, i = np.arange(N, dtype=np.float32), np.arange(N)
    out = np.zeros(N, np.float32)
    narrow_mask[(1,)](x, out, n, N)
    wrapped = (i + n + 128) % 256 - 128
    np.testing.assert_array_equal(out, np.where(wrapped < 100, x, -1))


@triton.jit
def two_steps(x, o, N: tl.constexpr, G: tl.constexpr, S: tl.constexpr):
    i = tl.arange(0, N)
    p = x + S + i
    p = p + (i // G) * G
    tl.store(o + i, tl.load(p))


@triton.jit
def remainder_by_rows(x, o, N: tl.constexpr):
    r0 = tl.arange(0, N)
    r, c = r0 % ((r0 // 16 + 1) * 4), tl.arange(0, 16)
    tl.store(o + r0[:, None] * 16 + c[None, :], tl.load(x + r[:, None] + c[None, :]))


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("shift", [1, 3])
def test_no_access_is_wider_than_its_address_allows(dtype, shift):
    """The checks compare each access with the alignment that it was compiled for."""
    x, i = (np.arange(4 * N) % 100).astype(dtype), np.arange(N)
    out, rows = np.zeros(N, dtype), np.zeros((N, 16), dtype)
    two_steps[(1,)](x, out, N, 16, shift, num_warps=1, sanitize=True)
    np.testing.assert_array_equal(out, x[shift + i + i // 16 * 16])
    remainder_by_rows[(1,)](x, rows, N, num_warps=1, sanitize=True)
    np.testing.assert_array_equal(rows, x[(i % ((i // 16 + 1) * 4))[:, None] + np.arange(16)])


@triton.jit
def hashed(x, w, o, seed, R: tl.constexpr, K: tl.constexpr, UNSIGNED: tl.constexpr):
    h = (seed.to(tl.uint32) if UNSIGNED else seed) * 1664525 + 1013904223
    i = tl.arange(0, K)
    rows = (h + (i.to(tl.uint32) if UNSIGNED else i)) % R + R
    a = tl.load(x + rows[:, None].to(tl.int64) * K + i[None, :])
    b = tl.load(w + i[:, None] * K + i[None, :])
    tl.store(o + i[:, None] * K + i[None, :], tl.dot(a, b))


@pytest.mark.covering
@pytest.mark.parametrize("seed", [2, 31337, 123456])
@pytest.mark.parametrize("unsigned", [True, False])
def test_rows_at_a_hash(seed, unsigned):
    draw, r, k = np.random.default_rng(2), 500, 32
    x, w = (draw.standard_normal((n, k)).astype(np.float16) for n in (2 * r, k))
    out = np.zeros((k, k), np.float32)
    hashed[(1,)](x, w, out, seed, r, k, unsigned)
    at = (seed * 1664525 + 1013904223 + np.arange(k)) % 2**32
    if not unsigned:
        at = (at + 2**31) % 2**32 - 2**31
    rows = at - quotient(at, r) * r + r
    np.testing.assert_allclose(out, x[rows].astype(float) @ w.astype(float), atol=0.02)


@triton.jit
def shifted(x, o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    at = (i + n).to(tl.int64) - n.to(tl.int64)
    tl.store(o + i, tl.load(x + i, mask=at >= 0, other=-1.0))


@pytest.mark.parametrize("n", [0, 2**31 - 65, 2**31 - 20, 2**31 - 1, -5])
def test_sums_that_pass_the_largest_number(n):
    """Lanes of one subgroup are on both sides of the wrap."""
    x, i = np.arange(N, dtype=np.float32), np.arange(N)
    out = np.zeros(N, np.float32)
    shifted[(1,)](x, out, n, N)
    wrapped = (i + n + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(out, np.where(wrapped - n >= 0, x, -1))


@triton.jit
def moved_unsigned(x, o, start: tl.uint32, step, count, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i + start
    for _ in range(count):
        tl.store(o + i, tl.load(x + at, mask=at < N, other=-1.0))
        at = (at + step).to(tl.uint32)


@pytest.mark.parametrize("start", [0, 5, 2**32 - 3, 2**32 - 7, 2**32 - 12])
@pytest.mark.parametrize("step", [0, 3, -2])
def test_unsigned_offsets_that_a_loop_moves(start, step):
    """Neighbouring lanes are at both ends of the numbers, and those at the upper end are masked."""
    x, i = np.arange(16, dtype=np.float32), np.arange(16)
    out = np.zeros(16, np.float32)
    moved_unsigned[(1,)](x, out, start, step, 3, 16, num_warps=1)
    at = (i + start + 2 * step) % 2**32
    np.testing.assert_array_equal(out, np.where(at < 16, x[at % 16], -1))


@triton.jit
def never_shifted(x, o, N: tl.constexpr):
    i, row = tl.arange(0, N), tl.program_id(0)
    tl.assume(row < 0)
    left, right = i << row, i >> row
    tl.store(o + i, tl.load(x + i, mask=(left >= 12) | (right >= 12), other=5.0))


def test_assumptions_that_contradict_each_other_compile():
    x = np.arange(N, dtype=np.float32)
    assert never_shifted.warmup(x, x, N, grid=(1,)).asm["spv"]
