"""Make `triton_xe.gluon` importable as `triton.experimental.gluon.language.intel`.

It is imported when a program first uses it.  If Triton has a module of that name, Triton's is used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAME = "triton.experimental.gluon.language.intel"
OURS = "triton_xe.gluon"


class _Finder(MetaPathFinder, Loader):
    """Import hook that loads `triton_xe.gluon` for the name `NAME`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(NAME, self) if fullname == NAME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(OURS)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec; the module is already executed."""
        module.__spec__ = self._spec


def offer() -> None:
    """Let `import` find the module, after all other finders."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
