"""Blocks of a surface with a misaligned base advance in a loop, in native code too.

LLVM, which wrote the SPIR-V once, made an operand of 64 bits in 32-bit arithmetic, so that Intel's
compiler read the first block again.
"""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler
RANDOM = np.random.default_rng(7)
M, N, K, PITCH, FIRST = 64, 32, 48, 56, 4
"""Sizes of the product, elements of a row of A in memory, and of A's first in its memory."""


@triton.jit
def product(a, b, o, M, N, K, pitch, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    ms, ns = tl.arange(0, BM), tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    k = 0
    while k < K:
        ks = k + tl.arange(0, BK)
        u = tl.load(a + ms[:, None] * pitch + ks[None, :],
                    mask=(ms < M)[:, None] & (ks < K)[None, :], other=0)
        w = tl.load(b + ks[:, None] * N + ns[None, :],
                    mask=(ks < K)[:, None] & (ns < N)[None, :], other=0)
        acc = tl.dot(u, w + w, acc)
        k += BK
    tl.store(o + ms[:, None] * N + ns[None, :], acc, mask=(ms < M)[:, None] & (ns < N)[None, :])


def native(device: str, a: NDArray[np.float16], b: NDArray[np.float16]) -> NDArray[np.float32]:
    types = {"a": "*fp16", "b": "*fp16", "o": "*fp32", **dict.fromkeys(("M", "N", "K"), "i32"),
             "pitch": "i32"}
    kernel = triton.compile(
        ASTSource(product, types, {"BM": 64, "BN": 32, "BK": 16}, {(6,): [["tt.divisibility", 8]]}),
        target=GPUTarget("xpu", device, 16), options={"guards": "kernel"})
    check_text(kernel.asm["llir"], "CHECK: call {{.*}}LSC2DBlockRead")
    built = intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)
    space = AddressSpace()
    first, second, out = (space.put(array) for array in (a, b, np.zeros((M, N), np.float32)))
    program = Program.from_zebin(device, built.binary)
    arguments = [first + 2 * FIRST, second, out, M, N, K, PITCH]
    lanes = 16 * kernel.metadata.num_warps
    Launch.from_zebin(program, built.binary, space, (1, 1, 1), arguments, (lanes, 1, 1)).run()
    return space.get(out, np.dtype(np.float32), (M, N))


@pytest.mark.sample(1)
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_each_step_reads_its_own_block(device: str) -> None:
    a = RANDOM.integers(-2, 3, FIRST + M * PITCH).astype(np.float16)
    b = RANDOM.integers(-2, 3, (K, N)).astype(np.float16)
    rows = a[FIRST:].reshape(M, PITCH)[:, :K].astype(np.float32)
    np.testing.assert_array_equal(native(device, a, b), 2 * rows @ b.astype(np.float32))
