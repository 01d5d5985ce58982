"""The stages that libtriton's own passes compute: Triton IR and TritonGPU IR."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from triton._C.libtriton import ir, passes

from triton_xe import triton_versions
from triton_xe.backend.options import XeOptions
from triton_xe.errors import UnsupportedError, out_of_resources
from triton_xe.hardware.target import Target

Module = Any
"""libtriton's `ir.module`, which has no Python types."""
_BATCHES = re.compile(r"tt\.dot .*-> tensor<(\d+)x\d+x\d+x[a-z]")
LONG = 100
"""Number of accesses from which layouts are found here in linear time; libtriton's pass is
cubic.
"""
MANY = 1000
"""Number of operations from which libtriton's pass takes several times as long as ours."""


def target_text(options: XeOptions) -> str:
    """Value of the attribute `ttg.target`."""
    return f"xpu:{options.arch}"


def make_ttir(module: Module, options: XeOptions, device: Target) -> Module:
    """Inline, fold and unroll.

    Tensor descriptors become pointers with masks, from which 2D surfaces are raised later.
    Pointers and descriptors thus take one path, whose guards test what a descriptor does not
    promise.
    """
    has = count_operations(module)
    pm = _pass_manager(module)
    if has["tt.call"]:
        passes.common.add_inliner(pm)
    if triton_versions.installed().has_block_pointers:
        passes.ttir.add_rewrite_tensor_pointer(pm)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(pm)
    passes.common.add_canonicalizer(pm)
    passes.ttir.add_combine(pm)
    passes.ttir.add_reorder_broadcast(pm)
    passes.common.add_cse(pm)
    if _has_loops(has):
        passes.ttir.add_triton_licm(pm)
    if has["tt.func"] > 1:
        passes.common.add_symbol_dce(pm)
    if _has_loops(has):
        passes.ttir.add_loop_unroll(pm)
    pm.run(module, "make_ttir")
    return module


def make_ttgir(module: Module, options: XeOptions, device: Target) -> Module:
    """Give every tensor a layout.  `tt.dot` keeps a blocked layout: DPAS comes in a later stage."""
    _check_work_group(options, device)
    has = count_operations(module)
    if has["tt.dot"] and triton_versions.installed() is triton_versions.NEWEST:
        module = _without_batches(module, options.num_warps)
    pm = _pass_manager(module)
    passes.ttir.add_convert_to_ttgpuir(
        pm, target_text(options), options.num_warps, options.warp_size, options.num_ctas
    )
    if _is_long(has):
        pm.run(module, "make_ttgir")
        module = _coalesce(module)
        pm = _pass_manager(module)
    else:
        passes.ttgpuir.add_coalesce(pm)
    passes.ttgpuir.add_remove_layout_conversions(pm)
    if has["tt.reduce"] or has["tt.gather"]:
        passes.ttgpuir.add_optimize_thread_locality(pm)
    if not _is_elementwise(has):  # a first removal may open the way for others
        passes.ttgpuir.add_remove_layout_conversions(pm)
    if _wants_one_loop(module, has):
        passes.ttgpuir.add_fuse_nested_loops(pm)
        passes.common.add_canonicalizer(pm)
    add_fast_cse(pm, has)
    if _has_loops(has):
        passes.ttir.add_triton_licm(pm)
    passes.common.add_canonicalizer(pm)
    if has["scf.if"]:
        passes.ttgpuir.add_combine_tensor_select_and_if(pm)
    add_fast_cse(pm, has)
    if has["tt.func"] > 1:
        passes.common.add_symbol_dce(pm)
    if _has_control_flow(has):
        passes.common.add_sccp(pm)
        passes.common.add_canonicalizer(pm)
    add_sanitizer(pm, options, has)
    pm.run(module, "make_ttgir")
    return module


def _pass_manager(module: Module) -> Any:
    pm = ir.pass_manager(module.context)
    pm.enable_debug()
    return pm


def add_fast_cse(pm: Any, has: Counter[str]) -> None:
    """Add common subexpression elimination.

    The variant for loops visits all operations three times, to find values that loops carry twice.
    """
    add = passes.ttir.add_loop_aware_cse if has["scf.for"] else passes.common.add_cse
    add(pm)


def count_operations(module: Module) -> Counter[str]:
    """Number of operations of each name, so that passes without matching operations are skipped.

    Reshapes that only add or drop dimensions of one element count as `tt.expand_dims`.
    """
    found: Counter[str] = Counter()

    def look(op: Any) -> None:
        name = op.get_name()
        found["tt.expand_dims" if name == "tt.reshape" and _keeps_order(op) else name] += 1

    module.walk(look)
    return found


def _keeps_order(reshape: Any) -> bool:
    """True if a reshape only adds or removes dimensions of size 1."""
    if not hasattr(ir.value, "get_shape"):  # before Triton 3.8
        return False
    before, after = (
        [size for size in value.get_shape() if size > 1]
        for value in (reshape.get_operand(0), reshape.get_result(0)))
    return bool(before == after)


def _has_loops(has: Counter[str]) -> bool:
    return has["scf.for"] + has["scf.while"] > 0


def _has_control_flow(has: Counter[str]) -> bool:
    return any(name.startswith(("scf.", "cf.")) for name in has) or has["tt.func"] > 1


