"""The general version of a kernel, compiled when a launch first needs it.

The module of the first version contains its TTGIR and the options; the result is cached on disk.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from triton.runtime.errors import OutOfResources

from triton_xe.backend.source_hash import source_hash
from triton_xe.backend.stage_errors import KernelNamer
from triton_xe.collector import paused_collector
from triton_xe.hardware.target import target
from triton_xe.runtime import code_cache
from triton_xe.spirv import BUILD_FLAGS, GENERAL, attach, attached


def with_source(binary: bytes, ttgir: str, arch: str, options: dict[str, Any]) -> bytes:
    """Attach to the module the source of its general version."""
    return attach(binary, GENERAL, json.dumps({"ttgir": ttgir, "arch": arch, "options": options}))


def general_version(binary: bytes) -> tuple[bytes, str]:
    """The module of the general version, and its build flags; cached or compiled now.

    Raise `OutOfResources` if it needs more shared local memory than the device has.
    """
    digest = hashlib.sha256(source_hash().encode() + binary).hexdigest()
    file = code_cache.file("general", digest, ".spv")
    made = code_cache.read(file)
    if made is None:
        made = _compiled(json.loads(attached(binary, GENERAL)))
        code_cache.write(file, made)
    return made, attached(made, BUILD_FLAGS)


@paused_collector()
def _compiled(source: dict[str, Any]) -> bytes:
    """Compile the general version; its errors name the kernel."""
    namer = KernelNamer()
    namer.ttgir = source["ttgir"]
    source["options"] |= {"guards": "kernel"}
    made: bytes = namer.wrap("the general version", _stages)(source, {})
    return made


def _stages(source: Any, metadata: dict[str, Any]) -> bytes:
    """Compile TTGIR to SPIR-V, with the build flags attached; complete `metadata`."""
    from triton_xe.lowering import pipeline
    from triton_xe.lowering.module_facts import CompileOptions

    arch, options = source["arch"], CompileOptions(**source["options"])
    xegpu = pipeline.make_xegpu(pipeline.make_xetile(source["ttgir"], options, arch))
    binary = pipeline.make_spirv(pipeline.make_llir(xegpu, metadata), metadata)
    most = target(arch).max_slm_bytes
    if metadata["shared"] > most:
        raise OutOfResources(metadata["shared"], most, "shared memory")
    return attach(binary, BUILD_FLAGS, metadata["build_flags"])
