"""`triton.language.extra.intel` and `triton.backends.intel`: names of Intel's own build of Triton.

Triton makes submodules of the packages on the search path of `triton.language.extra`, which in the
stock wheel is one folder, with those of CUDA and HIP. This folder becomes its last.
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


class _Extended(MetaPathFinder):
    """Finds these packages where they are, with a folder of ours on their search paths too."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in FOLDERS else None
        if spec is not None and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(FOLDERS[name])
        return spec


def extend() -> None:
    """Have search paths extended when Triton imports the packages; one of them imports this."""
    for name in FOLDERS.keys() & sys.modules.keys():
        sys.modules[name].__path__.append(FOLDERS[name])
    sys.meta_path.insert(0, _Extended())


__all__ = ["extend"]
