"""Versions of reductions for rows that fit one subgroup: which launches take them."""

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe.conditions import SHORT_ROWS

BLOCK = 2048


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, -float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + at, v / tl.sum(v, 0), at < n)


@triton.jit
def normalize(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, n > at, 0.0)
    d = tl.where(at < n, v - tl.sum(v, 0) / n, 0.0)
    tl.store(out + row * n + at, d * tl.rsqrt(tl.sum(d * d, 0) / n + 1e-5), at < n)


@triton.jit
def logsumexp(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK).to(tl.int64)
    v = tl.load(x + row * n + at, at < n, -float("inf"))
    top = tl.max(v, 0)
    tl.store(out + row * n, top + tl.log(tl.sum(tl.exp2((v - top) * 1.4426950408889634), 0)))


@triton.jit
def extent(x, out, n, BLOCK: tl.constexpr):
    """The least and the greatest, of any value behind the end; bits set in any element."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, 3.0)
    bits = tl.load(x + row * n + at, at < n, 0.0).to(tl.int32)
    seen = tl.sum(bits, 0) + tl.xor_sum(bits, 0)
    tl.store(out + row * n, tl.max(v, 0) - tl.min(v, 0) + seen)


@triton.jit
def sum_of_ones(x, out, n, BLOCK: tl.constexpr):
    """Each element behind the end counts: exp(0) is 1."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + row * n, tl.sum(tl.exp(tl.load(x + row * n + at, at < n, 0.0) * 1.0), 0))


@triton.jit
def sum_of_differences(x, out, n, BLOCK: tl.constexpr):
    """The mean is taken off behind the end too."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, 0.0)
    d = v - tl.sum(v, 0) / n
    tl.store(out + row * n, tl.sum(d * d, 0))


@triton.jit
def whole_block(x, out, n, BLOCK: tl.constexpr):
    """Stores more than the row."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, 0.0)
    tl.store(out + row * n + at, tl.sum(v, 0) + at * 0.0, at < BLOCK - row)


@triton.jit
def positions(x, out, n, BLOCK: tl.constexpr):
    """What is behind the end differs from element to element."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, 0.0)
    tl.store(out + row * n, tl.sum(tl.where(at < n, v, at * 1.0), 0) + tl.max(v - at, 0))


@triton.jit
def twice_as_long(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + row * n, tl.sum(tl.load(x + at, at < n * 2, 0.0), 0))


@triton.jit
def running(x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, 0.0)
    tl.store(out + row * n + at, tl.cumsum(v, 0) + tl.sum(v, 0), at < n)


@triton.jit
def in_passes(x, out, n, BLOCK: tl.constexpr):
    """Layer norm that goes over its row three times, block by block."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x + row * n + start + at, start + at < n, 0.0)
    mean = tl.sum(total, 0) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for k in range(tl.cdiv(n, BLOCK)):
        inside = at < n - k * BLOCK
        d = tl.where(inside, tl.load(x + row * n + k * BLOCK + at, inside) - mean, 0.0)
        squares += d * d
    scale = tl.rsqrt(tl.sum(squares, 0) / n + 1e-5)
    for start in range(0, n, BLOCK):
        there = x + row * n + start + at
        tl.store(out + row * n + start + at, (tl.load(there, start + at < n) - mean) * scale,
                 start + at < n)


