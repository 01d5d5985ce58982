"""Read a module's text: xDSL's parser, with faster tokens and types, and aliases of locations.

The grammar is that of xDSL and of the ops' own syntax.  Tokens come from one regular expression, a
type that was read before is taken from a table by its text, and so are whole lines of the most
common syntax: a kernel reads three times as fast.

Locations: libtriton prints `loc(#loc7)` on each op and the definitions of these aliases below the
module; they are read first and end in `op.location`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects.arith import AddfOp, AddiOp, AndIOp
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
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from triton_xe.dialects import context as default_context
from triton_xe.dialects.arith_ext import ExtSIOp, ExtUIOp, splat_attr, splat_of_bits
from triton_xe.dialects.text.locations import source_of_location
from triton_xe.dialects.tt.ops import AddPtrOp, MulhiUIOp, SplatOp
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
"""A string without its end, for which xDSL's expression would search exponentially long."""


class _Token(Token[MLIRTokenKind, str]):
    """A token that holds its text, and makes its span when it is asked for."""

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
    """xDSL's lexer; all but strings and rare punctuation by one regular expression."""

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
    """Text in which angle brackets are closed, up to `depth` in one another."""
    inner = r"[^<>]*+"
    for _ in range(depth):
        inner = rf"[^<>]*+(?:<{inner}>[^<>]*+)*+"
    return inner


_FORM = rf"(?:tensor|!tt\.\w+|!ttg\.\w+)<{_nested(5)}>|(?:i|f|bf)[0-9]+\b|index\b"
_TYPE = re.compile(_FORM)
_LINE = re.compile(
    rf"(%{_SUFFIX}) = (\w+\.\w+) (%{_SUFFIX}(?:, %{_SUFFIX})*+) : ({_FORM})(?:, ({_FORM}))?"
    rf"(?: (?:->|to) ({_FORM}))?(?: loc\((#loc[0-9]*)\))?[ ]*\n"
)
_REGULAR = frozenset(
    op.assembly_format
    for op in (AddiOp, AndIOp, AddfOp, ExtSIOp, ExtUIOp, AddPtrOp, SplatOp, MulhiUIOp)
)
"""The syntax of most ops: operands, then a type for all or for each, then maybe the result's."""
_DICTIONARY = re.compile(r"\{[^{}\"<>#!]*\}")
_SPLAT = re.compile(r"<([^\[\"<>]+)>")
_REFERENCE = re.compile(r"loc\((#loc[0-9]*)\)")
_LOCATION = re.compile(r"^(#loc[0-9]*) = loc\((.*)\)$", re.MULTILINE)
_LINE_OF_FILE = re.compile(r'"([^"\\]*)":([0-9]+):([0-9]+)')
_NAMED = re.compile(r'"([^"\\]*)"\((#loc[0-9]*)\)')
_string = lru_cache(maxsize=64)(StringAttr)


@lru_cache(maxsize=1024)
def _file_line(file: str, line: str, column: str) -> FileLineColLoc:
    return FileLineColLoc(_string(file), IntAttr(int(line)), IntAttr(int(column)))


class Reader(Parser):
    """xDSL's parser, faster; see the module's docstring."""

    def __init__(self, ctx: Context, text: str, name: str = "<module>") -> None:
        super().__init__(ctx, "", name)
        self._types: dict[str, TypeAttribute] = {}
        self._dictionaries: dict[str, dict[str, Attribute]] = {}
        self._locations: dict[str, LocationAttr] = {}
        for alias, location in _LOCATION.findall(text):
            self._locations[alias] = self._simple_location(location) or self._other(location, name)
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

    def _other(self, location: str, name: str) -> LocationAttr:
        self._read(location, name)
        return self._parse_location()

    def parse_operation(self) -> Operation:
        match = _LINE.match(self.lexer.input.content, self.pos)
        return (match and self._regular(match)) or super().parse_operation()

    def _regular(self, match: re.Match[str]) -> Operation | None:
        """An op of regular syntax, of types and values that were read before; else None."""
        name, op_name, names, first, second, last, alias = match.groups()
        op_type: Any = self.ctx.get_optional_op(op_name)
        if op_type is None or op_type.assembly_format not in _REGULAR:
            return None
        operands = [self.ssa_values.get(operand[1:], (None,))[0] for operand in names.split(", ")]
        types = [self._types.get(first)] * len(operands)
        if second is not None:
            types[1:] = [self._types.get(second)]
        result = self._types.get(last or first)
        known = result is not None and alias in self._locations
        if not known or types != [operand and operand.type for operand in operands]:
            return None
        op: Operation = op_type.create(operands=operands, result_types=[result])
        op.location = self._locations[alias]
        self._register_ssa_definition(name[1:], op.results, self._current_token.span)
        self._resume_from(match.end())
        return op

    def parse_optional_type(self) -> TypeAttribute | None:
        content = self.lexer.input.content
        match = _TYPE.match(content, self.pos)
        if match is None:
            return super().parse_optional_type()
        text = match[0]
        type_ = self._types.get(text)
        if type_ is not None:
            self._resume_from(match.end())
            return type_
        type_ = super().parse_optional_type()
        if type_ is not None and not content[match.end() : self.pos].strip():
            self._types[text] = type_
        return type_

    def parse_optional_dictionary_attr_dict(self) -> dict[str, Attribute]:
        match = _DICTIONARY.match(self.lexer.input.content, self.pos)
        if match is None:
            return super().parse_optional_dictionary_attr_dict()
        if match[0] not in self._dictionaries:
            self._dictionaries[match[0]] = super().parse_optional_dictionary_attr_dict()
        else:
            self._resume_from(match.end())
        return dict(self._dictionaries[match[0]])

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """As xDSL's, but a splat's value is kept once, and a float may be given by its bits."""
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
        """Where in the text a position is, for people."""
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
            raise UnsupportedError(f"{at}: an operation stands here in MLIR, not {name!r}")
        raise UnsupportedError(
            f"{at}: the operation '{name}' is not supported on Intel Xe; rewrite this line "
            "without it"
        )


def read_module(text: str, *, name: str = "<module>", ctx: Context | None = None) -> ModuleOp:
    """The module that `text` spells; an UnsupportedError names an unknown op and its line."""
    return Reader(ctx or default_context(), text, name).parse_module()
