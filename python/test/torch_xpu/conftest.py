"""The `xpu` fixture: the simulated device in this process, or a skip that says why not."""

from __future__ import annotations

import pytest

from triton_xe.errors import DeviceError
from triton_xe.runtime import selection, torch_xpu


@pytest.fixture(scope="session")
def xpu() -> None:
    torch = pytest.importorskip("torch")
    chosen = selection.select()
    if chosen.kind != "sim" or selection.torch_build() != "other":
        pytest.skip(f"no simulated device: {chosen.reason}")
    try:
        torch.empty(0, device="xpu")
    except DeviceError as error:
        pytest.skip(str(error))
    assert torch_xpu.is_loaded()
