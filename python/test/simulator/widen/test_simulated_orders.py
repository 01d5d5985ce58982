"""Vectors in the order of memory, values recomputed after barriers, prefetches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from python.test.filecheck import check_text
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator import pipeline
from triton_xe.runtime.simulator.run import elf, jit
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, generate_for, host_cpu
from triton_xe.runtime.simulator.run.kernel_module import canonical
from triton_xe.runtime.simulator.widen.elementwise import shuffle_orders

Run = Callable[..., None]
Text = Callable[..., str]

P = "ptr addrspace(1)"
LANE = "  %lane = call i32 @_Z22get_sub_group_local_idv()\n"
GROUP = "  %g64 = call i64 @_Z12get_group_idj(i32 0)\n  %g = trunc i64 %g64 to i32\n"
BARRIER = "call void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)"

FILL = "<float 1.0, float 2.0, float 3.0, float 4.0>"
OTHER = "<float 0.5, float 0.25, float 0.5, float 8.0>"
FOUR, NEXT = "i32 0, i32 1, i32 2, i32 3", "i32 4, i32 5, i32 6, i32 7"


@pytest.fixture(autouse=True)
def _prefetches_as_on_intel() -> Iterator[None]:
    with generate_for(replace(host_cpu(), name="sapphirerapids")):
        yield


def masked_load(t: str, name: str) -> tuple[str, str]:
    """(callee, declaration) of a predicated load."""
    callee = f"llvm.genx.GenISA.PredicatedLoad.{name}.p1.{name}"
    return callee, f"declare {t} @{callee}({P}, i64, i1, {t})"


def at(lane: str, of: str, elements: int, t: str) -> str:
    """The address of a lane's elements."""
    return (f"  %i{of} = mul i32 {lane}, {elements}\n"
            f"  %p{of} = getelementptr {t}, {P} %{of}, i32 %i{of}\n")


@pytest.mark.parametrize(("t", "name", "dtype", "fill"), [
    ("<2 x half>", "v2f16", np.float16, "bitcast i32 %n to <2 x half>"),
    ("i32", "i32", np.int32, "bitcast <2 x i16> %both to i32"),
    ("<2 x i32>", "v2i32", np.int32, "bitcast <4 x i16> %four to <2 x i32>"),
], ids=["split", "joined", "regrouped"])
def test_lanes_without_memory_get_a_fill_that_is_one_cast_for_all(
    run: Run, kernel: Text, t: str, name: str, dtype: Any, fill: str
) -> None:
    callee, declaration = masked_load(t, name)
    count = 2 if t[0] == "<" else 1
    scalar = t.strip("<>").split()[-1]
    body = LANE + f"""
  %low = trunc i32 %n to i16
  %shifted = lshr i32 %n, 16
  %high = trunc i32 %shifted to i16
  %one = insertelement <2 x i16> poison, i16 %low, i32 0
  %both = insertelement <2 x i16> %one, i16 %high, i32 1
  %four = shufflevector <2 x i16> %both, <2 x i16> %both, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %fill = {fill}
  %m = icmp slt i32 %lane, 5
{at("%lane", "a", count, scalar)}{at("%lane", "b", count, scalar)}
  %x = call {t} @{callee}({P} %pa, i64 4, i1 %m, {t} %fill)
  store {t} %x, {P} %pb"""
    text = kernel(f"{P} %a, {P} %b, i32 %n", body, other=declaration)
    n = 0x3C007BFF
    a = np.arange(16 * count).astype(dtype)
    b = np.zeros_like(a)
    run(text, a, b, n, grid=(1, 1, 1))
    words = np.array([n] * (count if dtype is np.int32 else 1), np.uint32).view(dtype)
    expected = np.concatenate([a[: 5 * count], np.tile(words, 11)])
    np.testing.assert_array_equal(b.view(np.uint8), expected.view(np.uint8))


