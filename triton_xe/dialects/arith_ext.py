"""Dialect `arith` as libtriton uses it: xDSL's own, with the ops it cannot hold replaced.

xDSL 0.74's comparisons, selects and casts work on scalars only; the ones here work on tensors
too.  All other ops are xDSL's and re-exported, so `from triton_xe.dialects import arith_ext as
arith` is the whole dialect.
"""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar, Self

from xdsl.dialects import arith as stock
from xdsl.dialects.arith import (
    CMPF_COMPARISON_OPERATIONS,
    CMPI_COMPARISON_OPERATIONS,
    AddfOp,
    AddiOp,
    AddUIExtendedOp,
    AndIOp,
    ArithConstantMaterializationInterface,
    BitcastOp,
    CeilDivSIOp,
    CeilDivUIOp,
    ConstantOp,
    DivfOp,
    DivSIOp,
    DivUIOp,
    FastMathFlagsAttr,
    FloorDivSIOp,
    IntegerOverflowAttr,
    MaximumfOp,
    MaxnumfOp,
    MaxSIOp,
    MaxUIOp,
    MinimumfOp,
    MinnumfOp,
    MinSIOp,
    MinUIOp,
    MulfOp,
    MuliOp,
    MulSIExtendedOp,
    MulUIExtendedOp,
    NegfOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    ShLIOp,
    ShRSIOp,
    ShRUIOp,
    SubfOp,
    SubiOp,
    XOrIOp,
)
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.text.assembly import (
    KeywordConstraint,
    bool_like,
    build,
    parse_operand_list,
    parse_type_after,
    parse_type_list,
    print_attr_dict,
    print_operands,
    print_type_after,
    resolve,
)

__all__ = [
    "AddUIExtendedOp",
    "AddfOp",
    "AddiOp",
    "AndIOp",
    "Arith",
    "BitcastOp",
    "CeilDivSIOp",
    "CeilDivUIOp",
    "CmpfOp",
    "CmpiOp",
    "ConstantOp",
    "DivSIOp",
    "DivUIOp",
    "DivfOp",
    "ExtFOp",
    "ExtSIOp",
    "ExtUIOp",
    "FPToSIOp",
    "FPToUIOp",
    "FastMathFlagsAttr",
    "FloorDivSIOp",
    "IndexCastOp",
    "IndexCastUIOp",
    "IntegerOverflowAttr",
    "MaxSIOp",
    "MaxUIOp",
    "MaximumfOp",
    "MaxnumfOp",
    "MinSIOp",
    "MinUIOp",
    "MinimumfOp",
    "MinnumfOp",
    "MulSIExtendedOp",
    "MulUIExtendedOp",
    "MulfOp",
    "MuliOp",
    "NegfOp",
    "OrIOp",
    "RemFOp",
    "RemSIOp",
    "RemUIOp",
    "SIToFPOp",
    "SelectOp",
    "ShLIOp",
    "ShRSIOp",
    "ShRUIOp",
    "SubfOp",
    "SubiOp",
    "TruncFOp",
    "TruncIOp",
    "UIToFPOp",
    "XOrIOp",
    "splat_attr",
    "splat_of_bits",
]


def splat_attr(type_: Any, value: float | int) -> DenseIntOrFPElementsAttr[Any]:
    """`dense<value> : type_`, holding the value once: `is_splat()` and `get_values()[0]` work."""
    element = type_.element_type
    if isinstance(element, IntegerType):
        value = element.get_normalized_value(int(value))
    return DenseIntOrFPElementsAttr(type_, BytesAttr(element.pack((value,))))


def splat_of_bits(type_: Any, bits: int) -> DenseIntOrFPElementsAttr[Any]:
    """As `splat_attr`, of a float given by its bits: `dense<0x7F800000>` is infinity."""
    size = type_.element_type.compile_time_size
    return DenseIntOrFPElementsAttr(type_, BytesAttr(bits.to_bytes(size, "little")))


