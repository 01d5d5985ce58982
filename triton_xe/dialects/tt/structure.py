"""Ops of dialect `tt` that hold or leave regions, call code, or talk to the host."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    MemoryWriteEffect,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.text.assembly import (
    build,
    parse_functional_type,
    parse_operand_list,
    parse_type_after,
    parse_type_list,
    print_attr_dict,
    print_functional_type,
    print_operands,
    print_type_after,
    resolve,
)


class ReturnSyntax(IRDLOperation, ABC):
    """`%a, %b {attrs} : T, T`, or nothing after the name."""

    arguments = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attrs = parser.parse_optional_attr_dict()
        operands = parse_operand_list(parser)
        if not operands:
            return build(cls, [], [], attrs)
        attrs |= parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return build(cls, resolve(parser, operands, parse_type_list(parser)), [], attrs)

    def print(self, printer: Printer) -> None:
        print_attr_dict(self, printer)
        if self.operands:
            printer.print_string(" ")
            print_operands(printer, self.operands)
            print_type_after(printer, ":", *self.operand_types)


# Functions


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A kernel (public) or a device function (private)."""

    name = "tt.func"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    sym_visibility = opt_prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    RESERVED: ClassVar = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")

    @property
    def is_kernel(self) -> bool:
        """Public functions are entry points; libtriton makes all others private."""
        return self.sym_visibility is None or self.sym_visibility.data == "public"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        visibility = parser.parse_optional_keyword_in(("public", "private", "nested"))
        name, inputs, outputs, body, extra, arg_attrs, res_attrs = parse_func_op_like(
            parser, reserved_attr_names=cls.RESERVED
        )
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(inputs, outputs),
        }
        if visibility is not None:
            properties["sym_visibility"] = StringAttr(visibility)
        if arg_attrs is not None:
            properties["arg_attrs"] = arg_attrs
        if res_attrs is not None:
            properties["res_attrs"] = res_attrs
        attributes = {} if extra is None else dict(extra.data)
        return cls.create(properties=properties, attributes=attributes, regions=[body])

    def print(self, printer: Printer) -> None:
        if self.sym_visibility is not None:
            printer.print_string(f" {self.sym_visibility.data}")
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            self.attributes,
            arg_attrs=self.arg_attrs,
            res_attrs=self.res_attrs,
            reserved_attr_names=self.RESERVED,
        )

    def verify_(self) -> None:
        if not self.body.blocks:
            return
        arguments = tuple(argument.type for argument in self.body.blocks[0].args)
        if arguments != tuple(self.function_type.inputs):
            raise VerifyException("tt.func: entry block arguments differ from the function type")


@irdl_op_definition
class ReturnOp(ReturnSyntax):
    name = "tt.return"


@irdl_op_definition
class CallOp(IRDLOperation):
    """Call a function of this module."""

    name = "tt.call"
    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def()
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res = var_result_def()

    @property
    def callee_name(self) -> str:
        return self.callee.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        callee = SymbolRefAttr(parser.parse_symbol_name())
        parser.parse_punctuation("(")
        operands = parse_operand_list(parser)
        parser.parse_punctuation(")")
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        inputs, outputs = parse_functional_type(parser)
        return build(cls, resolve(parser, operands, inputs), outputs, attrs, {"callee": callee})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.callee_name)
        printer.print_string("(")
        print_operands(printer, self.operands)
        printer.print_string(")")
        print_attr_dict(self, printer, ("callee",))
        printer.print_string(" : ")
        print_functional_type(printer, self)


# Reductions and scans, printed in MLIR's generic form


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Fold `srcs` along `axis` with the region, which takes two tuples of scalars."""

    name = "tt.reduce"
    srcs = var_operand_def()
    axis = prop_def(IntegerAttr)
    combine = region_def("single_block")
    res = var_result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        verify_combiner(self)


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Running fold of `srcs` along `axis`, from the end when `reverse`."""

    name = "tt.scan"
    srcs = var_operand_def()
    axis = prop_def(IntegerAttr)
    reverse = prop_def(BoolAttr)
    combine = region_def("single_block")
    res = var_result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        verify_combiner(self)


def verify_combiner(op: ReduceOp | ScanOp) -> None:
    arguments = len(op.combine.block.args)
    if arguments != 2 * len(op.operands):
        raise VerifyException(f"{op.name}: the region takes {arguments} values, not two per source")


