"""Adjust modules of other packages after their import; importing them first would be slow."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


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
