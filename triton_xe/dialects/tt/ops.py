"""Ops of dialect `tt` that compute: casts, arithmetic, shapes, program ids."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.text.assembly import (
    KeywordConstraint,
    bool_like,
    build,
    parse_functional_type,
    parse_keyword_attr,
    parse_operand_list,
    parse_type_after,
    parse_type_list,
    print_attr_dict,
    print_functional_type,
    print_operands,
    print_type_after,
    resolve,
)
from triton_xe.dialects.tt.types import element_type


class ConversionSyntax(IRDLOperation, ABC):
    """`%src {attrs} : type(src) -> type(result)`."""

    src = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        source = parser.resolve_operand(operand, parse_type_after(parser, ":"))
        return build(cls, [source], [parse_type_after(parser, "->")], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.src.type)
        print_type_after(printer, "->", self.result.type)


class SameTypeSyntax(IRDLOperation, ABC):
    """`%x, %y {attrs} : type`: operands and result have one type."""

    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        type_ = parse_type_after(parser, ":")
        return build(cls, [parser.resolve_operand(o, type_) for o in operands], [type_], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.result.type)

    def verify_(self) -> None:
        if any(o.type != self.result.type for o in self.operands):
            raise VerifyException(f"{self.name}: operands and result must have one type")


class PairSyntax(IRDLOperation, ABC):
    """`%lhs, %rhs {attrs} : type(lhs) -> type(result)`, both operands of one type."""

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        type_ = parse_type_after(parser, ":")
        parser.parse_punctuation("->")
        values = resolve(parser, operands, [type_, type_])
        return build(cls, values, [parser.parse_type()], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.lhs.type)
        print_type_after(printer, "->", self.result.type)


# Casts


@irdl_op_definition
class IntToPtrOp(ConversionSyntax):
    name = "tt.int_to_ptr"
    traits = traits_def(Pure())


@irdl_op_definition
class PtrToIntOp(ConversionSyntax):
    name = "tt.ptr_to_int"
    traits = traits_def(Pure())


@irdl_op_definition
class BitcastOp(ConversionSyntax):
    """Reinterpret between types of one width, pointers included."""

    name = "tt.bitcast"
    traits = traits_def(Pure())


@irdl_op_definition
class FpToFpOp(IRDLOperation):
    """Convert to or from 8-bit floats, or with a rounding mode that is not the default."""

    name = "tt.fp_to_fp"
    src = operand_def()
    rounding = opt_prop_def(KeywordConstraint(("rtz", "rtne")))
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        if parser.parse_optional_punctuation(",") is not None:
            parser.parse_keyword("rounding")
            parser.parse_punctuation("=")
            attrs["rounding"] = parse_keyword_attr(parser)
        source = parser.resolve_operand(operand, parse_type_after(parser, ":"))
        return build(cls, [source], [parse_type_after(parser, "->")], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        print_attr_dict(self, printer, ("rounding",))
        if isinstance(self.rounding, StringAttr):
            printer.print_string(f", rounding = {self.rounding.data}")
        print_type_after(printer, ":", self.src.type)
        print_type_after(printer, "->", self.result.type)


# Arithmetic


@irdl_op_definition
class ClampFOp(IRDLOperation):
    """min(max(x, min), max)."""

    name = "tt.clampf"
    x = operand_def()
    min = operand_def()
    max = operand_def()
    propagate_nan = prop_def(KeywordConstraint(("none", "all")), prop_name="propagateNan")
    result = result_def()
    traits = traits_def(Pure())

    @property
    def propagates_nan(self) -> bool:
        return self.propagate_nan == StringAttr("all")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = []
        for _ in range(3):
            operands.append(parser.parse_unresolved_operand())
            parser.parse_punctuation(",")
        parser.parse_keyword("propagateNan")
        parser.parse_punctuation("=")
        keyword = parse_keyword_attr(parser)
        attrs = parser.parse_optional_attr_dict()
        type_ = parse_type_after(parser, ":")
        values = resolve(parser, operands, [type_] * 3)
        return build(cls, values, [type_], attrs, {"propagateNan": keyword})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        assert isinstance(self.propagate_nan, StringAttr)
        printer.print_string(f", propagateNan = {self.propagate_nan.data}")
        print_attr_dict(self, printer, ("propagateNan",))
        print_type_after(printer, ":", self.result.type)


@irdl_op_definition
class PreciseSqrtOp(SameTypeSyntax):
    name = "tt.precise_sqrt"
    x = operand_def()
    traits = traits_def(Pure())


@irdl_op_definition
class PreciseDivFOp(SameTypeSyntax):
    name = "tt.precise_divf"
    x = operand_def()
    y = operand_def()
    traits = traits_def(Pure())


@irdl_op_definition
class ApproxDivFOp(SameTypeSyntax):
    name = "tt.approx_divf"
    x = operand_def()
    y = operand_def()
    traits = traits_def(Pure())


@irdl_op_definition
class MulhiUIOp(SameTypeSyntax):
    """Upper half of the unsigned product."""

    name = "tt.mulhiui"
    x = operand_def()
    y = operand_def()
    traits = traits_def(Pure())


@irdl_op_definition
class AddPtrOp(IRDLOperation):
    """Pointer plus an offset counted in elements."""

    name = "tt.addptr"
    ptr = operand_def()
    offset = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        return build(cls, resolve(parser, operands, types), [types[0]], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", *self.operand_types)

    def verify_(self) -> None:
        if self.ptr.type != self.result.type:
            raise VerifyException("tt.addptr: the result must have the pointer's type")


# Shapes


@irdl_op_definition
class SplatOp(ConversionSyntax):
    """A tensor all of whose elements are one scalar."""

    name = "tt.splat"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.src.type != element_type(self.result.type):
            raise VerifyException("tt.splat: the result's elements must have the source's type")


@irdl_op_definition
class UnsplatOp(IRDLOperation):
    """The scalar in a tensor of one element."""

    name = "tt.unsplat"
    src = operand_def(TensorType)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        type_ = parse_type_after(parser, ":")
        return build(cls, [parser.resolve_operand(operand, type_)], [element_type(type_)], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.src.type)


@irdl_op_definition
class ExpandDimsOp(ConversionSyntax):
    """Insert a dimension of size 1 at `axis`."""

    name = "tt.expand_dims"
    axis = prop_def(IntegerAttr)
    traits = traits_def(Pure())


@irdl_op_definition
class BroadcastOp(ConversionSyntax):
    """Grow dimensions of size 1."""

    name = "tt.broadcast"
    traits = traits_def(Pure())


@irdl_op_definition
class TransOp(ConversionSyntax):
    """Permute the dimensions: result dimension i is source dimension `order[i]`."""

    name = "tt.trans"
    order = prop_def(DenseArrayBase)
    traits = traits_def(Pure())


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """Another shape with as many elements, row-major unless reordering is allowed."""

    name = "tt.reshape"
    src = operand_def(TensorType)
    allow_reorder = opt_prop_def(UnitAttr)
    efficient_layout = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    FLAGS: ClassVar = ("allow_reorder", "efficient_layout")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        flags: dict[str, Attribute] = {
            flag: UnitAttr() for flag in cls.FLAGS if parser.parse_optional_keyword(flag)
        }
        attrs = parser.parse_optional_attr_dict()
        source = parser.resolve_operand(operand, parse_type_after(parser, ":"))
        return build(cls, [source], [parse_type_after(parser, "->")], attrs, flags)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        for flag in self.FLAGS:
            if flag in self.properties:
                printer.print_string(f" {flag}")
        print_attr_dict(self, printer, self.FLAGS)
        print_type_after(printer, ":", self.src.type)
        print_type_after(printer, "->", self.result.type)


@irdl_op_definition
class CatOp(PairSyntax):
    """Concatenate along dimension 0; may reorder elements."""

    name = "tt.cat"
    traits = traits_def(NoMemoryEffect())


@irdl_op_definition
class JoinOp(PairSyntax):
    """Stack two tensors along a new last dimension of size 2."""

    name = "tt.join"
    traits = traits_def(Pure())


@irdl_op_definition
class SplitOp(IRDLOperation):
    """Undo `tt.join`: the halves of the last dimension, which has size 2."""

    name = "tt.split"
    src = operand_def(TensorType)
    lhs = result_def(TensorType)
    rhs = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        source = parser.resolve_operand(operand, parse_type_after(parser, ":"))
        type_ = parse_type_after(parser, "->")
        return build(cls, [source], [type_, type_], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.src.type)
        print_type_after(printer, "->", self.lhs.type)


@irdl_op_definition
class MakeRangeOp(IRDLOperation):
    """start, start + 1, ..., end - 1 as a 1D i32 tensor."""

    name = "tt.make_range"
    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return build(cls, [], [parser.parse_type()], attrs)

    def print(self, printer: Printer) -> None:
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.result.type)

    def verify_(self) -> None:
        size = self.end.value.data - self.start.value.data
        if self.result.type.get_shape() != (size,):
            raise VerifyException(f"tt.make_range: {size} values do not fit {self.result.type}")


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Pick elements of `src` along `axis` by `indices`."""

    name = "tt.gather"
    src = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    efficient_layout = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation("[")
        indices = parser.parse_unresolved_operand()
        parser.parse_punctuation("]")
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        inputs, outputs = parse_functional_type(parser)
        return build(cls, resolve(parser, [source, indices], inputs), outputs, attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        printer.print_string("[")
        printer.print_operand(self.indices)
        printer.print_string("]")
        print_attr_dict(self, printer)
        printer.print_string(" : ")
        print_functional_type(printer, self)


@irdl_op_definition
class HistogramOp(IRDLOperation):
    """Counts of the values 0 .. bins-1; bins is the result's size."""

    name = "tt.histogram"
    src = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        type_ = parse_type_after(parser, ":")
        result = parse_type_after(parser, "->")
        types = [type_, bool_like(type_)][: len(operands)]
        return build(cls, resolve(parser, operands, types), [result], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.src.type)
        print_type_after(printer, "->", self.result.type)


# Programs

PROGRAM_AXES = ("x", "y", "z")


class ProgramAxisSyntax(IRDLOperation, ABC):
    """`x : i32`: a question about one axis of the launch grid."""

    axis = prop_def(KeywordConstraint(PROGRAM_AXES))
    result = result_def(i32)
    traits = traits_def(Pure())

    @property
    def dimension(self) -> int:
        assert isinstance(self.axis, StringAttr)
        return PROGRAM_AXES.index(self.axis.data)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        axis = parse_keyword_attr(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return build(cls, [], [parser.parse_type()], attrs, {"axis": axis})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {PROGRAM_AXES[self.dimension]}")
        print_attr_dict(self, printer, ("axis",))
        printer.print_string(" : i32")


@irdl_op_definition
class GetProgramIdOp(ProgramAxisSyntax):
    name = "tt.get_program_id"


@irdl_op_definition
class GetNumProgramsOp(ProgramAxisSyntax):
    name = "tt.get_num_programs"


COMPUTE_OPS: list[type[Operation]] = [
    IntToPtrOp,
    PtrToIntOp,
    BitcastOp,
    FpToFpOp,
    ClampFOp,
    PreciseSqrtOp,
    PreciseDivFOp,
    ApproxDivFOp,
    MulhiUIOp,
    AddPtrOp,
    SplatOp,
    UnsplatOp,
    ExpandDimsOp,
    BroadcastOp,
    TransOp,
    ReshapeOp,
    CatOp,
    JoinOp,
    SplitOp,
    MakeRangeOp,
    GatherOp,
    HistogramOp,
    GetProgramIdOp,
    GetNumProgramsOp,
]