@triton.jit
def online(x, out, n, BLOCK: tl.constexpr):
    """The logarithm of the sum of exponentials in one pass, and the first element again."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    top, total = -float("inf"), 0.0
    for start in range(0, n, BLOCK):
        v = tl.load(x + row * n + start + at, start + at < n, -float("inf"))
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
        top = new
    if top > -float("inf"):
        tl.store(out + row * n, top + tl.log(total))


@triton.jit
def rows_of_a_loop(x, out, n, BLOCK: tl.constexpr):
    """A program takes several rows, one after the other; sums come along."""
    at = tl.arange(0, BLOCK)
    seen = tl.zeros([BLOCK], tl.float32)
    for row in range(tl.program_id(0), 3, tl.num_programs(0)):
        v = tl.load(x + row * n + at, at < n, 0.0)
        seen += v
        v -= tl.max(tl.where(at < n, v, -float("inf")), 0)
        e = tl.where(at < n, tl.exp(v), 0.0)
        tl.store(out + row * n + at, e / tl.sum(e, 0) + 0.0 * tl.sum(seen, 0), at < n)


@triton.jit
def several_rows(x, out, n, BLOCK: tl.constexpr):
    """A block of 4 rows, one of which is outside."""
    rows, at = tl.program_id(0) // 3 * 4 + tl.arange(0, 4), tl.arange(0, BLOCK)
    there = rows[:, None] * n + at[None, :]
    inside = (rows < 3)[:, None] & (at < n)[None, :]
    v = tl.load(x + there, inside, -float("inf"))
    v = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(out + there, v / tl.sum(v, 1)[:, None], inside)


@triton.jit
def last_position(x, out, n, BLOCK: tl.constexpr):
    """Of two that are alike the last is taken, and behind the end all are."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, 0.0)
    tl.store(out + row * n, tl.argmax(v, 0, tie_break_left=False).to(tl.float32))


@triton.jit
def two_steps(x, out, n, BLOCK: tl.constexpr):
    """The loop runs twice for short rows too."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    total = 0.0
    for start in range(0, n + BLOCK, BLOCK):
        total += tl.sum(tl.load(x + row * n + at, start + at < n, 0.0), 0)
    tl.store(out + row * n, total)


@triton.jit
def carried(x, out, n, BLOCK: tl.constexpr):
    """What a loop carries is one from its second pass on, also behind the end."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    kept, total = tl.load(x + row * n + at, at < n, 0.0), 0.0
    for _ in range(row + 2):
        total += tl.sum(kept, 0)
        kept = tl.where(at < n, kept, total)
    tl.store(out + row * n, total)


@triton.jit
def positions_of(x, out, n, BLOCK: tl.constexpr):
    """Where the greatest and the least are, the first of several; row by row and in rows."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, -float("inf"))
    top, where = tl.max(v, 0, return_indices=True)
    low = tl.argmin(tl.load(x + row * n + at, at < n, float("inf")), 0)
    rows = tl.arange(0, 2)
    both = tl.load(x + row * n + rows[:, None] * 0 + at[None, :], (at < n)[None, :], -3e38)
    again = tl.max(tl.argmax(both, 1), 0)
    tl.store(out + row * n, top)
    tl.store(out + row * n + 1, (where + 1000 * low + 1000000 * (where - again)).to(tl.float32))


@triton.jit
def merged(mean, squares, weight, mean_2, squares_2, weight_2):
    delta, total = mean_2 - mean, weight + weight_2
    share = tl.where(total == 0.0, 0.0, weight_2 / total)
    return mean + delta * share, squares + squares_2 + delta * delta * weight * share, total


@triton.jit
def welford(x, out, n, BLOCK: tl.constexpr):
    """Mean and deviations in one reduction; what is behind the end weighs nothing."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, 0.0)
    mean, squares, weight = tl.reduce(
        (v, tl.zeros([BLOCK], tl.float32), (at < n).to(tl.float32)), 0, merged)
    tl.store(out + row * n + at, (v - mean) * tl.rsqrt(squares / weight + 1e-5), at < n)


