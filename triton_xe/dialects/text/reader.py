"""Reads a module's text: xDSL's parser with the parts that take its time replaced.

The grammar is that of xDSL and of the ops' own `parse`.  What differs is cost: tokens come from
one regular expression, a type, attribute dictionary or location that was read before is taken
from a table by its text, and regular ops of xDSL's dialects skip the interpreter of assembly
formats.  A matmul (110 ops) reads four times as fast, its locations included.

Locations: libtriton prints `loc(#loc7)` on each op and the definitions of these aliases below the
module; they are collected first and end in `op.location`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from xdsl.context import Context
from xdsl.dialects import math, scf
from xdsl.dialects.arith import (
    FloatingPointLikeBinaryOperation,
    SignlessIntegerBinaryOperation,
    SignlessIntegerBinaryOperationWithOverflow,
)
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.ir import (
    Attribute,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
    TypedAttribute,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from triton_xe.dialects import context as default_context
from triton_xe.dialects.arith_ext import (
    Arith,
    ConstantOp,
    FastMathFlagsAttr,
    IntegerOverflowAttr,
    NegfOp,
    parse_fastmath,
    splat_attr,
    splat_of_bits,
)
from triton_xe.dialects.layouts import expand_aliases, layout_attr
from triton_xe.dialects.text.assembly import build
from triton_xe.errors import UnsupportedError

Kind = MLIRTokenKind

_SUFFIX = r"(?:[0-9]+|[A-Za-z$._-][A-Za-z0-9$._-]*)"
_TOKEN = re.compile(
    r"(?:\s++|//[^\n]*+)*+(?:"
    r"([A-Za-z_][A-Za-z0-9_$.]*)"  # 1 bare identifier
    rf"|(%{_SUFFIX})"  # 2
    rf"|(#{_SUFFIX})"  # 3
    rf"|(!{_SUFFIX})"  # 4
    rf"|(\^{_SUFFIX})"  # 5
    r"|(@[A-Za-z_][A-Za-z0-9_$.]*)"  # 6
    r"|([0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?)"  # 7 float
    r"|(0x[0-9a-fA-F]+|[0-9]+)"  # 8 integer
    r"|(->|\.\.\.|[:,()\[\]<>=+/*?|}-]|\{(?!-\#))"  # 9 punctuation
    r")"
)
_GROUP_KINDS = (
    None,
    Kind.BARE_IDENT,
    Kind.PERCENT_IDENT,
    Kind.HASH_IDENT,
    Kind.EXCLAMATION_IDENT,
    Kind.CARET_IDENT,
    Kind.AT_IDENT,
    Kind.FLOAT_LIT,
    Kind.INTEGER_LIT,
)
_PUNCTUATION = {
    kind.value: kind for kind in Kind if isinstance(kind.value, str) and kind is not Kind.EOF
}


class _Token:
    """What xDSL's parser reads of a token, without a span object until one is asked for."""

    __slots__ = ("end", "input", "kind", "start", "text")

    def __init__(
        self, kind: MLIRTokenKind, text: str, start: int, end: int, input_: Input[str]
    ) -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end
        self.input = input_

    @property
    def span(self) -> Span[str]:
        return Span(self.start, self.end, self.input)


class _Lexer(MLIRLexer):
    def lex(self) -> Any:
        input_ = self.input
        match = _TOKEN.match(input_.content, self.pos)
        if match is None:
            token = super().lex()
            span = token.span
            return _Token(token.kind, span.text, span.start, span.end, input_)
        group = match.lastindex
        assert group is not None
        text = match[group]
        self.pos = end = match.end()
        kind = _GROUP_KINDS[group] if group < 9 else _PUNCTUATION[text]
        assert kind is not None
        return _Token(kind, text, end - len(text), end, input_)


class _Operand(UnresolvedOperand):
    """An operand's name and index; its span is made only for an error message."""

    def __init__(self, name: str, index: int, end: int, input_: Input[str]) -> None:
        self.operand_name = name
        self.index = index
        self.end = end
        self.input = input_

    operand_name = ""

    @property
    def span(self) -> Span[str]:  # type: ignore[override]
        return Span(self.end - 1, self.end, self.input)


def _balanced(depth: int) -> str:
    inner = r"[^<>]*+"
    for _ in range(depth):
        inner = rf"[^<>]*+(?:<{inner}>[^<>]*+)*+"
    return inner


