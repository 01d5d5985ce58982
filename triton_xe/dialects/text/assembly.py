"""Common parts of this project's ops: a builder by field names, and pieces of syntax.

    @irdl_op_definition
    class SplatOp(FieldOp):
        name = "tt.splat"
        src = operand_def()
        result = result_def()
        assembly_format = "$src attr-dict `:` type($src) `->` type($result)"

    SplatOp(src=value, result_type=tensor)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrConstraint,
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    IRDLOption,
    ParsePropInAttrDict,
    VarConstraint,
)
from xdsl.irdl.constraints import InferenceContext, VerificationContext
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

# Keywords


@dataclass(frozen=True)
class KeywordConstraint(AttrConstraint):
    """A string attribute that is one of a set of keywords, as MLIR prints an enum."""

    keywords: tuple[str, ...]

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, StringAttr) or attr.data not in self.keywords:
            raise VerifyException(f"expected one of {', '.join(self.keywords)}, got {attr}")

    def mapping_type_vars(self, type_var_mapping: Mapping[Any, Any]) -> KeywordConstraint:
        return self


@irdl_custom_directive
class Keyword(CustomDirective):
    """`custom<Keyword>($property)`: a string attribute without its quotation marks."""

    variable: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.variable.set(state, StringAttr(parser.parse_identifier()))

    def parse_optional(self, parser: Parser, state: ParsingState) -> None:
        constraint = state.op_type.get_irdl_definition().properties[self.variable.name].constr
        assert isinstance(constraint, KeywordConstraint)
        keyword = parser.parse_optional_keyword_in(constraint.keywords)
        if keyword is not None:
            self.variable.set(state, StringAttr(keyword))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        attr = self.variable.get(op)
        assert isinstance(attr, StringAttr)
        state.print_whitespace(printer)
        printer.print_string(attr.data)

    def is_present(self, op: IRDLOperation) -> bool:
        return self.variable.is_present(op)

    def is_anchorable(self) -> bool:
        return self.variable.is_anchorable()

    can_start_optional_group = is_anchorable


if not hasattr(CustomDirective, "can_start_optional_group"):  # before xDSL 0.75
    setattr(Keyword, "is_optional_like", Keyword.is_anchorable)  # noqa: B010


# Fields

_OPTIONS: tuple[IRDLOption, ...] = (ParsePropInAttrDict(),)
_OF_XDSL = frozenset({"operands", "result_types", "properties", "attributes", "regions"})


class FieldOp(IRDLOperation):
    """An op built by its fields' names; `attr-dict` prints properties that its format leaves
    out.
    """

    irdl_options = _OPTIONS
    custom_directives: ClassVar[tuple[type[CustomDirective], ...]] = (Keyword,)

    def __init__(self, **given: Any) -> None:
        """Take operands, regions and properties by field, results as `<field>_type`; or arguments
        of xDSL.

        A property is an attribute, a flag, a number, a keyword or a list of numbers.
        """
        if not _OF_XDSL.isdisjoint(given):
            super().__init__(**given)
            return
        fields = _fields(type(self))
        parts = [given.pop(name, ()) for name in fields.operands]
        operands: list[SSAValue] = []
        for part in parts:
            operands += (part,) if isinstance(part, SSAValue) else part or ()
        for name in (*fields.results, *fields.regions):
            if name not in given:
                raise TypeError(f"{self.name} needs {name}")
        results = [given.pop(name) for name in fields.results]
        regions = [given.pop(name) for name in fields.regions]
        properties: dict[str, Attribute] = {}
        if fields.has_segments:
            sizes = [1 if isinstance(part, SSAValue) else len(part or ()) for part in parts]
            properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, sizes)
        for field, value in given.items():
            if field not in fields.properties:
                raise TypeError(f"{self.name} has no {field}")
            attr = _as_attribute(type(self), field, value)
            if attr is not None:
                properties[fields.properties[field]] = attr
        Operation.__init__(
            self, operands=operands, result_types=results, properties=properties, regions=regions
        )

    def refuse(self, rule: str) -> NoReturn:
        """Raise a `VerifyException` that names the op."""
        raise VerifyException(f"{self.name}: {rule}")

    @classmethod
    def build(cls, **parts: Any) -> Self:
        """Build as in xDSL, but faster if the parts are lists, as a parsed format gives them."""
        operands, results = parts.get("operands") or (), parts.get("result_types") or ()
        inner = parts.get("regions") or parts.get("successors")
        lists = all(isinstance(part, list | tuple) for part in (*operands, *results))
        if inner or not lists or _fields(cls).has_segments:
            return super().build(**parts)
        return cls.create(
            operands=[value for part in operands for value in part],
            result_types=[type_ for part in results for type_ in part],
            properties=parts.get("properties") or {},
            attributes=parts.get("attributes") or {},
        )


class _Fields(NamedTuple):
    """The names of an op's fields, as its builder takes them."""

    operands: tuple[str, ...]
    results: tuple[str, ...]
    regions: tuple[str, ...]
    properties: Mapping[str, str]
    has_segments: bool


