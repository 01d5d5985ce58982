"""Kernels whose code crashed Intel's compiler.

Bytes that are widened again, differences that stop at 0, reductions of 16-bit integers by shuffles.
"""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks import loops
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler
DEVICES = ("pvc", "bmg", "lnl", "ptl", "dg2")


@triton.jit
def stopping_at_zero(x, y):
    i = tl.arange(0, 512)
    v = tl.load(x + i)
    exponent = (v >> 23) & 255
    tl.store(y + i, tl.where(exponent == 0, exponent, exponent - 1) ^ tl.where(exponent > 7,
                                                                              exponent - 7, 0))


@pytest.mark.parametrize("device", DEVICES)
def test_differences_that_stop_at_zero_compile(device: str) -> None:
    source = ASTSource(stopping_at_zero, {"x": "*i32", "y": "*i32"}, {}, {})
    kernel = triton.compile(source, target=GPUTarget("xpu", device, 16), options={"num_warps": 4})
    assert intel.compile_spirv(kernel.asm["spv"], device, dump_asm=False).facts.spill_size == 0


@triton.jit
def sum_and_largest(a, b, c, d):
    return a + c, tl.maximum(b, d)


@triton.jit
def two_reductions(x, y, n: tl.constexpr):
    v = tl.load(x + tl.arange(0, n))
    total, largest = tl.reduce((v, v), 0, sum_and_largest)
    tl.store(y, total)
    tl.store(y + 1, largest)


@pytest.mark.parametrize("element", ["i8", "i16", "fp16", "bf16"])
@pytest.mark.parametrize("device", DEVICES)
def test_reductions_across_a_whole_subgroup_compile(device: str, element: str) -> None:
    types = {"x": f"*{element}", "y": f"*{element}", "n": "constexpr"}
    source = ASTSource(two_reductions, types, {"n": 8 if device == "dg2" else 16})
    kernel = triton.compile(source, target=GPUTarget("xpu", device, 16), options={"num_warps": 1})
    assert intel.compile_spirv(kernel.asm["spv"], device, dump_asm=False).facts.spill_size == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize(("kind", "device"), [
    ("fp8e5", "bmg"), ("fp8e4nv", "dg2"),
])
def test_attention_with_8_bit_floats_compiles(kind: str, device: str) -> None:
    kernel = loops.compiled(f"attention {kind}", device)
    native = intel.compile_spirv(
        kernel.asm["spv"], device, kernel.metadata.build_flags, dump_asm=False)
    assert native.facts.has_dpas
