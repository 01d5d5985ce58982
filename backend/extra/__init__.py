"""`triton.language.extra.intel`: where Intel's own build of Triton has its libdevice.

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

NAME = "triton.language.extra"
FOLDER = str(Path(__file__).parent)


class _Extended(MetaPathFinder):
    """Finds one package where it is, with this folder on its search path too."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == NAME else None
        if spec is not None and spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(FOLDER)
        return spec


def extend() -> None:
    """Have the search path extended when Triton imports the package, which it does once."""
    sys.meta_path.insert(0, _Extended())


__all__ = ["extend"]
