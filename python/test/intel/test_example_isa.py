"""The example kernels through Intel's compiler: accepted everywhere, and as good as hand-written.

The bars are those of a hand-emitted K loop (32 DPAS, 3 loads, 2 prefetches: 0.375 other issued
instructions per DPAS on bmg, 0.59 on pvc), and on pvc two instructions for the loop's own counter.
"""

from __future__ import annotations

from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from benchmarks import loops
from examples.attention import attention_kernel
from examples.gluon_matmul import MATRIX, WARPS, gluon_matmul_kernel
from examples.matmul import matmul_kernel
from examples.matmul_descriptor import matmul_descriptor_kernel
from examples.softmax import softmax_kernel
from examples.vector_add import add_kernel
from python.test.gemm.pairwise import settings
from python.test.operations import instructions
from triton_xe.tools import intel
from triton_xe.tools.native_figures import common_path

pytestmark = pytest.mark.intel_compiler

BLOCKS = {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 32, "GROUP_M": 4, "ACTIVATION": ""}
POINTERS = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
TRANSPOSED_A = {"stride_am": 1, "stride_bn": 1, "stride_cn": 1}
TRANSPOSED_B = {"stride_ak": 1, "stride_bk": 1, "stride_cn": 1}
SMALL = {"BLOCK_M": 64, "BLOCK_N": 64}
MATMULS = {
    "pointers": (matmul_kernel, {**BLOCKS, **POINTERS}, 32),
    "descriptors": (
        matmul_descriptor_kernel,
        {**BLOCKS, "TRANSPOSED_A": False, "TRANSPOSED_B": False},
        32,
    ),
}
GLUON = {"MATRIX": MATRIX, "BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 32, "AHEAD": 1}
EXAMPLES: dict[str, tuple[Any, dict[str, Any], int]] = {
    **MATMULS,
    "gluon": (gluon_matmul_kernel, {**GLUON, "STEPS": 1}, WARPS),
    "gluon-2": (gluon_matmul_kernel, {**GLUON, "STEPS": 2}, WARPS),
    "AtB": (matmul_kernel, {**BLOCKS, **SMALL, **TRANSPOSED_A}, 4),
    "ABt": (matmul_kernel, {**BLOCKS, **SMALL, **TRANSPOSED_B}, 4),
    "leaky": (matmul_kernel, {**BLOCKS, **SMALL, **POINTERS, "ACTIVATION": "leaky_relu"}, 4),
    "vector_add": (add_kernel, {"BLOCK": 1024}, 4),
    "softmax": (softmax_kernel, {"BLOCK": 1024}, 4),
}


def compiled(name: str, device: str) -> Any:
    """The example compiled by Triton for a device."""
    kernel, constants, num_warps = EXAMPLES[name]
    pointer = "*fp16" if "matmul" in kernel.__name__ else "*fp32"
    types = {
        n: "constexpr" if n in constants else pointer if n.endswith("_ptr") else "i32"
        for n in kernel.arg_names
    }
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, n in enumerate(kernel.arg_names)
        if types[n] != "constexpr"
    }
    made = GluonASTSource if kernel is gluon_matmul_kernel else ASTSource
    source = made(kernel, types, constants, aligned)
    options = {"num_warps": num_warps, "num_stages": 2}
    return triton.compile(source, target=GPUTarget("xpu", device, 16), options=options)


def built(name: str, device: str) -> intel.CompiledKernel:
    """The example's native code."""
    kernel = compiled(name, device)
    return intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)


@pytest.mark.sample(4)
@pytest.mark.parametrize(*settings(
    name=tuple(EXAMPLES), device=("bmg", "pvc", "lnl", "ptl"), strength=1,
    in_turns=True))
def test_every_example_compiles(name: str, device: str) -> None:
    facts = built(name, device).facts
    assert facts.simd_size == 16
    assert facts.has_dpas == ("matmul" in EXAMPLES[name][0].__name__)
    assert facts.spill_size == 0


@pytest.mark.covering
@pytest.mark.parametrize(("device", "bar"), [("bmg", 0.5), ("pvc", 0.66)])
@pytest.mark.parametrize("name", MATMULS)
def test_k_loop_is_as_good_as_hand_written(name: str, device: str, bar: float) -> None:
    kernel = built(name, device)
    figures = kernel.figures
    loop = figures.hot_loop
    assert kernel.facts.grf_count == 256
    assert figures.spill_size == 0
    assert loop.dpas == 32
    assert loop.block_loads <= 3
    assert loop.prefetches <= 2
    assert (loop.gathers, loop.slm, loop.spills, loop.fills) == (0, 0, 0, 0)
    assert (loop.issued - loop.dpas) / loop.dpas <= bar