def _is_elementwise(has: Counter[str]) -> bool:
    """True if only loads and stores depend on a layout, and each accesses memory once."""
    asking = ("tt.dot", "tt.reduce", "tt.scan", "tt.reshape", "tt.gather", "tt.trans", "tt.join",
              "tt.split", "tt.cat", "tt.histogram")
    return not _has_control_flow(has) and not any(name.startswith(asking) for name in has)


def _is_long(has: Counter[str]) -> bool:
    """True if `_coalesce` is faster than libtriton's pass."""
    accesses = sum(has[name] for name in ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"))
    is_long = accesses > LONG or has.total() > MANY
    return is_long and triton_versions.installed() is triton_versions.NEWEST


def _coalesce(module: Module) -> Module:
    """The module with layouts for its accesses; older versions of Triton do not read our text."""
    from triton_xe.lowering.layouts.coalesce import coalesced

    return _read(coalesced(str(module)), module.context)


def _without_batches(module: Module, warps: int) -> Module:
    """The module with products of matrices in place of products of few batches."""
    if not _BATCHES.search(module.str_nodebug()):
        return module
    from triton_xe.lowering.peel_batches import without_batches

    made = without_batches(str(module), warps)
    return module if made is None else _read(made, module.context)


def _read(text: str, context: Any) -> Module:
    """libtriton's module of a text, which it reads from files only."""
    with TemporaryDirectory(prefix="triton-xe-") as folder:
        path = Path(folder) / "kernel.ttgir"
        path.write_text(text)
        made = ir.parse_mlir_module(str(path), context)
    made.context = context
    return made


def _wants_one_loop(module: Module, has: Counter[str]) -> bool:
    """True if nested loops are flattened to one: `flatten=True`, and no dot.

    Loops around a dot are not flattened, because tiles can only be prefetched in a loop over K.
    Python can read attributes without a value only as text.
    """
    if has["scf.for"] < 2 or any(name.startswith("tt.dot") for name in has):
        return False
    return "tt.flatten" in module.str_nodebug()


def gluon_to_ttgir(module: Module, options: XeOptions, device: Target) -> Module:
    """The ttgir stage for Gluon, whose programs specify their layouts."""
    _check_work_group(options, device)
    pm = _pass_manager(module)
    passes.gluon.add_inliner(pm)
    passes.gluon.add_infer_coalesced_encodings(pm)
    passes.gluon.add_resolve_auto_encodings(pm)
    passes.gluon.add_canonicalizer(pm)
    passes.common.add_sccp(pm)
    passes.ttir.add_loop_aware_cse(pm)
    passes.gluon.add_canonicalizer(pm)
    passes.ttgpuir.add_combine_tensor_select_and_if(pm)
    passes.common.add_symbol_dce(pm)
    add_sanitizer(pm, options, count_operations(module))
    pm.run(module, "gluon_to_ttgir")
    return module


def _check_work_group(options: XeOptions, device: Target) -> None:
    """Refuse more warps than a work-group, or a core with this register file, may have."""
    size = options.num_warps * options.warp_size
    if size > device.max_work_group_size:
        most = device.max_work_group_size // options.warp_size
        out_of_resources(size, device.max_work_group_size, "threads",
                         remedy=f"Use at most {most} warps (`num_warps`)")
    if options.grf_mode.isdecimal():
        most = device.eus_per_core * device.threads_per_eu[int(options.grf_mode)]
        if options.num_warps > most:
            out_of_resources(options.num_warps, most, f"warps of {options.grf_mode} registers",
                             remedy="Use fewer warps (`num_warps`), or a smaller `grf_mode`")


def add_sanitizer(pm: Any, options: XeOptions, has: Counter[str]) -> None:
    """Add Triton's float sanitizer if asked; refuse other modes of instrumentation."""
    modes = {name.strip() for name in options.instrumentation_mode.split(",") if name.strip()}
    if modes - {"fpsan"}:
        raise UnsupportedError(
            f"TRITON_INSTRUMENTATION_MODE={options.instrumentation_mode} is not supported on Intel "
            "GPUs, of whose modes fpsan alone is: unset it, and set TRITON_XE_SANITIZE=1, with "
            "which the simulator finds races and accesses outside of tensors")
    if "fpsan" in modes and any(name.startswith("tt.dot") for name in has):
        raise UnsupportedError(
            "TRITON_INSTRUMENTATION_MODE=fpsan does not reach tl.dot on Intel GPUs, because "
            "libtriton would write its products in scratch memory: unset it for this kernel, or "
            "write the product with tl.sum")
    if "fpsan" in modes:
        _add_fp_sanitizer(pm, options)
        passes.common.add_canonicalizer(pm)
        passes.common.add_cse(pm)


def _add_fp_sanitizer(pm: Any, options: XeOptions) -> None:
    """Add Triton's pass that replaces floats by integers; raise if this Triton has none."""
    known = triton_versions.installed()
    if known.sanitizes_casts:
        passes.ttgpuir.add_fp_sanitizer(pm, options.fpsan_homomorphic_casts)
        passes.ttgpuir.add_remove_layout_conversions(pm, True)
        return
    if not known.has_fp_sanitizer or options.fpsan_homomorphic_casts:
        name = "fpsan_homomorphic_casts" if known.has_fp_sanitizer else "instrumentation_mode"
        raise UnsupportedError(
            f"Triton {known} has no {name} for floats; leave it out, or install a newer Triton")
    passes.ttgpuir.add_fp_sanitizer(pm)
    passes.ttgpuir.add_remove_layout_conversions(pm)
