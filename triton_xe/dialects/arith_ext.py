"""Dialect `arith` as libtriton uses it: xDSL's own, with some ops replaced.

xDSL 0.74's comparisons, selects and casts work on scalars only; the replacements also take tensors.
"""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

from xdsl.dialects import arith as stock
from xdsl.dialects.arith import (
    CMPF_COMPARISON_OPERATIONS,
    CMPI_COMPARISON_OPERATIONS,
    ArithConstantMaterializationInterface,
    FastMathFlagsAttr,
)
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
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
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.text.assembly import (
    ANY,
    Follows,
    Keyword,
    KeywordConstraint,
    bool_like,
    ops_of,
)


def splat_attr(type_: Any, value: float | int) -> DenseIntOrFPElementsAttr[Any]:
    """`dense<value> : type_`, stored as one value: `is_splat()` and `get_values()[0]` work."""
    element = type_.element_type
    if isinstance(element, IntegerType):
        value = element.get_normalized_value(int(value))
    return DenseIntOrFPElementsAttr(type_, BytesAttr(element.pack((value,))))


def splat_of_bits(type_: Any, bits: int) -> DenseIntOrFPElementsAttr[Any]:
    """`splat_attr` of a float given by its bits: `dense<0x7F800000>` is infinity."""
    size = type_.element_type.compile_time_size
    return DenseIntOrFPElementsAttr(type_, BytesAttr(bits.to_bytes(size, "little")))


def fast_math() -> Any:
    return opt_prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))


_FAST = "(`fastmath` `` $fastmath^)? "
_COMPARISON_HEAD = "custom<Predicate>($predicate) `,` $lhs `,` $rhs "
_CAST = "attr-dict `:` type($input) `to` type($result)"


# Comparisons


@irdl_custom_directive
class Predicate(CustomDirective):
    """`custom<Predicate>($predicate)`: prints the name of a comparison instead of its number."""

    variable: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        assert issubclass(state.op_type, ComparisonOp)
        names = state.op_type.PREDICATES
        self.variable.set(state, IntegerAttr(names.index(parser.parse_keyword_in(names)), i64))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        assert isinstance(op, ComparisonOp)
        state.print_whitespace(printer)
        printer.print_string(op.comparison)


class ComparisonOp(IRDLOperation, ABC):
    """Compare two values of one type; the result is i1, or a tensor of i1."""

    PREDICATES: ClassVar[list[str]] = []

    predicate = prop_def(IntegerAttr)
    lhs = operand_def(ANY)
    rhs = operand_def(ANY)
    result = result_def(Follows(bool_like, "the result is i1, in the shape of what is compared"))
    traits = traits_def(Pure())
    custom_directives = (Predicate,)

    def __init__(self, lhs: SSAValue, rhs: SSAValue, predicate: str) -> None:
        number = IntegerAttr(self.PREDICATES.index(predicate), i64)
        super().__init__(
            operands=[lhs, rhs],
            result_types=[bool_like(lhs.type)],
            properties={"predicate": number},
        )

    @property
    def comparison(self) -> str:
        """Name of the comparison: `slt`, `oge`, ..."""
        return self.PREDICATES[self.predicate.value.data]


@irdl_op_definition
class CmpiOp(ComparisonOp):
    name = "arith.cmpi"
    PREDICATES: ClassVar = CMPI_COMPARISON_OPERATIONS
    assembly_format = _COMPARISON_HEAD + "attr-dict `:` type($lhs)"


@irdl_op_definition
class CmpfOp(ComparisonOp):
    name = "arith.cmpf"
    PREDICATES: ClassVar = CMPF_COMPARISON_OPERATIONS
    fastmath = fast_math()
    assembly_format = _COMPARISON_HEAD + _FAST + "attr-dict `:` type($lhs)"


@irdl_op_definition
class RemFOp(stock.FloatingPointLikeBinaryOperation):
    """Remainder of the division, with the sign of `lhs`; xDSL has no such op."""

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class SubUIExtendedOp(IRDLOperation):
    """The difference, and i1 that is true if it borrows; xDSL has no such op."""

    name = "arith.subui_extended"
    lhs = operand_def(ANY)
    rhs = operand_def(ANY)
    difference = result_def(ANY)
    borrow = result_def(Follows(bool_like, "the second result is i1, in the operands' shape"))
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($difference) `,` type($borrow)"