def parse_fastmath(parser: Parser) -> FastMathFlagsAttr | None:
    if parser.parse_optional_keyword("fastmath") is None:
        return None
    return FastMathFlagsAttr(FastMathFlagsAttr.parse_parameter(parser))


def print_fastmath(printer: Printer, flags: FastMathFlagsAttr | None) -> None:
    if flags is not None and flags.data:
        printer.print_string(" fastmath")
        flags.print_parameter(printer)


class ComparisonSyntax(IRDLOperation, ABC):
    """`slt, %lhs, %rhs [fastmath<...>] : type`."""

    PREDICATES: ClassVar[list[str]] = []

    predicate = prop_def(IntegerAttr)
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    def __init__(self, lhs: SSAValue, rhs: SSAValue, predicate: str) -> None:
        number = IntegerAttr(self.PREDICATES.index(predicate), i64)
        super().__init__(
            operands=[lhs, rhs],
            result_types=[bool_like(lhs.type)],
            properties={"predicate": number},
        )

    @property
    def comparison(self) -> str:
        """`slt`, `oge`, ..."""
        return self.PREDICATES[self.predicate.value.data]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        predicate = cls.PREDICATES.index(parser.parse_keyword_in(cls.PREDICATES))
        parser.parse_punctuation(",")
        operands = parse_operand_list(parser)
        properties: dict[str, Attribute] = {"predicate": IntegerAttr(predicate, i64)}
        if (flags := parse_fastmath(parser)) is not None:
            properties["fastmath"] = flags
        attrs = parser.parse_optional_attr_dict()
        type_ = parse_type_after(parser, ":")
        values = resolve(parser, operands, [type_, type_])
        return build(cls, values, [bool_like(type_)], attrs, properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.comparison}, ")
        print_operands(printer, self.operands)
        flags = self.properties.get("fastmath")
        print_fastmath(printer, flags if isinstance(flags, FastMathFlagsAttr) else None)
        print_attr_dict(self, printer, ("predicate", "fastmath"))
        print_type_after(printer, ":", self.lhs.type)


@irdl_op_definition
class CmpiOp(ComparisonSyntax):
    name = "arith.cmpi"
    PREDICATES: ClassVar = CMPI_COMPARISON_OPERATIONS
    traits = traits_def(Pure())


@irdl_op_definition
class CmpfOp(ComparisonSyntax):
    name = "arith.cmpf"
    PREDICATES: ClassVar = CMPF_COMPARISON_OPERATIONS
    fastmath = opt_prop_def(FastMathFlagsAttr)
    traits = traits_def(Pure())


