"""Gathers and scatters in which groups of lanes have a base each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.rewrites.hidden_addresses import hidden_addresses
from triton_xe.runtime.simulator.run.host_cpu import host_cpu

P = "ptr addrspace(1)"
LOAD, STORE = (f"@llvm.genx.GenISA.Predicated{x}" for x in ("Load.v2i32.p1.v2i32",
                                                            "Store.p1.v2i32"))
ROW, STEP = 128, 16
"""Bytes from one row to the next, and from one lane to the next in a row."""


def address(name: str, of: str) -> str:
    """Addresses of two words: the row that a group of lanes has loaded, and the lane in it."""
    return f"""
  %{name}.0 = ptrtoint {P} %{of} to i64
  %{name}.1 = add i64 %{name}.0, %start
  %{name}.2 = add i64 %{name}.1, %column
  %{name} = inttoptr i64 %{name}.2 to {P}"""


def moving(group: int) -> str:
    """Move two words in each lane, from a row to that of the same number."""
    return f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %number = udiv i32 %lane, {group}
  %at = getelementptr i64, {P} %rows, i32 %number
  %loaded = load i64, {P} %at
  %row = and i64 %loaded, 15
  %start = mul i64 %row, {ROW}
  %in = urem i32 %lane, {group}
  %wide = zext i32 %in to i64
  %column = mul i64 %wide, {STEP}
  %some = icmp slt i32 %in, %n
{address("p", "a")}
{address("q", "b")}
  %x = call <2 x i32> {LOAD}({P} %p, i64 4, i1 %some, <2 x i32> zeroinitializer)
  call void {STORE}({P} %q, <2 x i32> %x, i64 4, i1 %some)"""


@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("group", [4, 8, 16])
@pytest.mark.parametrize("n", [2, 16])
def test_each_group_has_its_own_base(
    group: int, lanes: int, n: int, run: Callable[..., None], kernel: Callable[..., str]
) -> None:
    text = kernel(f"{P} %a, {P} %b, {P} %rows, i32 %n", moving(group), lanes=lanes, other=f"""
declare <2 x i32> {LOAD}({P}, i64, i1, <2 x i32>)
declare void {STORE}({P}, <2 x i32>, i64, i1)""")
    a = np.arange(1024, dtype=np.int32)
    b, want = np.zeros_like(a), np.zeros_like(a)
    rows = np.array([3, 29, 7, 2, 11, 12, 5, 9], np.int64)
    for lane in range(lanes):
        number, column = divmod(lane, group)
        if column < n:
            first = (rows[number] % 16 * ROW + column * STEP) // 4
            want[first : first + 2] = a[first : first + 2]
    run(text, a, b, rows, n)
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize(("count", "vector_bytes", "parts"), [
    (8, 64, 0), (16, 64, 2), (32, 64, 4), (16, 32, 0)])
def test_addresses_of_several_registers_are_hidden(
    count: int, vector_bytes: int, parts: int
) -> None:
    name = f"llvm.masked.gather.v{count}i32.v{count}p0"
    types = f"<{count} x ptr>", f"<{count} x i1>", f"<{count} x i32>"
    (function,) = parse_module(f"""
define {types[2]} @f({types[0]} %p, {types[1]} %m) {{
  %x = call {types[2]} @{name}({types[0]} %p, {types[1]} %m, {types[2]} zeroinitializer)
  ret {types[2]} %x
}}
declare {types[2]} @{name}({", ".join(types)})
""").functions.values()
    host = host_cpu()
    features = host.features.replace("+avx512", "-avx512") if vector_bytes < 64 else host.features
    if vector_bytes == 64 and not host.has_mask_registers:
        pytest.skip("needs a CPU with AVX-512")
    made = hidden_addresses(function, replace(host, features=features))
    assert sum(i.callee.startswith("asm ") for i in made.instructions()) == parts
