"""Native code for Xe3P, which Intel's compiler makes although no such card is sold yet."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.loops import compiled
from examples.attention import attention_kernel
from examples.matmul import matmul_kernel
from triton_xe.hardware.target import target
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


@pytest.mark.covering
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
    factors = Counter(factor.type for each in kernel.program.instructions
                      if each.name == "dpas.8x8" for factor in each.sources[1:])
    assert factors == {name: 64}
    assert (loop.gathers, loop.slm, loop.spills, loop.fills) == (0, 0, 0, 0)


@pytest.mark.covering
@pytest.mark.parametrize("device", ["cri", "nvl-p"])
def test_products_of_int8_are_native_and_short(device: str) -> None:
    kernel = compiled("gemm int8", device)
    figures = intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags).figures
    loop = figures.hot_loop
    assert (figures.spill_size, loop.dpas) == (0, 32)
    assert (loop.issued - loop.dpas) / loop.dpas <= 0.45


@pytest.mark.covering
@pytest.mark.parametrize(("kind", "name"), [("fp8e4nv", "hf8"), ("fp8e5", "bf8")])
def test_attention_of_fp8_is_native(kind: str, name: str) -> None:
    """All products are of fp8, with heads of 128 and without spills."""
    constants = {"BLOCK_M": 128, "BLOCK_N": 64, "DEPTH": 128, "CAUSAL": False}
    names = attention_kernel.arg_names
    types = {n: "constexpr" if n in constants else "fp32" if n == "scale" else "*fp16"
             if n == "o_ptr" else f"*{kind}" if n.endswith("_ptr") else "i32" for n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names)
               if types[n][0] in "*i"}
    made = triton.compile(ASTSource(attention_kernel, types, constants, aligned),
                          target=GPUTarget("xpu", "cri", 16), options={"num_warps": 8})
    kernel = intel.compile_spirv(made.asm["spv"], "cri", made.metadata.build_flags)
    (listing,) = kernel.asm.values()
    products = [line for line in listing.splitlines() if "dpas.8x8" in line.split("//")[0]]
    assert kernel.facts.spill_size == 0
    assert products
    assert all(line.count(f":{name}") == 2 for line in products)


@triton.jit
def scaled(
    a_ptr, b_ptr, c_ptr, a_scale, b_scale, K, stride_am, stride_bk, stride_cm, stride_s,
    SIZE: tl.constexpr, DEPTH: tl.constexpr, KIND: tl.constexpr, PACKED: tl.constexpr,
):
    m = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    n = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    k, g = tl.arange(0, DEPTH // PACKED), tl.arange(0, DEPTH // 32)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :]
    b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :]
    left = a_scale + m[:, None] * stride_s + g[None, :]
    right = b_scale + n[:, None] * stride_s + g[None, :]
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for _ in range(0, K, DEPTH):
        acc = tl.dot_scaled(tl.load(a_ptrs), tl.load(left), KIND, tl.load(b_ptrs), tl.load(right),
                            KIND, acc)
        a_ptrs += DEPTH // PACKED
        b_ptrs += DEPTH // PACKED * stride_bk
        left += DEPTH // 32
        right += DEPTH // 32
    tl.store(c_ptr + m[:, None] * stride_cm + n[None, :], acc)


def scaled_product(kind: str, device: str, depth: int) -> intel.CompiledKernel:
    """The native code of a scaled product with blocks of 256 x 256 x `depth` on 32 warps."""
    packed = 2 if kind == "e2m1" else 1
    constants = {"SIZE": 256, "DEPTH": depth, "KIND": kind, "PACKED": packed}
    factor = {"e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "e2m1": "*u8"}[kind]
    pointers = {"a_ptr": factor, "b_ptr": factor, "c_ptr": "*fp32", "a_scale": "*u8",
                "b_scale": "*u8"}
    names = scaled.arg_names
    types = {n: "constexpr" if n in constants else pointers.get(n, "i32") for n in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names)
               if types[n] != "constexpr"}
    kernel = triton.compile(ASTSource(scaled, types, constants, aligned),
                            target=GPUTarget("xpu", device, 16), options={"num_warps": 32})
    return intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)


def loop_of(listing: str) -> list[str]:
    """The instructions of the loop with scaled products, waits left out."""
    lines = [line.strip().removeprefix("(W)").strip() for line in listing.splitlines()]
    first = next(i for i, line in enumerate(lines) if line.startswith("bdpas"))
    last = max(i for i, line in enumerate(lines) if line.startswith("bdpas"))
    start = max(i for i in range(first) if lines[i].startswith("_0_"))
    end = next(i for i in range(last, len(lines)) if " jmpi " in f" {lines[i]}")
    return [line for line in lines[start + 1 : end + 1]
            if line and not line.startswith(("//", "sync", "_0_"))]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kind", "device", "depth", "products", "loads", "others"), [
    ("e4m3", "cri", 128, 64, 9, 0.5), ("e5m2", "cri", 128, 64, 9, 0.5),
    ("e2m1", "cri", 128, 32, 6, 0.95), ("e2m1", "cri", 256, 64, 9, 0.8),
    ("e4m3", "nvl-p", 128, 64, 9, 0.5)])
def test_scaled_products_are_native(
    kind: str, device: str, depth: int, products: int, loads: int, others: float
) -> None:
    """Few messages for each operand, three for all scales, no shared memory, no spills.

    The text is read because libiga64 does not decode all messages with registers above 255.
    """
    kernel = scaled_product(kind, device, depth)
    (listing,) = kernel.asm.values()
    loop = loop_of(listing)
    assert kernel.facts.grf_count == target(device).large_file
    assert kernel.facts.spill_size == 0
    multiplied = [line for line in loop if line.startswith("bdpas")]
    name = {"e4m3": "hf8", "e5m2": "bf8", "e2m1": "e2m1"}[kind]
    assert len(multiplied) == products
    assert all(line.count(f":{name}") == 2 for line in multiplied)
    blocks = [line for line in loop if "load_block2d" in line and ".ca.ca.ca" not in line]
    assert len(blocks) == loads
    assert sum("block2d" in line for line in loop) == sum("send" in line for line in loop)
    assert (len(loop) - products) / products <= others
    assert all(line.split()[2] == line.split()[3] for line in multiplied)  # the sums stay
    assert sum("Atomic" in line for line in multiplied) >= products - 4


@triton.jit
def add(out, x, N: tl.constexpr, SCOPE: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(out + i % 7, tl.load(x + i), scope=SCOPE)


@pytest.mark.covering
@pytest.mark.parametrize("scope", ["gpu", "cta", "sys"])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("device", ["cri", "nvl-p", "ptl"])
def test_16_bits_are_added_by_one_message(device: str, kind: str, scope: str) -> None:
    types = {"out": f"*{kind}", "x": f"*{kind}", "N": "constexpr", "SCOPE": "constexpr"}
    kernel = triton.compile(ASTSource(add, types, {"N": 16, "SCOPE": scope}),
                            target=GPUTarget("xpu", device, 16), options={"num_warps": 1})
    built = intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)
    (listing,) = built.asm.values()
    message = {"fp16": "fadd", "bf16": "bfadd"}[kind] if device != "ptl" else "icas"
    assert re.findall(r"atomic_(\w+)\.ugm\.d16u32", listing) == [message]


@pytest.mark.sample(2)
@pytest.mark.parametrize("device", ["wcl", "nvl-s", "nvl-u", "bmg-g31"])
def test_relatives_are_known_to_the_compiler(device: str) -> None:
    assert product("fp16", device).facts.spill_size == 0
