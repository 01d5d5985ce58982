"""Gathered rows as operand B: DPAS reads the registers that each lane has loaded.

Intel's compiler 2.40 does not where a column comes in two predicated loads of 4 words that a
shuffle joins: both go to one register, and DPAS reads another that nothing writes.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from python.test.operations import parsed
from triton_xe.lowering.spirv.emit_spirv import emit_spirv
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler

SIZES = {"M": 32, "N": 64, "K": 32}


@triton.jit
def rows_of_a(a, b, c, place, rows, n, k, HIDDEN: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
              K: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    row = tl.load(place + i)
    total = tl.zeros((M, N), tl.float32)
    for first in range(0, k, K):
        x = tl.load(a + row[:, None] * k + (first + d)[None, :], (row < rows)[:, None], 0.0)
        total = tl.dot(x, tl.load(b + (first + d)[:, None] + j[None, :] * k), total)
    seen = (row < rows)[:, None] if HIDDEN else (i < n)[:, None]
    tl.store(c + i[:, None] * n + j[None, :], total, seen)


@triton.jit
def columns_of_b(a, b, c, place, rows, n, k, HIDDEN: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                 K: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None] * K + d[None, :])
    for first in range(0, n, N):
        row = tl.load(place + first + j)
        y = tl.load(b + row[None, :] * k + d[:, None])
        tl.store(c + i[:, None] * n + (first + j)[None, :], tl.dot(x, y))


def compiled(kernel: object, device: str, hidden: bool) -> Any:
    kinds = {"a": "*bf16", "b": "*bf16", "c": "*fp32", "place": "*i32",
             "rows": "i32", "n": "i32", "k": "i32"}
    source = ASTSource(
        kernel, kinds, constexprs=SIZES | {"HIDDEN": hidden},
        attrs={(i,): [["tt.divisibility", 16]] for i in range(len(kinds))})
    made = triton.compile(
        source, target=GPUTarget("xpu", device, 16), options={"num_warps": 4})
    check_text(made.asm["xetile"], "CHECK: xe.columns")
    return made


@pytest.mark.covering
@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize(("kernel", "hidden"), [
    (rows_of_a, True), (rows_of_a, False), (columns_of_b, False)])
def test_dpas_reads_what_lanes_loaded(kernel: object, hidden: bool, device: str) -> None:
    made = compiled(kernel, device, hidden)
    native = intel.compile_spirv(made.asm["spv"], device, made.metadata.build_flags)
    (text,) = native.asm.values()
    loaded = {int(r) for r in re.findall(r"load\.ugm\.d32x8\S* \(16\|M0\)\s+r(\d+):8", text)}
    read = {int(r) for r in re.findall(r"dpas\.\S+ \(16\|M0\)\s+\S+\s+\S+\s+r(\d+):bf", text)}
    assert read
    assert read <= loaded
    assert native.facts.spill_size == 0


def in_two_pieces(text: str) -> str:
    """The LLVM IR with each masked load of 8 words as two of 4 that a shuffle joins."""
    name = "llvm.genx.GenISA.PredicatedLoad"
    has = any(each.callee == f"{name}.v4i32.p1.v4i32" for each in parsed(text))

    def pieces(match: re.Match[str]) -> str:
        result, at, mask, other = match.groups()
        low, high, there, first, second = (f"{result}.{word}" for word in (
            "low", "high", "there", "first", "second"))
        load = f"call <4 x i32> @{name}.v4i32.p1.v4i32"
        half = f"shufflevector <8 x i32> {other}, <8 x i32> {other}, <4 x i32>"
        joined = ", ".join(f"i32 {i}" for i in range(8))
        return f"""\
  {low} = {half} <i32 0, i32 1, i32 2, i32 3>
  {high} = {half} <i32 4, i32 5, i32 6, i32 7>
  {there} = getelementptr i8, ptr addrspace(1) {at}, i64 16
  {first} = {load}(ptr addrspace(1) {at}, i64 16, i1 {mask}, <4 x i32> {low})
  {second} = {load}(ptr addrspace(1) {there}, i64 16, i1 {mask}, <4 x i32> {high})
  {result} = shufflevector <4 x i32> {first}, <4 x i32> {second}, <8 x i32> <{joined}>"""

    declared = f"{name}.v4i32.p1.v4i32(ptr addrspace(1) %a, i64 %b, i1 %c, <4 x i32> %d)"
    text, count = re.subn(
        rf'  (%\S+) = call <8 x i32> @{name}[^(]+\(ptr addrspace\(1\) (%\S+), i64 \d+, i1 (%\S+), '
        r"<8 x i32> (%[^)]+)\).*", pieces, text)
    assert count
    return text if has else f"{text}\ndeclare <4 x i32> @{declared}\n"


def test_the_half_of_a_column_that_the_compiler_loses_is_found() -> None:
    made = compiled(rows_of_a, "bmg", True)
    broken = emit_spirv(in_two_pieces(made.asm["llir"]))
    with pytest.raises(intel.IntelCompilerError, match=r"lost a value .* nothing wrote: dpas"):
        intel.compile_spirv(broken, "bmg", made.metadata.build_flags)
