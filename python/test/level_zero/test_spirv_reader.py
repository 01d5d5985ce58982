"""What is read from a SPIR-V module is what the LLVM IR said."""

from __future__ import annotations

import struct

import pytest

from triton_xe.errors import DeviceError, UnsupportedError
from triton_xe.runtime.spirv_reader import EntryPoint, entry_point, entry_points
from triton_xe.tools.sample_kernel import to_spirv, vector_add

TEXT = """
target triple = "spirv64-unknown-unknown"
@slm = internal addrspace(3) global [4096 x i8] undef, align 64
define spir_kernel void @every_type(ptr addrspace(1) %a, i1 %b, i8 %c, i16 %d, i32 %e, i64 %f,
    half %g, float %h, double %i, ptr addrspace(3) %z)
    !intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {
  %x = zext i1 %b to i8
  store i8 %x, ptr addrspace(1) %a
  %q = getelementptr i8, ptr addrspace(3) @slm, i64 %f
  store i8 %x, ptr addrspace(3) %q
  ret void
}
define spir_kernel void @plain(i32 %e) {
  ret void
}
define spir_kernel void @vector(<4 x i32> %e) {
  ret void
}
!0 = !{i32 16}
!1 = !{i32 64, i32 2, i32 1}
"""


def test_every_argument_type() -> None:
    found = entry_point(to_spirv(TEXT.replace("<4 x i32>", "i64")), "every_type")
    types = ("ptr", "i1", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "slm")
    assert found == EntryPoint("every_type", types, subgroup_size=16, group_size=(64, 2, 1))


def test_kernels_without_sizes() -> None:
    spirv = to_spirv(TEXT.replace("<4 x i32>", "i64"))
    assert list(entry_points(spirv)) == ["every_type", "plain", "vector"]
    assert entry_points(spirv)["plain"] == EntryPoint("plain", ("i32",))


def test_parameter_that_cannot_be_passed() -> None:
    with pytest.raises(UnsupportedError, match="parameter 0 of kernel 'vector'"):
        entry_points(to_spirv(TEXT))


def test_missing_kernel_and_damaged_modules() -> None:
    spirv = to_spirv(vector_add())
    with pytest.raises(DeviceError, match="no kernel 'x'; it has: vector_add"):
        entry_point(spirv, "x")
    for damaged in (b"", b"\0" * 64, spirv[:-8] + struct.pack("<II", 9 << 16, 0), spirv[:-3]):
        with pytest.raises(DeviceError, match="SPIR-V module"):
            entry_points(damaged)
    future = spirv[:4] + struct.pack("<I", 2 << 16) + spirv[8:]
    with pytest.raises(DeviceError, match=r"version 2.0 is not supported"):
        entry_points(future)
