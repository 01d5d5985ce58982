"""Operand B of rows at loaded places: DPAS reads the registers that each lane has loaded.

Intel's compiler 2.40 does not where a column comes in two predicated loads of 4 words that a
shuffle joins: both go to one register, and DPAS reads another that nothing writes.
"""

from __future__ import annotations

import re

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_xe.tools import assembly, intel

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


def listing(kernel: object, device: str, hidden: bool) -> str:
    kinds = {"a": "*bf16", "b": "*bf16", "c": "*fp32", "place": "*i32",
             "rows": "i32", "n": "i32", "k": "i32"}
    source = ASTSource(
        kernel, kinds, constexprs=SIZES | {"HIDDEN": hidden},
        attrs={(i,): [["tt.divisibility", 16]] for i in range(len(kinds))})
    made = triton.compile(
        source, target=GPUTarget("xpu", device, 16), options={"num_warps": 4})
    assert "xe.columns" in made.asm["xetile"]
    native = intel.compile_spirv(made.asm["spv"], device, made.metadata.build_flags)
    (text,) = native.asm.values()
    return text


@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize(("kernel", "hidden"), [
    (rows_of_a, True), (rows_of_a, False), (columns_of_b, False)])
def test_dpas_reads_what_lanes_loaded(kernel: object, hidden: bool, device: str) -> None:
    text = listing(kernel, device, hidden)
    loaded = {int(r) for r in re.findall(r"load\.ugm\.d32x8\S* \(16\|M0\)\s+r(\d+):8", text)}
    read = {int(r) for r in re.findall(r"dpas\.\S+ \(16\|M0\)\s+\S+\s+\S+\s+r(\d+):bf", text)}
    assert read
    assert read <= loaded
    assert assembly.read(text).spill_size == 0
