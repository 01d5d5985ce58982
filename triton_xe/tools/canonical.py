"""Compiled kernels without their arbitrary names, so that equal programs have equal text.

Values, ids and metadata are renumbered in the order of their first use.  Declarations, types and
constants are sorted or printed where they are used.  Names for people are dropped.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from llvmlite import binding as llvm

from triton_xe import spirv

_ALIAS = re.compile(r"^(#[\w$.-]+) = (.*)\n?", re.MULTILINE)
_ALIAS_USE = re.compile(r"#[a-zA-Z_]\w*")
_MLIR_NAME = re.compile(r"[%^][\w$.-]+")
_LLVM_NAME = re.compile(r'%(?:"(?P<quoted>[^"]*)"|(?P<plain>[\w$.-]+))')
_LABEL = re.compile(r'^(?:"(?P<quoted>[^"]*)"|(?P<plain>[\w$.-]+)):.*', re.MULTILINE)
_METADATA = re.compile(r"!\d+\b")
_SIMULATORS = re.compile(r", !xe\.fallback !\d+")
"""Metadata that only the simulator reads."""
_METADATA_LINE = re.compile(r"^(!\d+) = (.*)\n?", re.MULTILINE)
_ATTRIBUTES = re.compile(r"^attributes (#\d+) = (.*)\n?", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|[ \t]+);[^\n\"]*$\n?|^source_filename.*\n", re.MULTILINE)


def canonical(stage: str, text: str) -> str:
    """The canonical text of a stage of a recording; other stages are returned unchanged."""
    return _FORMS[stage](text) if stage in _FORMS else text


class _Numbers:
    """Numbers names in the order of their first request."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        return self.known.setdefault(name, f"{self.prefix}{len(self.known)}")


def canonical_mlir(text: str) -> str:
    """A module of any dialect, with aliases expanded, and values and blocks numbered.

    >>> canonical_mlir("#a = i32\\n%x = op() : #a\\nop(%x)")
    '%0 = op() : i32\\nop(%0)'
    """
    aliases = dict(_ALIAS.findall(text))

    def spell(match: re.Match[str]) -> str:
        found = aliases.get(match[0])
        return match[0] if found is None else _ALIAS_USE.sub(spell, found)

    numbers = {"%": _Numbers("%"), "^": _Numbers("^")}
    spelled = _ALIAS_USE.sub(spell, _ALIAS.sub("", text))
    return _MLIR_NAME.sub(lambda m: numbers[m[0][0]](m[0]), spelled)


def canonical_llvm(text: str) -> str:
    """A module of LLVM IR as LLVM prints it: functions in order, then all other lines sorted."""
    with llvm.parse_assembly(text) as module:
        printed = _COMMENT.sub("\n", str(module))
    groups = dict(_ATTRIBUTES.findall(printed))
    metadata = dict(_METADATA_LINE.findall(printed))
    printed = _METADATA_LINE.sub("", _ATTRIBUTES.sub("", printed))
    printed = _SIMULATORS.sub("", printed)
    printed = re.sub(r"#\d+\b", lambda m: groups.get(m[0], m[0]), printed)
    pieces = re.split(r"^(define .*?^\})$", printed, flags=re.MULTILINE | re.DOTALL)
    functions = [_canonical_function(piece) for piece in pieces[1::2]]
    rest = sorted(line for piece in pieces[::2] for line in piece.splitlines() if line)
    return "\n".join(_numbered_metadata([*functions, *rest], metadata)) + "\n"


def _canonical_function(text: str) -> str:
    numbers = _Numbers("%")

    def name(match: re.Match[str]) -> str:
        return numbers(match["quoted"] or match["plain"])

    named = _LLVM_NAME.sub(name, _LABEL.sub(lambda m: f"%{m[0].split(':')[0]}:", text))
    return "\n".join(line for line in named.splitlines() if line)


