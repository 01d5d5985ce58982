"""Read a module's text: xDSL's parser, with faster tokens and types, and aliases of locations.

The grammar is that of xDSL and of the ops' own syntax.  Three caches make it fast.  Tokens come
from one regular expression.  A type that was read before is looked up by its text.  A line may
have been read before, in this module or in one with the same aliases.  Its op is then copied,
except for names and locations.

Locations: libtriton prints `loc(#loc7)` on each op and the definitions of these aliases after the
module.  They are read first and stored in `op.location`.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser
from xdsl.traits import HasParent
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from triton_xe.deep_calls import room_for
from triton_xe.dialects import context as default_context
from triton_xe.dialects.advice import remedy_of
from triton_xe.dialects.arith_ext import splat_attr, splat_of_bits
from triton_xe.dialects.text.locations import source_of_location
from triton_xe.errors import UnsupportedError

Kind = MLIRTokenKind

_SUFFIX = r"(?:[0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*)"
_TOKENS = {
    Kind.BARE_IDENT: r"[A-Za-z_][A-Za-z0-9_$.]*",
    Kind.PERCENT_IDENT: f"%{_SUFFIX}",
    Kind.HASH_IDENT: f"#{_SUFFIX}",
    Kind.EXCLAMATION_IDENT: f"!{_SUFFIX}",
    Kind.CARET_IDENT: rf"\^{_SUFFIX}",
    Kind.FLOAT_LIT: r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?",
    Kind.INTEGER_LIT: "0x[0-9a-fA-F]+|[0-9]+",
    Kind.STRING_LIT: r'"[^"\\\n]*"',
    Kind.ARROW: "->",
    Kind.L_BRACE: r"\{(?!-#)",
    **{kind: re.escape(kind.value) for kind in Kind
       if isinstance(kind.value, str) and kind.value in set(":,()[]<>=}")},
}
_TOKEN = re.compile(
    r"(?:\s++|//[^\n]*+)*+(?:" + "|".join(f"({form})" for form in _TOKENS.values()) + ")"
)
_KINDS = tuple(_TOKENS)
_OPEN_STRING = re.compile(
    r'(?:\s++|//[^\n]*+)*+"(?!(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+")'
)
"""Matches a string without its end, for which xDSL's expression would take exponential time."""


class _Token(Token[MLIRTokenKind, str]):
    """A token that stores its text, and creates its span on demand."""

    text = ""

    def __init__(self, kind: MLIRTokenKind, text: str, end: int, input_: Input[str]) -> None:
        self.kind = kind
        self.text = text
        self.end = end
        self.input = input_

    @property
    def span(self) -> Span[str]:  # type: ignore[override]
        return Span(self.end - len(self.text), self.end, self.input)


class _Lexer(MLIRLexer):
    """xDSL's lexer, with one regular expression for all but strings and rare punctuation."""

    def lex(self) -> Token[MLIRTokenKind, str]:
        match = _TOKEN.match(self.input.content, self.pos)
        if match is None or match.lastindex is None:
            if (opened := _OPEN_STRING.match(self.input.content, self.pos)) is not None:
                here = Span(opened.end() - 1, opened.end(), self.input)
                raise ParseError(here, "a string that is not closed on its line")
            token = super().lex()
            return _Token(token.kind, token.text, self.pos, self.input)
        self.pos = match.end()
        return _Token(
            _KINDS[match.lastindex - 1], match[match.lastindex], self.pos, self.input
        )


def _nested(depth: int) -> str:
    """Regular expression for text with balanced angle brackets, nested up to `depth`."""
    inner = r"[^<>]*+"
    for _ in range(depth):
        inner = rf"[^<>]*+(?:<{inner}>[^<>]*+)*+"
    return inner


_TYPE = re.compile(rf"(?:tensor|!tt\.\w+|!ttg\.\w+)<{_nested(5)}>|(?:i|f|bf)[0-9]+\b|index\b")
_LINE = re.compile(rf'(?:(%{_SUFFIX}) = )?([a-z_]+\.[^"^\n]*[^"^\n ]) loc\((#loc[0-9]*)\) *\n')
"""Matches a line with one op of at most one result, without strings and successors."""
_USE = re.compile(r"%([\w$.-]+)(?:#([0-9]+))?")
_ALIAS = re.compile(r"^[#!]\w+ = (?!loc\().*$", re.MULTILINE)
_DICTIONARY = re.compile(r'\{(?:[^{}"<>#!]++|"[^"\\\n]*+")*+\}')
_SPLAT = re.compile(r"<([^\[\"<>]+)>")
_REFERENCE = re.compile(r"loc\((#loc[0-9]*)\)")
_LOCATION = re.compile(r"^(#loc[0-9]*) = loc\((.*)\)$", re.MULTILINE)
_LINE_OF_FILE = re.compile(r'"([^"\\]*)":([0-9]+):([0-9]+)')
_NAMED = re.compile(r'"([^"\\]*)"\((#loc[0-9]*)\)')
_string = lru_cache(maxsize=64)(StringAttr)


