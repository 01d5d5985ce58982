"""Weights of few bits, unpacked as operands of products, each exactly as numpy computes it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from benchmarks import loops
from python.test.filecheck import check_text


@triton.jit
def weights(
    a_ptr, b_ptr, zeros_ptr, scales_ptr, c_ptr, K, N, group, stride_bk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BITS: tl.constexpr,
    ALONG: tl.constexpr, ZEROS: tl.constexpr, FORM: tl.constexpr,
):
    """A times weights packed along K or N, minus a number, some numbers or none, times scales."""
    PER: tl.constexpr = 32 // BITS
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + k[None, :]
    if ALONG == "n":
        b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] // PER
        shift = (columns % PER)[None, :] * BITS
    else:
        b_ptrs = b_ptr + (k[:, None] // PER) * stride_bk + columns[None, :]
        shift = (k % PER)[:, None] * BITS
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs)
        q = (tl.load(b_ptrs) >> shift) & ((1 << BITS) - 1)
        at = start // group
        if ZEROS == "columns":
            z = tl.load(zeros_ptr + at * (N // PER) + columns // PER)
            z = ((z >> ((columns % PER) * BITS)) & ((1 << BITS) - 1)) + 1
            q = q - z[None, :]
        elif ZEROS == "number":
            q = q - 2 * BITS
        scales = tl.load(scales_ptr + at * N + columns)
        if FORM == "halves":
            b = q.to(tl.float16) * scales[None, :]
        elif FORM == "fused":
            b = q * scales[None, :] - scales[None, :]
        elif FORM == "taken":
            b = scales[None, :] - q * scales[None, :]
        elif FORM == "integers":
            b = (q * scales[None, :]).to(tl.float16)
        else:
            b = (q.to(tl.float32) * scales[None, :].to(tl.float32)).to(tl.float16)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk if ALONG == "n" else (BLOCK_K // PER) * stride_bk
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


def expected(
    words: np.ndarray[Any, Any], zeros: np.ndarray[Any, Any], scales: np.ndarray[Any, Any],
    given: dict[str, Any], group: int,
) -> np.ndarray[Any, Any]:
    """The weights, rounded once to fp16."""
    bits, axis = given["BITS"], given["ALONG"] == "n"
    fields = np.arange(0, 32, bits)

    def unpacked(packed: Any, axis: int) -> Any:
        parts = (packed.view(np.uint32)[..., None] >> fields & (1 << bits) - 1).astype(np.int64)
        return parts.reshape(len(packed), -1) if axis else parts.transpose(0, 2, 1).reshape(
            -1, packed.shape[1])

    numbers = unpacked(words, int(axis))
    rows = np.arange(len(numbers)) // group
    if given["ZEROS"] == "columns":
        numbers = numbers - (unpacked(zeros, 1) + 1)[rows]
    elif given["ZEROS"] == "number":
        numbers = numbers - 2 * bits
    wide = scales.astype(np.float64)[rows]
    exact = numbers.astype(np.float64) * wide
    more = {"fused": exact - wide, "taken": wide - exact}
    return more.get(given["FORM"], exact).astype(np.float16)


def check(given: dict[str, Any], warps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits, n, k = given["BITS"], 2 * given["BLOCK_N"], 2 * given["BLOCK_K"]
    group, per = given["BLOCK_K"], 32 // bits
    shape = (k, n // per) if given["ALONG"] == "n" else (k // per, n)
    words, zeros = (rng.integers(-1 << 31, 1 << 31, size, dtype=np.int64).astype(np.int32)
                    for size in (shape, (k // group, n // per)))
    scales = (rng.standard_normal((k // group, n)) * 0.01).astype(np.float16)
    scales[0, :3] = [6e-8, 3.1e-5, 100]  # subnormal, products subnormal, large
    wanted = expected(words, zeros, scales, given, group)
    size = given["BLOCK_M"]
    for first in range(0, k, size):
        a = np.zeros((size, k), np.float16)
        a[np.arange(size), np.arange(first, first + size) % k] = 1  # picks rows of the weights
        c = np.zeros((size, n), np.float32)
        weights[(1, 2)](a, words, zeros, scales, c, k, n, group, shape[1], **given,
                        num_warps=warps)
        picked = wanted[np.arange(first, first + size) % k].astype(np.float32)
        assert np.array_equal(c, picked), (given, warps, seed)


QUICK = (0, 4, 5, 6, 7)
"""A selection of the drawn cases that has each value once; the others run with --full."""


def cases(count: int, seed: int) -> list[Any]:
    choose = random.Random(seed)
    made = []
    for i in range(count):
        given = {
            "BLOCK_M": choose.choice([16, 32, 64]), "BLOCK_N": choose.choice([32, 64, 128]),
            "BLOCK_K": choose.choice([32, 64]), "BITS": choose.choice([2, 4, 4, 4, 8]),
            "ALONG": choose.choice("nk"), "ZEROS": choose.choice(["", "number", "columns"]),
            "FORM": choose.choice(["halves", "integers", "floats", "fused", "taken"]),
        }
        made.append(pytest.param(given, choose.choice([1, 2, 4, 8]), seed + i, id=str(i),
                                 marks=() if i in QUICK else pytest.mark.slow))
    return made


@pytest.mark.sample(2)
@pytest.mark.parametrize(("given", "warps", "seed"), cases(10, 7))
def test_weights(given: dict[str, Any], warps: int, seed: int) -> None:
    check(given, warps, seed)


@triton.jit
def in_turns(
    a_ptr, b_ptr, zeros_ptr, scales_ptr, c_ptr, K, N, group, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """A times weights whose columns are in turns in the halves of words, spread by interleaving."""
    order = ((tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]).reshape(8) * 4
    shifts = tl.broadcast_to(order[None, :], (BLOCK_K * (BLOCK_N // 8), 8))
    shifts = tl.reshape(shifts, (BLOCK_K, BLOCK_N))
    words = tl.program_id(0) * (BLOCK_N // 8) + tl.arange(0, BLOCK_N // 8)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * (N // 8) + words[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=(k < K)[None, :], other=0.0)
        q = tl.load(b_ptrs, mask=(k < K)[:, None] & (words < N // 8)[None, :], other=0)
        q = tl.interleave(q, q)
        q = tl.interleave(q, q)
        q = tl.interleave(q, q)
        at = (i * BLOCK_K) // group + tl.arange(0, 1)
        inside = (at < K // group)[:, None] & (words < N // 8)[None, :]
        z = tl.load(zeros_ptr + at[:, None] * (N // 8) + words[None, :], mask=inside)
        z = tl.interleave(z, z)
        z = tl.interleave(z, z)
        z = tl.broadcast_to(tl.interleave(z, z), (BLOCK_K, BLOCK_N))
        scales = tl.load(scales_ptr + at[:, None] * N + columns[None, :])
        b = ((q >> shifts) & 15) - ((z >> shifts) & 15)
        acc = tl.dot(a, (b * tl.broadcast_to(scales, (BLOCK_K, BLOCK_N))).to(tl.float16), acc)
        k += BLOCK_K
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * (N // 8)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("size", "warps"), [((16, 32, 32), 4), ((32, 64, 32), 2)])
def test_columns_in_the_halves_of_words_in_turns(size: tuple[int, int, int], warps: int) -> None:
    m, n, k = size
    rng, blocks, rows = np.random.default_rng(n), 2, 2 * k - 8
    words, zeros = (rng.integers(-1 << 31, 1 << 31, (count, blocks * n // 8), dtype=np.int64)
                    .astype(np.int32) for count in (2 * k, 2))
    scales = (rng.standard_normal((2, blocks * n)) * 0.01).astype(np.float16)
    order = np.array([0, 16, 4, 20, 8, 24, 12, 28])
    q, z = ((w.view(np.uint32)[..., None] >> order & 15).reshape(len(w), -1).astype(np.int64)
            for w in (words, zeros))
    group = np.arange(2 * k) // k
    wanted = ((q - z[group]) * scales.astype(np.float64)[group]).astype(np.float16)
    for first in range(0, 2 * k, m):
        a, c = np.zeros((m, rows), np.float16), np.zeros((m, blocks * n), np.float32)
        inside = np.arange(first, min(first + m, rows))
        a[inside - first, inside] = 1
        made = in_turns[(blocks,)](a, words, zeros, scales, c, rows, blocks * n, k - 4, BLOCK_M=m,
                                   BLOCK_N=n, BLOCK_K=k, num_warps=warps)
        assert made.metadata.shared == 0
        assert np.array_equal(c[: len(inside)], wanted[inside].astype(np.float32))


@pytest.mark.parametrize("name", ["packed 16x128x64", "packed 64x128x64"])
def test_warps_lie_side_by_side_where_weights_are_unpacked(name: str) -> None:
    made = loops.compiled(name, "bmg")
    assert made.metadata.shared == 0
    check_text(made.asm["xetile"], "CHECK: warpsPerCTA = [1,")


@triton.jit
def experts(
    a_ptr, b_ptr, zeros_ptr, scales_ptr, token_ptr, c_ptr, K, N, tokens, stride_bn, stride_sn,
    stride_zn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, ZEROS: tl.constexpr,
):
    """Rows of A by their numbers, times weights of two fields to a byte, scaled in fp32."""
    token = tl.load(token_ptr + tl.arange(0, BLOCK_M)).to(tl.int64)
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + token[:, None] * K + k[None, :]
    b_ptrs = b_ptr + (k[:, None] // 2) + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=(token < tokens)[:, None] & (k[None, :] < K - i * BLOCK_K),
                    other=0.0)
        q = (tl.load(b_ptrs) >> ((k[:, None] % 2) * 4)) & 15
        at = (k[:, None] + BLOCK_K * i) // GROUP
        scales = tl.load(scales_ptr + columns[None, :] * stride_sn + at).to(tl.float32)
        if ZEROS:
            z = tl.load(zeros_ptr + (columns[None, :] // 2) * stride_zn + at)
            z = ((z >> ((columns[None, :] % 2) * 4)) & 15).to(tl.float32)
            b = ((q.to(tl.float32) - z) * scales).to(tl.float16)
        else:
            b = ((q.to(tl.float32) - 8) * scales).to(tl.float16)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K // 2
    at = tl.arange(0, BLOCK_M)[:, None] * N + columns[None, :]
    tl.store(c_ptr + at, acc, mask=(token < tokens)[:, None])


@pytest.mark.sample(2)
@pytest.mark.parametrize(("size", "warps", "zeros"), [
    ((64, 64, 32), 4, False), ((16, 64, 64), 4, True), ((32, 32, 32), 8, True),
    ((16, 128, 64), 4, False)])
def test_experts(size: tuple[int, int, int], warps: int, zeros: bool) -> None:
    m, n, block = size
    depth, rng = 2 * block, np.random.default_rng(m + n)
    words, packed = (rng.integers(0, 256, shape, dtype=np.uint8)
                     for shape in ((n, block), (n // 2, 2)))
    scales = (rng.standard_normal((n, 2)) * 0.01).astype(np.float16)
    scales[:3, 0] = [6e-8, 3.1e-5, 100]
    q = np.stack([words & 15, words >> 4], 2).reshape(n, depth).astype(np.int64)
    z = np.stack([packed & 15, packed >> 4], 1).reshape(n, 2).astype(np.int64)
    group = np.arange(depth) // block
    exact = (q - (z[:, group] if zeros else 8)) * scales.astype(np.float64)[:, group]
    wanted = exact.astype(np.float16).T
    a = np.eye(depth, dtype=np.float16)
    for first in range(0, depth, m):
        token = (first + rng.permutation(m)).astype(np.int32)
        token[0] = depth  # none
        c = np.zeros((m, n), np.float32)
        experts[(1,)](a, words, packed, scales, token, c, depth, n, depth, block, 2, 2, BLOCK_M=m,
                      BLOCK_N=n, BLOCK_K=block, GROUP=block, ZEROS=zeros, num_warps=warps)
        assert np.array_equal(c[1:], np.where(
            token[1:, None] < depth, wanted[np.minimum(token[1:], depth - 1)], 0))


@triton.jit
def of_loaded(x_ptr, y_ptr, w_ptr, z_ptr, n, SCALED: tl.constexpr, BLOCK: tl.constexpr):
    """A fused product, sums and differences of what is loaded, of one number, and of floats."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, i < n), tl.load(y_ptr + i, i < n)
    w = tl.load(w_ptr + i, i < n)
    z = x * 2.5 - y if SCALED else (x + y) * w - tl.load(x_ptr)
    z = tl.where(z > 0, z, z * 0.5)
    tl.store(z_ptr + i, z, i < n)


@pytest.mark.covering
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("n", [2048, 2011])
def test_what_is_loaded_in_pairs_is_computed_in_pairs(scaled: bool, n: int) -> None:
    rng = np.random.default_rng(n)
    x, y, w = (rng.standard_normal(n).astype(np.float16) for _ in range(3))
    z = np.zeros(n + 64, np.float16)
    kernel = of_loaded[(2,)](x, y, w, z, n, scaled, BLOCK=1024, num_warps=4)
    wide = [v.astype(np.float64) for v in (x, y, x[:1])]
    if scaled:
        wanted = (wide[0] * 2.5 - wide[1]).astype(np.float16)
    else:
        wanted = ((x + y).astype(np.float64) * w - wide[2]).astype(np.float16)
    wanted = np.where(wanted > 0, wanted, wanted * np.float16(0.5))
    np.testing.assert_array_equal(z[:n], wanted)
    assert not z[n:].any()
    name = "less.by_one_pairs" if scaled else "less.by_pairs_one"
    check_text(kernel.asm["llir"], f"CHECK: xe.half.{name}")
