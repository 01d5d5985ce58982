"""Modules of torch and Triton that are adjusted after their import, and the functions that do it.

Importing these modules, or the adjusting ones, at `import torch` would be slow.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

ADJUSTMENTS = {
    "torch._inductor.codecache": "graph_keys.adjust",
    "torch._inductor.runtime.benchmarking": "inductor.adjust_benchmarking",
    "torch._inductor.runtime.triton_heuristics": "inductor.adjust_sorts",
    "torch._inductor.config": "inductor.adjust_config",
    "torch._inductor.runtime.static_triton_launcher": "static_launcher.adjust",
    "torch._inductor.triton_bundler": "static_launcher.drop_outdated_kernels",
    "torch._inductor.cpp_builder": "cpp.adjust_builder",
    "torch._inductor.template_heuristics.triton": "inductor.adjust_products",
    "torch.export.pt2_archive._package": "cpp.adjust_packages",
    "torch._subclasses.fake_impls": "fakes.adjust_operators",
    "torch._subclasses.fake_tensor": "fakes.adjust_tensors",
    "torch._dynamo.eval_frame": "inductor.adjust_frames",
    "torch._dynamo.trace_rules": "inductor.adjust_tracing",
    "torch.utils._triton": "inductor.adjust_descriptors",
    "torch.utils.benchmark.utils.timer": "inductor.adjust_timer",
    "triton.runtime.jit": "inductor.adjust_functions",
    "triton.compiler.compiler": "inductor.adjust_compiler",
    "torch.distributed.distributed_c10d": "distributed.adjust",
}


def adjust_when_imported() -> None:
    """Adjust modules: imported ones at once, the others after their import."""
    logging.getLogger("torch.utils.cpp_extension").addFilter(
        lambda record: "SYCL_HOME" not in str(record.msg))  # no compiler of SYCL is needed
    adjust(ADJUSTMENTS)


def adjust(adjustments: Mapping[str, str]) -> None:
    """Adjust modules, each by a function of this package: imported ones at once, others later."""
    for name, function in adjustments.items():
        if name in sys.modules:
            _call(function, sys.modules[name])
    if not any(isinstance(finder, _Adjuster) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Adjuster(adjustments))


def _call(function: str, module: ModuleType) -> None:
    home, name = function.split(".")
    getattr(importlib.import_module(f"triton_xe.runtime.torch_xpu.{home}"), name)(module)


class _Adjuster(MetaPathFinder):
    """Import hook that finds the named modules as usual, and adjusts them after execution."""

    def __init__(self, adjustments: Mapping[str, str]) -> None:
        self._adjustments = adjustments

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, like: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._adjustments:
            return None
        spec = PathFinder.find_spec(fullname, path, like)
        if spec is not None and spec.loader is not None:
            self._run_after(spec.loader, fullname)
        return spec

    def _run_after(self, loader: Loader, name: str) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _call(self._adjustments[name], module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