@lru_cache(maxsize=1024)
def _file_line(file: str, line: str, column: str) -> FileLineColLoc:
    return FileLineColLoc(_string(file), IntAttr(int(line)), IntAttr(int(column)))


class _Prototype(NamedTuple):
    """The op of a line, without its operands and the names in it."""

    op_type: type[Operation]
    operand_types: list[Attribute]
    result_types: list[Attribute]
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]
    is_verified: bool = False
    """True if an op with this prototype was verified by the rules that do not depend on its
    operands.
    """

    def create(self, operands: list[SSAValue], location: LocationAttr) -> Operation:
        op = self.op_type.create(
            operands=operands, result_types=self.result_types, properties=dict(self.properties),
            attributes=dict(self.attributes))
        op.location = location
        return op


@cache
def _verifies_alone(kind: type[Operation]) -> bool:
    """True if the validity of such ops does not depend on the ops around them."""
    return kind.dialect_name() in ("arith", "math", "tt", "ttg") and not kind.has_trait(HasParent)


MOST_KNOWN = 10_000
"""Most texts that are cached for modules with the same aliases."""


@dataclass
class _Known:
    """Cached meanings of texts in modules with the same aliases."""

    types: dict[str, TypeAttribute] = field(default_factory=dict)
    dictionaries: dict[str, dict[str, Attribute]] = field(default_factory=dict)
    lines: dict[str, _Prototype] = field(default_factory=dict)

    def trim(self) -> _Known:
        for known in (self.types, self.dictionaries, self.lines):
            if len(known) > MOST_KNOWN:
                known.clear()
        return self


class _ThreadState(threading.local):
    """The context in which a thread reads modules, and its caches."""

    def __init__(self) -> None:
        self.context = default_context()
        self.known = lru_cache(maxsize=64)(self._known)

    @staticmethod
    def _known(aliases: str) -> _Known:
        return _Known()


_shared = _ThreadState()


