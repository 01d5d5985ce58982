"""Read LLVM IR text, as LLVM 22 or the emitter prints it, into `ir.Module`.

Other text is first parsed, verified and printed again by LLVM itself (`canonical`), so only these
spellings have to be understood.  Grammar: the LLVM Language Reference, restricted to what a
triton-xe kernel module contains; anything else is an `UnsupportedError` that names the line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.errors import DeviceError
from triton_xe.llvm import Block, Function, Instruction, Operand, Type
from triton_xe.llvm.syntax import read_expression, read_instruction
from triton_xe.llvm.tokens import TYPES, Line
from triton_xe.spirv import (
    ADDED_NODE,
    DEFINED_NODES,
    FALLBACK_NODE,
    FIRST_NODE,
    SOURCE_NODE,
    UNFILLED_NODE,
)

_ATTACHED = re.compile(r"(?:^|!)([A-Za-z][\w.]*) !(\d+)")
_GROUP = re.compile(r"#\d+")
_SIGNATURE = re.compile(r'@("[^"]*"|[-\w$.]+)\(.*\)(.*)')
_LOCAL = re.compile(r'%(?:"[^"]*"|[-\w$.]+)')


def canonical(text: str) -> str:
    """The module as LLVM prints it, verified; `DeviceError` when it is no valid LLVM IR."""
    import llvmlite.binding as llvm  # LLVM itself takes some 60 MB of memory

    llvm.initialize_native_target()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise DeviceError(f"the kernel's LLVM module is not valid: {error}") from None
    return str(module)


def parse_module(text: str) -> ir.Module:
    """Parse a module; `UnsupportedError` names the first line that is not supported."""
    return _ModuleReader(text).read()


class _Template(NamedTuple):
    """An instruction that was parsed, as a template for others that differ in value names only."""

    read: Instruction
    places: tuple[int, ...]
    """Indices of the operands that are values."""

    def named(self, names: list[str]) -> Instruction:
        """The instruction with these names: the result if it has one, then the operands."""
        like = self.read
        result, *values = names if like.result is not None else (None, *names)
        operands = like.operands.copy()
        for place, name in zip(self.places, values, strict=True):
            operands[place] = Operand(operands[place].type, name)  # type: ignore[arg-type]
        return Instruction(
            like.opcode, like.type, operands, result, like.flags, like.extra, [], like.element,
            like.indices, like.callee, like.align, like.aligns, like.orderings, like.scope,
            like.attributes)


def _template_of(i: Instruction, names: list[str]) -> _Template | None:
    """Template of an instruction, if its result and operands are all the names in its text."""
    places = tuple(k for k, operand in enumerate(i.operands) if operand.local)
    found = [*([] if i.result is None else [i.result]), *(i.operands[k].text for k in places)]
    if found != names or i.labels or any(operand.expression for operand in i.operands):
        return None
    if len(set(names)) < len(names):  # equal names have no unique position
        return None
    return _Template(i, places)


class _ModuleReader:
    """Reads the lines of a module; `at` is the index of the current one."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.at = 0
        self.types: dict[str, Type] = dict(TYPES)
        self.module = ir.Module({}, {}, {})
        self.templates: dict[str, _Template] = {}
        """Instructions by their text without names: most of a kernel repeats a few."""
        self.versions: list[tuple[Instruction, int]] = []
        """Branches between two versions, and the metadata that says which is which."""
        self.groups: dict[str, str] = {}
        """Attributes by the name of a group."""

    def read(self) -> ir.Module:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith("define "):
                self._function()
            elif line.startswith("@"):
                self._global(line)
            elif line.startswith("!"):
                self._metadata(line)
            elif line.startswith("%"):
                self._named_type(line)
            elif line.startswith(("declare ", "attributes ")):
                self._attributes(line)
            self.at += 1
        for name, words in self.module.attributes.items():
            self.module.attributes[name] = _GROUP.sub(lambda m: self.groups[m[0]], words)
        for branch, node in self.versions:
            branch.fallback = branch.labels[self.module.integers(node)[0]]
        return self.module

    def _line(self, text: str) -> Line:
        return Line(text, self.at + 1, self.types, read_expression)

    def _named_type(self, text: str) -> None:
        line = self._line(text)
        name = line.take()
        line.expect("=")
        line.expect("type")
        self.types[name] = line.type()

    def _attributes(self, line: str) -> None:
        """Read those of a function, or of a group."""
        if line.startswith("attributes "):
            name, _, words = line.removeprefix("attributes ").partition(" = ")
            self.groups[name] = words.strip("{ }")
        elif (found := _SIGNATURE.search(line)) is not None:
            self.module.attributes[found[1].strip('"')] = found[2]

    def _metadata(self, line: str) -> None:
        head, _, body = line.partition(" = ")
        if head[1:].isdigit():
            self.module.metadata[int(head[1:])] = body

    def _global(self, text: str) -> None:
        line = self._line(text)
        name = line.take().replace('"', "")
        line.expect("=")
        space = 0
        while line.peek not in ("global", "constant"):
            if line.peek == "addrspace":
                space = line.address_space()
            else:
                line.take()
        constant = line.take() == "constant"
        t = line.type()
        if not line.peek or line.peek == ",":
            initializer = "external"
        else:
            initializer = line.operand(t).text
        align = line.alignment()
        self.module.globals[name] = ir.Global(name, t, space, initializer, constant, align)

    def _function(self) -> None:
        self._attributes(self.lines[self.at])
        header = self._line(self.lines[self.at])
        words = header.tokens
        kernel, private = "spir_kernel" in words, "private" in words
        internal = private or "internal" in words
        while not header.starts_type():
            header.take()
            if header.peek == "(":
                header.skip_parens()
        result = header.type()
        name = header.take().strip('@"')
        parameters = self._parameters(header)
        function = Function(name, result, parameters, [], kernel, internal,
                            self._attachments(header), is_private=private)
        self._body(function)
        self.module.functions[name] = function

    @staticmethod
    def _parameters(line: Line) -> list[tuple[str, Type]]:
        line.expect("(")
        found: list[tuple[str, Type]] = []
        while not line.accept(")"):
            t = line.type()
            line.attributes()
            name = line.take() if line.peek.startswith("%") else f"%{len(found)}"
            found.append((name, t))
            line.accept(",")
        return found

    @staticmethod
    def _attachments(line: Line) -> dict[str, int]:
        found: dict[str, int] = {}
        while line.peek not in ("{", ""):
            token = line.take()
            if token.startswith("!") and line.peek.startswith("!") and line.peek[1:].isdigit():
                found[token[1:]] = int(line.take()[1:])
        return found

    def _body(self, function: Function) -> None:
        unnamed = sum(p[0][1:].isdigit() for p in function.parameters)
        block = Block(f"%{unnamed}")
        while True:
            self.at += 1
            text = self.lines[self.at]
            if text.startswith("}"):
                break
            if not text.strip() or text.lstrip().startswith((";", "#dbg", "{")):
                continue
            if text[0] not in " \t":
                if block.instructions:
                    function.blocks.append(block)
                block = Block("%" + text[: text.index(":")])
                continue
            if text.lstrip().startswith("switch"):
                while "]" not in text.split("[", 1)[1]:
                    self.at += 1
                    text += " " + self.lines[self.at].strip()
            block.instructions.append(self._instruction(text))
        function.blocks.append(block)

    def _instruction(self, text: str) -> Instruction:
        text, _, tail = text.partition(", !")
        nodes = {name: int(number) for name, number in _ATTACHED.findall(tail)}
        spelled, names = _LOCAL.sub("%", text), _LOCAL.findall(text)
        known = self.templates.get(spelled)
        instruction = self._read(text) if known is None else known.named(names)
        template = _template_of(instruction, names) if known is None else None
        if template is not None:
            self.templates[spelled] = template
        instruction.line = self.at + 1
        instruction.debug = nodes.get(SOURCE_NODE, nodes.get("dbg"))
        instruction.unfilled = UNFILLED_NODE in nodes
        instruction.defines = next((n for n in DEFINED_NODES if n in nodes), "")
        instruction.first = FIRST_NODE in nodes
        instruction.added = ADDED_NODE in nodes
        if FALLBACK_NODE in nodes:
            self.versions.append((instruction, nodes[FALLBACK_NODE]))
        return instruction

    def _read(self, text: str) -> Instruction:
        line = self._line(text)
        result = None
        if line.peek.startswith("%"):
            result = line.take()
            line.expect("=")
        instruction = read_instruction(line)
        instruction.result = result
        return instruction