# Selection


@irdl_custom_directive
class SelectTypes(CustomDirective):
    """`custom<SelectTypes>(type($cond), type($result))`: prints the first type only if it is not
    i1.
    """

    cond: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types: list[Attribute] = [i1, parser.parse_type()]
        if parser.parse_optional_punctuation(",") is not None:
            types = [types[1], parser.parse_type()]
        self.cond.set(state, types[:1])
        self.result.set(state, types[1:])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        shown = [type_ for type_ in self.cond.get(op) if type_ != i1]
        state.print_whitespace(printer)
        printer.print_list([*shown, *self.result.get(op)], printer.print_attribute)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """lhs if the condition is true, otherwise rhs; the condition is i1 or a tensor of i1."""

    name = "arith.select"
    cond = operand_def()
    lhs = operand_def(ANY)
    rhs = operand_def(ANY)
    result = result_def(ANY)
    traits = traits_def(Pure())
    custom_directives = (SelectTypes,)
    assembly_format = "operands attr-dict `:` custom<SelectTypes>(type($cond), type($result))"

    def __init__(self, cond: SSAValue, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[cond, lhs, rhs], result_types=[lhs.type])


# Casts

ROUNDING_MODES = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")


class CastOp(IRDLOperation, ABC):
    """Convert a value, or a tensor of the same shape and layout, to another element type."""

    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (Keyword,)
    assembly_format = "$input " + _CAST

    def __init__(self, value: SSAValue | Operation, result_type: Attribute) -> None:
        super().__init__(operands=[value], result_types=[result_type])

    def verify_(self) -> None:
        before, after = self.input.type, self.result.type
        if _shape(before) != _shape(after):
            raise VerifyException(f"{self.name}: {before} and {after} differ in shape or layout")


def _shape(type_: Attribute) -> tuple[Attribute, Attribute] | None:
    """Shape and layout of a tensor, None for a scalar."""
    return (type_.shape, type_.encoding) if isinstance(type_, TensorType) else None


class NonNegativeCastOp(CastOp, ABC):
    """Cast of an unsigned number; a flag says that its highest bit is known to be clear."""

    non_neg = opt_prop_def(UnitAttr, prop_name="nonNeg")
    assembly_format = "$input (`nneg` $nonNeg^)? " + _CAST


@irdl_op_definition
class ExtSIOp(CastOp):
    name = "arith.extsi"


@irdl_op_definition
class ExtUIOp(NonNegativeCastOp):
    name = "arith.extui"


@irdl_op_definition
class TruncIOp(CastOp):
    name = "arith.trunci"


@irdl_op_definition
class ExtFOp(CastOp):
    name = "arith.extf"
    fastmath = fast_math()
    assembly_format = "$input " + _FAST + _CAST


@irdl_op_definition
class TruncFOp(CastOp):
    name = "arith.truncf"
    rounding_mode = opt_prop_def(KeywordConstraint(ROUNDING_MODES), prop_name="roundingmode")
    fastmath = fast_math()
    assembly_format = "$input (custom<Keyword>($roundingmode)^)? " + _FAST + _CAST


@irdl_op_definition
class SIToFPOp(CastOp):
    name = "arith.sitofp"


@irdl_op_definition
class UIToFPOp(NonNegativeCastOp):
    name = "arith.uitofp"


@irdl_op_definition
class FPToSIOp(CastOp):
    name = "arith.fptosi"


@irdl_op_definition
class FPToUIOp(CastOp):
    name = "arith.fptoui"


@irdl_op_definition
class IndexCastOp(CastOp):
    name = "arith.index_cast"


@irdl_op_definition
class IndexCastUIOp(NonNegativeCastOp):
    name = "arith.index_castui"


_REPLACEMENTS = ops_of(globals())
_REPLACED_NAMES = {op.name for op in _REPLACEMENTS}

Arith = Dialect(
    "arith",
    [*(op for op in stock.Arith.operations if op.name not in _REPLACED_NAMES), *_REPLACEMENTS],
    list(stock.Arith.attributes),
    [ArithConstantMaterializationInterface()],
)