def test_vectors_keep_the_order_of_memory_where_elements_stay_in_place(
    run: Run, kernel: Text
) -> None:
    """Loads, arithmetic, parts and wholes, a loop that adds up, single elements, a scatter."""
    callee, declaration = masked_load("<4 x float>", "v4f32")
    body = LANE + f"""
  br label %loop
loop:
  %k = phi i32 [ 0, %0 ], [ %k1, %loop ]
  %sum = phi <4 x float> [ zeroinitializer, %0 ], [ %more, %loop ]
  %first = mul i32 %k, 64
  %mine = shl i32 %lane, 2
  %i = add nsw i32 %first, %mine
  %pa = getelementptr float, {P} %a, i32 %i
  %m = icmp slt i32 %i, %n
  %x = call <4 x float> @{callee}({P} %pa, i64 16, i1 %m, <4 x float> {FILL})
  %splat = insertelement <4 x i32> poison, i32 %i, i32 0
  %all = shufflevector <4 x i32> %splat, <4 x i32> poison, <4 x i32> zeroinitializer
  %index = add <4 x i32> %all, <i32 0, i32 1, i32 2, i32 3>
  %odd = and <4 x i32> %index, <i32 1, i32 1, i32 1, i32 1>
  %is = icmp eq <4 x i32> %odd, zeroinitializer
  %y = select <4 x i1> %is, <4 x float> %x, <4 x float> {OTHER}
  %more = fadd <4 x float> %sum, %y
  %k1 = add nsw i32 %k, 1
  %go = icmp slt i32 %k1, 3
  br i1 %go, label %loop, label %end
end:
  %halves = shufflevector <4 x float> %more, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %others = shufflevector <4 x float> %more, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %turned = shufflevector <2 x float> %halves, <2 x float> %others, <4 x i32> <{FOUR}>
  %wide = shufflevector <4 x float> %more, <4 x float> %turned, <8 x i32> <{FOUR}, {NEXT}>
  %e1 = extractelement <8 x float> %wide, i32 1
  %e4 = extractelement <8 x float> %wide, i32 4
  %e = fsub float %e1, %e4
{at("%lane", "b", 8, "float")}{at("%lane", "c", 3, "float")}
  store <8 x float> %wide, {P} %pb
  store float %e, {P} %pc"""
    text = kernel(f"{P} %a, {P} %b, {P} %c, i32 %n", body, other=declaration)
    a = np.random.default_rng(0).standard_normal(192).astype(np.float32)
    b, c = np.zeros(128, np.float32), np.zeros(48, np.float32)
    run(text, a, b, c, 150, grid=(1, 1, 1))
    x = np.where(np.arange(192).reshape(3, 16, 4)[:, :, :1] < 150, a.reshape(3, 16, 4),
                 np.float32([1, 2, 3, 4]))
    y = np.where(np.arange(4) % 2 == 0, x, np.float32([0.5, 0.25, 0.5, 8]))
    total = np.zeros((16, 4), np.float32) + y[0] + y[1] + y[2]
    wide = np.concatenate([total, total[:, [2, 3, 0, 1]]], 1)
    np.testing.assert_array_equal(b.reshape(16, 8), wide)
    np.testing.assert_array_equal(c[::3], wide[:, 1] - wide[:, 4])


SHUFFLES = [
    *(tuple(range(first, 8, 2)) for first in range(8)), (0, 2, 4), (2, 3), (4, 5, 6, 7), (7, 0),
    (4, 5, 6, 7, 0, 1, 2, 3), (1, 1, 3, 3, 5, 5, 7, 7), (6, 4, 2, 0), (0, 1, 4, 5)]


@pytest.mark.parametrize("narrow", [False, True])
def test_shuffles_of_vectors_in_the_order_of_memory(run: Run, kernel: Text, narrow: bool) -> None:
    """Each of them is right, also the last of every other element."""
    kind, body = ("i8" if narrow else "i32"), LANE + at("%lane", "a", 8, "i32")
    body += f"  %w = load <8 x i32>, {P} %pa\n  %x = add <8 x i32> %w, %w\n"
    body += ("  %v = trunc <8 x i32> %x to <8 x i8>\n" if narrow else
             "  %v = add <8 x i32> %x, zeroinitializer\n")
    at_most = len(SHUFFLES) * 8
    for number, indices in enumerate(SHUFFLES):
        count, chosen = len(indices), ", ".join(f"i32 {k}" for k in indices)
        vector = f"<8 x {kind}> %v"
        body += f"""  %s{number} = shufflevector {vector}, {vector}, <{count} x i32> <{chosen}>
  %i{number} = mul i32 %lane, {at_most}
  %j{number} = add i32 %i{number}, {number * 8}
  %p{number} = getelementptr {kind}, {P} %b, i32 %j{number}
  store <{count} x {kind}> %s{number}, {P} %p{number}
"""
    a = np.arange(128, dtype=np.int32)
    b = np.zeros((16, len(SHUFFLES), 8), np.int8 if narrow else np.int32)
    run(kernel(f"{P} %a, {P} %b", body), a, b, grid=(1, 1, 1))
    for number, indices in enumerate(SHUFFLES):
        np.testing.assert_array_equal(
            b[:, number, :len(indices)], (2 * a).reshape(16, 8)[:, list(indices)].astype(b.dtype))


