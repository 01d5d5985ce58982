"""Fallbacks behind guards are compiled only when a subgroup takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import triton
from triton.backends.compiler import GPUTarget

from benchmarks.compile_time import OPTIONS, tutorial_source
from triton_xe.backend.general_version import general_version
from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.runtime.simulator.host_kernel import WHOLE, Part

Text = Callable[..., str]
P = "ptr addrspace(1)"
G = "llvm.genx.GenISA."
SURFACE = "i64, i32, i32, i32, i32, i32, i32, i32, i32, i32, i1, i1, i32"
WAIT = "call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)"
DECLARED = (f"declare <8 x i32> @{G}LSC2DBlockRead.r({SURFACE})\n"
            f"declare void @{G}LSC2DBlockWrite.w({SURFACE}, <8 x i32>)\n!2 = !{{i32 0}}")


def copy_text(
    kernel: Text, guard: str, *, before: str = "", fallback_end: str = "", fast_end: str = "",
    warps: int = 1,
) -> str:
    """Copy 8 rows of 16 words per subgroup: blocks if the guard is false, else word by word."""
    rows = "\n".join(f"""
  %i{r} = add i32 %start, {16 * r}
  %j{r} = add i32 %i{r}, %lane
  %a{r} = getelementptr i32, {P} %in, i32 %j{r}
  %b{r} = getelementptr i32, {P} %out, i32 %j{r}
  %v{r} = load i32, {P} %a{r}, align 4
  %w0{r} = xor i32 %v{r}, 1
  %w1{r} = xor i32 %w0{r}, 2
  %w2{r} = xor i32 %w1{r}, 3
  %w3{r} = add i32 %w2{r}, 5
  %w4{r} = sub i32 %w3{r}, 5
  %w5{r} = mul i32 %w4{r}, 1
  %w6{r} = or i32 %w5{r}, 0
  store i32 %w6{r}, {P} %b{r}, align 4""" for r in range(8))
    shape = "i32 32, i32 16, i32 8, i32 1, i1 false, i1 false, i32 0"
    body = f"""
entry:
  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()
  %sg = call spir_func i32 @_Z16get_sub_group_idv()
  %g64 = call spir_func i64 @_Z12get_group_idj(i32 0)
  %g = trunc i64 %g64 to i32
  %ga = mul i32 %g, {warps}
  %tile = add i32 %ga, %sg
  %row = mul i32 %tile, 8
  %start = mul i32 %row, 16
  %h = sub i32 %n, 1
  {before}
  {guard}
  br i1 %cold, label %slow, label %fast, !xe.fallback !2
fast:
  %ia = ptrtoint {P} %in to i64
  %ib = ptrtoint {P} %out to i64
  %x = call <8 x i32> @{G}LSC2DBlockRead.r(i64 %ia, i32 63, i32 %h, i32 63, i32 0, i32 %row, {shape})
  call void @{G}LSC2DBlockWrite.w(i64 %ib, i32 63, i32 %h, i32 63, i32 0, i32 %row, {shape}, <8 x i32> %x)
  {fast_end}
  br label %done
slow:
  {rows}
  {fallback_end}
  br label %done
