"""`triton.language.extra.intel` and `triton.backends.intel`: names of Intel's own build of Triton.

Triton loads submodules from the search path of `triton.language.extra`, which in the stock wheel is
one folder with those of CUDA and HIP.  This folder is appended to that path.
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
    """Finds these packages in their own folders, and appends a folder of ours to their search
    paths.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in FOLDERS else None
        if spec is not None and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(FOLDERS[name])
        return spec


def extend() -> None:
    """Extend the search paths when Triton imports the packages; one of them imports this module."""
    for name in FOLDERS.keys() & sys.modules.keys():
        sys.modules[name].__path__.append(FOLDERS[name])
    sys.meta_path.insert(0, _PathExtender())


__all__ = ["extend"]
