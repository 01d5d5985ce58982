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


def test_strings_of_all_lengths_are_restored():
    texts = [f"{n:x}" * n for n in range(64)]
    assert [unpack(pack(text)) for text in texts] == texts


def test_modules_of_this_version_stay_readable():
    """A change of the sample, or of the digits, makes this string unreadable."""
    assert unpack(PACKED) == TEXT


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
PACKED = (
    "\x01^\x178r\\e$ao:b\x19d?(@q\x16Qlh\x14HBH\x07\x07lFoh\x01\x0eR(\x01{(`A\x0eZ&\x02\x1bxX"
    "\x01\x14B\x1079x!*U@\x80FY\x17\x01"
)