@irdl_op_definition
class RemFOp(stock.FloatingPointLikeBinaryOperation):
    """Remainder of the division, with the sign of `lhs`; xDSL lacks it."""

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class SelectOp(IRDLOperation):
    """lhs where the condition is true, else rhs; the condition is i1 or a tensor of i1."""

    name = "arith.select"
    cond = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, cond: SSAValue, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[cond, lhs, rhs], result_types=[lhs.type])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        condition, type_ = types if len(types) == 2 else (i1, types[0])
        return build(cls, resolve(parser, operands, [condition, type_, type_]), [type_], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        printer.print_string(" : ")
        if self.cond.type != i1:
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        if self.lhs.type != self.result.type or self.rhs.type != self.result.type:
            raise VerifyException("arith.select: both values must have the result's type")


ROUNDING_MODES = (
    "to_nearest_even",
    "downward",
    "upward",
    "toward_zero",
    "to_nearest_away",
)


class CastSyntax(IRDLOperation, ABC):
    """`%input [rounding] [fastmath<...>] {attrs} : type(input) to type(result)`."""

    input = operand_def()
    result = result_def()

    def __init__(self, value: SSAValue | Operation, result_type: Attribute) -> None:
        super().__init__(operands=[value], result_types=[result_type])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {}
        if (mode := parser.parse_optional_keyword_in(ROUNDING_MODES)) is not None:
            properties["roundingmode"] = StringAttr(mode)
        if (flags := parse_fastmath(parser)) is not None:
            properties["fastmath"] = flags
        if parser.parse_optional_keyword("nneg") is not None:
            properties["nonNeg"] = UnitAttr()
        attrs = parser.parse_optional_attr_dict()
        value = parser.resolve_operand(operand, parse_type_after(parser, ":"))
        parser.parse_keyword("to")
        return build(cls, [value], [parser.parse_type()], attrs, properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.input)
        if isinstance(mode := self.properties.get("roundingmode"), StringAttr):
            printer.print_string(f" {mode.data}")
        if isinstance(flags := self.properties.get("fastmath"), FastMathFlagsAttr):
            print_fastmath(printer, flags)
        if "nonNeg" in self.properties:
            printer.print_string(" nneg")
        print_attr_dict(self, printer, ("roundingmode", "fastmath", "nonNeg"))
        print_type_after(printer, ":", self.input.type)
        print_type_after(printer, "to", self.result.type)

    def verify_(self) -> None:
        before, after = self.input.type, self.result.type
        if shape_of(before) != shape_of(after):
            raise VerifyException(f"{self.name}: {before} and {after} differ in shape or layout")


def shape_of(type_: Attribute) -> tuple[Attribute, Attribute] | None:
    """Shape and layout of a tensor, None for a scalar."""
    return (type_.shape, type_.encoding) if isinstance(type_, TensorType) else None


@irdl_op_definition
class ExtSIOp(CastSyntax):
    name = "arith.extsi"
    traits = traits_def(Pure())


@irdl_op_definition
class ExtUIOp(CastSyntax):
    name = "arith.extui"
    non_neg = opt_prop_def(UnitAttr, prop_name="nonNeg")
    traits = traits_def(Pure())


@irdl_op_definition
class TruncIOp(CastSyntax):
    name = "arith.trunci"
    traits = traits_def(Pure())


@irdl_op_definition
class ExtFOp(CastSyntax):
    name = "arith.extf"
    fastmath = opt_prop_def(FastMathFlagsAttr)
    traits = traits_def(Pure())


@irdl_op_definition
class TruncFOp(CastSyntax):
    name = "arith.truncf"
    rounding_mode = opt_prop_def(KeywordConstraint(ROUNDING_MODES), prop_name="roundingmode")
    fastmath = opt_prop_def(FastMathFlagsAttr)
    traits = traits_def(Pure())


@irdl_op_definition
class SIToFPOp(CastSyntax):
    name = "arith.sitofp"
    traits = traits_def(Pure())


@irdl_op_definition
class UIToFPOp(CastSyntax):
    name = "arith.uitofp"
    non_neg = opt_prop_def(UnitAttr, prop_name="nonNeg")
    traits = traits_def(Pure())


@irdl_op_definition
class FPToSIOp(CastSyntax):
    name = "arith.fptosi"
    traits = traits_def(Pure())


@irdl_op_definition
class FPToUIOp(CastSyntax):
    name = "arith.fptoui"
    traits = traits_def(Pure())


@irdl_op_definition
class IndexCastOp(CastSyntax):
    name = "arith.index_cast"
    traits = traits_def(Pure())


@irdl_op_definition
class IndexCastUIOp(CastSyntax):
    name = "arith.index_castui"
    non_neg = opt_prop_def(UnitAttr, prop_name="nonNeg")
    traits = traits_def(Pure())


_REPLACEMENTS: list[type[Operation]] = [
    CmpiOp,
    CmpfOp,
    RemFOp,
    SelectOp,
    ExtSIOp,
    ExtUIOp,
    TruncIOp,
    ExtFOp,
    TruncFOp,
    SIToFPOp,
    UIToFPOp,
    FPToSIOp,
    FPToUIOp,
    IndexCastOp,
    IndexCastUIOp,
]
_REPLACED = {op.name for op in _REPLACEMENTS}

Arith = Dialect(
    "arith",
    [*(op for op in stock.Arith.operations if op.name not in _REPLACED), *_REPLACEMENTS],
    list(stock.Arith.attributes),
    [ArithConstantMaterializationInterface()],
)