@pytest.mark.parametrize("indices", SHUFFLES)
@pytest.mark.parametrize("group", [1, 2, 4, 8])
def test_the_order_of_a_shuffle_divides_its_elements(group: int, indices: tuple[int, ...]) -> None:
    operands, result = shuffle_orders(indices, group, 8)
    assert group % operands == 0
    assert len(indices) % result == 0


NORM = LANE + GROUP + """
  %sg = call i32 @_Z16get_sub_group_idv()
  %mine = shl i32 %lane, 2
  %own = shl i32 %sg, 6
  %i = add nsw i32 %mine, %own
  %row = mul i32 %g, %n
  %at = add nsw i32 %row, %i
  %pa = getelementptr float, {P} %a, i32 %at
  %pb = getelementptr float, {P} %b, i32 %at
  %x = load <4 x float>, {P} %pa
  %splat = insertelement <4 x i32> poison, i32 %i, i32 0
  %all = shufflevector <4 x i32> %splat, <4 x i32> poison, <4 x i32> zeroinitializer
  %index = add <4 x i32> %all, <i32 0, i32 1, i32 2, i32 3>
  %limit = insertelement <4 x i32> poison, i32 %n, i32 0
  %limits = shufflevector <4 x i32> %limit, <4 x i32> poison, <4 x i32> zeroinitializer
  %is = icmp slt <4 x i32> %index, %limits
  %y = select <4 x i1> %is, <4 x float> %x, <4 x float> zeroinitializer
  %e = extractelement <4 x float> %y, i32 3
  %top = call float @llvm.genx.GenISA.WaveAll.f32(float %e, i8 12, i1 true, i32 0)
  %slot = getelementptr float, ptr addrspace(3) @shared, i32 %sg
  store float %top, ptr addrspace(3) %slot
  {BARRIER}
  %s0 = load float, ptr addrspace(3) @shared
  %ps1 = getelementptr float, ptr addrspace(3) @shared, i32 1
  %s1 = load float, ptr addrspace(3) %ps1
  %s = fadd float %s0, %s1
  %one = insertelement <4 x float> poison, float %s, i32 0
  %every = shufflevector <4 x float> %one, <4 x float> poison, <4 x i32> zeroinitializer
  %d = fsub <4 x float> %y, %every
  {BARRIER}
  %z = select <4 x i1> %is, <4 x float> %d, <4 x float> %every
  store <4 x float> %z, {P} %pb"""


def norm_text(kernel: Text) -> str:
    other = ("@shared = internal addrspace(3) global [2 x float] undef\n"
             "declare float @llvm.genx.GenISA.WaveAll.f32(float, i8, i1, i32)")
    body = NORM.replace("{P}", P).replace("{BARRIER}", BARRIER)
    return kernel(f"{P} %a, {P} %b, i32 %n", body, warps=2, other=other)


def test_what_is_made_again_behind_a_barrier_is_the_same(run: Run, kernel: Text) -> None:
    n, groups = 120, 3
    a = np.random.default_rng(0).standard_normal(groups * n + 8).astype(np.float32)
    b = np.zeros_like(a)
    run(norm_text(kernel), a, b, n, grid=(groups, 1, 1))
    expected = np.zeros_like(a)
    for g in range(groups):
        x = a[g * n : g * n + 128]
        y = np.where(np.arange(128) < n, x, np.float32(0))
        s = y[3:64:4].max() + y[67:128:4].max()
        expected[g * n : g * n + 128] = np.where(np.arange(128) < n, y - s, s)
    np.testing.assert_array_equal(b, expected)


def host_text(text: str) -> str:
    return pipeline.translate(parse_module(canonical(text)), "k", target("bmg")).text


