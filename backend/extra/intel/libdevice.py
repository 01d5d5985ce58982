"""The functions of `triton_xe.backend.libdevice`, which is imported when one is used."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from triton_xe.backend import libdevice

    return getattr(libdevice, name)
