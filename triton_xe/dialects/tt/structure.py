"""Ops of dialect `tt`: functions and calls, ops with regions and their terminators, host output."""

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
from xdsl.irdl import (
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

from triton_xe.dialects.elementwise import Elementwise
from triton_xe.dialects.text.assembly import FieldOp, need_shape, shape_of_type


class LeaveOp(FieldOp, ABC):
    """Leave a region with values."""

    arguments = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


# Functions


@irdl_op_definition
class FuncOp(FieldOp):
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
        """True for public functions, the entry points; libtriton makes all others private."""
        return self.sym_visibility is None or self.sym_visibility.data == "public"

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        visibility = parser.parse_optional_keyword_in(("public", "private", "nested"))
        name, inputs, outputs, body, extra, arg_attrs, res_attrs = parse_func_op_like(
            parser, reserved_attr_names=cls.RESERVED
        )
        op = cls(
            sym_name=StringAttr(name), function_type=FunctionType.from_lists(inputs, outputs),
            sym_visibility=visibility, arg_attrs=arg_attrs, res_attrs=res_attrs, body=body,
        )  # fmt: skip
        op.attributes |= {} if extra is None else extra.data
        return op

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
            self.refuse("entry block arguments differ from the function type")


@irdl_op_definition
class ReturnOp(LeaveOp):
    name = "tt.return"


@irdl_op_definition
class CallOp(FieldOp):
    """Call a function of this module."""

    name = "tt.call"
    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def()
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res = var_result_def()
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    @property
    def callee_name(self) -> str:
        return self.callee.root_reference.data


# Reductions and scans, printed in MLIR's generic form


class FoldOp(FieldOp, ABC):
    """Combine elements along an axis by a region that takes two tuples of scalars."""

    srcs = var_operand_def()
    axis = prop_def(IntegerAttr)
    combine = region_def("single_block")
    res = var_result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        arguments = len(self.combine.block.args)
        if arguments != 2 * len(self.operands):
            self.refuse(f"the region takes {arguments} values, not two per source")
        axis = self.axis.value.data
        for source, result in zip(self.srcs, self.res, strict=True):
            shape = shape_of_type(source.type)
            if not 0 <= axis < len(shape):
                self.refuse(f"{source.type} has no axis {axis}")
            need_shape(self, result, self.shape_after(shape, axis))

    def shape_after(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """Shape of the results."""
        return shape


@irdl_op_definition
class ReduceOp(FoldOp):
    """Fold `srcs` along `axis`."""

    name = "tt.reduce"

    def shape_after(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        return (*shape[:axis], *shape[axis + 1 :])


@irdl_op_definition
class ScanOp(FoldOp):
    """Scan `srcs` along `axis`, from the end if `reverse`."""

    name = "tt.scan"
    reverse = prop_def(BoolAttr)


@irdl_op_definition
class ReduceReturnOp(LeaveOp):
    name = "tt.reduce.return"


@irdl_op_definition
class ScanReturnOp(LeaveOp):
    name = "tt.scan.return"


@irdl_op_definition
class MapElementwiseOp(FieldOp):
    """Run the region, which may branch, on every element (or `pack` elements at a time)."""

    name = "tt.map_elementwise"
    srcs = var_operand_def()
    pack = prop_def(IntegerAttr)
    scalar_op = region_def()
    res = var_result_def()
    traits = traits_def(RecursiveMemoryEffect())


@irdl_op_definition
class MapElementwiseReturnOp(LeaveOp):
    name = "tt.map_elementwise.return"


# Code from outside the module


@irdl_op_definition
class ExternElementwiseOp(FieldOp):
    """Call the external function `symbol` on every element."""

    name = "tt.extern_elementwise"
    traits = traits_def(Elementwise())
    srcs = var_operand_def()
    libname = prop_def(StringAttr)
    libpath = prop_def(StringAttr)
    symbol = prop_def(StringAttr)
    pure = prop_def(BoolAttr)
    result = result_def()
    assembly_format = "$srcs attr-dict `:` functional-type($srcs, $result)"


@irdl_op_definition
class ElementwiseInlineAsmOp(FieldOp):
    """Assembly text run on every element (or `packed_element` elements at a time)."""

    name = "tt.elementwise_inline_asm"
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(BoolAttr)
    packed_element = prop_def(IntegerAttr)
    arguments = var_operand_def()
    res = var_result_def()
    assembly_format = (
        "$asm_string attr-dict ($arguments^ `:` type($arguments))? `->` type($res)"
    )


# Messages to the host


@irdl_op_definition
class PrintOp(FieldOp):
    """Print `prefix` and every element of the arguments."""

    name = "tt.print"
    prefix = prop_def(StringAttr)
    hex = prop_def(BoolAttr)
    arguments = var_operand_def()
    is_signed = prop_def(DenseArrayBase, prop_name="isSigned")
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$prefix attr-dict (`:` $arguments^ `:` type($arguments))?"


@irdl_op_definition
class AssertOp(FieldOp):
    """Report `message` to the host where the condition is false; the kernel continues."""

    name = "tt.assert"
    condition = operand_def()
    message = prop_def(StringAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"
