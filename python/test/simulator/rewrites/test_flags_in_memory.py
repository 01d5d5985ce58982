"""Flags that a subgroup keeps are all there again, also where only some of them are needed."""

import numpy as np
import pytest
import triton
import triton.language as tl

from python.test.filecheck import check_text
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.rewrites.flags_in_memory import flags_in_memory

KEPT = """
define void @k(ptr %p, <8 x i32> %a, <8 x i32> %b) {
entry:
  %m = icmp slt <8 x i32> %a, %b
  store <8 x i1> %m, ptr %p, align 64
  %n = load <8 x i1>, ptr %p, align 64
  %x = select <8 x i1> %n, <8 x i32> %a, <8 x i32> %b
  store <8 x i32> %x, ptr %p, align 64
  ret void
}
"""


def test_flags_are_bytes_in_memory() -> None:
    function, = parse_module(KEPT).functions.values()
    check_text(print_module([flags_in_memory(function)], []), """
        CHECK: %[[BYTES:.*]] = sext <8 x i1> %m to <8 x i8>
        CHECK-NEXT: store <8 x i8> %[[BYTES]]
        CHECK: %[[KEPT:.*]] = load <8 x i8>
        CHECK: icmp slt <8 x i8> %[[KEPT]]
        CHECK-NOT: {{load|store}} <8 x i1>
        """)


def test_memory_of_flags_has_room_for_bytes() -> None:
    text = KEPT.replace("(ptr %p, ", "(").replace(
        "entry:", "entry:\n  %p = alloca <8 x i1>, align 64")
    function, = parse_module(text).functions.values()
    check_text(print_module([flags_in_memory(function)], []),
               "CHECK: %p = alloca <8 x i8>, align 64")


@triton.jit
def product_kernel(a, b, o, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    ms = tl.program_id(0) * BM + tl.arange(0, BM)
    ns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        u = tl.load(a + (ms % M)[:, None] + ks[None, :] * M, (ks < K)[None, :], other=0)
        w = tl.load(b + ks[:, None] * N + (ns % N)[None, :], (ks < K)[:, None], other=0)
        acc = tl.dot(u, w, acc)
    inside = (ms < M)[:, None] & (ns < N)[None, :]
    tl.store(o + ms[:, None] * N + ns[None, :], acc, inside)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("m", "n", "k"), [(100, 110, 122), (194, 110, 61)])
def test_masks_of_rows_behind_a_barrier(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((k, m), (k, n)))
    o = np.zeros((m, n), np.float32)
    grid = triton.cdiv(m, 128), triton.cdiv(n, 64)
    product_kernel[grid](a, b, o, m, n, k, 128, 64, 32, num_warps=2)
    np.testing.assert_array_equal(o, a.T.astype(np.float32) @ b.astype(np.float32))
