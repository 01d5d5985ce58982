"""Vectors of known scalars are composed by one instruction, and keep their elements."""

import struct
from collections import Counter

import pytest

from triton_xe.lowering.spirv import emit_spirv
from triton_xe.spirv import instructions
from triton_xe.tools import intel

TEXT = """target triple = "spirv64-unknown-unknown"
define spir_kernel void @vectors(ptr addrspace(1) %p, float %x, float %y, <2 x float> %v) {{
  {}
  ret void
}}
"""
PAIR = """%b = insertelement <2 x float> undef, float %x, i32 0
  %c = insertelement <2 x float> %b, float %y, i32 1
  store <2 x float> %c, ptr addrspace(1) %p"""
SPLAT = """%b = insertelement <2 x float> undef, float %x, i32 0
  %c = shufflevector <2 x float> %b, <2 x float> %b, <4 x i32> zeroinitializer
  store <4 x float> %c, ptr addrspace(1) %p"""
TWO = """%b = insertelement <2 x float> undef, float %x, i32 0
  %c = insertelement <2 x float> undef, float %y, i32 1
  %d = shufflevector <2 x float> %b, <2 x float> %c, <2 x i32> <i32 3, i32 0>
  store <2 x float> %d, ptr addrspace(1) %p"""
AGAIN = """%b = insertelement <2 x float> %v, float %x, i32 0
  %c = insertelement <2 x float> %b, float %y, i32 0
  %d = insertelement <2 x float> %c, float %x, i32 1
  store <2 x float> %d, ptr addrspace(1) %p"""
KEPT = """%b = insertelement <2 x float> %v, float %x, i32 0
  store <2 x float> %b, ptr addrspace(1) %p
  %c = insertelement <2 x float> %b, float %y, i32 1
  store <2 x float> %c, ptr addrspace(1) %p"""
UNKNOWN = """%b = insertelement <2 x float> undef, float %x, i32 0
  %c = shufflevector <2 x float> %b, <2 x float> %v, <2 x i32> <i32 0, i32 2>
  store <2 x float> %c, ptr addrspace(1) %p"""
PARAMETER, SHUFFLE, CONSTRUCT, INSERT = 55, 79, 80, 82


def plain(body):
    return emit_spirv.write_spirv(TEXT.format(body))


def operands(module, opcode):
    """Words of the instructions with an opcode."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    return [words[at // 4 + 1 : (at + length) // 4]
            for found, at, length in instructions(module) if found == opcode]


def counts(module):
    return Counter(opcode for opcode, _, _ in instructions(module))


@pytest.mark.parametrize(("body", "picked"), [
    (PAIR, "xy"), (SPLAT, "xxxx"), (TWO, "yx"), (AGAIN, "yx")])
def test_known_vectors_are_composed(body, picked):
    made = plain(body)
    _, x, y, _ = (result for _, result in operands(made, PARAMETER))
    ((_, _, *scalars),) = operands(made, CONSTRUCT)
    assert scalars == [{"x": x, "y": y}[name] for name in picked]
    assert not counts(made) & Counter({INSERT: 1, SHUFFLE: 1})


@pytest.mark.parametrize(("body", "inserts", "shuffles"), [(KEPT, 1, 0), (UNKNOWN, 1, 1)])
def test_other_elements_are_inserted(body, inserts, shuffles):
    found = counts(plain(body))
    assert (found[INSERT], found[SHUFFLE]) == (inserts, shuffles)


@pytest.mark.parametrize("body", [PAIR, SPLAT, TWO, AGAIN, KEPT, UNKNOWN])
@pytest.mark.skipif(intel.spirv_val_available() is not None, reason="needs spirv-val")
def test_the_module_is_valid(body):
    assert not intel.spirv_val(plain(body))
