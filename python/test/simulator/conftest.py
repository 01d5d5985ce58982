"""Fixtures: a simulated device and a short way to run hand-written LLVM kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_xe.runtime.simulator.device import SimulatedDevice

DECLARATIONS = """
declare i64 @_Z12get_group_idj(i32)
declare i64 @_Z12get_local_idj(i32)
declare i64 @_Z14get_num_groupsj(i32)
declare i32 @_Z16get_sub_group_idv()
declare i32 @_Z22get_sub_group_local_idv()
declare void @_Z22__spirv_ControlBarrieriii(i32, i32, i32)
"""

Array = NDArray[Any]


def aligned(array: Array) -> Array:
    """A copy at a 64-byte aligned address, as device memory is."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def kernel_text(
    parameters: str, body: str, *, warps: int = 1, lanes: int = 16, other: str = ""
) -> str:
    """A module with the kernel `k`; declarations of the ids are added as needed."""
    known = "\n".join(d for d in DECLARATIONS.splitlines() if d.split("@")[-1].split("(")[0] in body
                      and d)
    return f"""
define spir_kernel void @k({parameters}) !intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {{
{body}
  ret void
}}
{known}
{other}
!0 = !{{i32 {lanes}}}
!1 = !{{i32 {warps * lanes}, i32 1, i32 1}}
"""


@pytest.fixture
def device() -> SimulatedDevice:
    return SimulatedDevice("bmg")


@pytest.fixture
def run(device: SimulatedDevice) -> Callable[..., None]:
    """`run(text, *arguments, grid=(1, 1, 1))`: arrays are passed by address."""

    def call(text: str, *arguments: Array | int | float, grid: Sequence[int] = (1, 1, 1)) -> None:
        kernel = device.load(text.encode(), "k")
        values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        device.launch(kernel, (grid[0], grid[1], grid[2]), values)

    return call


@pytest.fixture
def kernel() -> Callable[..., str]:
    return kernel_text


@pytest.fixture
def align() -> Callable[[Array], Array]:
    return aligned


@pytest.fixture
def without_visa(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Functions stay LLVM IR in SPIR-V, for what does not know vISA; other tests run that."""
    monkeypatch.setattr("triton_xe.lowering.spirv.emit_spirv.use_visa", lambda module: None)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
