"""The compiler side of the plugin: from Triton's IR to SPIR-V, one printable stage after another.

    ttir, ttgir      libtriton's own passes                      (front_passes)
    xetile, xegpu    xDSL dialects of tiles and of instructions   (triton_xe.lowering)
    llir             LLVM IR with calls of Intel's intrinsics     (triton_xe.lowering)
    spv              the SPIR-V module, from which every kernel is loaded
    zebin            the driver's native code for it, for torch's own launchers (on request)

The stages are imported when a kernel is compiled, so a cached kernel starts without them. Triton
finds this module through the entry point `intel`, and expects one backend class in it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from triton import knobs
from triton.backends.compiler import BaseBackend, GPUTarget, Language

from triton_xe import knobs as xe_knobs
from triton_xe import triton_versions
from triton_xe.backend import arch, general_version, kernel_cache, refusals, specialize
from triton_xe.backend.options import XeOptions, options_for
from triton_xe.backend.source_hash import source_hash
from triton_xe.backend.stage_errors import KernelNamer, kernel_of, stage_text, takes_halves
from triton_xe.collector import Pause
from triton_xe.deep_calls import room_for
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import target as target_named
from triton_xe.spirv import BUILD_FLAGS, CONDITIONS, NEEDS, attach, attached

Metadata = dict[str, Any]
Stage = Callable[[Any, Metadata], Any]


def min_dot_size(lhs_type: Any, rhs_type: Any) -> tuple[int, int, int]:
    """Smallest (M, N, K) of `tl.dot`: K is one systolic pass; M and N are padded."""
    bits = lhs_type.scalar.primitive_bitwidth
    return (1, 1, {8: 32, 16: 16, 32: 8}.get(bits, 1))


class _BinaryExtension(str):
    """The name of a stage whose output is bytes: equal to `spv`, `zebin` and `hsaco`.

    Triton reads files of `binary_ext` as bytes, and with TRITON_STORE_BINARY_ONLY it keeps stages
    of the names of other vendors' binaries alone.

    >>> _BinaryExtension("spv") == "zebin", {"spv": 1, "zebin": 2}[_BinaryExtension("spv")]
    (True, 1)
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return other in ("spv", "zebin", "hsaco")


class XeBackend(BaseBackend):
    """Compiles for `GPUTarget("xpu", arch, ...)`; `arch` is a device name or torch's mapping."""

    binary_ext = _BinaryExtension("spv")

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return bool(target.backend == "xpu")

    def __init__(self, target: GPUTarget) -> None:
        self.device = target_named(arch.device_name(target.arch))
        # one spelling, so that equal devices share kernels whichever way they were named
        super().__init__(GPUTarget("xpu", self.device.name, self.device.subgroup_size))
        kernel_cache.install()
        specialize.install(XeBackend)
        refusals.install()

    def hash(self) -> str:
        return f"{self.device.name}-{source_hash()}"

    def parse_options(self, opts: dict[str, Any]) -> XeOptions:
        refusals.check_variables()
        requested = dict(opts)
        requested.setdefault("arch", knobs.runtime.override_arch)
        device = target_named(arch.device_name(requested["arch"] or self.device.name))
        requested["arch"] = device.name
        fusion = opts.get("enable_fp_fusion")
        fusion = knobs.language.default_fp_fusion if fusion is None else fusion
        if triton_versions.installed().decides_fp_fusion:
            fusion = knobs.language.fp_fusion_enabled(fusion)
        requested["enable_fp_fusion"] = fusion
        requested["tests_promises"] = bool(opts.get("sanitize")) or xe_knobs.sanitize()
        requested["locates_all"] = (bool(opts.get("locates_all")) or xe_knobs.lines()
                                    or xe_knobs.sanitize_finite())
        return options_for(device, requested | _native_options(opts, device.name))

    def get_target_name(self, options: XeOptions) -> str:
        from triton_xe.backend import front_passes

        return front_passes.target_text(options)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return (metadata.num_warps, metadata.num_ctas, metadata.shared)

    def get_codegen_implementation(self, options: XeOptions) -> dict[str, Any]:
        from triton_xe.backend import fp8e4b15

        refusals.install_in_front_end()
        return {"min_dot_size": min_dot_size, "convert_custom_types": fp8e4b15.convert}

    def get_module_map(self) -> dict[str, ModuleType]:
        from triton_xe.backend import libdevice

        return {"triton.language.extra.libdevice": libdevice, **libdevice.VENDORS}

    def load_dialects(self, context: Any) -> None:
        """Load stock dialects only, because ours are in xDSL."""

    def add_stages(
        self, stages: dict[str, Stage], options: XeOptions, language: Language
    ) -> None:
        namer, pause, hook = KernelNamer(), Pause(), knobs.runtime.add_stages_inspection_hook
        made = self.stages(options, language, namer)
        for name, stage in made:
            run, ends = _wrap_printing(name, namer.wrap(name, stage)), hook or name == made[-1][0]
            stages[name] = partial(_run_paused, pause, run, bool(ends))
        if hook is not None:
            hook(self, stages, options, language, None)

    def stages(
        self, options: XeOptions, language: Language, namer: KernelNamer
    ) -> list[tuple[str, Stage]]:
        """List the stages of a kernel by name, in order."""
        from triton_xe.backend import front_passes

        device, asked = target_named(options.arch), _kernel_options(options, language)
        if language == Language.GLUON:
            front: list[tuple[str, Stage]] = [
                ("glir", lambda module, metadata: module),
                ("ttgir", lambda m, metadata: front_passes.gluon_to_ttgir(m, options, device)),
            ]
        else:
            front = [
                ("ttir", lambda m, metadata: front_passes.make_ttir(m, options, device)),
                ("ttgir", lambda m, metadata: front_passes.make_ttgir(m, options, device)),
            ]
        native: list[tuple[str, Stage]] = [
            (_BinaryExtension("zebin"),
             lambda source, metadata: _make_zebin(source, metadata, options, namer))
        ]
        return [
            *front,
            ("xetile", lambda source, metadata: _make_xetile(
                source, metadata, asked, options, namer)),
            ("xegpu", lambda source, metadata: _make_xegpu(source, options)),
            ("llir", lambda source, metadata: _make_llir(source, metadata, options)),
            (XeBackend.binary_ext, lambda source, metadata: _make_spirv(
                source, metadata, asked, options, namer)),
            *(native if options.generate_native_code else ()),
        ]


