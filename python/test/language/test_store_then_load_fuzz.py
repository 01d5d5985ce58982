"""Programs load what they stored, over sizes of subgroups, numbers of warps, and layouts.

Elements are stored in one order and loaded in another, each order giving the access a layout of
its own.  A case is drawn from its seed alone.
"""

import random

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

CASES = 40
QUICK = 16
"""Cases of the ordinary run."""
DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64)


@triton.jit
def index(ROWS: tl.constexpr, COLUMNS: tl.constexpr, FACTOR: tl.constexpr, SHIFT: tl.constexpr):
    """A permutation of all elements, in the shape of a matrix."""
    i = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    if FACTOR == 0:
        i = tl.arange(0, ROWS)[:, None] + tl.arange(0, COLUMNS)[None, :] * ROWS
    elif FACTOR == -1:
        i = ROWS * COLUMNS - 1 - i
    elif FACTOR != 1:
        i = i * FACTOR % (ROWS * COLUMNS)
    if SHIFT != 0:
        i = (i + SHIFT) % (ROWS * COLUMNS)
    return i


@triton.jit
def straight(s, order, out, steps, STORE: tl.constexpr, LOAD: tl.constexpr):
    at, to = index(*STORE), index(*LOAD)
    tl.store(s + at, at * 3 + 1)
    tl.store(out + to, tl.load(s + to))


@triton.jit
def loop(s, order, out, steps, STORE: tl.constexpr, LOAD: tl.constexpr):
    at, to = index(*STORE), index(*LOAD)
    total = tl.zeros_like(to)
    for step in range(steps):
        tl.store(s + at, at * 3 + step)
        total += tl.load(s + to).to(tl.int32)
        tl.debug_barrier()  # what a step loads is not stored before by the next one
    tl.store(out + to, total)


@triton.jit
def branch(s, order, out, steps, STORE: tl.constexpr, LOAD: tl.constexpr):
    at, to = index(*STORE), index(*LOAD)
    if steps > 1:
        tl.store(s + at, at * 3 + 1)
    if steps > 2:
        tl.store(out + to, tl.load(s + to))


@triton.jit
def early_end(s, order, out, steps, STORE: tl.constexpr, LOAD: tl.constexpr):
    """The path that is not taken has the barrier of its own."""
    at, to = index(*STORE), index(*LOAD)
    tl.store(s + at, at * 3 + 1)
    if steps < 0:
        tl.store(out + to, tl.load(s + to) + 1)
        return
    tl.store(out + to, tl.load(s + to))


@triton.jit
def scatter(s, order, out, steps, STORE: tl.constexpr, LOAD: tl.constexpr):
    """Stored at coordinates that are read from memory."""
    at, to = index(*STORE), index(*LOAD)
    tl.store(s + tl.load(order + at), at * 3 + 1)
    tl.store(out + to, tl.load(s + to))


@triton.jit
def gather(s, order, out, steps, STORE: tl.constexpr, LOAD: tl.constexpr):
    at, to = index(*STORE), index(*LOAD)
    tl.store(s + at, at * 3 + 1)
    tl.store(out + to, tl.load(s + tl.load(order + to)))


@triton.jit
def update(s, order, out, steps, STORE: tl.constexpr, LOAD: tl.constexpr):
    """What is stored is taken by atomics."""
    at, to = index(*STORE), index(*LOAD)
    tl.store(s + at, at * 3 + 1)
    tl.store(out + to, tl.atomic_xchg(s + to, to, sem="relaxed"))


KERNELS = (straight, loop, branch, early_end, scatter, gather, update)


def drawn(seed):
    """Kernel, options, element type, size, and the two orders of a case."""
    draw = random.Random(seed)
    size = 1 << draw.randint(6, 12)

    def order():
        rows = 1 << draw.randint(0, size.bit_length() - 1)
        factor = draw.choice((1, 1, -1, 0, 5, 2 * draw.randrange(size // 2) + 1))
        return rows, size // rows, factor, draw.choice((0, 0, 1, 16, draw.randrange(size)))

    kernel = draw.choice(KERNELS)
    dtype = draw.choice(DTYPES[2:] if kernel is update else DTYPES)
    options = {"num_warps": 1 << draw.randint(0, 5), "warp_size": draw.choice((16, 32))}
    return kernel, options, dtype, size, order(), order()


def expected(kernel, dtype, size, permutation):
    """`out` of a case: what was stored at i is a function of i."""
    i = np.arange(size)
    if kernel is scatter:
        i = np.argsort(permutation)
    if kernel is gather:
        i = permutation
    stored = sum((i * 3 + step).astype(f"i{dtype.itemsize}").astype(int) for step in range(3)) if (
        kernel is loop) else i * 3 + 1
    return torch.from_numpy(stored).to(dtype)


@pytest.mark.sample(6)
@pytest.mark.since_triton(3, 8)
@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=() if seed < QUICK else pytest.mark.slow) for seed in range(CASES)])
def test_loads_see_what_any_warp_stored(seed):
    kernel, options, dtype, size, store, load = drawn(seed)
    permutation = np.random.default_rng(seed).permutation(size)
    order = torch.from_numpy(permutation.astype(np.int32)).to("xpu")
    s, out = (torch.zeros(size, dtype=dtype, device="xpu") for _ in range(2))
    kernel[(1,)](s, order, out, 3, store, load, **options)
    assert torch.equal(out.cpu(), expected(kernel, dtype, size, permutation))


@pytest.mark.since_triton(3, 8)
@pytest.mark.parametrize("warp_size", [16, 32])
def test_a_row_in_reverse(warp_size):
    s, out = (torch.zeros(1024, dtype=torch.int32, device="xpu") for _ in range(2))
    row, reverse = (1, 1024, 1, 0), (1, 1024, -1, 0)
    straight[(1,)](s, s, out, 1, row, reverse, num_warps=8, warp_size=warp_size)
    assert torch.equal(out.cpu(), torch.arange(1024, dtype=torch.int32) * 3 + 1)
