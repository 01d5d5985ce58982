"""Sums of fp16 in global memory: one message on Xe3P, a loop of compare-and-swap elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl

from python.test.operations import instructions
from triton_xe.hardware.target import target
from triton_xe.runtime.opening import get, open_device, put
from triton_xe.tools.commands.compile import compile_kernel


@triton.jit
def add(out, x, old, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_add(out + i, tl.load(x + i), mask=i != 3))


@pytest.mark.parametrize("device", ["cri", "nvl-p", "ptl"])
def test_sums_are_rounded_once(device: str) -> None:
    kernel = compile_kernel(add, "out=*fp16:16 x=*fp16:16 old=*fp16:16 N=64", device,
                            {"num_warps": 1})
    found = instructions(kernel.asm["llir"], helpers=True)
    assert ("atomicrmw" in found) == target(device).has_16_bit_atomics
    random = np.random.default_rng(5)
    start, x = (random.standard_normal(64).astype(np.float16) for _ in range(2))
    start[:3], x[:3] = [6e-8, 65504, np.inf], [6e-8, 65504, 1]
    opened = open_device(f"sim:{device}")
    buffers = [put(opened, each) for each in (start, x, np.zeros(64, np.float16))]
    built = opened.load(kernel.asm["spv"], kernel.name, build_flags=kernel.metadata.build_flags)
    opened.launch(built, (1, 1, 1), [each.pointer for each in buffers])
    with np.errstate(over="ignore"):
        wanted = np.where(np.arange(64) != 3, start + x, start)
    np.testing.assert_array_equal(get(opened, buffers[0], (64,), np.float16), wanted)
    before = np.where(np.arange(64) != 3, start, np.float16(0))
    np.testing.assert_array_equal(get(opened, buffers[2], (64,), np.float16), before)