_TYPE = re.compile(rf"(?:tensor|!tt\.\w+|!ttg\.\w+)<{_balanced(5)}>|(?:i|f|bf)[0-9]+\b|index\b")
_HEAD = re.compile(
    rf"((?:%{_SUFFIX}(?::[0-9]+)?(?:,\s*+)?)*+)(?:\s*+=\s*+)?([A-Za-z_][A-Za-z0-9_$.]*)(?=[\s(<])"
)
_OPERANDS = re.compile(rf"%{_SUFFIX}(?:#[0-9]+)?(?:,\s*+%{_SUFFIX}(?:#[0-9]+)?)*+")
_SPACE = re.compile(r"\s*+")
_TENSOR = re.compile(
    r"tensor<((?:[0-9]+x)*+)([A-Za-z]\w*|!tt\.ptr<(?:[A-Za-z]\w*)>)(?:, (#[^\n]*))?>"
)
_PLAIN_DICT = re.compile(r"\{[^{}\"<>#!]*\}")
_SPLAT = re.compile(r"<[^\[\"<>]+>")
_LOCATION_REF = re.compile(r"\s*\((#loc[0-9]*)\)")


class Reader(Parser):
    """xDSL's parser, faster; see the module's docstring."""

    def __init__(self, ctx: Context, text: str, name: str = "<module>") -> None:
        super().__init__(ctx, "", name)
        body, self._locations = split_locations(text)
        self._parser_state.lexer = _Lexer(Input(body, name))
        self._parser_state.current_token = self._parser_state.lexer.lex()
        self._types: dict[str, TypeAttribute] = {}
        self._dicts: dict[str, dict[str, Attribute]] = {}
        self.constants: dict[str, Attribute] = {}

    # Tokens

    @property
    def pos(self) -> int:
        return self._parser_state.current_token.start  # type: ignore[attr-defined]

    def parse_optional_punctuation(self, punctuation: Any) -> Any:
        state = self._parser_state
        if state.current_token.text != punctuation:
            return None
        state.current_token = state.lexer.lex()
        return punctuation

    def parse_optional_characters(self, text: str) -> str | None:
        found: str | None = self.parse_optional_punctuation(text)
        return found

    def parse_punctuation(self, punctuation: Any, context_msg: str = "") -> Any:
        state = self._parser_state
        if state.current_token.text != punctuation:
            self.raise_error(f"Expected '{punctuation}'" + context_msg)
        state.current_token = state.lexer.lex()
        return punctuation

    def skip_to(self, position: int) -> None:
        state = self._parser_state
        state.lexer.pos = position
        state.current_token = state.lexer.lex()

    # Types, dictionaries, locations: by their text

    def parse_optional_type(self) -> TypeAttribute | None:
        content = self.lexer.input.content
        match = _TYPE.match(content, self.pos)
        if match is None:
            return super().parse_optional_type()
        text = match[0]
        type_ = self._types.get(text)
        if type_ is not None:
            self.skip_to(match.end())
            return type_
        type_ = self._tensor_type(text)
        if type_ is not None:
            self.skip_to(match.end())
        else:
            type_ = super().parse_optional_type()
        if type_ is not None and not content[match.end() : self.pos].strip():
            self._types[text] = type_
        return type_

    def _tensor_type(self, text: str) -> TypeAttribute | None:
        """A tensor whose elements and layout were read before, or are simple; else None."""
        match = _TENSOR.fullmatch(text)
        if match is None:
            return None
        dims, element_text, layout_text = match.groups()
        element = self._types.get(element_text) or _scalar_type(element_text)
        if element is None:
            return None
        encoding: Attribute | None = NoneAttr()
        if layout_text is not None:
            encoding = self._layout(layout_text)
        if encoding is None:
            return None
        return unchecked(TensorType, shape=_shape(dims), element_type=element, encoding=encoding)

    def _layout(self, text: str) -> Attribute | None:
        layout = self.attribute_aliases.get(text)
        if layout is None and text.startswith(("#ttg.", "#xe.")):
            layout = layout_attr(expand_aliases(self, text))
            self.attribute_aliases[text] = layout
        return layout

    def parse_type_after(self, punctuation: str) -> TypeAttribute:
        """`punctuation type`, in one step when the type was read before."""
        token: Any = self._parser_state.current_token
        if token.text != punctuation:
            self.raise_error(f"Expected '{punctuation}'")
        content = self.lexer.input.content
        space = _SPACE.match(content, token.end)
        match = _TYPE.match(content, space.end() if space else token.end)
        if match is not None and (type_ := self._types.get(match[0])) is not None:
            self.skip_to(match.end())
            return type_
        self.skip_to(token.end)
        return self.parse_type()

    def parse_type(self) -> TypeAttribute:
        type_ = self.parse_optional_type()
        if type_ is None:
            self.raise_error("type expected")
        return type_

    def parse_optional_dictionary_attr_dict(self) -> dict[str, Attribute]:
        if self._parser_state.current_token.text != "{":
            return {}
        match = _PLAIN_DICT.match(self.lexer.input.content, self.pos)
        if match is None:
            return super().parse_optional_dictionary_attr_dict()
        attrs = self._dicts.get(match[0])
        if attrs is None:
            attrs = self._dicts[match[0]] = super().parse_optional_dictionary_attr_dict()
        else:
            self.skip_to(match.end())
        return dict(attrs)

    parse_optional_attr_dict = parse_optional_dictionary_attr_dict

    def parse_optional_location(self) -> LocationAttr | None:
        token: Any = self._parser_state.current_token
        if token.text != "loc":
            return None
        match = _LOCATION_REF.match(self.lexer.input.content, token.end)
        if match is None:
            return super().parse_optional_location()
        self.skip_to(match.end())
        location: LocationAttr = self._locations[match[1]]
        return location

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """As xDSL's, but one value for all elements is kept once, not once per element."""
        start = self.pos
        match = _SPLAT.match(self.lexer.input.content, start)
        if match is None:
            attr = super().parse_dense_int_or_fp_elements_attr(type)
            if not isinstance(attr.get_element_type(), IntegerType) and self._text_has_bits(start):
                self.raise_error("lists of floats given by their bits are not supported", start)
            return attr
        self.parse_punctuation("<")
        ((literal,), _) = self._parse_tensor_literal()
        self.parse_punctuation(">")
        if type is None:
            self.parse_punctuation(":")
            type = self.parse_type()
        if match[0].startswith("<0x") and not isinstance(type.element_type, IntegerType):
            return splat_of_bits(type, int(match[0][1:-1], 16))
        return splat_attr(type, literal.to_type(self, type.element_type))

    def _text_has_bits(self, start: int) -> bool:
        """Whether the text from `start` on spells a number in hexadecimal; xDSL misreads it."""
        return "0x" in self.lexer.input.content[start : self.pos]

    def _parse_location(self) -> LocationAttr:
        state = self._parser_state
        alias = state.current_token.text
        if not alias.startswith("#loc"):
            return super()._parse_location()
        state.current_token = state.lexer.lex()
        location: LocationAttr = self._locations[alias]
        return location

    # Operands and operations

    def parse_optional_unresolved_operand(self) -> UnresolvedOperand | None:
        state = self._parser_state
        token: Any = state.current_token
        if token.kind is not Kind.PERCENT_IDENT:
            return None
        following: Any = state.lexer.lex()
        state.current_token = following
        name, end, input_ = token.text[1:], token.end, state.lexer.input
        if following.kind is not Kind.HASH_IDENT or not following.text[1:].isdigit():
            return _Operand(name, 0, end, input_)
        state.current_token = state.lexer.lex()
        return _Operand(name, int(following.text[1:]), end, input_)

    def parse_operand_list(self) -> list[UnresolvedOperand]:
        """`%a, %b#1, ...`, maybe empty, in one step."""
        input_ = self.lexer.input
        match = _OPERANDS.match(input_.content, self.pos)
        if match is None:
            return []
        operands: list[UnresolvedOperand] = []
        for text in match[0].split(","):
            name, _, index = text.strip().partition("#")
            operands.append(_Operand(name[1:], int(index) if index else 0, match.end(), input_))
        self.skip_to(match.end())
        return operands

    def parse_unresolved_operand(self, msg: str = "operand expected") -> UnresolvedOperand:
        operand = self.parse_optional_unresolved_operand()
        if operand is None:
            self.raise_error(msg)
        return operand

    def resolve_operand(self, operand: UnresolvedOperand, type: Any) -> SSAValue[Any]:
        values = self.ssa_values.get(operand.operand_name)
        if values is not None and operand.index < len(values):
            value = values[operand.index]
            if value.type is type:
                return value
        return super().resolve_operand(operand, type)

    def parse_operation(self) -> Operation:
        token: Any = self._parser_state.current_token
        match = _HEAD.match(self.lexer.input.content, token.start)
        if match is None:
            return self._parse_generic()
        op_type = self._op_type(match[2], match.end())
        self.skip_to(match.end())
        state = self._parser_state
        state.dialect_stack.append(op_type.dialect_name())
        fast = _FAST.get(op_type)
        op = op_type.parse(self) if fast is None else fast(self, op_type)
        state.dialect_stack.pop()
        location = self.parse_optional_location()
        if location is not None:
            op.location = location
        if match[1]:
            self._name_results(op, match[1], token)
        return op

    def _parse_generic(self) -> Operation:
        """`%a, %b = "dialect.op"(...) ...`"""
        state = self._parser_state
        first: Any = state.current_token
        results = ""
        if first.kind is Kind.PERCENT_IDENT:
            self._parse_op_result_list()
            name: Any = state.current_token
            results = self.lexer.input.content[first.start : name.start].rpartition("=")[0]
        token: Any = state.current_token
        op_type = self._op_type(self.parse_str_literal("operation"), token.end)
        state.dialect_stack.append(op_type.dialect_name())
        op = self._parse_generic_operation(op_type)
        state.dialect_stack.pop()
        if results:
            self._name_results(op, results, first)
        return op

    def _name_results(self, op: Operation, results: str, token: Any) -> None:
        """Register what is left of the equals sign: `%a`, `%a, %b`, `%a:3`."""
        first = 0
        for text in results.split(","):
            name, _, count = text.strip()[1:].partition(":")
            last = first + (int(count) if count else 1)
            values = op.results[first:last]
            if name in self.forward_ssa_references or name in self.ssa_values:
                self._register_ssa_definition(name, values, token.span)
            else:
                self.ssa_values[name] = tuple(values)
                if not name.isdigit():
                    for value in values:
                        value.name_hint = name
            first = last
        if first != len(op.results):
            self.raise_error(f"{op.name} has {len(op.results)} results", token.span)

    def _op_type(self, name: str, end: int) -> type[Operation]:
        op_type = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if op_type is None:
            self._refuse(name, end)
        return op_type

    def _refuse(self, name: str, end: int) -> NoReturn:
        from triton_xe.dialects.text.locations import source_of_location

        match = re.compile(r"loc\((#loc[0-9]*)\)").search(self.lexer.input.content, end)
        source = source_of_location(self._locations[match[1]]) if match else None
        line = self.lexer.input.content.count("\n", 0, end) + 1
        where = str(source) if source else f"line {line} of the module"
        raise UnsupportedError(
            f"{where}: the operation '{name}' is not supported on Intel Xe; "
            "rewrite this line without it"
        )