def _numbered_metadata(lines: list[str], metadata: Mapping[str, str]) -> Iterator[str]:
    """The lines, and the metadata that they use in the order of its first use."""
    numbers = _Numbers("!")
    yield from (_METADATA.sub(lambda m: numbers(m[0]), line) for line in lines)
    written = 0
    while written < len(numbers.known):
        name = list(numbers.known)[written]
        yield f"!{written} = {_METADATA.sub(lambda m: numbers(m[0]), metadata[name])}"
        written += 1


_IDS = "i*"
_OPERANDS = {
    10: "l*", 11: "il*", 12: "iiili*", 14: "l*", 16: "il*", 17: "l*", 21: "il*", 22: "il*",
    23: "iil", 31: "il*", 32: "ili", 38: "il", 39: "il", 43: "iil*", 50: "iil*", 54: "iili",
    59: "iili*", 61: "iiil*", 62: "iil*", 63: "iil*", 64: "iiil*", 71: "il*", 72: "il*",
    79: "iiiil*", 81: "iiil*", 82: "iiiil*", 123: "iiil", 246: "iil*", 247: "il*", 250: "iiil*",
    256: "il", 257: "il", 330: "l*", 332: "ili*", 5609: "il*", 5610: "iiiil*", 5632: "il*",
}
"""Kinds of an opcode's operands: `i` for literals, `l` for ids, `*` for repetition of the last.

Operands of an unlisted opcode are ids (SPIR-V specification 1.6, section 3.49, and
SPV_INTEL_inline_assembly).
"""
_FOR_PEOPLE = frozenset({2, 3, 4, 5, 6, 7, 8, 317})
"""Opcodes of sources, names, strings and lines."""
_ENTRY_POINT, _TYPE_INT, _FUNCTION, _FUNCTION_END, _SWITCH = 15, 21, 54, 56, 251
_DECORATIONS = frozenset({71, 72, 332, 5632})
_MARK = spirv.MARK.encode()

Instruction = tuple[int, tuple[int, ...]]
"""An opcode and its operands."""


def canonical_spirv(binary: bytes) -> str:
    """A SPIR-V module: functions in order, with the ids outside of them replaced by their
    content.
    """
    return "\n".join(_Spirv(list(_instructions(binary))).lines()) + "\n"


def _instructions(binary: bytes) -> Iterator[Instruction]:
    for opcode, start, length in spirv.instructions(binary):
        carries_llvm = opcode == spirv.OP_MODULE_PROCESSED and binary.startswith(_MARK, start + 4)
        if opcode not in _FOR_PEOPLE and not carries_llvm:
            yield opcode, struct.unpack_from(f"<{length // 4 - 1}I", binary, start + 4)


