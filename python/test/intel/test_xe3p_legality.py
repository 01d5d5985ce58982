"""Code that our tables refuse, given to Intel's compiler, which accepts most of it.

The behaviour is that of IGC 2.40; a row that fails with another version is to be updated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import triton
import triton.language as tl

from triton_xe.errors import DeviceError
from triton_xe.hardware.block_2d import (
    BlockShape,
    cache_code,
    cache_codes,
    check_load,
    check_prefetch,
)
from triton_xe.hardware.dpas import ELEMENT_BITS, PRECISION, check_dpas, check_scaled_dpas
from triton_xe.hardware.register_file import RegisterFile
from triton_xe.hardware.target import target
from triton_xe.intrinsics import genisa
from triton_xe.lowering.spirv.emit_spirv import emit_spirv
from triton_xe.runtime.ocloc import IntelCompilerError
from triton_xe.tools import intel, sample_kernel
from triton_xe.tools.commands.compile import compile_kernel

pytestmark = pytest.mark.intel_compiler
P = "ptr addrspace(1)"
SUM = "<8 x float>"


@dataclass(frozen=True)
class Case:
    """A product on a device, our verdict and Intel's."""

    device: str
    a: str
    b: str
    ours: str
    """Part of our reason; empty if the device has the instruction."""
    intel: str
    """accepts, refuses (with a message) or crashes."""
    scales: str = ""
    """Type of the scales of a scaled product."""

    def __str__(self) -> str:
        return f"{self.device} {self.a} x {self.b} {self.scales}".strip()

    def reason(self) -> str:
        """Our table's reason; empty if it has none."""
        check: Callable[..., str | None] = check_scaled_dpas if self.scales else check_dpas
        kind = "i32" if self.a[0] in "su" else "f32"
        return check(self.a, self.b, kind, target(self.device)) or ""

    def module(self) -> str:
        """A kernel with the product of what it loads."""
        total = "<8 x i32>" if self.a[0] in "su" else SUM
        wide = max(ELEMENT_BITS[self.a], ELEMENT_BITS[self.b])
        kinds = {"c": total, "a": f"<8 x i{16 * ELEMENT_BITS[self.a] // wide}>",
                 "b": f"<{8 * ELEMENT_BITS[self.b] // wide} x i32>"}
        if self.scales:
            kinds |= {"x": self.scales, "y": self.scales}
        codes = [PRECISION[self.a], PRECISION[self.b], *(() if self.scales else (8, 8))]
        row = genisa.SCALED_DPAS if self.scales else genisa.DPAS
        symbol = row.symbol(total, [*kinds.values(), *["i32"] * len(codes)])
        given = [f"{kind} %{n}" for n, kind in kinds.items()] + [f"i32 {c}" for c in codes]
        given += [] if self.scales else ["i1 false"]
        lines = [f"%{n} = load {kind}, {P} %p{n}, align 64" for n, kind in kinds.items()]
        lines += [f"%d = call {total} @{symbol}({', '.join(given)})",
                  f"store {total} %d, {P} %pd, align 64", "ret void"]
        types = ", ".join(g.rpartition(" ")[0] for g in given)
        return (f"define spir_kernel void @k({', '.join(f'{P} %p{n}' for n in (*kinds, 'd'))}) "
                "!intel_reqd_sub_group_size !0 {\n" + "\n".join(lines)
                + f"\n}}\ndeclare {total} @{symbol}({types})\n!0 = !{{i32 16}}\n")