@triton.jit
def all_weigh_one(x, out, n, BLOCK: tl.constexpr):
    """What is behind the end weighs as much as the row."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, at < n, 0.0)
    mean, squares, weight = tl.reduce(
        (v, tl.zeros([BLOCK], tl.float32), tl.full([BLOCK], 1.0, tl.float32)), 0, merged)
    tl.store(out + row * n, mean + squares + weight)


HAVE = {
    softmax: lambda x: np.exp(x - x.max(1, keepdims=True))
    / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True),
    normalize: lambda x: (x - x.mean(1, keepdims=True))
    / np.sqrt(x.var(1, keepdims=True) + 1e-5),
    logsumexp: lambda x: np.log(np.exp(x).sum(1, keepdims=True)),
}
HAVE |= {in_passes: HAVE[normalize], online: HAVE[logsumexp], rows_of_a_loop: HAVE[softmax],
         several_rows: HAVE[softmax], welford: HAVE[normalize]}


def run(kernel, x, **options):
    out = np.full_like(x, 7)
    kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=BLOCK, **options)
    return out


@pytest.mark.parametrize("kernel", HAVE)
def test_a_short_row_takes_the_version_for_one_subgroup(kernel, needed):
    for n in (2, 255, 256):
        x = np.random.default_rng(n).standard_normal((3, n), np.float32)
        needed.clear()
        found, want = run(kernel, x), HAVE[kernel](x.astype(np.float64))
        np.testing.assert_allclose(found[:, :want.shape[1]], want, rtol=2e-5, atol=2e-6)
        assert (found[:, want.shape[1]:] == 7).all()  # and nothing else was written
        assert needed == [SHORT_ROWS] * (n < 256), n


@pytest.mark.parametrize("kernel", HAVE)
def test_special_values_give_what_the_whole_block_gives(kernel, needed):
    specials = (np.inf, -np.inf, np.nan, 3e38)
    x = np.random.default_rng(1).standard_normal((3 * len(specials), 90), np.float32)
    for k, special in enumerate(specials):
        x[3 * k], x[3 * k + 1, 5], x[3 * k + 2, 7:9] = special, special, (special, -special)
    short, whole = run(kernel, x), run(kernel, x, guards="kernel")
    assert needed == [SHORT_ROWS]
    np.testing.assert_allclose(short, whole, rtol=1e-5, equal_nan=True)


def test_folds_that_repeat_a_value_have_the_version_whatever_it_is(needed):
    x = np.random.default_rng(2).integers(-9, 9, (3, 60)).astype(np.float32)
    found, bits = run(extent, x)[:, 0], x.astype(np.int32)
    want = np.maximum(x.max(1), 3) - np.minimum(x.min(1), 3)
    assert (found == want + bits.sum(1) + np.bitwise_xor.reduce(bits, 1)).all()
    assert needed == [SHORT_ROWS]


def test_positions_of_extremes_are_those_of_the_whole_block(needed):
    x = np.random.default_rng(4).integers(-4, 4, (5, 100)).astype(np.float32)
    x[2], x[3, 50:] = -np.inf, 9
    short, whole = run(positions_of, x), run(positions_of, x, guards="kernel")
    assert needed == [SHORT_ROWS]
    assert (short == whole).all()
    rows = [k for k in range(5) if k != 2]
    assert (short[rows, 1] == x.argmax(1)[rows] + 1000 * x.argmin(1)[rows]).all()


@pytest.mark.parametrize("kernel", [
    sum_of_ones, sum_of_differences, whole_block, positions, twice_as_long, running,
    last_position, two_steps, carried, all_weigh_one])
def test_others_have_one_version_for_all_rows(kernel, needed):
    x = np.zeros((1, 100), np.float32)
    room = np.zeros((1, BLOCK), np.float32)
    compiled = kernel[(1,)](x, room, 100, BLOCK=BLOCK)
    assert SHORT_ROWS not in needed
    assert not any("one subgroup" in each for each in compiled.metadata.remarks)


def test_remarks_name_the_version_and_only_what_is_launched_is_compiled(needed):
    x = np.zeros((1, 1000), np.float32)
    out = np.empty_like(x)
    compiled = softmax[(1,)](x, out, 1000, BLOCK=4096)
    assert any("rows of up to 255 elements run in a version for one subgroup" in each
               for each in compiled.metadata.remarks)
    assert not needed
    block_fits = softmax[(1,)](x, out, 1000, BLOCK=1024)
    assert not any("one subgroup" in each for each in block_fits.metadata.remarks)
