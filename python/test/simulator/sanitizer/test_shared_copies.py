"""Warps that store the same values to one place of shared memory, and what they do about it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.device import SimulatedDevice

P = "ptr addrspace(1)"
HEAD = """
entry:
  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()
  %sg = call spir_func i32 @_Z16get_sub_group_idv()
  %high = shl i32 %sg, 4
  %place = mul i32 %lane, STEP
  %at = getelementptr i32, ptr addrspace(3) @slm, i32 %place
  %row = add i32 %high, %lane
  %further = add i32 %row, 272
  %mine = getelementptr i32, ptr addrspace(1) %out, i32 %row
  %other = add i32 %lane, %sg
  %away = getelementptr i32, ptr addrspace(3) @slm, i32 %further
"""
BARRIER = "  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)\n"
SAME = "  store i32 %lane, ptr addrspace(3) %at, align 4\n"
OTHER = "  store i32 %other, ptr addrspace(3) %at, align 4\n"
AWAY = "  store i32 %further, ptr addrspace(3) %away, align 4\n"
LOAD = "  %{0} = load i32, ptr addrspace(3) %at, align 4\n"
OUT = "  store i32 %{0}, ptr addrspace(1) %mine, align 4"
LAST = """  %is = icmp eq i32 %sg, 4
  br i1 %is, label %then, label %after
then:
  %z = load i32, ptr addrspace(3) %at, align 4
  store i32 %z, ptr addrspace(1) %mine, align 4
  br label %after
after:
"""
"""Only the warp that stores last looks at what it stored."""
SHARED = "@slm = internal addrspace(3) global [2048 x i8] undef, align 64"


@pytest.mark.covering
@pytest.mark.parametrize("apart", [1, 16], ids=["in a row", "in lines of their own"])
@pytest.mark.parametrize(("steps", "bug"), [
    ([SAME, BARRIER, "a"], ""),
    (["a"], "uninitialised"),
    ([SAME, SAME, BARRIER, "a"], ""),
    ([SAME, BARRIER, "a", BARRIER, SAME, BARRIER, "b"], ""),
    ([SAME, LAST, BARRIER, "a"], ""),
    ([SAME, AWAY, LAST, BARRIER, "a"], ""),
    ([SAME, BARRIER, "a", BARRIER, SAME, LAST, BARRIER, "b"], ""),
    ([SAME, "a"], "store"),
    ([SAME, BARRIER, SAME, "a"], "store"),
    ([SAME, BARRIER, "a", SAME], "load"),
    ([SAME, LAST, OTHER, BARRIER, "a"], "load"),
    ([OTHER, BARRIER, "a"], "load"),
    ([SAME, OTHER, BARRIER, "a"], "load"),
    ([OTHER, SAME, BARRIER, "a"], "load"),
    ([SAME, BARRIER, SAME, OTHER, BARRIER, BARRIER, "a"], "load"),
    ([OTHER, BARRIER, SAME, BARRIER, "a"], ""),
])
def test_copies(
    steps: list[str], bug: str, apart: int, device: SimulatedDevice, kernel: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    rest = (LOAD.format(x) if len(x) == 1 else x for x in steps)
    body = HEAD.replace("STEP", str(apart)) + "".join(rest)
    last = next(x for x in reversed(steps) if len(x) == 1)
    text = kernel(f"{P} %out", body + OUT.format(last), warps=5, other=SHARED)
    loaded, buffer = device.load(text.encode(), "k"), device.allocate(4 * 5 * 16)
    if bug:
        found = "no store of this work-group" if bug == "uninitialised" else f"data race: {bug}"
        with pytest.raises(SimulatorTrap, match=found):
            device.launch(loaded, (1, 1, 1), [buffer.pointer])
        return
    device.launch(loaded, (1, 1, 1), [buffer.pointer])
    out = np.empty((5, 16), np.int32)
    device.copy_to_host(out, buffer.pointer)
    np.testing.assert_array_equal(out, np.broadcast_to(np.arange(16), (5, 16)))
