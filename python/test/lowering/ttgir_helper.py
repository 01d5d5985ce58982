"""Makes the ttgir of a kernel, as the backend's first two stages do, and re-reads ttgir text."""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_xe.backend import front_passes
from triton_xe.backend.compiler import XeBackend


def _kept_descriptors() -> AbstractContextManager[Any]:
    rewrite = "add_rewrite_tensor_descriptor_to_pointer"
    return patch.object(front_passes.passes.ttir, rewrite, lambda pass_manager: None)


def make_ttgir(
    fn: Any,
    signature: dict[str, str],
    constants: dict[str, Any] | None = None,
    *,
    aligned: tuple[int, ...] = (),
    arch: str = "bmg",
    descriptors: bool = False,
    **options: Any,
) -> str:
    """The ttgir text of a `@triton.jit` kernel; arguments in `aligned` are divisible by 16.

    With `descriptors` the operations on tensor descriptors stay, which become pointers otherwise.
    """
    target = GPUTarget("xpu", arch, 16)
    backend = XeBackend(target)
    constants = constants or {}
    types = dict(signature) | dict.fromkeys(constants, "constexpr")
    ordered = {name: types[name] for name in fn.arg_names}
    attrs = {(index,): [["tt.divisibility", 16]] for index in aligned}
    context = ir.context()
    ir.load_dialects(context)
    opts = backend.parse_options(options)
    module = ASTSource(fn, ordered, constants, attrs).make_ir(
        backend.target,
        opts,
        backend.get_codegen_implementation(opts),
        backend.get_module_map(),
        context,
    )
    with _kept_descriptors() if descriptors else nullcontext():
        module = front_passes.make_ttir(module, opts, backend.device)
    module = front_passes.make_ttgir(module, opts, backend.device)
    return str(module)


def reread_by_libtriton(text: str) -> str:
    """`text` parsed, verified and printed again by libtriton."""
    context = ir.context()
    ir.load_dialects(context)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.mlir"
        path.write_text(text)
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    return str(module)