def test_a_barrier_keeps_no_vector_that_a_number_makes_again(kernel: Text) -> None:
    check_text(host_text(norm_text(kernel)), """
        CHECK-NOT: asm sideeffect
        CHECK: call i8 @llvm.coro.suspend
        CHECK: call i8 @llvm.coro.suspend
        CHECK: asm sideeffect
        CHECK: call i8 @llvm.coro.suspend
        """)


@pytest.mark.parametrize(("row", "asked"), [
    ("mul i32 %g, %n", True), ("add i32 %n, %n", False), ("udiv i32 %g, %n", False),
    ("mul i32 %g, %g", True),
], ids=["row-by-row", "one-place", "quotient", "square"])
def test_programs_ask_for_what_the_next_one_accesses(
    kernel: Text, row: str, asked: bool
) -> None:
    body = LANE + GROUP + f"""
  %row = {row}
  %i = add nsw i32 %row, %lane
  %pa = getelementptr float, {P} %a, i32 %i
  %pb = getelementptr float, {P} %b, i32 %i
  %x = load float, {P} %pa
  store float %x, {P} %pb"""
    text = kernel(f"{P} %a, {P} %b, i32 %n", body)
    check_text(host_text(text), """
        CHECK-COUNT-2: call void @llvm.prefetch
        CHECK-NOT: call void @llvm.prefetch
        """ if asked else "CHECK-NOT: call void @llvm.prefetch")


@pytest.mark.parametrize(("cpu", "owned"), [("sapphirerapids", 1), ("znver4", 0)])
def test_lines_of_the_next_store_stay_in_the_second_level(
    kernel: Text, cpu: str, owned: int
) -> None:
    """Asked for as what is written, they would fill the first one on AMD's CPUs."""
    body = LANE + GROUP + f"""
  %row = mul i32 %g, %n
  %i = add nsw i32 %row, %lane
  %pa = getelementptr float, {P} %a, i32 %i
  store float 0.0, {P} %pa"""
    with generate_for(HostCpu("x86_64-linux", cpu, "")):
        text = host_text(kernel(f"{P} %a, i32 %n", body))
    asked = re.findall(r"@llvm\.prefetch\.p0\([^,]+, i32 (\d), i32 2, i32 1\)", text)
    assert asked == [str(owned)]


def test_runs_of_lanes_ask_for_each_line_of_the_next_program(run: Run, kernel: Text) -> None:
    """Of 8 numbers each lane reads the first 4 and writes the last: eight lines each."""
    body = LANE + GROUP + f"""
  %row = mul i32 %g, 128
  %own = mul i32 %lane, 8
  %i = add nsw i32 %row, %own
  %pa = getelementptr float, {P} %a, i32 %i
  %j = add nsw i32 %i, 4
  %pb = getelementptr float, {P} %b, i32 %j
  %x = load <4 x float>, {P} %pa, align 16
  store <4 x float> %x, {P} %pb, align 16"""
    text = kernel(f"{P} %a, {P} %b", body)
    for writes in (0, 1):
        check_text(host_text(text), f"""
            CHECK-COUNT-8: call void @llvm.prefetch.p0({{{{.*}}}}i32 {writes}, i32 2, i32 1)
            CHECK-NOT: i32 {writes}, i32 2, i32 1)
            """)
    a = np.arange(256, dtype=np.float32)
    b = np.zeros_like(a)
    run(text, a, b, grid=(2, 1, 1))
    np.testing.assert_array_equal(b.reshape(-1, 2, 4)[:, 1], a.reshape(-1, 2, 4)[:, 0])
    assert not b.reshape(-1, 2, 4)[:, 0].any()