class _Spirv:
    """One module; an id outside functions is represented by a digest of its definition."""

    def __init__(self, instructions: list[Instruction]) -> None:
        start = next((i for i, (o, _) in enumerate(instructions) if o == _FUNCTION),
                     len(instructions))
        self.head = instructions[:start]
        self.functions = list(_split(instructions[start:]))
        self.keys: dict[int, str] = {}
        self.local = _Numbers("%")
        self.types: dict[int, int] = {}

    @cached_property
    def outside(self) -> dict[int, Instruction]:
        """Definition of each id outside functions."""
        typed = {i: (o, w) for o, w in self.head if 41 <= o <= 59 or o == 1 for i in w[1:2]}
        plain = {w[0]: (o, w) for o, w in self.head if 19 <= o <= 39 or o in (11, 5609)}
        functions = {body[0][1][1]: body[0] for body in self.functions}
        return typed | plain | functions

    @cached_property
    def order(self) -> dict[int, int]:
        """Indices of the functions that have a body."""
        defined = [body[0][1][1] for body in self.functions if _has_body(body)]
        return {name: place for place, name in enumerate(defined)}

    @cached_property
    def decorations(self) -> dict[int, list[Instruction]]:
        found: dict[int, list[Instruction]] = {}
        for opcode, words in self.head:
            if opcode in _DECORATIONS:
                found.setdefault(words[0], []).append((opcode, words[1:]))
        return found

    def lines(self) -> Iterator[str]:
        defining = set(self.outside.values())
        head = [i for i in self.head if i[0] not in _DECORATIONS and i not in defining]
        yield from sorted(self._entry(w) if o == _ENTRY_POINT else self._line(o, w)
                          for o, w in head)
        yield from sorted("import " + self._key(body[0][1][1]) for body in self.functions
                          if not _has_body(body))
        for body in filter(_has_body, self.functions):
            yield from self._body(body)

    def _body(self, body: list[Instruction]) -> Iterator[str]:
        self.local = _Numbers("%")
        for opcode, words in body:
            if len(words) > 1 and self.outside.get(words[0], (0,))[0] in range(19, 40):
                self.types[words[1]] = words[0]
            yield self._line(opcode, words)
        for name, number in self.local.known.items():
            yield from (f"{number} {text}" for text in self._decorations_of(int(name)))

    def _line(self, opcode: int, words: tuple[int, ...]) -> str:
        return f"{opcode} " + " ".join(self._operands(opcode, words))

    def _operands(self, opcode: int, words: tuple[int, ...]) -> Iterator[str]:
        kinds = self._switch(words) if opcode == _SWITCH else _OPERANDS.get(opcode, _IDS)
        period = 0 if not kinds.endswith("*") else len(kinds) - 2
        for place, word in enumerate(words):
            kind = kinds[min(place, period)] if period or kinds.endswith("*") else kinds[place]
            yield self._key(word) if kind == "i" else f"{word:#x}"

    def _switch(self, words: tuple[int, ...]) -> str:
        """Selector and default, then a literal of the selector's width and a label per case."""
        definition = self.outside.get(self.types.get(words[0], 0), (0, ()))
        wide = definition[0] == _TYPE_INT and definition[1][1] == 64
        return "ii" + ("lli" if wide else "li") * len(words)

    def _entry(self, words: tuple[int, ...]) -> str:
        """The kind of entry, its function and its name; the interface is visible where it is
        used.
        """
        text = struct.pack(f"<{len(words) - 2}I", *words[2:]).split(b"\0")[0].decode()
        return f"{_ENTRY_POINT} {words[0]} {self._key(words[1])} {text}"

    def _key(self, name: int) -> str:
        """A digest of the definition of an id outside functions; a number for a local id."""
        if name not in self.outside:
            return self.local(str(name))
        if name not in self.keys:
            self.keys[name] = "@self"  # a type that points to itself
            self.keys[name] = "@" + hashlib.sha256(self._definition(name).encode()).hexdigest()[:12]
        return self.keys[name]

    def _definition(self, name: int) -> str:
        """Text of an id's definition and decorations, in which other ids have their keys."""
        opcode, words = self.outside[name]
        operands = [text for word, text in zip(words, self._operands(opcode, words), strict=True)
                    if word != name or not text.startswith("@")]
        return f"{opcode} {operands} {self._decorations_of(name)} {self.order.get(name)}"

    def _decorations_of(self, name: int) -> list[str]:
        found = self.decorations.get(name, ())
        return sorted(f"{o} " + " ".join(f"{w:#x}" for w in words) for o, words in found)


def _split(instructions: list[Instruction]) -> Iterator[list[Instruction]]:
    """The instructions of each function."""
    body: list[Instruction] = []
    for instruction in instructions:
        body.append(instruction)
        if instruction[0] == _FUNCTION_END:
            yield body
            body = []


def _has_body(function: list[Instruction]) -> bool:
    return any(opcode == 248 for opcode, _ in function)


_FORMS: Mapping[str, Callable[[str], str]] = {
    "xetile": canonical_mlir,
    "xegpu": canonical_mlir,
    "llir": canonical_llvm,
    "spv": lambda text: canonical_spirv(base64.b64decode(text)),
}
