"""`torch.backends.mkldnn.allow_tf32`, which a CPU build of torch lacks: products of floats in TF32.

torch is imported inside functions only: importing torch runs `autoload`, which imports this module.
"""

from __future__ import annotations

from typing import Any

from triton_xe.runtime.torch_xpu.library import Library
from triton_xe.runtime.torch_xpu.properties import XpuDeviceProperties


class Tf32:
    """True if operators may multiply floats in TF32, on the devices that can."""

    def __init__(self, library: Library, properties: tuple[XpuDeviceProperties, ...]) -> None:
        self.library = library
        self.devices = sum(
            1 << k for k, each in enumerate(properties)
            if each.has_subgroup_matrix_multiply_accumulate_tensor_float32)
        self.is_allowed = False

    def names(self) -> dict[str, Any]:
        return {"_get_onednn_allow_tf32": self.get, "_set_onednn_allow_tf32": self.set}

    def get(self) -> bool:
        return self.is_allowed

    def set(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(
                f"set_onednn_allow_tf32 expects a bool, but got {type(value).__name__}")
        self.is_allowed = value
        self.library.functions.xe_set_tf32(self.devices if value else 0)


def show_in_backends() -> None:
    """Add the switch to torch.backends.mkldnn, which has only the functions of the CPU build."""
    import torch

    prop: Any = torch.backends.ContextProp
    shown = prop(torch._C._get_onednn_allow_tf32, torch._C._set_onednn_allow_tf32)
    setattr(type(torch.backends.mkldnn), "allow_tf32", shown)  # noqa: B010