CASES = [
    Case("cri", "hf8", "bf8", "", "accepts"),
    Case("cri", "e2m1", "e2m1", "", "accepts"),
    Case("nvl-p", "hf8", "hf8", "", "accepts"),
    Case("ptl", "s8", "s4", "", "accepts"),
    Case("cri", "s8", "s4", "extend the narrow ones", "accepts"),
    Case("cri", "u2", "u2", "extend the narrow ones", "accepts"),
    Case("nvl-p", "u8", "s2", "extend the narrow ones", "accepts"),
    Case("nvl-p", "e2m1", "e2m1", "no fp4 DPAS", "accepts"),
    Case("ptl", "e2m1", "e2m1", "no fp4 DPAS", "refuses"),
    Case("ptl", "hf8", "hf8", "no fp8 DPAS", "accepts"),
    Case("bmg", "bf8", "hf8", "no fp8 DPAS", "accepts"),
    Case("cri", "hf8", "bf8", "", "accepts", "i8"),
    Case("cri", "e2m1", "e2m1", "", "accepts", "<2 x i8>"),
    Case("nvl-p", "e2m1", "e2m1", "no fp4 DPAS", "accepts", "<2 x i8>"),
    Case("cri", "hf8", "f16", "cannot multiply", "accepts", "i8"),
    Case("cri", "s8", "s8", "multiplies floats", "accepts", "i8"),
    Case("cri", "f16", "f16", "", "accepts", "i8"),
    Case("ptl", "hf8", "hf8", "no scaled DPAS", "crashes", "i8"),
    Case("bmg", "hf8", "hf8", "no scaled DPAS", "crashes", "i8"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_products(case: Case) -> None:
    reason = case.reason()
    assert case.ours in reason
    assert bool(case.ours) == bool(reason)
    assert behaviour(case.module(), case.device) == case.intel


SHORT_ROWS = BlockShape(8, 32, 8)


def block_access(shape: BlockShape, code: int = 0, *, loads: bool = False) -> str:
    """A kernel that loads or prefetches one block, with a cache code."""
    types = ["i64", *["i32"] * 9, "i1", "i1", "i32"]
    row = genisa.LSC_2D_BLOCK_READ if loads else genisa.LSC_2D_BLOCK_PREFETCH
    kind = f"<{shape.result_bytes // 64} x i32>" if loads else "void"
    symbol = row.symbol(kind, types)
    sizes = shape.element_bits, shape.width, shape.height, shape.blocks
    given = ("i64 %base, i32 511, i32 63, i32 511, i32 0, i32 0, "
             + "".join(f"i32 {size}, " for size in sizes)
             + f"i1 {str(shape.transpose).lower()}, i1 false, i32 {code}")
    call = f"call {kind} @{symbol}({given})\n"
    call = f"%v = {call}store {kind} %v, {P} %p\n" if loads else call
    return (f"define spir_kernel void @k({P} %p) !intel_reqd_sub_group_size !0 {{\n"
            f"%base = ptrtoint {P} %p to i64\n{call}ret void\n}}\n"
            f"declare {kind} @{symbol}({', '.join(types)})\n!0 = !{{i32 16}}\n")


def block_store(code: int) -> str:
    """A kernel that stores a block of zeros with a cache code."""
    types = ["i64", *["i32"] * 9, "i1", "i1", "i32", "<4 x i32>"]
    symbol = genisa.LSC_2D_BLOCK_WRITE.symbol("void", types)
    given = ("i64 %base, i32 511, i32 63, i32 511, i32 0, i32 0, i32 8, i32 32, i32 8, i32 1, "
             f"i1 false, i1 false, i32 {code}, <4 x i32> zeroinitializer")
    return (f"define spir_kernel void @k({P} %p) !intel_reqd_sub_group_size !0 {{\n"
            f"%base = ptrtoint {P} %p to i64\ncall void @{symbol}({given})\nret void\n}}\n"
            f"declare void @{symbol}({', '.join(types)})\n!0 = !{{i32 16}}\n")


@pytest.mark.parametrize(("device", "code", "ours", "intel"), [
    ("ptl", 7, True, "accepts"), ("cri", 7, False, "crashes"), ("nvl-p", 7, False, "crashes"),
    ("cri", 10, True, "accepts"), ("ptl", 10, False, "accepts"),
])
def test_cache_codes(device: str, code: int, ours: bool, intel: str) -> None:
    known = {cache_code(policy, target(device)) for policy in cache_codes(target(device))}
    assert (code in known) == ours
    assert behaviour(block_access(SHORT_ROWS, code), device) == intel


LEVELS = {"uc.wb": "uc.wb.wb", "wt.wb": "wt.wb.wb", "uc.ca": "uc.ca.ca", "ca.ca": "ca.ca.ca",
          "st.ca": "st.ca.ca", "ri": "ri.ri.ri", "ri.ri": "ri.ri.ri", "uc.cc": "uc.ca.ca",
          "ca.cc": "ca.ca.ca", "default": ""}
"""Policies of two levels whose second one is not that of L2 alone, in three levels."""


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("device", ["cri", "nvl-p"])
def test_policies_are_those_of_three_levels(device: str, write: bool) -> None:
    for policy, code in cache_codes(target(device), write=write).items():
        module = block_store(code) if write else block_access(SHORT_ROWS, code)
        built = intel.compile_spirv(emit_spirv(module), device)
        (listing,) = built.asm.values()
        kind = "store" if write else "load"
        (found,) = re.findall(rf"{kind}_block2d\.ugm\.d8\.a64((?:\.\w\w)*) ", listing)
        assert found.strip(".") == LEVELS.get(policy, f"{policy}.uc"), policy


@pytest.mark.parametrize(("device", "shape", "ours", "intel"), [
    ("cri", BlockShape(8, 256, 8), True, "accepts"),
    ("ptl", BlockShape(8, 256, 8), False, "accepts"),
    ("cri", BlockShape(8, 128, 8), False, "accepts"),
    ("nvl-p", BlockShape(16, 32, 8, 4), True, "accepts"),
    ("bmg", BlockShape(16, 32, 8, 4), False, "accepts"),
])
def test_rows_of_prefetches(device: str, shape: BlockShape, ours: bool, intel: str) -> None:
    assert (check_prefetch(shape, target(device)) is None) == ours
    assert behaviour(block_access(shape), device) == intel


@pytest.mark.parametrize(("device", "shape", "ours", "intel"), [
    ("cri", BlockShape(64, 8, 8, transpose=True), True, "accepts"),
    ("nvl-p", BlockShape(64, 4, 16, transpose=True), True, "accepts"),
    ("ptl", BlockShape(64, 8, 8, transpose=True), False, "crashes"),
    ("cri", BlockShape(32, 16, 16, transpose=True), True, "accepts"),
])
def test_shapes_of_loads(device: str, shape: BlockShape, ours: bool, intel: str) -> None:
    assert (check_load(shape, target(device)) is None) == ours
    assert behaviour(block_access(shape, loads=True), device) == intel


@pytest.mark.parametrize("device", ["cri", "nvl-p", "wcl"])
def test_shared_memory_beyond_a_core_is_accepted(device: str) -> None:
    """IGC does not compare; the driver refuses the kernel, and our compiler before."""
    size = 400_000
    assert size > target(device).max_slm_bytes
    memory = f"@s = internal addrspace(3) global [{size} x i8] undef, align 16\n"
    text = (f"{memory}define spir_kernel void @k({P} %p, i32 %i) !intel_reqd_sub_group_size !0 {{\n"
            "%q = getelementptr i8, ptr addrspace(3) @s, i32 %i\n"
            "store volatile i8 1, ptr addrspace(3) %q\n%v = load volatile i8, ptr addrspace(3) %q\n"
            f"store i8 %v, {P} %p\nret void\n}}\n!0 = !{{i32 16}}\n")
    assert behaviour(text, device) == "accepts"


@pytest.mark.parametrize(("device", "registers", "intel"), [
    ("cri", 512, "accepts"), ("cri", 320, "crashes or accepts"), ("nvl-p", 320, "accepts"),
    ("ptl", 512, "crashes"), ("ptl", 192, "accepts"),
])
def test_register_files(device: str, registers: int, intel: str) -> None:
    """IGC 2.40 crashes on 320 registers of cri in three of five builds of one module."""
    assert (registers in target(device).grf_modes) == (intel == "accepts")
    flags = f"-ze-exp-register-file-size={registers}"
    assert behaviour(sample_kernel.vector_add(), device, flags) in intel.split(" or ")


@triton.jit
def product(a, b, c, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


def test_a_kernel_that_intel_leaves_out_is_missed() -> None:
    """IGC 2.40 ends well without the kernel if 32 registers do not suffice."""
    signature = "a=*fp16:16 b=*fp16:16 c=*fp32:16 SIZE=32"
    kernel = compile_kernel(product, signature, "cri", {"num_warps": 1})
    with pytest.raises(IntelCompilerError, match="without kernels for cri"):
        intel.compile_spirv(kernel.asm["spv"], "cri", RegisterFile(32).flag)


def behaviour(text: str, device: str, options: str = "") -> str:
    """Outcome of Intel's compiler: accepts, refuses, or crashes."""
    try:
        intel.compile_spirv(emit_spirv(text), device, options, dump_asm=False)
    except DeviceError as error:
        crashed = any(word in str(error) for word in ("signal", "Internal Compiler Error"))
        return "crashes" if crashed else "refuses"
    return "accepts"
