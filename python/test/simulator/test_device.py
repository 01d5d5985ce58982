"""What Triton sees of a simulated kernel."""

from __future__ import annotations

import pytest

from triton_xe.hardware.register_file import RegisterFile
from triton_xe.runtime.simulator.device import SimulatedDevice

KERNEL = b"""
define spir_kernel void @k() !intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {
  ret void
}
!0 = !{i32 16}
!1 = !{i32 16, i32 1, i32 1}
"""


@pytest.mark.parametrize("file", [RegisterFile(), RegisterFile(256), RegisterFile(automatic=True),
                                  RegisterFile(96)])
def test_register_files_are_read_back_from_their_flag(file: RegisterFile) -> None:
    flags = f"-ze-opt-level=2 {file.flag}"
    assert RegisterFile.of_flags(flags) == file
    kernel = SimulatedDevice("bmg").load(KERNEL, "k", build_flags=flags)
    assert kernel.n_registers == (file.registers or 128)
