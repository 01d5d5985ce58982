"""Kernels with a version for arguments that were seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from python.test.filecheck import check_text
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis import in_step
from triton_xe.runtime.simulator.analysis.shapes import ShapeAnalysis
from triton_xe.runtime.simulator.host_kernel import Form
from triton_xe.runtime.simulator.pipeline import translate
from triton_xe.runtime.simulator.rewrites.known_arguments import mask_arguments, with_arguments
from triton_xe.runtime.simulator.run.kernel_module import canonical

P = "ptr addrspace(1)"
BARRIER = "  call void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)\n"
LOAD = "llvm.genx.GenISA.PredicatedLoad.f32.p1.f32"
OTHER = f"declare float @{LOAD}({P}, i64, i1, float)"
MASKED = f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %sg = call i32 @_Z16get_sub_group_idv()
  %base = mul i32 %sg, 16
  %at = add i32 %base, %lane
  %m = icmp slt i32 %at, %n
  %from = getelementptr float, {P} %a, i32 %at
  %x = call float @{LOAD}({P} %from, i64 4, i1 %m, float 1.0)
{BARRIER}  %to = getelementptr float, {P} %b, i32 %at
  store float %x, {P} %to"""
PARAMETERS = f"{P} %a, {P} %b, i32 %n, i32 %other"


@pytest.mark.parametrize(("form", "n", "is_known"), [
    ("written out", 32, True), ("written out", 20, True), ("loops", 32, True), ("loops", 20, False),
])
def test_masks_are_known_in_the_version(
    kernel: Callable[..., str], monkeypatch: pytest.MonkeyPatch, form: str, n: int, is_known: bool
) -> None:
    monkeypatch.setattr(in_step, "MOST", 1 << 30 if form == "written out" else -1)
    module = parse_module(canonical(kernel(PARAMETERS, MASKED, warps=2, other=OTHER)))
    found = translate(module, "k", target("bmg"), Form(in_step=True, arguments=(0, 0, n, 7)))
    check_text(found.text, f"""
        CHECK: define void @xe_kernel(
        CHECK: icmp eq i32 {{{{.*}}}}, {n}
        CHECK-NOT: icmp eq
        CHECK: define internal void @xe_kernel_general(
        CHECK: icmp slt <16 x i32>
        CHECK: define internal void @xe_kernel_special(
        CHECK{"-NOT" if is_known else ""}: icmp slt <16 x i32>
        """)


def test_other_arguments_stay(kernel: Callable[..., str]) -> None:
    """An argument that no mask depends on, and one that is compared with unknown numbers."""
    body = MASKED.replace("%base = mul i32 %sg, 16", "%base = mul i32 %sg, %other")
    for text, expected in ((MASKED, {"%n": 20}), (body, {})):
        module = parse_module(canonical(kernel(PARAMETERS, text, warps=2, other=OTHER)))
        (function,) = module.kernels()
        shapes = ShapeAnalysis(module, 16, range(2))
        assert mask_arguments(function, (0, 0, 20, 7), shapes) == expected
        made = with_arguments(function, expected)
        used = {x for i in made.instructions() for x in i.locals()}
        assert ("%n" in used) == (not expected)
