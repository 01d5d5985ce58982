"""Print an LLVM module as llvmlite does, in a third of the time.

llvmlite formats an instruction through five calls, and caches each text.  Here each frequent class
of instructions has one function that formats it.  Types and operands are formatted once per module.
llvmlite formats all other instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds


def module_text(module: ir.Module) -> str:
    """Text equal to `str(module)`, computed faster."""
    return "\n".join((
        f'; ModuleID = "{module.name}"',
        f'target triple = "{module.triple}"',
        f'target datalayout = "{module.data_layout}"',
        "",
        *(kind.get_declaration() for kind in module.get_identified_types().values()),
        *_Formatter().globals(module),
        *module._get_metadata_lines(),
    ))


class _Formatter:
    """Formats the globals of one module; caches texts by `id`, as the module keeps all objects."""

    def __init__(self) -> None:
        self._types: dict[int, str] = {}
        self._references: dict[int, str] = {}
        self._typed: dict[int, str] = {}

    def globals(self, module: ir.Module) -> list[str]:
        """Texts of the functions and variables of the module."""
        return [self._function(one) if isinstance(one, ir.Function) else str(one)
                for one in module.globals.values()]

    def _function(self, function: ir.Function) -> str:
        text: list[str] = []
        function.descr_prototype(text)
        if function.blocks:
            text.append("{\n")
            for block in function.blocks:
                text.append(f"{block._format_name()}:\n")
                text += [f"  {self._instruction(one)}\n" for one in block.instructions]
            text.append("}\n")
        return "".join(text)

    def _instruction(self, one: Any) -> str:
        format_plain = _FORMATS.get(type(one))
        if format_plain is None:
            return str(one)
        text = format_plain(self, one)
        if one.metadata and type(one) not in _BARE:
            text += "".join([f", !{key} {node.get_reference()}"
                             for key, node in one.metadata.items()])
        text = text.rstrip()
        return text if isinstance(one.type, ir.VoidType) else f"{self.reference(one)} = {text}"

    def type(self, kind: ir.Type) -> str:
        """Text of a type, cached by identity."""
        found = self._types.get(id(kind))
        if found is None:
            found = self._types[id(kind)] = str(kind)
        return found

    def reference(self, value: Any) -> str:
        """Text of a value as an operand, cached by identity."""
        found = self._references.get(id(value))
        if found is None:
            if type(value) is ir.Constant:
                found = self._constant(value)
            elif type(value) in _FORMATS and value.name.startswith("."):
                found = f'%"{value.name}"'
            else:
                found = value.get_reference()
            self._references[id(value)] = found
        return found

    def _constant(self, value: ir.Constant) -> str:
        held, kind = value.constant, value.type
        if type(held) is int and type(kind) is ir.IntType:
            return str(held)
        if type(held) is not list or type(kind) is not ir.VectorType:
            return str(value.get_reference())
        return f"<{self.listed(held)}>"

    def typed(self, value: Any) -> str:
        """A value with its type before it."""
        found = self._typed.get(id(value))
        if found is None:
            found = f"{self.type(value.type)} {self.reference(value)}"
            self._typed[id(value)] = found
        return found

    def listed(self, values: Any) -> str:
        """Values with their types, separated by commas."""
        return ", ".join([self.typed(value) for value in values])


# -- one function per class of instructions; callers add metadata and strip trailing spaces --------


def _plain(s: _Formatter, one: Any) -> str:
    operands = ", ".join([s.reference(value) for value in one.operands])
    return f"{' '.join((one.opname, *one.flags))} {s.type(one.type)} {operands}"


def _cast(s: _Formatter, one: Any) -> str:
    return f"{one.opname} {s.typed(one.operands[0])} to {s.type(one.type)} "


def _compare(s: _Formatter, one: Any) -> str:
    flags = "".join([f" {flag}" for flag in one.flags])
    left, right = one.operands
    return f"{one.opname}{flags} {one.op} {s.typed(left)}, {s.reference(right)} "


def _select(s: _Formatter, one: Any) -> str:
    return f"select {' '.join(one.flags)} {s.listed(one.operands)} "


def _phi(s: _Formatter, one: Any) -> str:
    incoming = ", ".join(
        [f"[{s.reference(value)}, {s.reference(block)}]" for value, block in one.incomings])
    return f"phi {' '.join(one.flags)} {s.type(one.type)} {incoming} "


def _load(s: _Formatter, one: Any) -> str:
    return f"load {s.type(one.type)}, {s.typed(one.operands[0])}{_align(one)}"


def _store(s: _Formatter, one: Any) -> str:
    return f"store {s.listed(one.operands)}{_align(one)}"


def _align(one: Any) -> str:
    return "" if one.align is None else f", align {one.align}"


def _address(s: _Formatter, one: Any) -> str:
    inbounds = " inbounds" if one.inbounds else ""
    places = s.listed((one.pointer, *one.indices))
    return f"getelementptr{inbounds} {s.type(one.source_etype)}, {places} "


def _shuffle(s: _Formatter, one: Any) -> str:
    return f"shufflevector {s.listed(one.operands)} "


def _elements(s: _Formatter, one: Any) -> str:
    return f"{one.opname} {s.listed(one.operands)}"


def _call(s: _Formatter, one: Any) -> str:
    callee, *arguments = one.operands
    if one.tail or one.attributes or one.fastmath or one.arg_attributes or (
            callee.function_type.var_arg):
        text: list[str] = []
        one._descr(text, add_metadata=False)
        return text[0].rstrip()
    convention = f"{one.cconv} " if one.cconv else ""
    kind = callee.function_type.return_type
    return f"call {convention}{s.type(kind)} {s.reference(callee)}({s.listed(arguments)})"


_BARE = frozenset((kinds.ExtractElement, kinds.InsertElement))
"""Instructions that llvmlite prints without metadata."""
_FORMATS: dict[type, Callable[[_Formatter, Any], str]] = {
    ir.Instruction: _plain,
    kinds.CastInstr: _cast,
    kinds.ICMPInstr: _compare,
    kinds.FCMPInstr: _compare,
    kinds.SelectInstr: _select,
    kinds.PhiInstr: _phi,
    kinds.LoadInstr: _load,
    kinds.StoreInstr: _store,
    kinds.GEPInstr: _address,
    kinds.ShuffleVector: _shuffle,
    kinds.ExtractElement: _elements,
    kinds.InsertElement: _elements,
    kinds.CallInstr: _call,
}
"""Functions that format instructions, by class; llvmlite formats the other classes."""
