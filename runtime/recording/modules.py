"""Recorders of kernels that are launched by their modules alone: torch's C++ and static launchers.

The module contains the information that Triton's launcher takes from the kernel's source.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from triton_xe.runtime.recording.folder import Program
from triton_xe.runtime.recording.recorder import REPORTS, Loaded, Recorder, recorder
from triton_xe.spirv import BUILD_FLAGS, NEEDS, attached


def recorder_of(
    module: bytes, kernel: str, types: tuple[str, ...]
) -> tuple[list[str], Recorder | None]:
    """The names of a kernel's parameters, and the recorder of its launches, or None.

    `types` are the device's types of all parameters; scratch and a buffer for reports come last.
    """
    needs = json.loads(attached(module, NEEDS) or "{}")
    given, scratch, sites = (needs.get(name) or () for name in ("arguments", "scratch", "sites"))
    given = [tuple(each) for each in given] or [(f"arg{k}", kind) for k, kind in enumerate(types)]
    own = [("scratch", "*i8")] * len(scratch) + [("reports", REPORTS)] * bool(sites)
    names, kinds = zip(*given[:len(types) - len(own)], *own, strict=True) if types else ((), ())
    about = partial(_program, kernel, needs.get("ttgir", ""), tuple(sites))
    return list(names), recorder(about, kernel, kinds)


def _program(
    kernel: str, ttgir: str, sites: tuple[Any, ...], loaded: Loaded
) -> tuple[Program, str]:
    flags, target = attached(loaded.binary, BUILD_FLAGS), loaded.device.target.name
    return Program(kernel, target, "spirv", flags, 0, (0, 0, 0), {}, sites), ttgir
