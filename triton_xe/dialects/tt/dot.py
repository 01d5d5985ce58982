"""Matrix products of dialect `tt`."""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.text.assembly import (
    KeywordConstraint,
    build,
    parse_keyword_attr,
    parse_type_after,
    parse_type_list,
    print_attr_dict,
    print_operands,
    print_type_after,
    resolve,
    segment_sizes,
)


@irdl_op_definition
class DotOp(IRDLOperation):
    """d = a @ b + c."""

    name = "tt.dot"
    PRECISIONS: ClassVar = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    input_precision = prop_def(
        KeywordConstraint(PRECISIONS), default_value=StringAttr("ieee"), prop_name="inputPrecision"
    )
    max_num_imprecise_acc = opt_prop_def(IntegerAttr, prop_name="maxNumImpreciseAcc")
    d = result_def(TensorType)
    traits = traits_def(Pure())

    @property
    def precision(self) -> str:
        attr = self.input_precision
        assert isinstance(attr, StringAttr)
        return attr.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        precision = StringAttr("ieee")
        if parser.parse_optional_punctuation(",") is not None:
            parser.parse_keyword("inputPrecision")
            parser.parse_punctuation("=")
            precision = parse_keyword_attr(parser)
        attrs = parser.parse_optional_attr_dict()
        a = parse_type_after(parser, ":")
        b = parse_type_after(parser, "*")
        d = parse_type_after(parser, "->")
        values = resolve(parser, operands, [a, b, d])
        return build(cls, values, [d], attrs, {"inputPrecision": precision})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        if self.precision != "ieee":
            printer.print_string(f", inputPrecision = {self.precision}")
        print_attr_dict(self, printer, ("inputPrecision",))
        print_type_after(printer, ":", self.a.type)
        print_type_after(printer, "*", self.b.type)
        print_type_after(printer, "->", self.d.type)

    def verify_(self) -> None:
        if self.c.type != self.d.type:
            raise VerifyException("tt.dot: accumulator and result must have one type")


SCALE_DOT_ELEMENTS = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "bf16", "fp16")


@irdl_op_definition
class DotScaledOp(IRDLOperation):
    """d = scale(a, a_scale) @ scale(b, b_scale) + c, after the microscaling formats."""

    name = "tt.dot_scaled"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    a_scale = opt_operand_def(TensorType)
    b_scale = opt_operand_def(TensorType)
    a_elem_type = prop_def(KeywordConstraint(SCALE_DOT_ELEMENTS))
    b_elem_type = prop_def(KeywordConstraint(SCALE_DOT_ELEMENTS))
    fast_math = prop_def(IntegerAttr, prop_name="fastMath")
    lhs_k_pack = opt_prop_def(IntegerAttr)
    rhs_k_pack = opt_prop_def(IntegerAttr)
    d = result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        a = parser.parse_unresolved_operand()
        a_scale = cls._parse_scale(parser)
        parser.parse_punctuation(",")
        b = parser.parse_unresolved_operand()
        b_scale = cls._parse_scale(parser)
        parser.parse_punctuation(",")
        c = parser.parse_unresolved_operand()
        properties: dict[str, Attribute] = {}
        for side, name in (("lhs", "a_elem_type"), ("rhs", "b_elem_type")):
            parser.parse_keyword(side)
            parser.parse_punctuation("=")
            properties[name] = parse_keyword_attr(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        a_types = parse_type_list(parser)
        parser.parse_punctuation("*")
        b_types = parse_type_list(parser)
        d = parse_type_after(parser, "->")
        scales = [s for s in (a_scale, b_scale) if s is not None]
        types = [a_types[0], b_types[0], d, *a_types[1:], *b_types[1:]]
        values = resolve(parser, [a, b, c, *scales], types)
        properties["operandSegmentSizes"] = segment_sizes(
            1, 1, 1, int(a_scale is not None), int(b_scale is not None)
        )
        return build(cls, values, [d], attrs, properties)

    @staticmethod
    def _parse_scale(parser: Parser) -> UnresolvedOperand | None:
        if parser.parse_optional_keyword("scale") is None:
            return None
        return parser.parse_unresolved_operand()

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self._print_scaled(printer, self.a, self.a_scale, " scale ")
        printer.print_string(", ")
        self._print_scaled(printer, self.b, self.b_scale, " scale ")
        printer.print_string(", ")
        printer.print_operand(self.c)
        assert isinstance(self.a_elem_type, StringAttr)
        assert isinstance(self.b_elem_type, StringAttr)
        printer.print_string(f" lhs = {self.a_elem_type.data} rhs = {self.b_elem_type.data}")
        print_attr_dict(self, printer, ("a_elem_type", "b_elem_type"))
        print_type_after(printer, ":", *[v.type for v in (self.a, self.a_scale) if v is not None])
        print_type_after(printer, "*", *[v.type for v in (self.b, self.b_scale) if v is not None])
        print_type_after(printer, "->", self.d.type)

    @staticmethod
    def _print_scaled(
        printer: Printer, value: SSAValue, scale: SSAValue | None, keyword: str
    ) -> None:
        printer.print_operand(value)
        if scale is not None:
            printer.print_string(keyword)
            printer.print_operand(scale)


DOT_OPS: list[type[Operation]] = [DotOp, DotScaledOp]
