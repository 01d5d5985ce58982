"""What conversions between fp32 and 16 bits become: what `docs/tuning.md` says of them.

Where Intel's compiler has learned to convert two registers of fp32 to one, the functions of
`triton_xe.lowering.spirv.wide_visa` can use it, and stores of products are shorter.
"""

from __future__ import annotations

import re

import pytest

from triton_xe.lowering.spirv.emit_spirv import write_spirv
from triton_xe.lowering.spirv.visa import function
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler
DECLARED = """.decl {dst} v_type=G type={dst} num_elts=128 alias=<$0,0>
.decl X v_type=G type=F num_elts=64 alias=<$1,0>
.decl Y v_type=G type=F num_elts=64 alias=<$2,0>
"""
KERNEL = """
declare spir_func i64 @_Z13get_global_idj(i32)
define spir_kernel void @converted(ptr addrspace(1) %x, ptr addrspace(1) %y)
    !intel_reqd_sub_group_size !0 {
  %i = call spir_func i64 @_Z13get_global_idj(i32 0)
  %p = getelementptr <4 x float>, ptr addrspace(1) %x, i64 %i
  %q = getelementptr i8, ptr addrspace(1) %p, i64 65536
  %a = load <4 x float>, ptr addrspace(1) %p
  %b = load <4 x float>, ptr addrspace(1) %q
  %r = call spir_func <4 x i32> @"f"(<4 x float> %a, <4 x float> %b)
  %s = getelementptr <4 x i32>, ptr addrspace(1) %y, i64 %i
  store <4 x i32> %r, ptr addrspace(1) %s
  ret void
}
!0 = !{i32 16}
"""
FOUR_TO_ONE = [("X", 0), ("X", 2), ("Y", 0), ("Y", 2)]


def conversions(body: str, kind: str, device: str) -> list[int]:
    """Lanes of each instruction that converts fp32 to a type."""
    text = function("f", "<4 x i32>", ["<4 x float>"] * 2, body) + KERNEL
    listing = intel.compile_spirv(write_spirv(text), device).asm["converted"]
    found = re.findall(rf"\bmov \((\d+)\|M0\)\s+r[\d.]+<\d>:{kind}\s+r[\d.]+<1;1,0>:f\b", listing)
    return [int(lanes) for lanes in found]


@pytest.mark.parametrize("device", ["bmg", "pvc", "ptl"])
@pytest.mark.parametrize("kind", ["hf", "bf"])
def test_two_registers_of_fp32_become_one_by_two_instructions(kind: str, device: str) -> None:
    dst = kind.upper()
    body = DECLARED.format(dst=dst) + "".join(
        f"mov (M1_NM, 32) {dst}({r},0)<1> {name}({first},0)<1;1,0>\n"
        for r, (name, first) in enumerate(FOUR_TO_ONE))
    assert conversions(body, kind, device) == [16] * 8


@pytest.mark.parametrize("device", ["bmg", "pvc", "ptl"])
def test_fp16_in_dwords_of_its_own_needs_one_instruction_for_two_registers(device: str) -> None:
    body = DECLARED.format(dst="HF") + "".join(
        f"mov (M1_NM, 32) HF({r},{half})<2> {name}({r},0)<1;1,0>\n"
        for r in (0, 2) for half, name in enumerate("XY"))
    assert conversions(body, "hf", device) == [32] * 4
