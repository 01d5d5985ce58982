"""Blocks with rows of less than a subgroup, a pitch apart that the launch knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from python.test.filecheck import check_text
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator import pipeline
from triton_xe.runtime.simulator.run.kernel_module import canonical

Run = Callable[..., None]
Text = Callable[..., str]

P = "ptr addrspace(1)"


def element_address(name: str, of: str, elements: int, t: str) -> str:
    """Where a lane's elements are: two rows of eight lanes, `%n` elements from row to row."""
    return f"""
  %c{name} = mul i32 %column, {elements}
  %i{name} = add nsw i32 %start, %c{name}
  %{name} = getelementptr {t}, {P} %{of}, i32 %i{name}"""


def rows_kernel(kernel: Text, t: str, name: str, elements: int, masked: bool) -> str:
    scalar = t.strip("<>").split()[-1]
    load, store = (f"llvm.genx.GenISA.Predicated{what}.{names}" for what, names in (
        ("Load", f"{name}.p1.{name}"), ("Store", f"p1.{name}")))
    move = f"""
  %x = load {t}, {P} %p, align 2
  store {t} %x, {P} %q, align 2""" if not masked else f"""
  %m = icmp slt i32 %lane, %some
  %x = call {t} @{load}({P} %p, i64 2, i1 %m, {t} zeroinitializer)
  %late = icmp sge i32 %lane, %late_from
  call void @{store}({P} %q, {t} %x, i64 2, i1 %late)"""
    body = f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %row = lshr i32 %lane, 3
  %column = and i32 %lane, 7
  %start = mul i32 %row, %n
{element_address("p", "a", elements, scalar)}
{element_address("q", "b", elements, scalar)}
{move}"""
    return kernel(f"{P} %a, {P} %b, i32 %n, i32 %some, i32 %late_from", body, other=f"""
declare {t} @{load}({P}, i64, i1, {t})
declare void @{store}({P}, {t}, i64, i1)""" if masked else "")


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize(("t", "name", "elements", "dtype"), [
    ("i32", "i32", 1, np.int32), ("<4 x float>", "v4f32", 4, np.float32),
    ("half", "f16", 1, np.float16), ("<2 x half>", "v2f16", 2, np.float16),
    ("<4 x i8>", "v4i8", 4, np.int8)])
def test_rows_are_accessed_whole(
    run: Run, kernel: Text, t: str, name: str, elements: int, dtype: Any, masked: bool
) -> None:
    if masked and elements == 1:
        t, name = f"<1 x {t}>", f"v1{name}"
    text = rows_kernel(kernel, t, name, elements, masked)
    native = pipeline.translate(parse_module(canonical(text)), "k", target("bmg")).text
    check_text(native, "CHECK-NOT: {{gather|scatter}}")
    a = np.arange(1, 1 + 16 * elements * 3, dtype=dtype)
    for n, some, late in ((8 * elements, 16, 0), (8 * elements + 3, 11, 2), (70, 3, 9)):
        b = np.full(max(len(a), n + 8 * elements), -1, dtype)
        source = np.resize(a, b.shape)
        run(text, source, b, n, some, late)
        want = np.full_like(b, -1)
        for lane in range(16):
            first = lane // 8 * n + lane % 8 * elements
            at = slice(first, first + elements)
            if not masked:
                want[at] = source[at]
            elif lane >= late:
                want[at] = source[at] if lane < some else 0
        np.testing.assert_array_equal(b, want)


def test_sums_of_narrow_columns_keep_the_order_of_memory(kernel: Text, run: Run) -> None:
    """What a loop adds to is not taken apart in each pass."""
    body = f"""
  br label %before
before:
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %row = lshr i32 %lane, 3
  %column = and i32 %lane, 7
  %c = mul i32 %column, 4
  %out = mul i32 %lane, 4
  br label %again
again:
  %k = phi i32 [ 0, %before ], [ %more, %again ]
  %sum = phi <4 x float> [ zeroinitializer, %before ], [ %total, %again ]
  %r = add i32 %row, %k
  %start = mul i32 %r, %n
  %i = add nsw i32 %start, %c
  %p = getelementptr float, {P} %a, i32 %i
  %x = load <4 x float>, {P} %p
  %total = fadd <4 x float> %sum, %x
  %more = add i32 %k, 2
  %on = icmp slt i32 %more, 6
  br i1 %on, label %again, label %end
end:
  %q = getelementptr float, {P} %b, i32 %out
  store <4 x float> %total, {P} %q"""
    text = kernel(f"{P} %a, {P} %b, i32 %n", body)
    native = pipeline.translate(parse_module(canonical(text)), "k", target("bmg")).text
    loop = native[native.index("phi <64 x float>"):]
    loop = loop[: loop.index("br i1")]
    for mask in re.findall(r"shufflevector <64 x float>.* <(i32 [^>]*)>", loop):
        places = [int(place) for place in re.findall(r"i32 (\d+)", mask)]
        assert places == list(range(places[0], places[0] + len(places)))
    a = np.arange(6 * 40, dtype=np.float32).reshape(6, 40)
    b = np.zeros((2, 32), np.float32)
    run(text, a, b, 40)
    np.testing.assert_array_equal(b, a[:, :32].reshape(3, 2, 32).sum(0))


def test_elements_of_lanes_anywhere_are_accessed_by_one_call(kernel: Text, run: Run) -> None:
    """Each lane's two elements are at an address of its own, which memory gives."""
    body = f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %at = getelementptr i32, {P} %places, i32 %lane
  %place = load i32, {P} %at
  %p = getelementptr float, {P} %a, i32 %place
  %q = getelementptr float, {P} %b, i32 %place
  %x = load <2 x float>, {P} %p
  store <2 x float> %x, {P} %q"""
    text = kernel(f"{P} %places, {P} %a, {P} %b", body)
    native = pipeline.translate(parse_module(canonical(text)), "k", target("bmg")).text
    calls = re.findall(r"call \S+ (?:x float> )?@xe\.(\w+_parts\.f32\.2\.16)\(", native)
    assert sorted(calls) == ["load_parts.f32.2.16", "store_parts.f32.2.16"]
    places = np.random.default_rng(3).permutation(16).astype(np.int32) * 3
    a, b = np.arange(1, 49, dtype=np.float32), np.zeros(48, np.float32)
    run(text, places, a, b)
    np.testing.assert_array_equal(b, np.where(np.arange(48) % 3 < 2, a, 0))


def test_lanes_that_are_equally_far_apart_are_accessed_by_one_call(kernel: Text, run: Run) -> None:
    body = f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %from = mul i32 %lane, 3
  %reversed = sub i32 15, %lane
  %to = mul i32 %reversed, 5
  %p = getelementptr half, {P} %a, i32 %from
  %q = getelementptr half, {P} %b, i32 %to
  %x = load <2 x half>, {P} %p
  store <2 x half> %x, {P} %q"""
    text = kernel(f"{P} %a, {P} %b", body)
    native = pipeline.translate(parse_module(canonical(text)), "k", target("bmg")).text
    calls = re.findall(r"call \S+ (?:x half> )?@xe\.(\w+_parts\.f16\.2\.16\.\w+)\(", native)
    assert sorted(calls) == ["load_parts.f16.2.16.spaced", "store_parts.f16.2.16.spaced"]
    a, b = np.arange(1, 49, dtype=np.float16), np.zeros(80, np.float16)
    run(text, a, b)
    np.testing.assert_array_equal(b.reshape(16, 5)[::-1, :2], a.reshape(16, 3)[:, :2])
    assert not b.reshape(16, 5)[:, 2:].any()