def built_attention(device: str, depth: int, rows: int) -> intel.CompiledKernel:
    """Flash attention over 64 keys a step, with so many rows per subgroup."""
    constants = {"DEPTH": depth, "BLOCK_M": rows * 8, "BLOCK_N": 64, "CAUSAL": False}
    names = attention_kernel.arg_names
    types = {
        n: "constexpr" if n in constants else "*fp16" if n.endswith("_ptr")
        else "fp32" if n == "scale" else "i32"
        for n in names
    }
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if types[n] in ("*fp16", "i32")
    }
    source = ASTSource(attention_kernel, types, constants, aligned)
    target = GPUTarget("xpu", device, 16)
    kernel = triton.compile(source, target=target, options={"num_warps": 8, "num_stages": 2})
    return intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("device", "depth", "rows", "bar"), [
    ("bmg", 64, 16, 595), ("pvc", 64, 16, 681), ("bmg", 64, 8, 380), ("bmg", 128, 16, 900),
])
def test_attention_shares_the_exchanges_between_lanes(
    device: str, depth: int, rows: int, bar: int
) -> None:
    figures = built_attention(device, depth, rows).figures
    assert figures.spill_size == 0  # in the version with gathers neither
    loop = figures.hot_loop
    assert loop.dpas == depth * rows // 16
    assert loop.instructions <= bar
    assert (loop.gathers, loop.slm, loop.spills, loop.fills) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", ["vector_add", "softmax"])
def test_modules_without_intel_instructions_are_valid(name: str) -> None:
    assert intel.spirv_val_available() is None or pytest.skip("spirv-val is missing")
    kernel = compiled(name, "bmg")
    if any(name.startswith("GenISA") for name in instructions(kernel.asm["llir"])):
        pytest.skip("the module calls Intel's own instructions, which spirv-val does not know")
    assert intel.spirv_val(kernel.asm["spv"]) is None


@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_gluons_loop_is_as_good_as_the_compilers_own(device: str) -> None:
    """And better per DPAS on Xe2 where two steps share a pass."""
    issued = {}
    for name in ("pointers", "gluon", "gluon-2"):
        loop = built(name, device).figures.hot_loop
        issued[name] = loop.issued / loop.dpas
    assert issued["gluon"] <= issued["pointers"]
    if device == "bmg":
        assert issued["gluon-2"] < issued["pointers"]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "device", "bar"), [
    ("gemm ABt", "pvc", 92), ("gemm add bf16", "bmg", 49), ("gemm add int8", "pvc", 60),
    ("cross entropy", "bmg", 230), ("softmax fp32", "bmg", 226), ("MoE", "bmg", 94)])
def test_loops_stay_short(name: str, device: str, bar: int) -> None:
    figures = loops.native(name, device).figures
    assert (figures.hot_loop.instructions <= bar, figures.spill_size) == (True, 0)


@pytest.mark.parametrize(("name", "device", "inside", "outside"), [
    ("gemm", "pvc", 53, 380),
    ("gemm int8", "pvc", 53, 270),
    ("gemm tf32 16", "bmg", 96, 230),
])
def test_what_surrounds_a_k_loop_stays_short(
    name: str, device: str, inside: int, outside: int
) -> None:
    figures = loops.native(name, device).figures
    issued = figures.hot_loop.issued
    assert (issued <= inside, figures.whole.issued - issued <= outside) == (True, True)


@pytest.mark.parametrize(("name", "device", "bar"), [
    ("add", "bmg", 75), ("add", "pvc", 78), ("descriptor copy", "bmg", 45),
    ("descriptor copy fp16", "pvc", 50), ("descriptor transpose", "pvc", 90)])
def test_what_runs_of_kernels_without_loops_stays_short(name: str, device: str, bar: int) -> None:
    path = common_path(loops.native(name, device).program)
    assert path is not None
    assert path.issued <= bar


@pytest.mark.parametrize(("device", "more"), [("bmg", 4), ("pvc", 8)])
def test_a_split_barrier_costs_few_instructions(device: str, more: int) -> None:
    """And no fence: it keeps subgroups together, and orders nothing."""
    name, found = "matmul example", {}
    for together in (False, True):
        kernel = loops.compiled(name, device, split_barriers=together)
        native = intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)
        found[together] = native.figures.hot_loop
    assert found[True].barriers == 1
    assert found[True].fences == 0
    assert found[True].instructions <= found[False].instructions + more


@pytest.mark.parametrize(("device", "operand", "more"), [
    ("bmg", "a", 5), ("bmg", "b", 16), ("pvc", "a", 8), ("pvc", "b", 19)])
def test_prefetches_of_lanes_are_one_message(device: str, operand: str, more: int) -> None:
    """And their addresses cost at most `more` instructions in each pass."""
    found = []
    for value in ("", operand):
        kernel = loops.compiled("matmul example", device, line_prefetches=value)
        native = intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)
        loop = native.figures.hot_loop
        assert (loop.prefetches, native.figures.spill_size) == (2, 0)
        by_lanes = [x for text in native.asm.values() for x in text.splitlines()
                    if "load.ugm.d8u32.a64.ca.ca (16|M0)" in x and "null:0" in x]
        assert bool(by_lanes) == bool(value)
        found.append(loop.issued)
    assert found[1] <= found[0] + more
