"""Devices that run kernels: Level Zero and the simulator.

`open_device`, `put`, `get`, `time_ms`, `load_folder` and `load_bundle` need neither triton nor
torch.  They are imported when first used, so importing this package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_xe.runtime.bundle import load_bundle
    from triton_xe.runtime.folder import load_folder
    from triton_xe.runtime.opening import get, open_device, put, time_ms

_HOMES = {"open_device": "opening", "put": "opening", "get": "opening", "time_ms": "opening",
          "load_folder": "folder", "load_bundle": "bundle"}

__all__ = ["get", "load_bundle", "load_folder", "open_device", "put", "time_ms"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
