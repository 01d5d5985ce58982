"""Values that are needed behind barriers are read there, not made again from what they are of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from python.test.filecheck import check_text
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.host_kernel import HostKernel
from triton_xe.runtime.simulator.pipeline import translate
from triton_xe.runtime.simulator.run import jit

P = "ptr addrspace(1)"
SHARED = "@shared = internal addrspace(3) global [32 x i32] undef"
BARRIER = "call void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)"
HEAD = f"""
  %g = call i32 @_Z16get_sub_group_idv()
  %l = call i32 @_Z22get_sub_group_local_idv()
  %row = mul i32 %g, 16
  %i = add i32 %row, %l
  %other = xor i32 %i, 16
  %at = getelementptr i32, {P} %a, i32 %i
  %mine = getelementptr i32, ptr addrspace(3) @shared, i32 %i
  %theirs = getelementptr i32, ptr addrspace(3) @shared, i32 %other
  %v0 = load i32, {P} %at"""


def stages(count: int, kernel: Callable[..., str]) -> str:
    """Each keeps a sum of what the other subgroup had, with the one before."""
    body = HEAD + "".join(f"""
  store i32 %v{k}, ptr addrspace(3) %mine
  {BARRIER}
  %w{k} = load i32, ptr addrspace(3) %theirs
  %m{k} = mul i32 %w{k}, 3
  %v{k + 1} = add i32 %v{k}, %m{k}
  {BARRIER}""" for k in range(count)) + f"\n  store i32 %v{count}, {P} %at"
    return kernel(f"{P} %a", body, warps=2, other=SHARED)


def hosted(text: str) -> HostKernel:
    return translate(parse_module(text), "k", target("bmg"))


def test_the_code_of_many_barriers_grows_as_their_number(kernel: Callable[..., str]) -> None:
    ten, twenty, forty = (
        len(jit.compiled(hosted(stages(n, kernel)).text, "coroutine")) for n in (10, 20, 40))
    assert forty - twenty < 2.3 * (twenty - ten)


def test_numbers_are_the_same(run: Callable[..., None], kernel: Callable[..., str]) -> None:
    a = np.random.default_rng(0).integers(-9, 9, 32).astype(np.int32)
    expected = a.copy()
    for _ in range(12):
        expected = expected + 3 * np.roll(expected, 16)
    run(stages(12, kernel), a)
    np.testing.assert_array_equal(a, expected)


LOOP = HEAD + f"""
  br label %before
before:
  br label %again
again:
  %k = phi i32 [ 0, %before ], [ %k1, %again ]
  %v = phi i32 [ %v0, %before ], [ %v1, %again ]
  %kept = mul i32 %v, %i
  store i32 %v, ptr addrspace(3) %mine
  {BARRIER}
  %w = load i32, ptr addrspace(3) %theirs
  %u = add i32 %w, %kept
  %v1 = xor i32 %u, %v
  {BARRIER}
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, 5
  br i1 %more, label %again, label %done
done:
  %sum = add i32 %v1, %kept
  store i32 %sum, {P} %at"""


def test_a_loop_hands_on_what_its_own_pass_made(
    run: Callable[..., None], kernel: Callable[..., str]
) -> None:
    a = np.arange(32, dtype=np.int32) % 7
    v, i = a.copy(), np.arange(32, dtype=np.int32)
    for _ in range(5):
        kept = v * i
        v = (np.roll(v, 16) + kept) ^ v
    text = kernel(f"{P} %a", LOOP, warps=2, other=SHARED)
    check_text(hosted(text).text, "CHECK: freeze <16 x i32>")
    run(text, a)
    np.testing.assert_array_equal(a, v + kept)
