"""Nested loops with a step that `flatten=True` joins: their numbers of steps are rounded up."""

import numpy as np
import pytest
import triton
import triton.language as tl

from python.test.gemm.pairwise import settings
from python.test.operations import operations


@triton.jit
def nested(x, o, low, n, m, STEP: tl.constexpr, INNER: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.load(x + i)
    for a in tl.range(low, n, STEP, flatten=True):
        inner = total
        for b in range(0, m, INNER):
            inner += tl.load(x + i) * (a + b)
        total = inner
    tl.store(o + i, total)


@triton.jit
def rows(x, o, n, m, S: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    for a in tl.range(0, n, S, flatten=True):
        total = tl.zeros((N,), tl.int32)
        for b in range(0, m, S):
            total += tl.load(x + b * N + i, mask=b + i < m, other=0)
        tl.store(o + a * N + i, total)


@triton.jit
def stepped(x, o, n, m, step, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.load(x + i)
    for a in tl.range(0, n, step, flatten=True):
        for b in range(0, m, step):
            total += a - b
    tl.store(o + i, total)


BOUNDS = [(0, 4, 7), (0, 5, 1), (0, 0, 3), (0, 1, 0), (0, 7, 9), (-9, 4, 5), (-9, -2, 8),
          (3, -5, 4), (-4, 5, -3)]


@pytest.mark.parametrize(*settings(
    sanitize=(False, True), steps=((2, 3), (1, 4), (5, 1), (3, 2)), strength=1, in_turns=True))
def test_any_bounds_run_as_many_steps(steps, sanitize):
    x = np.arange(64, dtype=np.int32)
    for low, n, m in BOUNDS:
        found, wanted = np.zeros_like(x), x.copy()
        for a in range(low, n, steps[0]):
            for b in range(0, m, steps[1]):
                wanted += x * (a + b)
        nested[(1,)](x, found, low, n, m, *steps, 64, sanitize=sanitize)
        assert found.tolist() == wanted.tolist(), (low, n, m)


def test_the_quotient_that_rounds_up_is_that_of_triton():
    """The pass that joins the loops writes the operation that this file is about."""
    x = np.arange(64, dtype=np.int32)
    kernel = nested[(1,)](x, np.zeros_like(x), 0, 4, 7, 2, 3, 64)
    assert "arith.ceildivsi" in operations(kernel.asm["ttgir"])


def test_loads_and_stores_between_the_loops():
    n, m, size = 7, 10, 32
    x = np.arange(m * size, dtype=np.int32)
    found = np.full(8 * size, -1, np.int32)
    wanted = found.copy()
    for a in range(0, n, 3):
        inside = [np.where(b + np.arange(size) < m, x[b * size:(b + 1) * size], 0)
                  for b in range(0, m, 3)]
        wanted[a * size:(a + 1) * size] = sum(inside)
    rows[(1,)](x, found, n, m, 3, size)
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("step", [2, 3, 16])
def test_a_step_that_is_an_argument(step):
    x = np.arange(16, dtype=np.int32)
    for n, m in ((5, 9), (0, 4), (33, 17)):
        found = np.zeros_like(x)
        stepped[(1,)](x, found, n, m, step, 16)
        total = sum(a - b for a in range(0, n, step) for b in range(0, m, step))
        assert found.tolist() == (x + total).tolist()