done:"""  # noqa: E501
    return kernel(f"{P} %in, {P} %out, i32 %n, i32 %odd", body, warps=warps, other=DECLARED)


def launch(device: SimulatedDevice, text: str, align: Any, odd: int, groups: int = 12,
           warps: int = 1) -> Any:
    rows = groups * warps * 8
    source = align(np.arange(rows * 16, dtype=np.int32).reshape(rows, 16))
    out = align(np.zeros_like(source))
    kernel = device.load(text.encode(), "k")
    assert not kernel.host.is_whole
    device.launch(kernel, (groups, 1, 1), [source.ctypes.data, out.ctypes.data, rows, odd])
    np.testing.assert_array_equal(out, source)
    return kernel


@pytest.mark.parametrize(("odd", "compiled", "prefers"), [(0, False, False), (4, True, False),
                                                          (1, True, True)])
def test_only_the_subgroups_that_left_run_again(
    device: SimulatedDevice, kernel: Text, align: Any, odd: int, compiled: bool, prefers: bool
) -> None:
    guard = ("%r = urem i32 %tile, 5\n  %some = icmp ult i32 %r, %odd\n"
             "  %cold = and i1 %some, true")
    if odd == 4:
        guard = "%cold = icmp ult i32 %tile, %odd"
    elif odd == 1:
        guard = "%cold = icmp eq i32 %odd, 1"
    loaded = launch(device, copy_text(kernel, guard, warps=4), align, odd, warps=4)
    assert (WHOLE.key in loaded.forms) is compiled
    assert loaded.prefers_whole is prefers


def test_fallback_with_a_barrier_runs_whole_groups(
    device: SimulatedDevice, kernel: Text, align: Any
) -> None:
    text = copy_text(kernel, "%cold = icmp eq i32 %g, %odd", fallback_end=WAIT, warps=4)
    loaded = launch(device, text, align, 3, warps=4)
    assert WHOLE.key in loaded.forms
    assert not loaded.host.has_barrier
    assert loaded.forms[WHOLE.key].host.has_barrier


def test_barrier_behind_a_guard_of_the_work_group(
    device: SimulatedDevice, kernel: Text, align: Any
) -> None:
    text = copy_text(kernel, "%cold = icmp eq i32 %g, %odd", fallback_end=WAIT, fast_end=WAIT,
                     warps=4)
    loaded = launch(device, text, align, 3, warps=4)
    assert loaded.host.has_barrier
    assert WHOLE.key in loaded.forms


def test_barrier_behind_a_guard_of_the_subgroup_keeps_the_kernel_whole(
    device: SimulatedDevice, kernel: Text
) -> None:
    text = copy_text(kernel, "%cold = icmp eq i32 %sg, %odd", fast_end=WAIT, warps=4)
    assert device.load(text.encode(), "k").host.is_whole


def test_guard_after_a_store_keeps_the_kernel_whole(
    device: SimulatedDevice, kernel: Text
) -> None:
    text = copy_text(kernel, "%cold = icmp eq i32 %g, %odd",
                     before=f"store i32 1, {P} %out, align 4")
    assert device.load(text.encode(), "k").host.is_whole


def test_the_compiler_says_which_version_is_the_fallback(device: SimulatedDevice) -> None:
    target = GPUTarget("xpu", "bmg", 16)
    options = {**OPTIONS, "guards": "kernel"}
    compiled = triton.compile(tutorial_source(), target=target, options=options)
    assert not device.load(compiled.asm["spv"], compiled.name).host.is_whole


def test_the_version_for_other_launches_has_its_fallbacks(device: SimulatedDevice) -> None:
    compiled = triton.compile(
        tutorial_source(), target=GPUTarget("xpu", "bmg", 16), options=OPTIONS)
    binary = compiled.asm["spv"]
    kernel = device.load(binary, compiled.name, general=partial(general_version, binary))
    assert not device.load(general_version(binary)[0], compiled.name).host.is_whole
    assert kernel.versions is not None
    assert kernel.versions.general("a condition").host.is_whole


CHECKED = [
    ("%cold = icmp eq i32 %g, %odd", 3, True),
    ("%cold = icmp eq i32 %g, %odd", 12, False),
    ("%q = sdiv i32 %g, %odd\n  %cold = icmp eq i32 %q, 5", 2, True),
    ("%q = sdiv i32 %g, %odd\n  %cold = icmp eq i32 %q, 6", 2, False),
    ("%q = sdiv i32 %g, %odd\n  %cold = icmp eq i32 %q, 5", -1, True),
    ("%q = sdiv i32 %g, 2\n  %cold = icmp eq i32 %q, %odd", 6, False),
    ("%cold = icmp ult i32 %tile, %odd", 0, True),
    ("%none = icmp eq i32 %odd, 0\n  br i1 %none, label %fast, label %divide\n"
     "divide:\n  %q = sdiv i32 %g, %odd\n  %cold = icmp sgt i32 %q, 20", 0, True),
    ("%none = icmp eq i32 %odd, 0\n  br i1 %none, label %fast, label %divide\n"
     "divide:\n  %q = sdiv i32 %g, %odd\n  %cold = icmp sgt i32 %q, 20", 3, False),
]
"""A guard, its argument, and whether a checked launch of 12 work-groups compiles it all."""


class Checked:
    """Checked launches of `copy_text` on device memory."""

    def __init__(self, device: SimulatedDevice, text: str) -> None:
        self.device, self.rows = device, 8 * 12
        self.kernel = device.load(text.encode(), "k")
        self.source = np.arange(self.rows * 16, dtype=np.int32)
        self.input = device.allocate(self.source.nbytes)
        device.copy_to_device(self.input.pointer, self.source)

    def run(self, odd: int, out_rows: int) -> Any:
        out = self.device.allocate(out_rows * 64)
        self.device.launch(self.kernel, (12, 1, 1),
                           [self.input.pointer, out.pointer, self.rows, odd], sanitize=True)
        found = np.zeros_like(self.source)
        self.device.copy_to_host(found, out.pointer)
        return found


@pytest.mark.parametrize(("guard", "odd", "whole"), CHECKED)
def test_a_checked_launch_leaves_out_what_no_work_group_needs(
    device: SimulatedDevice, kernel: Text, guard: str, odd: int, whole: bool
) -> None:
    work = Checked(device, copy_text(kernel, guard))
    np.testing.assert_array_equal(work.run(odd, work.rows), work.source)
    (compiled,) = [made for made in work.kernel.forms.values() if made.form.plan]
    assert compiled.host.is_whole is whole


@pytest.mark.parametrize("odd", [3, 12])
def test_a_checked_launch_finds_faults_on_either_side(
    device: SimulatedDevice, kernel: Text, odd: int
) -> None:
    work = Checked(device, copy_text(kernel, "%cold = icmp eq i32 %g, %odd"))
    with pytest.raises(SimulatorTrap, match="out-of-bounds"):
        work.run(odd, work.rows - 1)
    parts = [made.form.part for made in work.kernel.forms.values() if made.form.plan]
    assert parts == [Part.WHOLE if odd == 3 else Part.KNOWN]
