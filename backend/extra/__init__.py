"""Provide `triton.language.extra.intel` and `triton.backends.intel`, as Intel's own Triton does.

Triton loads submodules from the search path of `triton.language.extra`.  In the stock wheel that
path is one folder, with the submodules of CUDA and HIP; `extend` appends this folder to it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

FOLDERS = {"triton.language.extra": str(Path(__file__).parent),
           "triton.backends": str(Path(__file__).parent / "backends")}


class _PathExtender(MetaPathFinder):
    """Import hook that appends our folders to the search paths of the packages in `FOLDERS`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in FOLDERS else None
        if spec is not None and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(FOLDERS[name])
        return spec


def extend() -> None:
    """Extend the search path of each package in `FOLDERS`: at once if imported, else on import."""
    for name in FOLDERS.keys() & sys.modules.keys():
        sys.modules[name].__path__.append(FOLDERS[name])
    sys.meta_path.insert(0, _PathExtender())


__all__ = ["extend"]
