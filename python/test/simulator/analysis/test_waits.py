"""Which kernels wait for other programs, and where."""

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis.waits import waits
from triton_xe.runtime.simulator.rewrites.polls import loops_for_polls
from triton_xe.runtime.simulator.run.kernel_module import canonical


@triton.jit
def lock(p, n):
    while tl.atomic_cas(p, 0, 1) == 1:
        pass


@triton.jit
def flag_of_a_branch(p, n):
    done = False
    while not done:
        if tl.load(p, volatile=True) > n:
            done = True


@triton.jit
def wait_in_a_loop(p, n):
    for k in range(n):
        while tl.atomic_add(p + k, 0) == 0:
            pass


@triton.jit
def wait_for_a_block(p, n):
    at = tl.arange(0, 64)
    while tl.max(tl.load(p + at, at < n, 0, volatile=True)) == 0:
        pass


@triton.jit
def poll(p, n):
    tl.atomic_poll(p, n)


@triton.jit
def histogram(p, n):
    for k in range(n):
        tl.atomic_add(p + tl.load(p + 64 + k), 1)


@triton.jit
def queue(p, n):
    item = tl.atomic_add(p, 1)
    while item < n:
        tl.store(p + 1 + item, item)
        item = tl.atomic_add(p, 1)


@triton.jit
def last_one(p, n):
    for k in range(n):
        if tl.atomic_add(p + k, 1) == n - 1:
            tl.store(p + n + k, 1)


@triton.jit
def chain(p, n):
    while n > 0:
        n = tl.load(p + n)


@triton.jit
def maximum(p, n):
    for k in range(n):
        tl.store(p + k, tl.atomic_max(p + n + k, k))


def places(kernel, warps):
    """Lines, from the kernel's first on, of what its loops wait for."""
    p = torch.zeros(1, dtype=torch.int32, device="xpu")
    text = kernel.warmup(p, 5, grid=(1,), num_warps=warps).asm["llir"]
    module = parse_module(canonical(text))
    found = waits(loops_for_polls(module.kernels()[0]), module.functions).values()
    lines = [module.location(i.line, i.debug).split(":")[-2] for i in found]
    return [int(line) - kernel.starting_line_number for line in lines]


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize(("kernel", "line"), [
    (lock, 2), (flag_of_a_branch, 4), (wait_in_a_loop, 3), (wait_for_a_block, 3), (poll, 2)])
def test_loops_that_wait(kernel, line, warps):
    assert places(kernel, warps) == [line]


@pytest.mark.covering
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("kernel", [histogram, queue, last_one, chain, maximum])
def test_loops_that_do_not(kernel, warps):
    assert places(kernel, warps) == []