def _native_options(opts: dict[str, Any], target: str) -> dict[str, Any]:
    """Options for native code, as requested by the user or by Inductor's C++ wrapper.

    Inductor requests native code by an option if it does not launch SPIR-V.
    """
    cpp = bool(getattr(sys.modules.get("torch._inductor.config"), "cpp_wrapper", False))
    launched = "zebin" if opts.get("generate_native_code") else "spv"
    if not cpp and launched == "spv":
        return {}
    from triton_xe.backend import devices

    if devices.selection().kind == "sim":
        return {"generate_native_code": launched == "zebin", "native_identity": "simulated"}
    identity = devices.native_identity(target)
    if cpp and xe_knobs.record():
        warnings.warn("launches by C++ that torch generates are not recorded on a GPU; turn "
                      "cpp_wrapper off, or record on the simulator", RuntimeWarning, stacklevel=2)
    return {"native_identity": identity, "generate_native_code": bool(identity),
            "cpp_wrapper": launched if cpp and identity else "",
            "guards": "kernel"}  # launchers of torch's own test nothing


def _run_paused(
    pause: Pause, run: Stage, ends: bool, source: Any, metadata: dict[str, Any]
) -> Any:
    """Run a stage with the garbage collector paused.

    The pause continues after the stage, until a stage that ends it, or until the stages are freed.
    """
    pause.begin()
    try:
        with room_for():
            made = run(source, metadata)
    except BaseException:
        pause.end()
        raise
    if ends:
        pause.end()
    return made


def _wrap_printing(name: str, stage: Stage) -> Stage:
    """Wrap the stage so that it prints what `TRITON_XE_DEBUG` requests."""
    if not xe_knobs.debug():
        return stage
    from triton_xe.backend import debug

    return debug.printing(name, stage)


def _make_xetile(
    source: Any, metadata: Metadata, asked: Metadata, options: XeOptions, namer: KernelNamer
) -> Any:
    """Run the first half of the passes on TTGIR; note the kernel's name and Triton's metadata."""
    from triton_xe.lowering import pipeline
    from triton_xe.lowering.module_facts import CompileOptions

    namer.ttgir = str(stage_text(source, "ttgir", options))
    metadata["name"] = kernel_of(namer.ttgir)[0]
    metadata.setdefault("global_scratch_size", 0)
    metadata.setdefault("global_scratch_align", 1)
    metadata.setdefault("profile_scratch_size", 0)
    metadata.setdefault("profile_scratch_align", 1)
    metadata.setdefault("cluster_dims", (1, 1, 1))  # torch before 2.10 asks each kernel for it
    return pipeline.make_xetile(namer.ttgir, CompileOptions(**asked), options.arch)


