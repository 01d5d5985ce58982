"""Write a module as text: xDSL's printer, with aliases for layouts and locations.

    #blocked = #ttg.blocked<{...}>
    module attributes {...} {
      ... tensor<64xf32, #blocked> ...
    }

Layouts are named as libtriton names them; `reader.read_module` and libtriton read the text back.
For speed, the text of each attribute is computed once per module, and the form of equal ops once
per process.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from io import StringIO
from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
    NoneAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer

from triton_xe.deep_calls import room_for
from triton_xe.dialects.layouts import LayoutAttr, layout_attr
from triton_xe.dialects.text.locations import parts_of

_LOCATIONS = frozenset((CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc, UnknownLoc))
_PARENT = re.compile(r"(.*?\bparent = )(#.*>)(.*)", re.DOTALL)
_SPECIAL = re.compile(r'[^ -~]|["\\]')


def _escape(match: re.Match[str]) -> str:
    return "\\\\" if match[0] == "\\" else f"\\{ord(match[0]):02X}"


class _Form(NamedTuple):
    """Text after the results of an op: literal text, operands by number, and attributes."""

    parts: tuple[str | int | Attribute, ...]
    key_types: tuple[Attribute, ...]
    """Types in the key of the form, referenced so that their ids are not reused."""


class _Recorder(Printer):
    """A printer that records the parts of what an op prints."""

    def __init__(self, op: Operation) -> None:
        super().__init__(stream=StringIO())
        self.parts: list[str | int | Attribute] = []
        self.numbers = {value: number for number, value in enumerate(op.operands)}

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += text
        else:
            self.parts.append(text)

    def print_attribute(self, attribute: Attribute) -> None:
        self.parts.append(attribute)

    def print_ssa_value(self, value: SSAValue) -> str:
        self.parts.append(self.numbers[value])
        return ""

    def print_op_attributes(
        self, attributes: Mapping[str, Attribute], **options: Any
    ) -> bool:
        return _print_sorted(super(), attributes, **options)


_forms: dict[Hashable, _Form] = {}
MOST_FORMS = 10_000


def _form_of(op: Operation) -> _Form | None:
    """The form of an op without regions and successors; None if it cannot be recorded."""
    if op.regions or op.successors or type(op).print is Operation.print:
        return None
    types = (*(v.type for v in op.operands), *(v.type for v in op.results))
    key = (type(op), len(op.operands), *map(id, types), *op.properties.items(), None,
           *op.attributes.items())
    form = _forms.get(key)
    if form is None:
        if len(set(op.operands)) < len(op.operands):  # equal names have no unique position
            return None
        recorder = _Recorder(op)
        op.print(recorder)
        if len(_forms) > MOST_FORMS:
            _forms.clear()
        form = _forms[key] = _Form((op.name, *recorder.parts), types)
    return form


def _print_sorted(printer: Any, attributes: Mapping[str, Attribute], **options: Any) -> bool:
    """Print attributes sorted by name, as MLIR does."""
    if not attributes:
        return False
    return bool(printer.print_op_attributes(dict(sorted(attributes.items())), **options))


class Writer(Printer):
    """A printer that collects aliases: of `layouts` for above the module, of `locations` for
    below.
    """

    def __init__(self, *, locations: bool) -> None:
        super().__init__(stream=StringIO(), print_debuginfo=locations)
        self.layouts: dict[str, str] = {}
        self.locations: dict[str, str] = {}
        self._texts: dict[int, tuple[Attribute, str]] = {}
        self._counts: dict[str, int] = {}

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Print without counting columns, which are not used here."""
        if "\n" in text:
            super().print_string(text, indent=indent)
        elif self.stream is not None:
            self.stream.write(text)

    def print_bytes_literal(self, bytestring: bytes) -> None:
        """Print in one step, because xDSL prints byte by byte."""
        self.print_string(f'"{_SPECIAL.sub(_escape, bytestring.decode("latin-1"))}"')

    def print_attribute(self, attribute: Attribute) -> None:
        self.print_string(self._text(attribute))

    def _text(self, attribute: Attribute) -> str:
        known = self._texts.get(id(attribute))
        if known is None:
            # the attribute is kept with its text, so that its id stays its own
            known = self._texts[id(attribute)] = (attribute, self._render(attribute))
        return known[1]

    def print_operation_type(self, op: Operation) -> None:
        """Print the types.  xDSL prints the location here too, but ops call this in the middle of a
        line.
        """
        self.print_function_type(op.operand_types, op.result_types)
        if self.print_debuginfo and type(op).print is Operation.print:
            self.print_string(" ")
            self.print_attribute(op.location)

    def print_op_attributes(
        self, attributes: Mapping[str, Attribute], **options: Any
    ) -> bool:
        return _print_sorted(super(), attributes, **options)

    def print_op(self, op: Operation) -> None:
        form = _form_of(op)
        if form is None:
            super().print_op(op)
            return
        self._print_results(op)
        names, operands = self._ssa_values, op.operands
        text = [
            part if isinstance(part, str) else
            f"%{names[operands[part]]}" if isinstance(part, int) else self._text(part)
            for part in form.parts
        ]
        if self.print_debuginfo:
            text += " ", self._text(op.location)
        self.print_string("".join(text))

    def _render(self, attribute: Attribute) -> str:
        if type(attribute) in _LOCATIONS:
            return f"loc({self._location(attribute)})"
        if isinstance(attribute, LayoutAttr):
            return self._layout(attribute)
        outer, self.stream = self.stream, StringIO()
        super().print_attribute(attribute)
        text = self.stream.getvalue()
        self.stream = outer
        return text

    def _layout(self, layout: LayoutAttr) -> str:
        """An alias; or, for a layout with a parent, its text with the parent's alias."""
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
        if type(location) in (UnknownLoc, NoneAttr):
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
    """Return the module's text; `locations` adds the source location of each op."""
    writer = Writer(locations=locations)
    with room_for():
        writer.print_op(module)
    body = writer.stream
    assert isinstance(body, StringIO)
    above = "".join(f"{alias} = {text}\n" for text, alias in writer.layouts.items())
    below = "".join(f"{alias} = loc({text})\n" for text, alias in writer.locations.items())
    return f"{above}{body.getvalue()}\n{below}"
