"""Accesses to single elements that lie side by side become one, and do what they did."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from triton_xe.llvm import Function
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis.shapes import ShapeAnalysis
from triton_xe.runtime.simulator.rewrites.element_accesses import joined_accesses

P = "ptr addrspace(1)"
G = "llvm.genx.GenISA."
LOAD, STORE = f"{G}PredicatedLoad.f32.p1.f32", f"{G}PredicatedStore.p1.f32"
DECLARATIONS = f"""
declare float @{LOAD}({P}, i64, i1, float)
declare void @{STORE}({P}, float, i64, i1)
"""


def splat(name: str, t: str, x: str, n: int = 4) -> str:
    zeros = ", ".join(["i32 0"] * n)
    return (f"  %{name}.one = insertelement <{n} x {t}> poison, {t} {x}, i32 0\n"
            f"  %{name} = shufflevector <{n} x {t}> %{name}.one, <{n} x {t}> poison, "
            f"<{n} x i32> <{zeros}>\n")


def numbers(t: str, values: tuple[int, ...]) -> str:
    return "<" + ", ".join(f"{t} {v}" for v in values) + ">"


def element(name: str, of: str, k: int, t: str) -> str:
    return f"  %{name}{k} = extractelement <4 x {t}> %{of}, i32 {k}\n"


def body(steps: tuple[int, ...], lane_step: int, between: str = "") -> str:
    """b[i] = a[i] + 1 where i < n, for i = lane_step * lane + steps; else 7 is loaded."""
    text = "  %lane = call i32 @_Z22get_sub_group_local_idv()\n"
    text += f"  %first = mul i32 %lane, {lane_step}\n" + splat("f", "i32", "%first")
    text += f"  %i = add <4 x i32> %f, {numbers('i32', steps)}\n" + splat("n4", "i32", "%n")
    text += "  %m = icmp slt <4 x i32> %i, %n4\n  %w = sext <4 x i32> %i to <4 x i64>\n"
    text += f"  %bytes = mul <4 x i64> %w, {numbers('i64', (4,) * 4)}\n"
    for of in "ab":
        text += f"  %{of}n = ptrtoint {P} %{of} to i64\n" + splat(f"{of}s", "i64", f"%{of}n")
        text += f"  %{of}v = add <4 x i64> %{of}s, %bytes\n"
    for k in range(4):
        text += element("am", "m", k, "i1") + element("ai", "av", k, "i64")
        text += f"  %ap{k} = inttoptr i64 %ai{k} to {P}\n"
        text += f"  %x{k} = call float @{LOAD}({P} %ap{k}, i64 4, i1 %am{k}, float 7.0)\n"
        text += f"  %y{k} = fadd float %x{k}, 1.0\n" + (between if k == 1 else "")
    for k in range(4):
        text += element("bm", "m", k, "i1") + element("bi", "bv", k, "i64")
        text += f"  %bp{k} = inttoptr i64 %bi{k} to {P}\n"
        text += f"  call void @{STORE}({P} %bp{k}, float %y{k}, i64 4, i1 %bm{k})\n"
    return text


def calls(function: Function) -> list[int]:
    """How many elements each access has."""
    return [(i.type if i.result else i.operands[1].type).lanes
            for i in function.instructions() if "Predicated" in i.callee]


@pytest.mark.parametrize(("steps", "lane_step", "found"), [
    ((0, 1, 2, 3), 4, [4, 4]),
    ((0, 1, 2, 3), 8, [4, 4]),
    ((0, 1, 64, 65), 2, [2, 2, 2, 2]),
    ((3, 2, 1, 0), 4, [1] * 8),
    ((0, 1, 2, 3), 0, [4, 4]),
], ids=["side by side", "apart", "two runs", "backwards", "the same in all lanes"])
@pytest.mark.parametrize("n", [0, 7, 37, 1000])
def test_elements_side_by_side_are_one_access(
    run: Callable[..., None], kernel: Callable[..., str], steps: tuple[int, ...], lane_step: int,
    found: list[int], n: int,
) -> None:
    text = kernel(f"{P} %a, {P} %b, i32 %n", body(steps, lane_step), other=DECLARATIONS)
    (function,) = parse_module(text).kernels()
    assert calls(joined_accesses(function)) == found
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run(text, a, b, n)
    places = {lane_step * lane + s for lane in range(16) for s in steps}
    expected = [a[k] + 1 if k in places and k < n else 0 for k in range(128)]
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("n", [0, 6, 33, 64])
def test_elements_at_bytes_after_one_pointer_are_one_access(
    run: Callable[..., None], kernel: Callable[..., str], n: int
) -> None:
    text = "  %lane = call i32 @_Z22get_sub_group_local_idv()\n  %f = shl i32 %lane, 2\n"
    text += splat("fs", "i32", "%f") + splat("n4", "i32", "%n")
    text += f"  %i = add <4 x i32> %fs, {numbers('i32', (0, 1, 2, 3))}\n"
    text += "  %m = icmp slt <4 x i32> %i, %n4\n"
    text += "".join(f"  %{of}p0 = getelementptr float, {P} %{of}, i32 %f\n" for of in "ab")
    for k in range(4):
        text += element("am", "m", k, "i1")
        if k:
            text += "".join(f"  %{of}p{k} = getelementptr i8, {P} %{of}p0, i64 {4 * k}\n"
                            for of in "ab")
        text += f"  %x{k} = call float @{LOAD}({P} %ap{k}, i64 4, i1 %am{k}, float 7.0)\n"
    for k in range(4):
        text += f"  call void @{STORE}({P} %bp{k}, float %x{k}, i64 4, i1 %am{k})\n"
    text = kernel(f"{P} %a, {P} %b, i32 %n", text, other=DECLARATIONS)
    (function,) = parse_module(text).kernels()
    assert calls(joined_accesses(function)) == [4, 4]
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    run(text, a, b, n)
    np.testing.assert_array_equal(b, np.where(np.arange(64) < n, a, 0))


def test_accesses_with_a_store_between_them_stay_apart(kernel: Callable[..., str]) -> None:
    """The store may change what the rest of the loads bring."""
    text = kernel(f"{P} %a, {P} %b, i32 %n", body((0, 1, 2, 3), 4, f"  store i32 1, {P} %b\n"),
                  other=DECLARATIONS)
    (function,) = parse_module(text).kernels()
    assert calls(joined_accesses(function)) == [2, 2, 4]


@pytest.mark.parametrize("apart", [2, 4, 8, 1])
def test_addresses_known_but_for_a_base_are_accessed_run_by_run(
    run: Callable[..., None], kernel: Callable[..., str], apart: int
) -> None:
    """Lanes in runs of 4, in another order, of 8 bytes or 2; loads of one address by many."""
    for t, dtype, count in (("<4 x half>", np.float16, 4), ("half", np.float16, 1),
                            ("<2 x float>", np.float32, 2)):
        text = kernel(f"{P} %a, {P} %b, {P} %c", f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %low = and i32 %lane, 3
  %high = lshr i32 %lane, 2
  %turned = xor i32 %high, 2
  %far = mul i32 %turned, {4 * apart}
  %i = or i32 %far, %low
  %j = xor i32 %i, 1
  %s = udiv i32 %lane, 5
  %p = getelementptr {t}, {P} %a, i32 %i
  %q = getelementptr {t}, {P} %b, i32 %j
  %r = getelementptr {t}, {P} %c, i32 %s
  %x = load {t}, {P} %p
  %y = load {t}, {P} %r
  %z = fadd {t} %x, %y
  store {t} %z, {P} %q""")
        a = np.arange(64 * apart * count).astype(dtype).reshape(-1, count) / 8
        c = np.arange(64 * count).astype(dtype).reshape(-1, count)
        b, expected = np.zeros_like(a), np.zeros_like(a)
        run(text, a, b, c)
        for lane in range(16):
            i = ((lane >> 2 ^ 2) * 4 * apart) | (lane & 3)
            expected[i ^ 1] = a[i] + c[lane // 5]
        np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize(("opcode", "constant"), [("xor", 5), ("xor", 12), ("or", 3)])
def test_constants_meet_tables_and_not_their_bases(
    run: Callable[..., None], kernel: Callable[..., str], opcode: str, constant: int
) -> None:
    text = kernel(f"{P} %a, {P} %b", f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %warp = call i32 @_Z16get_sub_group_idv()
  %far = shl i32 %warp, 4
  %mine = add i32 %far, %lane
  %i = {opcode} i32 %mine, {constant}
  %p = getelementptr i32, {P} %a, i32 %i
  %q = getelementptr i32, {P} %b, i32 %mine
  %x = load i32, {P} %p
  store i32 %x, {P} %q""", warps=2)
    module = parse_module(text)
    (function,) = module.kernels()
    made = {i.result: i for i in function.instructions()}["%i"]
    assert not ShapeAnalysis(module, 16).of(function, made.value).wide
    a, b = np.arange(32, dtype=np.int32) * 3, np.zeros(32, np.int32)
    run(text, a, b)
    i = np.arange(32)
    np.testing.assert_array_equal(b, a[i ^ constant if opcode == "xor" else i | constant])


@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize(("t", "dtype"), [("float", np.float32), ("i16", np.int16)])
def test_vectors_side_by_side_are_one_access(
    run: Callable[..., None], kernel: Callable[..., str], t: str, dtype: type, count: int
) -> None:
    """Parts of a lane's row, the last one stored first in the next row."""
    n, size = 4, np.dtype(dtype).itemsize
    row = count * n
    text = (f"  %lane = call i32 @_Z22get_sub_group_local_idv()\n  %i = mul i32 %lane, {row}\n"
            f"  %pa = getelementptr {t}, {P} %a, i32 %i\n"
            f"  %pb = getelementptr {t}, {P} %b, i32 %i\n")
    for k in range(count):
        text += f"  %pa{k} = getelementptr i8, {P} %pa, i64 {k * n * size}\n"
        text += f"  %x{k} = load <{n} x {t}>, {P} %pa{k}\n"
    add = "fadd" if t == "float" else "add"
    for k in range(count):
        text += f"  %pb{k} = getelementptr i8, {P} %pb, i64 {k * n * size}\n"
        text += f"  %y{k} = {add} <{n} x {t}> %x{k}, %x{(k + 1) % count}\n"
        text += f"  store <{n} x {t}> %y{k}, {P} %pb{k}\n"
    text = kernel(f"{P} %a, {P} %b", text)
    (function,) = parse_module(text).kernels()
    loads = [i.type.lanes for i in joined_accesses(function).instructions() if i.opcode == "load"]
    assert loads[0] == n * {2: 2, 3: 2, 4: 4, 8: min(8, 64 // (n * size))}[count]
    a = np.random.default_rng(2).integers(-99, 99, (16, count, n)).astype(dtype)
    b = np.zeros_like(a)
    run(text, a, b)
    np.testing.assert_array_equal(b, a + np.roll(a, -1, 1))