def _kernel_options(options: XeOptions, language: Language) -> Metadata:
    """Options of the kernel that the stages of `lowering` take."""
    return {"num_stages": options.num_stages, "contract": options.enable_fp_fusion,
            "grf_mode": options.grf_mode, "guards": options.guards,
            "keeps_layouts": language == Language.GLUON,
            "tests_promises": options.tests_promises, "split_barriers": options.split_barriers,
            "line_prefetches": options.line_prefetches, "locates_all": options.locates_all}


def _make_xegpu(source: Any, options: XeOptions) -> Any:
    from triton_xe.lowering import pipeline

    return pipeline.make_xegpu(stage_text(source, "xetile", options))


def _make_llir(source: Any, metadata: Metadata, options: XeOptions) -> Any:
    from triton_xe.lowering import pipeline

    return pipeline.make_llir(stage_text(source, "xegpu", options), metadata)


def _make_spirv(
    source: Any, metadata: Metadata, asked: Metadata, options: XeOptions, namer: KernelNamer
) -> bytes:
    """Translate LLVM IR to SPIR-V; attach flags, launch conditions and the general version."""
    from triton_xe.lowering import pipeline

    binary = pipeline.make_spirv(stage_text(source, "llir", options), metadata)
    binary = attach(binary, BUILD_FLAGS, metadata.get("build_flags", ""))
    conditions = metadata.get("launch_conditions")
    if not conditions:
        return binary
    binary = attach(binary, CONDITIONS, conditions)
    return general_version.with_source(binary, namer.ttgir, options.arch, asked)


def attach_needs(binary: bytes, metadata: Metadata, ttgir: str) -> bytes:
    """The module, with the information that launchers without metadata, and recorders, need."""
    from triton_xe.backend.recording import arguments_of

    needs = {"scratch": [(metadata[f"{kind}_scratch_size"], metadata[f"{kind}_scratch_align"])
                         for kind in ("global", "profile") if metadata[f"{kind}_scratch_size"]],
             "sites": metadata["debug_sites"], "ttgir": ttgir,
             "arguments": arguments_of(ttgir) if ttgir else []}
    return attach(binary, NEEDS, json.dumps(needs))


def _make_zebin(
    source: Any, metadata: Metadata, options: XeOptions, namer: KernelNamer
) -> bytes:
    """Native code, with metadata in the form that launchers of native code read.

    Torch's launchers pass `shared` bytes of local memory, and a null pointer for each scratch that
    has a size (even 0), as separate arguments.  These kernels have none of them.
    """
    from triton.runtime.errors import OutOfResources

    from triton_xe.backend import devices

    binary: bytes = stage_text(source, "spv", options)
    if options.native_identity == "simulated":
        return attach_needs(binary, metadata, namer.ttgir)
    device = devices.native_device(options.arch)
    used, most = metadata["shared"], device.target.max_slm_bytes
    if used > most:
        raise OutOfResources(used, most, "shared memory")
    flags = attached(binary, BUILD_FLAGS)
    if flags and options.cpp_wrapper == "spv":
        raise UnsupportedError(
            f"kernel {metadata['name']!r} must be built with {flags}, and C++ code that torch "
            "generates builds SPIR-V without flags; set TORCHINDUCTOR_XPU_KERNEL_FORMAT=zebin"
        )
    native = device.native_code(binary, metadata["name"], build_flags=flags)
    metadata.update(build_flags=native.flags, slm_bytes=used, shared=0)
    for kind in ("global", "profile"):
        if not metadata[f"{kind}_scratch_size"]:
            del metadata[f"{kind}_scratch_size"], metadata[f"{kind}_scratch_align"]
    unknown = _unknown_to_torch(metadata, namer.ttgir)
    if unknown:
        _leave_to_triton(metadata, options, unknown)
    return native.binary


def _unknown_to_torch(metadata: Metadata, ttgir: str) -> str:
    """Reason why torch's launchers of native code cannot launch a kernel; empty if they can."""
    if metadata["debug_sites"]:
        return ("prints or asserts, and C++ code that torch generates has no buffer for its "
                "reports; set torch._inductor.config.assert_indirect_indexing = False")
    if takes_halves(ttgir):
        return ("takes a number of 16 bits, which C++ code that torch generates passes with 32; "
                "make it a float32, or a tensor")
    return ""


def _leave_to_triton(metadata: Metadata, options: XeOptions, unknown: str) -> None:
    """Keep launchers from a kernel whose needs they do not support."""
    if options.cpp_wrapper:
        raise UnsupportedError(f"kernel {metadata['name']!r} {unknown}")
    metadata["launch_pdl"] = True  # torch's static launcher takes no kernel with launch attributes
