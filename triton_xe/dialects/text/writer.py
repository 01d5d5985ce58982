"""Write a module as text: xDSL's printer, with aliases for layouts and locations.

    #blocked = #ttg.blocked<{...}>
    module attributes {...} {
      ... tensor<64xf32, #blocked> ...
    }

Layouts are named as libtriton names them; `reader.read_module` and libtriton read the text back.
Each attribute's text is made once, which is where most of the time goes otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
    NoneAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from triton_xe.dialects.layouts import LayoutAttr, layout_attr
from triton_xe.dialects.text.locations import parts_of

_LOCATIONS = (CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc, UnknownLoc)
_PARENT = re.compile(r"(.*?\bparent = )(#.*>)(.*)", re.DOTALL)


class Writer(Printer):
    """A printer that collects aliases: of `layouts` for above the module, of `locations` below."""

    def __init__(self, *, locations: bool) -> None:
        super().__init__(stream=StringIO(), print_debuginfo=locations)
        self.layouts: dict[str, str] = {}
        self.locations: dict[str, str] = {}
        self._texts: dict[int, tuple[Attribute, str]] = {}
        self._counts: dict[str, int] = {}

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Without the count of columns, which nothing here asks for."""
        if "\n" in text:
            super().print_string(text, indent=indent)
        elif self.stream is not None:
            self.stream.write(text)

    def print_attribute(self, attribute: Attribute) -> None:
        known = self._texts.get(id(attribute))
        if known is None:
            # the attribute is kept with its text, so that its id stays its own
            known = self._texts[id(attribute)] = (attribute, self._render(attribute))
        self.print_string(known[1])

    def print_operation_type(self, op: Operation) -> None:
        """xDSL prints the location here, but an op's own `print` calls this in mid-line."""
        self.print_function_type(op.operand_types, op.result_types)
        if self.print_debuginfo and type(op).print is Operation.print:
            self.print_string(" ")
            self.print_attribute(op.location)

    def print_op_attributes(
        self, attributes: Mapping[str, Attribute], **options: Any
    ) -> bool:
        """In the order of their names, as MLIR does."""
        if not attributes:
            return False
        return super().print_op_attributes(dict(sorted(attributes.items())), **options)

    def _render(self, attribute: Attribute) -> str:
        if isinstance(attribute, LayoutAttr):
            return self._layout(attribute)
        if isinstance(attribute, _LOCATIONS):
            return f"loc({self._location(attribute)})"
        outer, self.stream = self.stream, StringIO()
        super().print_attribute(attribute)
        text = self.stream.getvalue()
        self.stream = outer
        return text

    def _layout(self, layout: LayoutAttr) -> str:
        """An alias, or for a layout made of another one its text with the other's alias."""
        if (match := _PARENT.fullmatch(layout.data)) is not None:
            parent = self._layout(layout_attr(match[2]))
            return f"#{layout.name}<{match[1]}{parent}{match[3]}>"
        alias = self.layouts.get(layout.text)
        if alias is None:
            mnemonic = layout.name.partition(".")[2]
            alias = self._fresh("shared" if mnemonic.endswith("shared") else mnemonic)
            self.layouts[layout.text] = alias
        return alias

    def _location(self, location: Attribute) -> str:
        if isinstance(location, UnknownLoc | NoneAttr):
            return "unknown"
        text = self._location_text(location)
        alias = self.locations.get(text)
        if alias is None:
            alias = self.locations[text] = self._fresh("loc")
        return alias

    def _location_text(self, location: Attribute) -> str:
        match location:
            case FileLineColLoc():
                file = location.filename.data
                return f'"{file}":{location.line.data}:{location.column.data}'
            case NameLoc():
                return f'"{location.desc.data}"({self._location(location.location)})'
            case CallSiteLoc():
                callee, caller = self._location(location.callee), self._location(location.caller)
                return f"callsite({callee} at {caller})"
            case FusedLoc():
                return f"fused[{', '.join(self._location(part) for part in parts_of(location))}]"
            case _:
                return "unknown"

    def _fresh(self, name: str) -> str:
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        return f"#{name}{count or ''}"


def write_module(module: ModuleOp, *, locations: bool = False) -> str:
    """The module's text; `locations` adds where each op comes from in Python."""
    writer = Writer(locations=locations)
    writer.print_op(module)
    body = writer.stream
    assert isinstance(body, StringIO)
    above = "".join(f"{alias} = {text}\n" for text, alias in writer.layouts.items())
    below = "".join(f"{alias} = loc({text})\n" for text, alias in writer.locations.items())
    return f"{above}{body.getvalue()}\n{below}"
