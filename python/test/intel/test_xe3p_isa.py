"""Native code for Xe3P, which Intel's compiler makes although no such card is sold yet."""

from __future__ import annotations

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from examples.matmul import matmul_kernel
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler

OPERANDS = {"fp16": "hf", "bf16": "bf", "fp8e4nv": "hf8", "fp8e5": "bf8"}


def product(kind: str, device: str) -> intel.CompiledKernel:
    """The native code of a product with blocks of 256 x 256 on 32 warps."""
    constants = {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 64 if "fp8" in kind else 32,
                 "GROUP_M": 4, "ACTIVATION": "", "stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
    names = matmul_kernel.arg_names
    types = {n: "constexpr" if n in constants else "*fp16" if n == "c_ptr" else f"*{kind}"
             if n.endswith("_ptr") else "i32" for n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names)
               if types[n] != "constexpr"}
    kernel = triton.compile(ASTSource(matmul_kernel, types, constants, aligned),
                            target=GPUTarget("xpu", device, 16), options={"num_warps": 32})
    return intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)


@pytest.mark.parametrize(("device", "registers"), [("cri", 512), ("nvl-p", 256)])
@pytest.mark.parametrize("kind", OPERANDS)
def test_products_are_native_and_short(kind: str, device: str, registers: int) -> None:
    """32 DPAS of the operands' own type, at most 0.45 other instructions for each, no spills."""
    kernel = product(kind, device)
    figures = kernel.figures
    loop, name = figures.hot_loop, OPERANDS[kind]
    assert kernel.facts.grf_count == registers
    assert figures.spill_size == 0
    assert loop.dpas == 32
    assert (loop.issued - loop.dpas) / loop.dpas <= 0.45
    products = [each for each in kernel.program.instructions if each.name == "dpas.8x8"]
    assert products
    assert all(factor.type == name for each in products for factor in each.sources[1:])
    assert (loop.gathers, loop.slm, loop.spills, loop.fills) == (0, 0, 0, 0)


@pytest.mark.parametrize("device", ["wcl", "nvl-s", "nvl-u", "bmg-g31"])
def test_relatives_are_known_to_the_compiler(device: str) -> None:
    assert product("fp16", device).facts.spill_size == 0