@irdl_op_definition
class ReduceReturnOp(ReturnSyntax):
    name = "tt.reduce.return"


@irdl_op_definition
class ScanReturnOp(ReturnSyntax):
    name = "tt.scan.return"


@irdl_op_definition
class MapElementwiseOp(IRDLOperation):
    """Run the region, which may branch, on every element (or `pack` elements at a time)."""

    name = "tt.map_elementwise"
    srcs = var_operand_def()
    pack = prop_def(IntegerAttr)
    scalar_op = region_def()
    res = var_result_def()
    traits = traits_def(RecursiveMemoryEffect())


@irdl_op_definition
class MapElementwiseReturnOp(ReturnSyntax):
    name = "tt.map_elementwise.return"


# Foreign code


@irdl_op_definition
class ExternElementwiseOp(IRDLOperation):
    """Call the external function `symbol` on every element."""

    name = "tt.extern_elementwise"
    srcs = var_operand_def()
    libname = prop_def(StringAttr)
    libpath = prop_def(StringAttr)
    symbol = prop_def(StringAttr)
    pure = prop_def(BoolAttr)
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        inputs, outputs = parse_functional_type(parser)
        return build(cls, resolve(parser, operands, inputs), outputs, attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        printer.print_string(" : ")
        print_functional_type(printer, self)


@irdl_op_definition
class ElementwiseInlineAsmOp(IRDLOperation):
    """Assembly text run on every element (or `packed_element` elements at a time)."""

    name = "tt.elementwise_inline_asm"
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(BoolAttr)
    packed_element = prop_def(IntegerAttr)
    arguments = var_operand_def()
    res = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        text = StringAttr(parser.parse_str_literal())
        attrs = parser.parse_optional_attr_dict()
        operands = parse_operand_list(parser)
        types: list[Attribute] = []
        if operands:
            parser.parse_punctuation(":")
            types = parse_type_list(parser)
        parser.parse_punctuation("->")
        values = resolve(parser, operands, types)
        return build(cls, values, parse_type_list(parser), attrs, {"asm_string": text})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.asm_string)
        print_attr_dict(self, printer, ("asm_string",))
        if self.operands:
            printer.print_string(" ")
            print_operands(printer, self.operands)
            print_type_after(printer, ":", *self.operand_types)
        print_type_after(printer, "->", *self.result_types)


# Messages to the host


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Print `prefix` and every element of the arguments."""

    name = "tt.print"
    prefix = prop_def(StringAttr)
    hex = prop_def(BoolAttr)
    arguments = var_operand_def()
    is_signed = prop_def(DenseArrayBase, prop_name="isSigned")
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        prefix = StringAttr(parser.parse_str_literal())
        attrs = parser.parse_optional_attr_dict()
        values = []
        if parser.parse_optional_punctuation(":") is not None:
            operands = parse_operand_list(parser)
            parser.parse_punctuation(":")
            values = resolve(parser, operands, parse_type_list(parser))
        return build(cls, values, [], attrs, {"prefix": prefix})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.prefix)
        print_attr_dict(self, printer, ("prefix",))
        if self.operands:
            printer.print_string(" : ")
            print_operands(printer, self.operands)
            print_type_after(printer, ":", *self.operand_types)


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Stop the program with `message` where the condition is false."""

    name = "tt.assert"
    condition = operand_def()
    message = prop_def(StringAttr)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        message = StringAttr(parser.parse_str_literal())
        attrs = parser.parse_optional_attr_dict()
        value = parser.resolve_operand(operand, parse_type_after(parser, ":"))
        return build(cls, [value], [], attrs, {"message": message})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.condition)
        printer.print_string(", ")
        printer.print_attribute(self.message)
        print_attr_dict(self, printer, ("message",))
        print_type_after(printer, ":", self.condition.type)


STRUCTURE_OPS: list[type[Operation]] = [
    FuncOp,
    ReturnOp,
    CallOp,
    ReduceOp,
    ReduceReturnOp,
    ScanOp,
    ScanReturnOp,
    MapElementwiseOp,
    MapElementwiseReturnOp,
    ExternElementwiseOp,
    ElementwiseInlineAsmOp,
    PrintOp,
    AssertOp,
]
