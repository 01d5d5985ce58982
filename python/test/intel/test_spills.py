"""What fits into the registers stays there: products whose operands go through shared memory too.

The surfaces of these kernels are known at run time only, so each product has two versions, and the
one that works on any surface brings its operands through shared local memory.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks import ledger, loops
from triton_xe.hardware.register_file import MOST_SPILLED
from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.tools import intel

LARGE = "-ze-opt-large-register-file"


@triton.jit
def product(x, y, z, xm, yk, zm, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
            KIND: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * xm + k[None, :])
    b = tl.load(y + k[:, None] * yk + n[None, :])
    c = tl.dot(a, b, input_precision=PRECISION, out_dtype=KIND)
    tl.store(z + m[:, None] * zm + n[None, :], c)


def spilled(device: str, pointer: str, shape: tuple[int, int, int], warps: int) -> int:
    """Spilled bytes of a product of this shape with 256 registers."""
    kind = tl.float64 if pointer == "*fp64" else tl.float32
    constants = {"M": shape[0], "N": shape[1], "K": shape[2], "KIND": kind, "PRECISION": "tf32"}
    result = "*fp64" if pointer == "*fp64" else "*fp32"
    types = {"x": pointer, "y": pointer, "z": result, "xm": "i32", "yk": "i32", "zm": "i32"}
    types |= dict.fromkeys(constants, "constexpr")
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    source = ASTSource(product, types, constants, aligned)
    kernel = triton.compile(
        source, target=GPUTarget("xpu", device, 16), options={"num_warps": warps}
    )
    flags = kernel.metadata.build_flags
    flags = flags if LARGE in flags else f"{flags} {LARGE}".strip()
    return intel.compile_spirv(kernel.asm["spv"], device, flags, dump_asm=False).facts.spill_size


@pytest.mark.covering
@pytest.mark.intel_compiler
@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize(("pointer", "shape", "warps"), [
    ("*fp32", (64, 64, 64), 4),  # operands of 128 registers each, next to 64 of the product
    ("*fp16", (128, 256, 32), 8),  # a product of 256 registers
    ("*fp64", (32, 32, 32), 4),  # multiplied without the matrix unit
])
def test_a_product_of_any_surface_does_not_spill(
    device: str, pointer: str, shape: tuple[int, int, int], warps: int
) -> None:
    assert spilled(device, pointer, shape, warps) == 0


@pytest.mark.intel_compiler
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_operands_that_fill_half_of_the_registers_do_not_spill(device: str) -> None:
    """They are rounded to tf32 in further registers."""
    row = loops.ROWS["gemm tf32 32"]
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128}
    kernel = triton.compile(
        replace(row, constants=row.constants | blocks).source(),
        target=GPUTarget("xpu", device, 16), options={"num_warps": 16})
    flags = kernel.metadata.build_flags
    assert LARGE in flags
    built = intel.compile_spirv(kernel.asm["spv"], device, flags, dump_asm=False)
    assert built.facts.spill_size == 0


CROWDED = ("gemm tf32 32", "attention causal", "attention backward", "attention backward 128",
           "attention window", "attention window 128", "layer norm gradient fp16",
           "layer norm gradient fp32", "swiglu gradient")
PLACES = {(row, device) for row in CROWDED for device in ("bmg", "pvc")}


def test_crowded_loops_do_not_spill() -> None:
    """`benchmarks.ledger --check` compiles them, and compares with the file that is read here."""
    _, kept = ledger.read()
    spills = {(e.kernel, e.device): e.figures["spills"] for e in kept
              if (e.kernel, e.device) in PLACES}
    assert spills == dict.fromkeys(PLACES, 0)


@triton.jit
def norm(x, weight, o, M, N, xs0, xs1, os0, os1, BM: tl.constexpr, BN: tl.constexpr):
    ms, ns = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    inside = (ms < M)[:, None] & (ns < N)[None, :]
    v = tl.load(x + ms[:, None] * xs0 + ns[None, :] * xs1, mask=inside, other=0).to(tl.float32)
    v += tl.load(o + ms[:, None] * os0 + ns[None, :] * os1, mask=inside, other=0)
    w = tl.load(weight + ns, mask=ns < N, other=0)[None, :]
    r = tl.rsqrt(tl.sum(v * v, 1) / N + 1e-5)
    tl.store(o + ms[:, None] * os0 + ns[None, :] * os1,
             (v * r[:, None] * w).to(o.dtype.element_ty), mask=inside)


@pytest.mark.intel_compiler
@pytest.mark.parametrize(
    ("name", "registers"), [
        ("rotary embedding", 128), ("softmax of rows", 128), ("gemv", 128), ("gemm ieee", 128),
        ("softmax gradient", 256)])
def test_code_without_dpas_has_128_registers_if_they_suffice(
    name: str, registers: int
) -> None:
    """All need more than 112 registers by the estimate."""
    facts = loops.native(name, "bmg").facts
    assert (facts.grf_count, facts.spill_size) == (registers, 0)


@pytest.mark.intel_compiler
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_a_loop_by_fma_that_spills_with_128_registers_gets_256(device: str) -> None:
    """Its estimate is that of "gemm ieee", which fits 128 registers."""
    row = loops.ROWS["gemm ieee"]
    source = replace(row, constants=row.constants | {"BLOCK_M": 32}).source()
    kernel = triton.compile(
        source, target=GPUTarget("xpu", device, 16), options={"num_warps": 2})
    flags = kernel.metadata.build_flags
    found = [intel.compile_spirv(kernel.asm["spv"], device, each, dump_asm=False).facts
             for each in (flags, f"{flags} -ze-exp-register-file-size=128")]
    assert [facts.grf_count for facts in found] == [256, 128]
    assert [facts.spill_size > 0 for facts in found] == [False, True]


@pytest.mark.intel_compiler
@pytest.mark.slow
def test_intels_compiler_loses_registers_that_it_spills_around_64_kib() -> None:
    """Native code with so many spills is refused (`refuse_lost_spills`); whole rows are wrong."""
    m, n, blocks = 5, 1318, {"BM": 2, "BN": 2048}
    types = {"x": "*fp32", "weight": "*fp32", "o": "*fp16"} | dict.fromkeys(
        ["M", "N", "xs0", "xs1", "os0", "os1"], "i32") | dict.fromkeys(blocks, "constexpr")
    kernel = triton.compile(
        ASTSource(norm, types, {"xs1": 1, "os1": 1} | blocks, {(1,): [["tt.divisibility", 16]]}),
        target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 1, "guards": "kernel"})
    built = intel.compile_spirv(kernel.asm["spv"], "bmg", kernel.metadata.build_flags)
    assert built.facts.spill_size > MOST_SPILLED
    random = np.random.default_rng(3)
    x, weight = random.normal(size=(m, n)).astype("f4"), random.normal(size=n).astype("f4")
    o = random.normal(size=(m, n)).astype("f2")
    space = AddressSpace()
    given = [space.put(array) for array in (x, weight, o)]
    program = Program.from_zebin("bmg", built.binary)
    Launch.from_zebin(program, built.binary, space, (3, 1, 1), [*given, m, n, n, n],
                      (16, 1, 1)).run()
    v = x.astype("f8") + o
    wanted = v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-5) * weight
    wrong = ~(np.abs(space.get(given[2], o.dtype, o.shape) - wanted) < 0.01)
    assert wrong.all(1).any()
