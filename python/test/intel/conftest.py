"""Fixtures of the tests that use Intel's offline compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from triton_xe.lowering.emit import module

_ROWS, _COLUMNS, _DEPTH = range(4), range(2), range(2)
_READ_ARGUMENTS = "i64,i32,i32,i32,i32,i32,i32,i32,i32,i32,i1,i1,i32"
_DPAS = "llvm.genx.GenISA.sub.group.dpas.v8f32.v8f32.v8i16.v8i32"


@pytest.fixture
def leave_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """`leave_out("keep_roundings")`: emit modules without that step."""
    def leave_out_step(name: str) -> None:
        monkeypatch.setattr(module, name, lambda state: None)
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))

    return leave_out_step


@pytest.fixture
def block_gemm() -> str:
    """LLVM IR of a 32x32 fp16 tile per subgroup: 2 block loads, a prefetch and 16 DPAS per 32 k."""
    tiles = [(m, n) for m in _ROWS for n in _COLUMNS]
    phis = [
        f"%acc{m}{n} = phi <8 x float> [zeroinitializer, %entry], [%d{m}{n}1, %loop]"
        for m, n in tiles
    ]
    body = []
    for k in _DEPTH:
        for m in _ROWS:
            body.append(f"%pa{m}{k} = getelementptr i8, ptr %abuf, i64 {(k * 32 + m * 8) * 2}")
            body.append(f"%a{m}{k} = load <8 x i16>, ptr %pa{m}{k}, align 16")
        for n in _COLUMNS:
            body.append(f"%pb{n}{k} = getelementptr i8, ptr %bbuf, i64 {(n * 16 + k * 8) * 4}")
            body.append(f"%b{n}{k} = load <8 x i32>, ptr %pb{n}{k}, align 32")
        for m, n in tiles:
            acc = f"%d{m}{n}0" if k else f"%acc{m}{n}"
            body.append(
                f"%d{m}{n}{k} = call <8 x float> @{_DPAS}(<8 x float> {acc}, <8 x i16> %a{m}{k}, "
                f"<8 x i32> %b{n}{k}, i32 12, i32 12, i32 8, i32 8, i1 false)"
            )
    stores = [
        f"%i{m}{n} = bitcast <8 x float> %d{m}{n}1 to <8 x i32>\n"
        f"call void @llvm.genx.GenISA.LSC2DBlockWrite.v8i32(i64 %c64, i32 %w, i32 %h, i32 %p, "
        f"i32 {n * 16}, i32 {m * 8}, i32 32, i32 16, i32 8, i32 1, i1 false, i1 false, i32 0, "
        f"<8 x i32> %i{m}{n})"
        for m, n in tiles
    ]
    newline = "\n"
    return f"""
target triple = "spirv64-unknown-unknown"
declare <64 x i16> @llvm.genx.GenISA.LSC2DBlockRead.v64i16({_READ_ARGUMENTS})
declare <32 x i32> @llvm.genx.GenISA.LSC2DBlockRead.v32i32({_READ_ARGUMENTS})
declare void @llvm.genx.GenISA.LSC2DBlockPrefetch({_READ_ARGUMENTS})
declare void @llvm.genx.GenISA.LSC2DBlockWrite.v8i32({_READ_ARGUMENTS},<8 x i32>)
declare <8 x float> @{_DPAS}(<8 x float>,<8 x i16>,<8 x i32>,i32,i32,i32,i32,i1)
define spir_kernel void @gemm(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c,
    i32 %w, i32 %h, i32 %p, i32 %K) !intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {{
entry:
%abuf = alloca <64 x i16>, align 64
%bbuf = alloca <32 x i32>, align 64
%a64 = ptrtoint ptr addrspace(1) %a to i64
%b64 = ptrtoint ptr addrspace(1) %b to i64
%c64 = ptrtoint ptr addrspace(1) %c to i64
br label %loop
loop:
%k = phi i32 [0, %entry], [%next, %loop]
{newline.join(phis)}
%av = call <64 x i16> @llvm.genx.GenISA.LSC2DBlockRead.v64i16(i64 %a64, i32 %w, i32 %h, i32 %p,
    i32 %k, i32 0, i32 16, i32 16, i32 32, i32 2, i1 false, i1 false, i32 0)
store <64 x i16> %av, ptr %abuf, align 64
%bv = call <32 x i32> @llvm.genx.GenISA.LSC2DBlockRead.v32i32(i64 %b64, i32 %w, i32 %h, i32 %p,
    i32 0, i32 %k, i32 16, i32 16, i32 32, i32 2, i1 false, i1 true, i32 0)
store <32 x i32> %bv, ptr %bbuf, align 64
%ahead = add i32 %k, 64
call void @llvm.genx.GenISA.LSC2DBlockPrefetch(i64 %a64, i32 %w, i32 %h, i32 %p, i32 %ahead, i32 0,
    i32 16, i32 32, i32 8, i32 1, i1 false, i1 false, i32 4)
{newline.join(body)}
%next = add i32 %k, 32
%more = icmp slt i32 %next, %K
br i1 %more, label %loop, label %done
done:
{newline.join(stores)}
ret void
}}
!0 = !{{i32 16}}
!1 = !{{i32 16, i32 1, i32 1}}
"""
