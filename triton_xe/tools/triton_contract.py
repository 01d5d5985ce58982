"""Names and parameters of Triton that the plugin uses, and changes to them in another Triton.

The table is that of Triton 3.9.  After a Python name are its parameters; after a name of libtriton,
the number of its arguments; after a value, nothing.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from triton_xe import triton_versions

CONTRACT = {
    "triton.backends.compiler.GPUTarget": "(backend, arch, warp_size)",
    "triton.backends.compiler.Language": "TRITON GLUON",
    "triton.backends.compiler.BaseBackend":
        "add_stages(self, stages, options, language) hash(self) parse_options(self, options) "
        "load_dialects(self, context) supports_target(target) get_module_map(self) "
        "parse_attr(desc) get_int_specialization(arg, kwargs) "
        "get_tensor_specialization(arg, kwargs)",
    "triton.backends.driver.DriverBase":
        "is_active() map_python_to_cpp_type(self, ty) get_current_target(self) "
        "get_active_torch_device(self) get_benchmarker(self)",
    "triton.compiler.ASTSource": "(fn, signature, constexprs, attrs)",
    "triton.compiler.compiler": "compile(src, target, options, _env_vars)",
    "triton.compiler.compiler.CompiledKernel":
        "_init_handles(self) launch_metadata(self, grid, stream, args)",
    "triton.compiler.code_generator.CodeGenerator":
        "call_JitFunction(self, fn, args, kwargs, caller_context) visit_BinOp(self, node)",
    "triton.runtime.jit":
        "create_function_from_signature(sig, kparams, backend) native_specialize_impl",
    "triton.runtime.jit.JITFunction": "run(self, args, grid, warmup, kwargs)",
    "triton.runtime.cache.FileCacheManager":
        "put_group(self, filename, group) get_group(self, filename) "
        "put(self, data, filename, binary) get_file(self, filename)",
    "triton.runtime.errors.OutOfResources": "(required, limit, name)",
    "triton.runtime._allocation": "NullAllocator() _allocator.get() _profile_allocator.get()",
    "triton.knobs.language": "default_fp_fusion fp_fusion_enabled(requested)",
    "triton.knobs.runtime": "add_stages_inspection_hook override_arch",
    "triton.knobs.cache": "manager_class",
    "triton.language.core":
        "extern(fn) "
        "extern_elementwise(lib_name, lib_path, args, arg_type_symbol_dict, is_pure, _semantic)",
    "triton._C.libtriton.ir.module": "walk(1) str_nodebug(0)",
    "triton._C.libtriton.passes.common":
        "add_inliner(1) add_canonicalizer(1) add_cse(1) add_symbol_dce(1) add_sccp(1)",
    "triton._C.libtriton.passes.ttir":
        "add_rewrite_tensor_descriptor_to_pointer(1) add_combine(1) add_reorder_broadcast(1) "
        "add_triton_licm(1) add_loop_unroll(1) add_loop_aware_cse(1) add_convert_to_ttgpuir(5)",
    "triton._C.libtriton.passes.ttgpuir":
        "add_coalesce(1) add_remove_layout_conversions(1, 2) add_optimize_thread_locality(1) "
        "add_fuse_nested_loops(1) add_combine_tensor_select_and_if(1) add_fp_sanitizer(2)",
    "triton._C.libtriton.passes.gluon":
        "add_inliner(1) add_infer_coalesced_encodings(1) add_resolve_auto_encodings(1) "
        "add_canonicalizer(1)",
}
SHOWN = 4
_MEMBER = re.compile(r"([\w.]*)(\([^)]*\))?(?:\s|$)")
_ARGUMENT = re.compile(r"\barg\d*:")


def changes() -> list[str]:
    """Differences of the installed Triton from the table, one clause each."""
    return [clause for owner, members in CONTRACT.items()
            for member, form in _MEMBER.findall(members) if member or form
            if (clause := _change(f"{owner}.{member}".rstrip("."), form))]


def sentence() -> str:
    """Changes of a Triton that is not in the table of versions; empty for one that is."""
    import triton

    if triton_versions.find(triton.__version__) is not None:
        return ""
    found = changes()
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    said = "; ".join(found[:SHOWN]) or "nothing by name or parameters"
    return (f"of what triton-xe relies on, Triton {triton.__version__} changed since "
            f"{triton_versions.NEWEST}: {said}{more}")


def _change(name: str, form: str) -> str:
    try:
        now = form_of(_resolve(name))
    except (AttributeError, ImportError):
        return f"{name} is gone"
    return f"{name} takes {now or 'nothing'}, not {form}" if form and now != form else ""


def _resolve(name: str) -> Any:
    """The object of a dotted name; `AttributeError` or `ImportError` if there is none."""
    module, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ImportError:
        if not module:
            raise
    return getattr(_resolve(module), last)


def form_of(value: Any) -> str:
    """The parameters of a function or class; for overloads of libtriton, the number of arguments.

    >>> form_of(lambda text, *, size=1: text)
    '(text, size)'
    """
    if not callable(value):
        return ""
    try:
        names = [*inspect.signature(value).parameters]
    except (TypeError, ValueError):
        names = []
    if not names or names == ["args", "kwargs"]:  # not from Python, or nothing is said
        overloads = [line for line in (value.__doc__ or "").splitlines() if "->" in line]
        names = sorted({str(len(_ARGUMENT.findall(line))) for line in overloads}) or names
    return f"({', '.join(names)})"
