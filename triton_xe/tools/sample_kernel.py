"""Small kernels as LLVM IR, for checking a compiler or a driver without the Triton pipeline."""

from __future__ import annotations

from triton_xe.intrinsics import genisa, opencl
from triton_xe.spirv import LLVM_IR
from triton_xe.spirv import attach as attach_text

GROUP_SIZE = 64
"""Work-items per work-group of every kernel here, as one x dimension."""

_POINTER = "ptr addrspace(1)"
_GROUP_ID = opencl.GROUP_ID.symbol("i64", ["i32"])
_LOCAL_ID = opencl.LOCAL_ID.symbol("i64", ["i32"])
_LOAD = genisa.PREDICATED_LOAD.symbol("float", [_POINTER, "i64", "i1", "float"])
_STORE = genisa.PREDICATED_STORE.symbol("void", [_POINTER, "float", "i64", "i1"])
_HEAD = f"""
target triple = "spirv64-unknown-unknown"
declare spir_func i64 @{_GROUP_ID}(i32)
declare spir_func i64 @{_LOCAL_ID}(i32)
"""
_INDEX = f"""
  %group = call spir_func i64 @{_GROUP_ID}(i32 0)
  %local = call spir_func i64 @{_LOCAL_ID}(i32 0)
  %first = mul i64 %group, {GROUP_SIZE}
  %i = add i64 %first, %local
"""
_ATTRIBUTES = "!intel_reqd_sub_group_size !0 !reqd_work_group_size !1"


def _tail(subgroup_size: int) -> str:
    return f"\n!0 = !{{i32 {subgroup_size}}}\n!1 = !{{i32 {GROUP_SIZE}, i32 1, i32 1}}\n"


def vector_add(subgroup_size: int = 16) -> str:
    """`vector_add(ptr a, ptr b, ptr c, i32 n)`: c[i] = a[i] + b[i] for i < n, float32."""
    return f"""{_HEAD}
declare float @{_LOAD}(ptr addrspace(1), i64, i1, float)
declare void @{_STORE}(ptr addrspace(1), float, i64, i1)
define spir_kernel void @vector_add(ptr addrspace(1) %a, ptr addrspace(1) %b,
                                    ptr addrspace(1) %c, i32 %n) {_ATTRIBUTES} {{
entry:{_INDEX}
  %i32 = trunc i64 %i to i32
  %inside = icmp slt i32 %i32, %n
  %pa = getelementptr float, ptr addrspace(1) %a, i64 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i64 %i
  %pc = getelementptr float, ptr addrspace(1) %c, i64 %i
  %x = call float @{_LOAD}(ptr addrspace(1) %pa, i64 4, i1 %inside, float 0.0)
  %y = call float @{_LOAD}(ptr addrspace(1) %pb, i64 4, i1 %inside, float 0.0)
  %z = fadd float %x, %y
  call void @{_STORE}(ptr addrspace(1) %pc, float %z, i64 4, i1 %inside)
  ret void
}}{_tail(subgroup_size)}"""


def register_pressure(live: int, subgroup_size: int = 16) -> str:
    """`register_pressure(ptr a, ptr c)`: keeps `live` float32 values per work-item alive."""
    lines = []
    for n in range(live):
        lines += [
            f"  %k{n} = add i64 %i, {n * GROUP_SIZE}",
            f"  %p{n} = getelementptr float, ptr addrspace(1) %a, i64 %k{n}",
            f"  %v{n} = load volatile float, ptr addrspace(1) %p{n}, align 4",
        ]
    lines.append("  %s0 = fadd float %v0, 1.0")
    lines += [f"  %s{n} = fadd float %s{n - 1}, %v{n}" for n in range(1, live)]
    for n in range(live):
        lines += [
            f"  %r{n} = fmul float %v{n}, %s{live - 1}",
            f"  %q{n} = getelementptr float, ptr addrspace(1) %c, i64 %k{n}",
            f"  store float %r{n}, ptr addrspace(1) %q{n}, align 4",
        ]
    body = "\n".join(lines)
    return f"""{_HEAD}
define spir_kernel void @register_pressure(ptr addrspace(1) %a,
                                           ptr addrspace(1) %c) {_ATTRIBUTES} {{
entry:{_INDEX}{body}
  ret void
}}{_tail(subgroup_size)}"""


def many_arguments(pointers: int, integers: int, subgroup_size: int = 16) -> str:
    """`many_arguments(ptr p0.., i32 n0..)`: p0[i] = n0 + n1 + ..., for measuring a launch."""
    params = [f"ptr addrspace(1) %p{n}" for n in range(pointers)]
    params += [f"i32 %n{n}" for n in range(integers)]
    sums = "\n".join(f"  %s{n + 1} = add i32 %s{n}, %n{n}" for n in range(integers))
    return f"""{_HEAD}
define spir_kernel void @many_arguments({", ".join(params)}) {_ATTRIBUTES} {{
entry:{_INDEX}
  %s0 = trunc i64 %i to i32
{sums}
  %q = getelementptr i32, ptr addrspace(1) %p0, i64 %i
  store i32 %s{integers}, ptr addrspace(1) %q, align 4
  ret void
}}{_tail(subgroup_size)}"""


def to_spirv(text: str, *, attach: bool = True) -> bytes:
    """The SPIR-V module of LLVM IR `text`, with the text attached unless `attach` is false."""
    from triton_xe.lowering.spirv.emit_spirv import write_spirv

    binary = write_spirv(text)
    return attach_text(binary, LLVM_IR, text) if attach else binary
