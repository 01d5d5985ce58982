"""What records kernels that are launched by their modules alone: torch's C++, its static launcher.

The module tells of the kernel what Triton's launcher has from its source.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from triton_xe.runtime.recording.folder import Program
from triton_xe.runtime.recording.recorder import REPORTS, Loaded, Recorder, recorder
from triton_xe.spirv import BUILD_FLAGS, NEEDS, attached

_ELEMENTS = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5"}
"""Triton's words for types where MLIR has others."""


def recorder_of(
    module: bytes, kernel: str, types: tuple[str, ...]
) -> tuple[list[str], Recorder | None]:
    """The names of what a kernel takes, and what records its launches, if anything does.

    `types`: the device's, of all that it takes; scratch and a buffer for reports come last.
    """
    needs = json.loads(attached(module, NEEDS) or "{}")
    ttgir, scratch, sites = (needs.get(name) or () for name in ("ttgir", "scratch", "sites"))
    given = _arguments(ttgir) if ttgir else [(f"arg{k}", kind) for k, kind in enumerate(types)]
    own = [("scratch", "*i8")] * len(scratch) + [("reports", REPORTS)] * bool(sites)
    names, kinds = zip(*given[:len(types) - len(own)], *own, strict=True) if types else ((), ())
    about = partial(_program, kernel, ttgir or "", tuple(sites))
    return list(names), recorder(about, kernel, kinds)


def _program(
    kernel: str, ttgir: str, sites: tuple[Any, ...], loaded: Loaded
) -> tuple[Program, str]:
    flags, target = attached(loaded.binary, BUILD_FLAGS), loaded.device.target.name
    return Program(kernel, target, "spirv", flags, 0, (0, 0, 0), {}, sites), ttgir


def _arguments(ttgir: str) -> list[tuple[str, str]]:
    """Names and Triton's types of the arguments of a kernel."""
    from triton_xe.dialects.text.reader import read_module
    from triton_xe.dialects.tt.structure import FuncOp
    from triton_xe.dialects.tt.types import PointerType

    def word(type_: Any) -> str:
        pointee = type_.pointee if isinstance(type_, PointerType) else type_
        star = "*" * isinstance(type_, PointerType)
        return star + _ELEMENTS.get(str(pointee), str(pointee))

    functions = (op for op in read_module(ttgir).body.block.ops if isinstance(op, FuncOp))
    kernel = next(function for function in functions if function.is_kernel)
    return [(each.name_hint or f"arg{k}", word(each.type))
            for k, each in enumerate(kernel.body.blocks[0].args)]