@lru_cache(maxsize=1024)
def _shape(dims: str) -> ArrayAttr[IntAttr]:
    """`64x32x` as the shape attribute of a tensor type."""
    return ArrayAttr([IntAttr(int(dim)) for dim in dims.split("x")[:-1]])


@lru_cache(maxsize=256)
def _scalar_type(text: str) -> TypeAttribute | None:
    """The type of a tensor's elements: a float, an integer or a pointer to one."""
    return Parser(default_context(), text).parse_optional_type()


_Unchecked = TypeVar("_Unchecked", bound=ParametrizedAttribute)


def unchecked(cls: type[_Unchecked], **parameters: Attribute) -> _Unchecked:
    """An attribute whose parameters are known to be right: without xDSL's verification."""
    attr = cls.__new__(cls)
    for name, value in parameters.items():
        object.__setattr__(attr, name, value)
    return attr


# Locations

_DEFINITION = re.compile(r"^(#loc[0-9]*) = loc\((.*)\)\n?", re.MULTILINE)
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":([0-9]+):([0-9]+)')
_NAMED = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\((#loc[0-9]*)\))?')
_CALL = re.compile(r"callsite\((#loc[0-9]*) at (#loc[0-9]*)\)")


_string = lru_cache(maxsize=4096)(StringAttr)


@lru_cache(maxsize=4096)
def _integer(digits: str) -> IntAttr:
    return IntAttr(int(digits))


class Locations(dict[str, Any]):
    """Location attributes by alias, built from their definitions when first asked for."""

    def __init__(self, definitions: dict[str, str]) -> None:
        super().__init__()
        self.definitions = definitions

    def __missing__(self, alias: str) -> LocationAttr:
        location = self._build(self.definitions.get(alias, "unknown"))
        self[alias] = location
        return location

    def _build(self, text: str) -> LocationAttr:
        if match := _PLACE.fullmatch(text):
            return unchecked(
                FileLineColLoc,
                filename=_string(match[1]),
                line=_integer(match[2]),
                column=_integer(match[3]),
            )
        if match := _NAMED.fullmatch(text):
            nested = self[match[2]] if match[2] else UnknownLoc()
            return unchecked(NameLoc, desc=_string(match[1]), location=nested)
        if match := _CALL.fullmatch(text):
            return unchecked(CallSiteLoc, callee=self[match[1]], caller=self[match[2]])
        return self._parse(text)

    def _parse(self, text: str) -> LocationAttr:
        """Any other location: xDSL's parser reads it, with the aliases it names."""
        parser = Parser(Context(), f"loc({text})")
        for alias in re.findall(r"#loc[0-9]*", text):
            parser.attribute_aliases[alias] = self[alias]
        location = parser.parse_optional_location()
        return UnknownLoc() if location is None else location


def split_locations(text: str) -> tuple[str, Locations]:
    """The text without its location alias lines (left empty, to keep line numbers), and those."""
    definitions = dict(_DEFINITION.findall(text))
    return _DEFINITION.sub("\n", text), Locations(definitions)


# Regular ops of xDSL's own dialects, which it would read by interpreting an assembly format


def _read_regular(reader: Reader, op_type: type[Operation]) -> Operation:
    """`%a, %b [overflow<...>] [fastmath<...>] {attrs} : type`, all of one type."""
    operands = reader.parse_operand_list()
    properties = dict(_DEFAULTS[op_type])
    if reader.parse_optional_keyword("overflow") is not None:
        flags = IntegerOverflowAttr.parse_parameter(reader)
        properties["overflowFlags"] = IntegerOverflowAttr(flags)
    if (fastmath := parse_fastmath(reader)) is not None:
        properties["fastmath"] = fastmath
    attrs = reader.parse_optional_dictionary_attr_dict()
    type_ = reader.parse_type_after(":")
    values = [reader.resolve_operand(operand, type_) for operand in operands]
    return build(op_type, values, [type_], attrs, properties)


_CONSTANT = re.compile(r"(?:-?[0-9][0-9.eE+-]*|true|false|dense<[^<>\"\[]*>)(?: : )?")


def _read_constant(reader: Reader, op_type: type[Operation]) -> Operation:
    """`value : type`, `true`, `dense<value> : type`; values seen before come from a table."""
    attrs = reader.parse_optional_dictionary_attr_dict()
    content = reader.lexer.input.content
    match = _CONSTANT.match(content, reader.pos)
    end = content.find("\n", reader.pos) if match is None else match.end()
    if match is not None and (type_ := _TYPE.match(content, end)) is not None:
        end = type_.end()
    text = content[reader.pos : end]
    value = reader.constants.get(text)
    if value is not None:
        reader.skip_to(end)
    else:
        value = reader.parse_attribute()
        if not content[end : reader.pos].strip():
            reader.constants[text] = value
    assert isinstance(value, TypedAttribute)
    return build(op_type, [], [value.get_type()], attrs, {"value": value})


def _read_while(reader: Reader, op_type: Any) -> Operation:
    """`scf.while : () -> () {...} do {...}`: libtriton leaves out the brackets of no operands."""
    if reader.parse_optional_punctuation(":") is None:
        return scf.WhileOp.parse(reader)
    function_type = reader.parse_function_type()
    before = reader.parse_region()
    reader.parse_characters("do")
    after = reader.parse_region()
    attrs = reader.parse_optional_attr_dict_with_keyword()
    op = scf.WhileOp((), function_type.outputs.data, before, after)
    if attrs is not None:
        op.attributes |= attrs.data
    return op


def _regular_ops() -> dict[type[Operation], dict[str, Attribute]]:
    """Ops whose syntax `_read_regular` knows, with the properties they have by default."""
    integer: dict[str, Attribute] = {}
    overflow: dict[str, Attribute] = {"overflowFlags": IntegerOverflowAttr("none")}
    floating: dict[str, Attribute] = {"fastmath": FastMathFlagsAttr("none")}
    families: dict[type, dict[str, Attribute]] = {
        SignlessIntegerBinaryOperation: integer,
        SignlessIntegerBinaryOperationWithOverflow: overflow,
        FloatingPointLikeBinaryOperation: floating,
        math.SignlessIntegerLikeUnaryMathOperation: integer,
        math.SignlessIntegerLikeBinaryMathOperation: integer,
        math.FloatingPointLikeUnaryMathOperation: floating,
        math.FloatingPointLikeBinaryMathOperation: floating,
        math.FmaOp: floating,
        NegfOp: floating,
    }
    return {
        op: next(families[base] for base in op.__mro__ if base in families)
        for op in (*Arith.operations, *math.Math.operations)
        if any(base in families for base in op.__mro__)
    }


_DEFAULTS = _regular_ops()
_FAST: dict[type[Operation], Callable[[Reader, Any], Operation]] = {
    **dict.fromkeys(_DEFAULTS, _read_regular),
    ConstantOp: _read_constant,
    scf.WhileOp: _read_while,
}


def read_module(text: str, *, name: str = "<module>", ctx: Context | None = None) -> ModuleOp:
    """The module that `text` spells; an UnsupportedError names an unknown op and its line."""
    return Reader(ctx or default_context(), text, name).parse_module()
