"""The recorder for launches of Triton's kernels (see `triton_xe.runtime.recording`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from triton_xe.runtime.recording import recorder
from triton_xe.runtime.recording.folder import Program
from triton_xe.spirv import BUILD_FLAGS, attached

_ELEMENTS = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5"}
"""Triton's names of types, by MLIR's."""


def recorder_of(
    src: Any, metadata: Any, arguments: Iterable[str]
) -> recorder.Recorder | None:
    """The recorder of a compiled kernel; None if none of its launches is to be recorded.

    `arguments` are Triton's types of the user's arguments; scratch and a buffer for reports follow.
    """
    sizes = (getattr(metadata, f"{kind}_scratch_size", 0) for kind in ("global", "profile"))
    sites = list(getattr(metadata, "debug_sites", None) or ())
    types = [*arguments, *("*i8" for size in sizes if size), *([recorder.REPORTS] if sites else ())]

    def program(loaded: recorder.Loaded) -> tuple[Program, str]:
        """The properties of a loaded kernel for its recordings, and its TTGIR."""
        return Program(
            metadata.name, loaded.device.target.name, "spirv",
            attached(loaded.binary, BUILD_FLAGS), 0, (0, 0, 0), _plain(metadata), tuple(sites),
        ), source_of(src)

    return recorder.recorder(program, metadata.name, types)


def _plain(metadata: Any) -> dict[str, Any]:
    """The metadata that can be written as JSON."""
    fields = metadata._asdict() if hasattr(metadata, "_asdict") else vars(metadata)
    return {name: value for name, value in fields.items()
            if isinstance(value, (str, int, float, bool, list, tuple, dict, type(None)))}


def source_of(src: Any) -> str:
    """The text of a kernel and of the functions that it calls, with their source locations."""
    if not hasattr(src, "fn"):
        return str(getattr(src, "src", ""))
    found: dict[int, str] = {}
    pending = [src.fn]
    while pending:
        function = pending.pop()
        if id(function) in found:
            continue
        if function.fn is None:  # Inductor drops what it has compiled
            found[id(function)] = function.src
            continue
        code = function.fn.__code__
        found[id(function)] = f"# {code.co_filename}:{code.co_firstlineno}\n{function.src}"
        called = (function.fn.__globals__.get(name) for name in code.co_names)
        pending += [each for each in called if hasattr(each, "src") and hasattr(each, "fn")]
    return "\n\n".join(found.values()) + "\n"

def arguments_of(ttgir: str) -> list[tuple[str, str]]:
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
