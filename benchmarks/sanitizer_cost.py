"""Cost of the simulator's checks: `python -m benchmarks.sanitizer_cost`.

Checked launches run on one thread, so both sides do.  Times are CPU times without compile time.
The sides take turns, and the best run of each counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

from benchmarks.simulator_speed import layer_norm, seconds
from examples import matmul, softmax, vector_add

TURNS = 31


@triton.jit
def histogram_kernel(x, counts, BLOCK: tl.constexpr, ORDER: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + i), 1, sem=ORDER)


@triton.jit
def scatter_kernel(x, places, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(places + i), tl.load(x + i))


@triton.jit
def maximum_kernel(x, places, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(out + tl.load(places + i), tl.load(x + i))


@triton.jit
def locked_kernel(x, out, locks, LOCKS: tl.constexpr, BLOCK: tl.constexpr):
    """Add a block to one of several sums, each guarded by a spin lock."""
    program = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + program * BLOCK + i)
    lock, place = locks + program % LOCKS, out + program % LOCKS * BLOCK + i
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(place, tl.load(place) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def last_kernel(x, parts, out, ticket, BLOCK: tl.constexpr):
    """Sum an array: the last program to finish adds the partial sums of all."""
    program, count = tl.program_id(0), tl.num_programs(0)
    i = tl.arange(0, BLOCK)
    tl.store(parts + program, tl.sum(tl.load(x + program * BLOCK + i)))
    tl.debug_barrier()
    if tl.atomic_add(ticket, 1) % count == count - 1:
        total = tl.zeros((BLOCK,), tl.float32)
        for k in range(0, count, BLOCK):
            total += tl.load(parts + k + i)
        tl.store(out, tl.sum(total))


@triton.jit
def queue_kernel(x, y, ticket, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    k = tl.atomic_add(ticket, 1)
    while k < COUNT:
        tl.store(y + k * BLOCK + i, tl.load(x + k * BLOCK + i) * 2)
        k = tl.atomic_add(ticket, 1)


@triton.jit
def split_k_kernel(a, b, c, K, BLOCK: tl.constexpr, STEP: tl.constexpr, PARTS: tl.constexpr):
    """Multiply matrices; programs for parts of K add their results by atomics."""
    i = tl.arange(0, BLOCK)
    m, n = tl.program_id(0) * BLOCK + i, tl.program_id(1) * BLOCK + i
    k = tl.program_id(2) * STEP + tl.arange(0, STEP)
    N = tl.num_programs(1) * BLOCK
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, K, STEP * PARTS):
        left = tl.load(a + m[:, None] * K + first + k[None, :])
        total = tl.dot(left, tl.load(b + (first + k)[:, None] * N + n[None, :]), total)
    tl.atomic_add(c + m[:, None] * N + n[None, :], total)


@triton.jit
def adam_kernel(weights, grads, means, squares, rate, N, BLOCK: tl.constexpr):
    """One step of the Adam optimizer."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    grad = tl.load(grads + i, inside)
    mean = tl.load(means + i, inside) * 0.9 + grad * 0.1
    square = tl.load(squares + i, inside) * 0.999 + grad * grad * 0.001
    weight = tl.load(weights + i, inside) - rate * mean / (tl.sqrt(square) + 1e-8)
    tl.store(means + i, mean, inside)
    tl.store(squares + i, square, inside)
    tl.store(weights + i, weight, inside)


