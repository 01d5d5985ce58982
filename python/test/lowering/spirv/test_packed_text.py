"""Texts inside of SPIR-V modules are read as they were written, also by later versions."""

import base64
import zlib

import pytest

from triton_xe.errors import DeviceError
from triton_xe.packed_text import pack, unpack
from triton_xe.spirv import LLVM_IR, MARK, attached


@pytest.mark.parametrize("text", ["", "a", "\0" * 50, "ä€😀\0", "add i32 %a, %b\n" * 5000],
                         ids=["empty", "one", "zeros", "unicode", "long"])
def test_texts_are_restored(text):
    packed = pack(text)
    assert unpack(packed) == text
    assert "\0" not in packed
    assert packed.encode().decode() == packed


@pytest.mark.parametrize("text", [
    "%v1 = add i32 %v0, %v01\n%v3 = phi [%v3, %v7]\n%v1 = f(%v3)", "%v2 = %v1-1%v10 = %v",
    "%v" + "9" * 9999, "%v3 = \2", "\0031 = %v1 = 2", "%v\u0661 = %v1"])
def test_names_of_values_are_restored(text):
    assert unpack(pack(text)) == text


def test_strings_of_all_lengths_are_restored():
    texts = [f"{n:x}" * n for n in range(64)]
    assert [unpack(pack(text)) for text in texts] == texts


@pytest.mark.parametrize("first", ["\x01", "\x02"])
def test_modules_of_this_version_stay_readable(first):
    """A change of the sample, or of the digits, makes these strings unreadable."""
    packed, text = PACKED[first]
    assert unpack(first + packed) == text


def test_modules_with_base64_are_read():
    assert unpack(base64.b64encode(zlib.compress(TEXT.encode())).decode()) == TEXT


def test_a_text_of_another_version_is_refused():
    writer = zlib.compressobj(zdict=b"another sample")
    packed = base64.b64encode(writer.compress(TEXT.encode()) + writer.flush())
    with pytest.raises(DeviceError, match="another version of triton-xe: compile the kernel"):
        attached(f"{MARK}{LLVM_IR} 0 ".encode() + packed + b"\0", LLVM_IR)


def test_small_texts_become_smaller():
    plain = base64.b64encode(zlib.compress(TEXT.encode()))
    assert len(pack(TEXT).encode()) < len(plain) / 2


TEXT = """define spir_kernel void @"copy"(ptr addrspace(1) %".1", ptr addrspace(1) %".2") {
entry:
  %".4" = call spir_func i32 @"_Z22get_sub_group_local_idv"()
  %".5" = sext i32 %".4" to i64
  %".6" = getelementptr i8, ptr addrspace(1) %".1", i64 %".5"
  ret void
}
"""
NAMED = """define spir_kernel void @copy(ptr addrspace(1) %a0) {
entry:
  %v1 = call spir_func i32 @_Z22get_sub_group_local_idv()
  %v2 = sext i32 %v1 to i64
  %v4 = getelementptr i8, ptr addrspace(1) %a0, i64 %v2
  ret void
}
"""
PACKED = {
    "\x01": ("^\x178r\\e$ao:b\x19d?(@q\x16Qlh\x14HBH\x07\x07lFoh\x01\x0eR(\x01{(`A\x0eZ&\x02\x1bxX"
             "\x01\x14B\x1079x!*U@\x80FY\x17\x01", TEXT),
    "\x02": ("/\x0b\\9.2R0w\x1d1\x0cs?P\x04I:R(iP*\x10\x05.DabTM\x1e\x01'P5\x1b(\x1f>\x04\x80\x14"
             "LBb\x80 ;\x18F#c\x01\"\x80i\x07S\x18dBV^`\x0e,A\x01(", NAMED),
}
