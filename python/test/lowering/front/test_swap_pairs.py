"""Sorting networks: what they write as sums of pairs are exchanges, and sorts are right."""

import numpy as np
import pytest
import triton
import triton.language as tl

from python.test.filecheck import check_text
from python.test.operations import operations


@triton.jit
def first_and_second(x, SHAPE: tl.constexpr, BITS: tl.constexpr):
    """The bits of both of each pair along a dim of 2, in both places: sums of one and a zero."""
    second = tl.arange(0, 2)[None, :, None]
    first = 1 - second
    pairs = tl.reshape(x, SHAPE).to(BITS, bitcast=True)
    one = tl.broadcast_to(tl.sum(pairs * first.to(BITS), 1)[:, None, :], SHAPE)
    two = tl.broadcast_to(tl.sum(pairs * second.to(BITS), 1)[:, None, :], SHAPE)
    return tl.reshape(one, x.shape).to(BITS), tl.reshape(two, x.shape).to(BITS)


@triton.jit
def compare_and_swap(v, at, down, BITS: tl.constexpr, HALF: tl.constexpr):
    SHAPE: tl.constexpr = [v.numel // (2 * HALF), 2, HALF]
    one, two = first_and_second(v, SHAPE, BITS)
    left, right = one.to(v.dtype, bitcast=True), two.to(v.dtype, bitcast=True)
    p, q = first_and_second(at, SHAPE, at.dtype)
    swap = ((left > right) | ((left == right) & (p > q))) != (down != 0)
    bits = v.to(BITS, bitcast=True)
    v = (bits ^ tl.where(swap, one ^ two, tl.zeros_like(bits))).to(v.dtype, bitcast=True)
    return v, at ^ tl.where(swap, p ^ q, tl.zeros_like(at))


@triton.jit
def half(SHAPE: tl.constexpr, WHOLE: tl.constexpr):
    """1 in the second half of each run of so many elements, as Inductor writes it."""
    return tl.reshape(tl.broadcast_to(tl.arange(0, 2)[None, :, None], SHAPE), WHOLE)


@triton.jit
def sort_pairs(x, out, places, ROWS: tl.constexpr, COLUMNS: tl.constexpr, LOG: tl.constexpr,
               BITS: tl.constexpr):
    """A bitonic sort of numbers, and of their places with them, as compilers write it."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    v = tl.load(x + row * COLUMNS + column)
    at = tl.broadcast_to(column.to(tl.int16), [ROWS, COLUMNS])
    for stage in tl.static_range(1, LOG + 1):
        down = half([ROWS * COLUMNS // 2 ** (stage + 1), 2, 2 ** stage], v.shape) \
            if stage < LOG else 0
        for i in tl.static_range(stage):
            v, at = compare_and_swap(v, at, down, BITS, 2 ** (stage - 1 - i))
    tl.store(out + row * COLUMNS + column, v)
    tl.store(places + row * COLUMNS + column, at)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("dtype", "rows", "columns", "warps"), [
    (np.float32, 4, 64, 4), (np.float32, 1, 128, 8), (np.int64, 2, 128, 2), (np.int32, 4, 32, 1)])
def test_numbers_are_sorted_with_their_places(dtype, rows, columns, warps):
    """With rows in one warp, and rows that are in several."""
    x = np.random.default_rng(columns).integers(-50, 50, (rows, columns)).astype(dtype)
    out, places = np.zeros_like(x), np.zeros(x.shape, np.int16)
    kernel = sort_pairs[(1,)](
        x, out, places, rows, columns, columns.bit_length() - 1,
        tl.int64 if dtype == np.int64 else tl.int32, num_warps=warps)
    wanted = np.argsort(x, axis=1, kind="stable")
    assert (places == wanted).all()
    assert (out == np.take_along_axis(x, wanted, 1)).all()
    assert not {"tt.reduce", "tt.reshape"} & {*operations(kernel.asm["xetile"])}
    if rows >= warps and dtype != np.int64:  # which is loaded in another layout
        assert kernel.metadata.shared == 0


@triton.jit
def sort_and_best(x, out, best, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    v = tl.load(x + row * COLUMNS + column)
    tl.store(out + row * COLUMNS + column, tl.flip(tl.sort(v, 1), 1))
    tl.store(best + row * 8 + tl.arange(0, 8)[None, :], tl.topk(v, 8, 1))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("dtype", "rows", "columns", "warps"), [
    (np.float16, 4, 128, 4), (np.float32, 1, 64, 8), (np.int64, 4, 32, 2), (np.int8, 16, 16, 4)])
def test_the_languages_own_sort(dtype, rows, columns, warps):
    x = np.random.default_rng(rows).integers(-99, 99, (rows, columns)).astype(dtype)
    out, best = np.zeros_like(x), np.zeros((rows, 8), dtype)
    kernel = sort_and_best[(1,)](x, out, best, rows, columns, num_warps=warps)
    wanted = -np.sort(-x.astype(np.int64), axis=1)
    assert (out == wanted).all()
    assert (best == wanted[:, :8]).all()
    reduced = operations(kernel.asm["xetile"]).count("tt.reduce")
    assert reduced == columns.bit_length() - 4  # of the best, none of the sort


@triton.jit
def other_sums(x, out, N: tl.constexpr):
    """Not one of a pair each: a sum of both, of one twice, of pairs that lie elsewhere."""
    at = tl.arange(0, N)
    v = tl.load(x + at)
    pairs = tl.reshape(v, [N // 2, 2])
    twice = pairs * (tl.arange(0, 2)[None, :] * 2)
    other = tl.reshape(v, [2, N // 2]) * tl.arange(0, 2)[:, None]
    sums = tl.sum(pairs, 1) + tl.sum(twice, 1) + tl.sum(tl.reshape(other, [N // 2, 2]), 1)
    tl.store(out + tl.arange(0, N // 2), sums)


def test_other_sums_of_pairs_stay_sums():
    x = np.random.default_rng(1).integers(-99, 99, 64).astype(np.int32)
    out = np.zeros(32, np.int32)
    kernel = other_sums[(1,)](x, out, 64)
    masked = np.where(np.arange(64) < 32, 0, x)
    assert (out == x[::2] + 3 * x[1::2] + masked[::2] + masked[1::2]).all()
    check_text(kernel.asm["xetile"], "CHECK-NOT: xe.swap")