@triton.jit
def rotary_kernel(x, y, cosines, sines, HEADS: tl.constexpr, SIZE: tl.constexpr):
    """Rotate pairs of neighbours, for each token."""
    head, k = tl.arange(0, HEADS), tl.arange(0, SIZE // 2)
    place = tl.program_id(0) * SIZE // 2 + k
    cosine, sine = tl.load(cosines + place)[None, :], tl.load(sines + place)[None, :]
    at = (tl.program_id(0) * HEADS + head[:, None]) * SIZE + 2 * k[None, :]
    first = tl.load(x + at)
    second = tl.load(x + at + 1)
    tl.store(y + at, first * cosine - second * sine)
    tl.store(y + at + 1, first * sine + second * cosine)


@triton.jit
def records_kernel(x, FIELDS: tl.constexpr, BLOCK: tl.constexpr):
    """Update each field of each record in place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for field in tl.static_range(FIELDS):
        at = x + i * FIELDS + field
        tl.store(at, tl.load(at) * 2 + field)


@triton.jit
def permute_kernel(x, places, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + tl.load(places + i), tl.load(x + i))


@triton.jit
def permute_rows_kernel(x, places, y, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row, inside = tl.program_id(0) * N, i < N
    tl.store(y + row + tl.load(places + row + i, inside), tl.load(x + row + i, inside), inside)


@triton.jit
def add_norm_kernel(x, rest, weight, N, BLOCK: tl.constexpr):
    """The sum, and its RMS norm, which overwrites the addend."""
    i = tl.arange(0, BLOCK)
    inside, at = i < N, tl.program_id(0) * N + i
    total = tl.load(x + at, inside, 0).to(tl.float32) + tl.load(rest + at, inside, 0)
    tl.store(rest + at, total / 2, inside)
    scale = tl.rsqrt(tl.sum(total * total) / N + 1e-6)
    tl.store(x + at, total * scale * tl.load(weight + i, inside, 0), inside)


@triton.jit
def paged_kernel(q, keys, values, pages, y, COUNT, PAGE: tl.constexpr, SIZE: tl.constexpr):
    """Attention of one token to the tokens of its pages."""
    row, i, k = tl.program_id(0), tl.arange(0, SIZE), tl.arange(0, PAGE)
    query = tl.load(q + row * SIZE + i).to(tl.float32)
    most, weight, total = float("-inf"), 0.0, tl.zeros((SIZE,), tl.float32)
    for page in range(COUNT):
        token = tl.load(pages + row * COUNT + page) * PAGE + k
        at = token[:, None] * SIZE + i[None, :]
        score = tl.sum(tl.load(keys + at).to(tl.float32) * query[None, :], 1)
        before, most = most, tl.maximum(most, tl.max(score))
        old, part = tl.exp(before - most), tl.exp(score - most)
        total = total * old + tl.sum(part[:, None] * tl.load(values + at).to(tl.float32), 0)
        weight = weight * old + tl.sum(part)
    tl.store(y + row * SIZE + i, total / weight)


def in_parts() -> dict[str, Callable[[], object]]:
    """Kernels that access parts of cache lines, or whose blocks do not divide the size."""
    odd = (1 << 20) - 7
    states = [torch.rand(odd, device="xpu") for _ in range(4)]
    rows = torch.randn(500, 1000, device="xpu")
    q, turned = (torch.randn(512, 16, 64, device="xpu") for _ in range(2))
    angles = torch.randn(512, 32, device="xpu")
    odd_rows = torch.randn(500, 1001).half().to("xpu")
    records = torch.randn(3 << 16, device="xpu")
    places = torch.randperm(1 << 18).to(torch.int32).to("xpu")
    long, moved = (torch.randn(1 << 18, device="xpu") for _ in range(2))
    halves, small = long.half(), long.to(torch.int8)
    halves_moved, small_moved = torch.zeros_like(halves), torch.zeros_like(small)
    in_rows = torch.rand(256, 1000).argsort(1).to(torch.int32).to("xpu")
    added, rest = (torch.randn(256, 1000, device="xpu", dtype=torch.float16) for _ in range(2))
    scales = torch.rand(1000).half().to("xpu")
    keys, values = (torch.randn(1 << 21, device="xpu", dtype=torch.float16) for _ in range(2))
    query, attended = (torch.randn(64, 64, device="xpu", dtype=torch.float16) for _ in range(2))
    pages = torch.randperm(64 * 32).to(torch.int32).to("xpu")
    return {
        "softmax 500 x 1000 fp32": lambda: softmax.softmax(rows),
        "Adam 1M - 7 fp32": lambda: adam_kernel[(1024,)](*states, 1e-3, odd, 1024),
        "rotary pairs 512 x 16 x 64": lambda: rotary_kernel[(512,)](
            q, turned, angles, angles, 16, 64),
        "rotary pairs in place": lambda: rotary_kernel[(512,)](q, q, angles, angles, 16, 64),
        "softmax 500 x 1001 fp16": lambda: softmax.softmax(odd_rows),
        "records of 3 in place": lambda: records_kernel[(256,)](records, 3, 256),
        "permutation of 256K fp32": lambda: permute_kernel[(1024,)](long, places, moved, 256),
        "permutation of 256K fp16": lambda: permute_kernel[(1024,)](
            halves, places, halves_moved, 256),
        "permutation of 256K int8": lambda: permute_kernel[(1024,)](
            small, places, small_moved, 256),
        **{f"permutations of rows of 1000, {name}": partial(
            permute_rows_kernel[(256,)], x, in_rows, y, 1000, 1024) for name, x, y in (
            ("fp32", long, moved), ("fp16", halves, halves_moved), ("int8", small, small_moved))},
        "add, RMS norm in place fp16": lambda: add_norm_kernel[(256,)](
            added, rest, scales, 1000, 1024),
        "paged attention, pages of 16": lambda: paged_kernel[(64,)](
            query, keys, values, pages, attended, 32, 16, 64),
    }


def atomics() -> dict[str, Callable[[], object]]:
    """Kernels that consist mostly of atomics, acquiring and releasing unless relaxed."""
    programs, block = 4096, 256
    length = programs * block
    x, y = torch.randn(length, device="xpu"), torch.empty(length, device="xpu")
    whole = (x * 1e6).to(torch.int32)
    bins, places = (torch.randint(0, n, (length,), dtype=torch.int32).to("xpu")
                    for n in (256, 1 << 16))
    counts, ticket, locks = (torch.zeros(n, dtype=torch.int32, device="xpu")
                             for n in (1 << 16, 1, 64))
    sums = torch.zeros(1 << 16, device="xpu")
    a, b = (torch.randn(n, device="xpu", dtype=torch.float16) for n in (256 * 2048, 2048 * 256))
    grid = (programs,)

    def queue() -> None:
        ticket.zero_()
        queue_kernel[(8,)](x, y, ticket, programs, block)

    return {
        "histogram, 256 bins": lambda: histogram_kernel[grid](bins, counts, block, "acq_rel"),
        "histogram, 256 bins, relaxed": lambda: histogram_kernel[grid](
            bins, counts, block, "relaxed"),
        "histogram, 65536 bins": lambda: histogram_kernel[grid](places, counts, block, "acq_rel"),
        "sums at 65536 addresses": lambda: scatter_kernel[grid](x, places, sums, block),
        "maxima at 65536 addresses, int32": lambda: maximum_kernel[grid](
            whole, places, counts, block),
        "maxima at 65536 addresses, fp32": lambda: maximum_kernel[grid](x, places, sums, block),
        "sums under one lock": lambda: locked_kernel[grid](x, sums, locks, 1, block),
        "sums under 64 locks": lambda: locked_kernel[grid](x, sums, locks, 64, block),
        "sum by the last program": lambda: last_kernel[grid](x, y, sums, ticket, block),
        "queue of 4096, 8 programs": queue,
        "split k in 16, 64x64x32": lambda: split_k_kernel[(4, 4, 16)](
            a, b, sums, 2048, 64, 32, 16),
    }


def works() -> dict[str, Callable[[], object]]:
    """The measured kernels: about a tenth of a second each with checks."""
    a, b = (torch.randn(512, 512, device="xpu", dtype=torch.float16) for _ in range(2))
    x = torch.randn(512, 1024, device="xpu")
    weight, bias = torch.randn(1024, device="xpu"), x[0].clone()
    long = torch.randn(1 << 20, device="xpu")
    return {
        "matmul fp16 512, 128x128x32": lambda: matmul.matmul(a, b, num_warps=8),
        "softmax 512 x 1024 fp32": lambda: softmax.softmax(x),
        "layer norm 512 x 1024 fp32": lambda: layer_norm(x, weight, bias),
        "vector add 1M fp32": lambda: vector_add.add(long, long),
        **in_parts(),
        **atomics(),
    }


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """Best seconds without and with the checks."""
    best = {"0": float("inf"), "1": float("inf")}
    for turn in range(TURNS + 1):
        for checks in best:
            os.environ["TRITON_XE_SANITIZE"] = checks
            before = time.process_time()
            seconds(work, 1)
            if turn:
                best[checks] = min(best[checks], time.process_time() - before)
    os.environ["TRITON_XE_SANITIZE"] = "0"
    return best["0"], best["1"]


def main() -> None:
    print(f"{'work':34s} {'plain ms':>9s} {'checked ms':>11s} {'times':>6s}")
    for name, work in works().items():
        plain, checked = cost(work)
        print(f"{name:34s} {plain * 1e3:9.2f} {checked * 1e3:11.2f} {checked / plain:6.1f}",
              flush=True)


if __name__ == "__main__":
    main()