def test_parts_of_a_mask_are_made_in_the_order_of_memory(run: Run, kernel: Text) -> None:
    """One comparison for 8 elements of a lane, which masks two accesses of 4."""
    eight = "".join(f"  %m{k} = extractelement <8 x i1> %m, i32 {k}\n" for k in range(8))
    callee, declaration = masked_load("float", "f32")
    loads = "".join(f"""  %p{k} = getelementptr i8, {P} %pa, i64 {4 * k % 16 + 256 * (k // 4)}
  %x{k} = call float @{callee}({P} %p{k}, i64 4, i1 %m{k}, float 0.0)
""" for k in range(8))
    stores = "".join(f"""  %q{k} = getelementptr i8, {P} %pb, i64 {4 * k % 16 + 256 * (k // 4)}
  store float %x{k}, {P} %q{k}
""" for k in range(8))
    ones = ", ".join(f"i32 {k % 4 + 64 * (k // 4)}" for k in range(8))
    body = LANE + f"""
  %i = mul i32 %lane, 4
  %pa = getelementptr float, {P} %a, i32 %i
  %pb = getelementptr float, {P} %b, i32 %i
  %one = insertelement <8 x i32> poison, i32 %i, i32 0
  %all = shufflevector <8 x i32> %one, <8 x i32> %one, <8 x i32> zeroinitializer
  %at = add <8 x i32> %all, <{ones}>
  %end = insertelement <8 x i32> poison, i32 %n, i32 0
  %ends = shufflevector <8 x i32> %end, <8 x i32> %end, <8 x i32> zeroinitializer
  %m = icmp slt <8 x i32> %at, %ends
{eight}{loads}{stores}"""
    text = kernel(f"{P} %a, {P} %b, i32 %n", body, other=declaration)
    check_text(host_text(text), "CHECK-NOT: shufflevector {{.*}}x i1>")
    a = np.arange(1, 129, dtype=np.float32)
    for n in (0, 3, 66, 101, 128):
        b = np.full_like(a, -1)
        run(text, a, b, n, grid=(1, 1, 1))
        np.testing.assert_array_equal(b, np.where(np.arange(128) < n, a, 0))


def test_nothing_is_asked_for_at_addresses_of_loops_and_of_long_sums(kernel: Text) -> None:
    steps = "".join(f"  %s{k + 1} = add nsw i32 %s{k}, %g\n" for k in range(2000))
    body = LANE + GROUP + f"""
  br label %first
first:
  br label %again
again:
  %pa = phi {P} [ %a, %first ], [ %next, %again ]
  %next = getelementptr float, {P} %pa, i32 %g
  %c = icmp slt i32 %g, %n
  br i1 %c, label %again, label %end
end:
  %x = load float, {P} %pa
  %s0 = add nsw i32 %g, %lane
{steps}  %pb = getelementptr float, {P} %b, i32 %s2000
  store float %x, {P} %pb"""
    text = kernel(f"{P} %a, {P} %b, i32 %n", body)
    check_text(host_text(text), "CHECK-NOT: call void @llvm.prefetch")


@pytest.mark.parametrize(("first", "step"), [("0", "%k, 16"), ("%g", "%k, 16"), ("0", "%k, %g")])
def test_nothing_is_asked_for_in_loops(kernel: Text, first: str, step: str) -> None:
    body = LANE + GROUP + f"""
  %row = mul i32 %g, %n
  br label %again
again:
  %k = phi i32 [ {first}, %0 ], [ %more, %again ]
  %in = add nsw i32 %row, %k
  %i = add nsw i32 %in, %lane
  %pa = getelementptr float, {P} %a, i32 %i
  %x = load float, {P} %pa
  store float %x, {P} %pa
  %more = add nsw i32 {step}
  %c = icmp slt i32 %more, 48
  br i1 %c, label %again, label %end
end:"""
    text = kernel(f"{P} %a, i32 %n", body)
    check_text(host_text(text), "CHECK-NOT: call void @llvm.prefetch")


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_fp32_from_half_need_no_library(kernel: Text, run: Run, name: str) -> None:
    """NaN gives way to numbers; LLVM would call the C library for each element."""
    callee = f"llvm.{name}num.v4f32"
    body = LANE + at("%lane", "a", 4, "half") + at("%lane", "b", 4, "half") + f"""
{at("%lane", "c", 4, "float")}
  %x = load <4 x half>, {P} %pa
  %y = load <4 x half>, {P} %pb
  %u = fpext <4 x half> %x to <4 x float>
  %v = fpext <4 x half> %y to <4 x float>
  %m = call <4 x float> @{callee}(<4 x float> %u, <4 x float> %v)
  store <4 x float> %m, {P} %pc"""
    text = kernel(f"{P} %a, {P} %b, {P} %c", body,
                  other=f"declare <4 x float> @{callee}(<4 x float>, <4 x float>)")
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 64)).astype(np.float16)
    a[:8], b[4:12] = np.nan, np.nan
    c = np.zeros(64, np.float32)
    run(text, a, b, c)
    np.testing.assert_array_equal(c, (np.fmax if name == "max" else np.fmin)(a, b))
    object_code = jit.compile_object(host_text(text), "kernel")
    assert not elf.undefined_names(object_code)
