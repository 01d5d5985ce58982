"""Loops that Intel's compiler must not unroll are marked in SPIR-V, and no others."""

import struct

import pytest

from triton_xe.lowering.spirv import emit_spirv
from triton_xe.spirv import instructions
from triton_xe.tools import intel

TEXT = """target triple = "spirv64-unknown-unknown"
define spir_kernel void @twice(ptr addrspace(1) %a) {
entry:
  br label %FIRST
FIRST:
  %i = phi i32 [0, %entry], [%j, %FIRST]
  %p = getelementptr float, ptr addrspace(1) %a, i32 %i
  %x = load float, ptr addrspace(1) %p, align 4
  %y = fadd float %x, 1.0
  store float %y, ptr addrspace(1) %p, align 4
  %j = add i32 %i, 1
  %more = icmp slt i32 %j, 4
  br i1 %more, label %FIRST, label %SECOND
SECOND:
  %k = phi i32 [0, %FIRST], [%l, %end]
  %q = getelementptr float, ptr addrspace(1) %a, i32 %k
  %odd = trunc i32 %k to i1
  br i1 %odd, label %then, label %end
then:
  store float 2.0, ptr addrspace(1) %q, align 4
  br label %end
end:
  %l = add i32 %k, 1
  %again = icmp slt i32 %l, 8
  br i1 %again, label %SECOND, label %done
done:
  ret void
}
"""
LABEL, MERGE, CONDITIONAL, DO_NOT_UNROLL = 248, 246, 250, 2


def module_of(first, second):
    return emit_spirv.emit_spirv(TEXT.replace("FIRST", first).replace("SECOND", second))


def marks(module):
    """The label of each marked block, with the operands of its mark and of its terminator."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    found, label, waiting = [], 0, None
    for opcode, at, length in instructions(module):
        operands = words[at // 4 + 1 : (at + length) // 4]
        if waiting is not None:
            found.append((label, waiting, opcode, operands))
            waiting = None
        if opcode == LABEL:
            label = operands[0]
        if opcode == MERGE:
            waiting = operands
    return found


def test_a_loop_of_one_block():
    ((label, (after, back, control), opcode, (_, *targets)),) = marks(module_of("rolled", "loop"))
    assert (opcode, control, back) == (CONDITIONAL, DO_NOT_UNROLL, label)
    assert targets == [label, after]


def test_a_loop_of_several_blocks():
    ((label, (after, back, _), opcode, (_, *targets)),) = marks(module_of("loop", "rolled"))
    assert opcode == CONDITIONAL
    assert len({label, after, back, *targets}) == 4, "the last block of the loop branches back"
    assert back in targets


def test_other_loops_have_no_mark():
    assert not marks(module_of("loop", "enrolled"))
    assert len(marks(module_of("rolled", "rolled.1"))) == 2


@pytest.mark.intel_compiler
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_intels_compiler_keeps_the_loop(device):
    def found(name):
        return intel.compile_spirv(module_of(name, "rolled.1"), device).figures.loops

    assert (found("rolled"), found("loop")) == (2, 1)
