"""LLVM functions whose values get their names quickly."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir import _utils


class Names(_utils.NameScope):
    """The names of a function's values: `.1`, `.2` and so on where none is asked for."""

    def __init__(self, taken: Any) -> None:
        super().__init__()
        self._useset, self._basenamemap = taken._useset, taken._basenamemap
        self._last: int = self._basenamemap[""]

    def register(self, name: str, deduplicate: bool = False) -> str:
        if name or not deduplicate:
            return str(super().register(name, deduplicate))
        while name in self._useset:
            self._last += 1
            name = f".{self._last}"
        self._useset.add(name)
        return name


class Function(ir.Function):
    """A function whose attachments are printed as LLVM reads them, without commas."""

    def __init__(self, module: ir.Module, kind: ir.FunctionType, name: str) -> None:
        super().__init__(module, kind, name)
        before: Any = vars(self)["scope"]
        self.scope = Names(before)

    def _stringify_metadata(self, leading_comma: bool = False) -> str:
        return "".join(f" !{key} {value.get_reference()}" for key, value in self.metadata.items())