@cache
def _fields(op: type[IRDLOperation]) -> _Fields:
    fields = op.get_irdl_definition()
    return _Fields(
        operands=tuple(name for name, _ in fields.operands),
        results=tuple(f"{name}_type" for name, _ in fields.results),
        regions=tuple(name for name, _ in fields.regions),
        properties={field: name for field, (name, _) in fields.accessor_names.items()},
        has_segments=any(isinstance(part, AttrSizedOperandSegments) for part in fields.options),
    )


def _as_attribute(op: type[IRDLOperation], field: str, value: Any) -> Attribute | None:
    match value:
        case Attribute():
            return value
        case None | False:
            return None
        case True:
            return UnitAttr()
        case int():
            return IntegerAttr(value, i32)
        case str():
            return _keyword_type(op, field)(value)
        case tuple() | list():
            return DenseArrayBase.from_list(i64, value)
    raise TypeError(f"{op.name}: {field} cannot be {value!r}")


@cache
def _keyword_type(op: type[IRDLOperation], field: str) -> Callable[[str], Attribute]:
    """The class of a property whose value is one of a set of keywords."""
    constraint = op.get_irdl_definition().properties[_fields(op).properties[field]].constr
    bases: Any = constraint.get_bases()
    return StringAttr if bases is None else next(iter(bases))


def ops_of(*modules: Mapping[str, object]) -> list[type[Operation]]:
    """The ops among the names that modules define."""
    found = (
        held for names in modules for held in names.values()
        if isinstance(held, type) and held.__module__ == names["__name__"]
    )
    return [op for op in found if issubclass(op, IRDLOperation) and hasattr(op, "name")]


# Types that follow from others

ANY = VarConstraint("T", AnyAttr())
"""Constraint that all fields of an op with `ANY` have one type."""
TENSOR = VarConstraint("T", BaseAttr(TensorType))
"""Constraint like `ANY`, for tensors."""


@dataclass(frozen=True)
class Follows(AttrConstraint):
    """Constraint that a type is the function `of` of the op's `ANY`; `rule` is the error
    otherwise.
    """

    of: Callable[[Attribute], Attribute]
    rule: str

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        given = constraint_context.get_variable(ANY.name)
        if given is not None and self.of(given) != attr:
            raise VerifyException(self.rule)

    def can_infer(self, var_constraint_names: AbstractSet[str]) -> bool:
        return ANY.name in var_constraint_names

    def infer(self, context: InferenceContext) -> Attribute:
        given = context.get_variable(ANY.name)
        assert given is not None
        return self.of(given)

    def mapping_type_vars(self, type_var_mapping: Mapping[Any, Any]) -> Follows:
        return self


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


def element_type(type_: Attribute) -> Attribute:
    """Element type of a tensor; a scalar is its own element."""
    return type_.element_type if isinstance(type_, TensorType) else type_


def shape_of_type(type_: Attribute) -> tuple[int, ...]:
    """The shape of a tensor; () for a scalar."""
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def need_shape(op: FieldOp, value: SSAValue, expected: Sequence[int]) -> None:
    """Refuse a tensor of another shape."""
    if shape_of_type(value.type) != tuple(expected):
        op.refuse(f"the shape is {'x'.join(map(str, expected)) or 'that of a scalar'}, not that of"
                  f" {value.type}")


# Syntax by hand


def parse_operand_list(parser: Parser) -> list[UnresolvedOperand]:
    """`%a, %b, ...`; may be empty."""
    operands = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    return operands or []


def resolve(
    parser: Parser, operands: Sequence[UnresolvedOperand], types: Sequence[Attribute]
) -> list[SSAValue]:
    """The values of `operands`; a parse error if their number or types differ from the given
    ones.
    """
    if len(operands) != len(types):
        parser.raise_error(f"{len(operands)} operands but {len(types)} types")
    return [parser.resolve_operand(o, t) for o, t in zip(operands, types, strict=True)]


def print_type_after(printer: Printer, punctuation: str, *types: Attribute) -> None:
    """Print ` : T`, ` -> T, T` and the like."""
    printer.print_string(f" {punctuation} ")
    printer.print_list(types, printer.print_attribute)
