"""Adjust modules of other packages after their import; importing them first would be slow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Adjust = Callable[[Any], None]


def adjust(adjustments: Mapping[str, Adjust]) -> None:
    """Adjust modules: imported ones at once, the others after their import."""
    for name, each in adjustments.items():
        if name in sys.modules:
            each(sys.modules[name])
    if not any(isinstance(finder, _Adjuster) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Adjuster(adjustments))


class _Adjuster(MetaPathFinder):
    """Import hook that finds the named modules as usual, and adjusts them after execution."""

    def __init__(self, adjustments: Mapping[str, Adjust]) -> None:
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
            self._adjustments[name](module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
