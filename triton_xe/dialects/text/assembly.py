"""Helpers for the hand-written `parse` and `print` of this project's dialects.

Ops whose syntax xDSL's declarative format cannot say (inferred result types, optional groups), or
which are read so often that its generality costs too much, are written with these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    StringAttr,
    TensorType,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AttrConstraint, IRDLOperation
from xdsl.irdl.constraints import VerificationContext
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import PunctuationSpelling


@dataclass(frozen=True)
class KeywordConstraint(AttrConstraint):
    """A string attribute that is one of a set of keywords, as MLIR prints an enum."""

    keywords: tuple[str, ...]

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, StringAttr) or attr.data not in self.keywords:
            raise VerifyException(f"expected one of {', '.join(self.keywords)}, got {attr}")

    def mapping_type_vars(self, type_var_mapping: Mapping[Any, Any]) -> KeywordConstraint:
        return self


def parse_keyword_attr(parser: Parser) -> StringAttr:
    return StringAttr(parser.parse_identifier())


def parse_operand_list(parser: Parser) -> list[UnresolvedOperand]:
    """`%a, %b, ...` up to the first token that is not a comma and an operand; may be empty."""
    fast = getattr(parser, "parse_operand_list", None)
    if fast is not None:
        return list(fast())
    operands: list[UnresolvedOperand] = []
    operand = parser.parse_optional_unresolved_operand()
    while operand is not None:
        operands.append(operand)
        if parser.parse_optional_punctuation(",") is None:
            break
        operand = parser.parse_optional_unresolved_operand()
    return operands


def resolve(
    parser: Parser, operands: Sequence[UnresolvedOperand], types: Sequence[Attribute]
) -> list[SSAValue]:
    """The values of `operands`; a parse error when their number or types are not as given."""
    if len(operands) != len(types):
        parser.raise_error(f"{len(operands)} operands but {len(types)} types")
    return [parser.resolve_operand(o, t) for o, t in zip(operands, types, strict=True)]


def parse_type_after(parser: Parser, punctuation: PunctuationSpelling) -> Attribute:
    """`: T`, `-> T`, ..."""
    fast = getattr(parser, "parse_type_after", None)
    if fast is not None:
        type_: Attribute = fast(punctuation)
        return type_
    parser.parse_punctuation(punctuation)
    return parser.parse_type()


def parse_type_list(parser: Parser) -> list[Attribute]:
    """`T, T, ...`, at least one."""
    types: list[Attribute] = [parser.parse_type()]
    while parser.parse_optional_punctuation(",") is not None:
        types.append(parser.parse_type())
    return types


def parse_functional_type(parser: Parser) -> tuple[list[Attribute], list[Attribute]]:
    """`(T, ...) -> T`, `(T, ...) -> (T, ...)`."""
    inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    parser.parse_punctuation("->")
    outputs = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return list(inputs), [parser.parse_type()] if outputs is None else list(outputs)


_Op = TypeVar("_Op", bound=Operation)


def build(
    cls: type[_Op],
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    attr_dict: Mapping[str, Attribute] | None = None,
    properties: Mapping[str, Attribute] | None = None,
    **more: Any,
) -> _Op:
    """Create an op; entries of `attr_dict` that the op defines become properties."""
    inherent = dict(properties) if properties else {}
    attributes: dict[str, Attribute] = {}
    if attr_dict:
        known = property_names(cls)
        for name, attr in attr_dict.items():
            (inherent if name in known else attributes)[name] = attr
    return cls.create(
        operands=operands,
        result_types=result_types,
        properties=inherent,
        attributes=attributes,
        **more,
    )


@cache
def property_names(cls: type[Operation]) -> frozenset[str]:
    assert issubclass(cls, IRDLOperation)
    return frozenset(cls.get_irdl_definition().properties)


SEGMENT_SIZES = "operandSegmentSizes"


@lru_cache(maxsize=256)
def segment_sizes(*sizes: int) -> DenseArrayBase:
    """Value of the property that says how many operands each operand group has."""
    return DenseArrayBase.from_list(i32, sizes)


def print_attr_dict(op: Operation, printer: Printer, elided: Iterable[str] = ()) -> None:
    """Print properties and attributes as one dictionary sorted by name, as MLIR does."""
    hidden = {SEGMENT_SIZES, *elided}
    merged = {**op.properties, **op.attributes}
    shown = {name: merged[name] for name in sorted(merged) if name not in hidden}
    if shown:
        printer.print_string(" ")
        printer.print_attr_dict(shown)


def print_operands(printer: Printer, operands: Iterable[SSAValue]) -> None:
    printer.print_list(operands, printer.print_operand)


def print_indexed(printer: Printer, value: SSAValue, indices: Iterable[SSAValue]) -> None:
    """`%value[%i, %j]`."""
    printer.print_operand(value)
    printer.print_string("[")
    print_operands(printer, indices)
    printer.print_string("]")


def print_types(printer: Printer, types: Iterable[Attribute]) -> None:
    printer.print_list(types, printer.print_attribute)


def print_type_after(printer: Printer, punctuation: str, *types: Attribute) -> None:
    """` : T`, ` -> T, T`, ...: the counterpart of `parse_type_after`."""
    printer.print_string(f" {punctuation} ")
    print_types(printer, types)


def print_functional_type(printer: Printer, op: Operation) -> None:
    printer.print_function_type(op.operand_types, op.result_types)


@lru_cache(maxsize=4096)
def with_element_type(type_: Attribute, element: Attribute) -> Attribute:
    """`type_` with another element type; a scalar becomes `element`."""
    if isinstance(type_, VectorType):
        return VectorType(element, type_.shape, type_.scalable_dims)
    if not isinstance(type_, TensorType):
        return element
    return TensorType(element, type_.shape, type_.encoding)


def bool_like(type_: Attribute) -> Attribute:
    """i1, or a tensor or vector of i1 of the same shape and layout."""
    return with_element_type(type_, i1)