class Reader(Parser):
    """xDSL's parser, faster; see the module's docstring."""

    def __init__(self, ctx: Context | None, text: str, name: str = "<module>") -> None:
        super().__init__(ctx or _shared.context, "", name)
        aliases = "\n".join(_ALIAS.findall(text))
        self._known = _Known() if ctx else _shared.known(aliases).trim()
        self._new_prototypes: dict[str, _Prototype] = {}
        self._verified_ops: set[Operation] = set()
        self._locations: dict[str, LocationAttr] = {}
        for alias, location in _LOCATION.findall(text):
            self._locations[alias] = (
                self._simple_location(location) or self._parse_other_location(location, name))
        self._read(_LOCATION.sub("", text.replace("scf.while :", "scf.while () :")), name)

    @property
    def pos(self) -> int:
        token: Any = self._parser_state.current_token
        return token.end - len(token.text)

    def parse_optional_punctuation(self, punctuation: Any) -> Any:
        return self.parse_optional_characters(punctuation)

    def _read(self, text: str, name: str) -> None:
        self._parser_state.lexer = _Lexer(Input(text, name))
        self._resume_from(0)

    def _simple_location(self, text: str) -> LocationAttr | None:
        if (line := _LINE_OF_FILE.fullmatch(text)) is not None:
            return _file_line(*line.groups())
        named = _NAMED.fullmatch(text)
        inner = named and self._locations.get(named[2])
        return NameLoc(_string(named[1]), inner) if named and inner else None

    def _parse_other_location(self, location: str, name: str) -> LocationAttr:
        self._read(location, name)
        return self._parse_location()

    def parse_operation(self) -> Operation:
        """Parse an op, from the prototype of its line if there is one."""
        match = _LINE.match(self.lexer.input.content, self.pos)
        if match is None:
            return super().parse_operation()
        name, line, alias = match.groups()
        operands = [self._value(*use) for use in _USE.findall(line)]
        form, location = _USE.sub("%", line), self._locations.get(alias)
        known = self._known.lines.get(form)
        if known is None or location is None or (
            [operand and operand.type for operand in operands] != known.operand_types
            or len(known.result_types) != bool(name)
        ):
            op = super().parse_operation()
            self._note_prototype(form, op, operands)
            return op
        op = known.create(operands, location)  # type: ignore[arg-type]  # None has no known type
        if known.is_verified:
            self._verified_ops.add(op)
        if name:
            self._register_ssa_definition(name[1:], op.results, self._current_token.span)
        self._resume_from(match.end())
        return op

    def _value(self, name: str, index: str) -> SSAValue | None:
        values = self.ssa_values.get(name, ())
        return values[int(index or 0)] if int(index or 0) < len(values) else None

    def _note_prototype(self, form: str, op: Operation, operands: list[SSAValue | None]) -> None:
        if op.regions or op.successors or list(op.operands) != operands:
            return
        if len(set(operands)) < len(operands):  # equal names have no unique position
            return
        self._new_prototypes[form] = self._known.lines[form] = _Prototype(
            type(op), [v.type for v in op.operands], [r.type for r in op.results],
            dict(op.properties), dict(op.attributes))

    def parse_verified_module(self) -> ModuleOp:
        """Parse and verify a module; ops with a verified prototype are only checked for their
        blocks.
        """
        module = self.parse_module()
        self._verify(module)
        for form, prototype in self._new_prototypes.items():
            if _verifies_alone(prototype.op_type):
                self._known.lines[form] = prototype._replace(is_verified=True)
        return module

    def _verify(self, op: Operation) -> None:
        op.verify(verify_nested_ops=False)
        for region in op.regions:
            for block in region.blocks:
                if block.last_op is None:
                    block.verify()
                for inner in block.ops:
                    if inner not in self._verified_ops or inner is block.last_op:
                        self._verify(inner)

    def parse_optional_type(self) -> TypeAttribute | None:
        content = self.lexer.input.content
        match = _TYPE.match(content, self.pos)
        if match is None:
            return super().parse_optional_type()
        text = match[0]
        type_ = self._known.types.get(text)
        if type_ is not None:
            self._resume_from(match.end())
            return type_
        type_ = super().parse_optional_type()
        if type_ is not None and not content[match.end() : self.pos].strip():
            self._known.types[text] = type_
        return type_

    def parse_optional_dictionary_attr_dict(self) -> dict[str, Attribute]:
        match = _DICTIONARY.match(self.lexer.input.content, self.pos)
        if match is None:
            return super().parse_optional_dictionary_attr_dict()
        if match[0] not in self._known.dictionaries:
            self._known.dictionaries[match[0]] = super().parse_optional_dictionary_attr_dict()
        else:
            self._resume_from(match.end())
        return dict(self._known.dictionaries[match[0]])

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """Parse as xDSL does, but store a splat as one value, and accept floats given by their
        bits.
        """
        start = self.pos
        match = _SPLAT.match(self.lexer.input.content, start)
        if match is None:
            attr = super().parse_dense_int_or_fp_elements_attr(type)
            bits = "0x" in self.lexer.input.content[start : self.pos]
            if bits and not isinstance(attr.get_element_type(), IntegerType):
                self.raise_error("lists of floats given by their bits are not supported", start)
            return attr
        self.parse_punctuation("<")
        ((literal,), _) = self._parse_tensor_literal()
        self.parse_punctuation(">")
        if type is None:
            self.parse_punctuation(":")
            type = self.parse_type()
        if match[1].startswith("0x") and not isinstance(type.element_type, IntegerType):
            return splat_of_bits(type, int(match[1], 16))
        return splat_attr(type, literal.to_type(self, type.element_type))

    def parse_optional_location(self) -> LocationAttr | None:
        match = _REFERENCE.match(self.lexer.input.content, self.pos)
        if match is None or match[1] not in self._locations:
            return super().parse_optional_location()
        self._resume_from(match.end())
        return self._locations[match[1]]

    def _parse_location(self) -> LocationAttr:
        line = _LINE_OF_FILE.match(self.lexer.input.content, self.pos)
        if line is not None:
            self._resume_from(line.end())
            return _file_line(*line.groups())
        location = self._locations.get(self._current_token.text)
        if location is None:
            return super()._parse_location()
        self._consume_token()
        return location

    def located(self, position: int) -> str:
        """Describe a position in the text, for messages."""
        line = self.lexer.input.content.count("\n", 0, position) + 1
        return f"line {line} of the module"

    def _get_op_by_name(self, name: str) -> type[Operation]:
        op_type = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if op_type is not None:
            return op_type
        content = self.lexer.input.content
        start = content.rfind(name, 0, self.pos)
        match = _REFERENCE.search(content, start)
        location = self._locations.get(match[1]) if match else None
        source = source_of_location(location) if location is not None else None
        at = source or self.located(start)
        if "." not in name:
            raise UnsupportedError(f"{at}: MLIR has an operation here, not {name!r}")
        raise UnsupportedError(
            f"{at}: the operation '{name}' is not supported on Intel Xe; {remedy_of(name)}"
        )


def read_module(text: str, *, name: str = "<module>", ctx: Context | None = None) -> ModuleOp:
    """Parse `text`; raise `UnsupportedError` with the line for an unknown op."""
    with room_for():
        return Reader(ctx, text, name).parse_module()


def read_verified_module(text: str, *, name: str = "<module>") -> ModuleOp:
    """Parse and verify `text`."""
    return Reader(None, text, name).parse_verified_module()
