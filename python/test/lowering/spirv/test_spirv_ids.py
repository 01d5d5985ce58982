"""Modules in which LLVM gave two things one id are noticed and written again."""

import os
import struct
import sys

from triton_xe.lowering.spirv import emit_spirv, spirv_target
from triton_xe.spirv import attached_llvm_ir, ids_are_sound, instructions

TEXT = """target triple = "spirv64-unknown-unknown"
define spir_kernel void @copy(ptr addrspace(1) %a, i32 %n) {
entry:
  br label %body
body:
  %i = phi i32 [0, %entry], [%j, %body]
  %p = getelementptr float, ptr addrspace(1) %a, i32 %i
  %x = load float, ptr addrspace(1) %p, align 4
  %y = fadd float %x, 1.0
  store float %y, ptr addrspace(1) %p, align 4
  %j = add i32 %i, 1
  %more = icmp slt i32 %j, %n
  br i1 %more, label %body, label %done
done:
  ret void
}
"""
LABEL, VOID = 248, 19


def with_first_label(binary, number):
    """The module with its first label renamed, as by a stale table."""
    at = next(start for opcode, start, _ in instructions(binary) if opcode == LABEL)
    return binary[: at + 4] + struct.pack("<I", number) + binary[at + 8 :]


def id_of_void(binary):
    at = next(start for opcode, start, _ in instructions(binary) if opcode == VOID)
    return struct.unpack_from("<I", binary, at + 4)[0]


def test_sound_and_unsound_modules():
    binary = emit_spirv.emit_spirv(TEXT)
    assert ids_are_sound(binary)
    assert not ids_are_sound(with_first_label(binary, id_of_void(binary)))
    assert not ids_are_sound(with_first_label(binary, 1 << 20))


def test_an_unsound_module_is_written_by_a_new_process(monkeypatch, tmp_path):
    (tmp_path / "python").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))  # knows no packages

    class Machine:
        def emit_object(self, module):
            binary = emit_spirv._from_new_process(TEXT)
            return with_first_label(binary, id_of_void(binary))

    monkeypatch.setattr(spirv_target, "_machine", Machine)
    binary = emit_spirv.emit_spirv(TEXT)
    assert ids_are_sound(binary)
    assert attached_llvm_ir(binary) == TEXT
