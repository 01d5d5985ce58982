"""Dialect `ttg`: what libtriton 3.9.0 adds to `tt` once tensors have layouts.

Names and syntax follow `triton/Dialect/TritonGPU/IR/TritonGPUOps.td` of the installed wheel.
Only what its passes make for an xpu target is here: layout conversion, shared memory buffers and
their views, barriers, warp ids.  Async copies and warp specialization are other vendors'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryAllocEffect,
    MemoryFreeEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.layouts import TTG_LAYOUTS
from triton_xe.dialects.text.assembly import (
    build,
    parse_functional_type,
    parse_operand_list,
    parse_type_after,
    parse_type_list,
    print_attr_dict,
    print_functional_type,
    print_indexed,
    print_operands,
    print_type_after,
    resolve,
)
from triton_xe.dialects.tt.ops import ConversionSyntax


@irdl_attr_definition
class SharedMemoryAttr(ParametrizedAttribute):
    """Memory space of a buffer in shared local memory (SLM)."""

    name = "ttg.shared_memory"


@irdl_attr_definition
class MemDescType(ParametrizedAttribute, TypeAttribute):
    """A view of a buffer: `!ttg.memdesc<64x32xf16, #layout, #smem, mutable, 2x64x32>`.

    The last list is the shape of the whole buffer, printed when the view has another shape.
    """

    name = "ttg.memdesc"
    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    encoding: Attribute
    memory_space: Attribute
    mutable: BoolAttr
    alloc_shape: ArrayAttr[IntAttr]

    def __init__(
        self,
        shape: Sequence[int],
        element_type: Attribute,
        encoding: Attribute,
        memory_space: Attribute | None = None,
        *,
        mutable: bool = False,
        alloc_shape: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            _dims(shape),
            element_type,
            encoding,
            memory_space or SharedMemoryAttr(),
            BoolAttr.from_bool(mutable),
            _dims(shape if alloc_shape is None else alloc_shape),
        )

    def get_shape(self) -> tuple[int, ...]:
        return tuple(n.data for n in self.shape)

    @property
    def is_mutable(self) -> bool:
        return bool(self.mutable.value.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
            parser.parse_punctuation(",")
            encoding = parser.parse_attribute()
            parser.parse_punctuation(",")
            space = parser.parse_attribute()
            mutable, alloc_shape = False, shape
            if parser.parse_optional_punctuation(",") is not None:
                mutable = parser.parse_optional_keyword("mutable") is not None
                if not mutable or parser.parse_optional_punctuation(",") is not None:
                    alloc_shape = parser.parse_dimension_list()
        flag = BoolAttr.from_bool(mutable)
        return [_dims(shape), element, encoding, space, flag, _dims(alloc_shape)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{n}x" for n in self.get_shape()))
            printer.print_attribute(self.element_type)
            printer.print_string(", ")
            printer.print_attribute(self.encoding)
            printer.print_string(", ")
            printer.print_attribute(self.memory_space)
            if self.is_mutable:
                printer.print_string(", mutable")
            if self.alloc_shape != self.shape:
                printer.print_string(", " + "x".join(str(n.data) for n in self.alloc_shape))


def _dims(shape: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(n) for n in shape])


@irdl_op_definition
class ConvertLayoutOp(ConversionSyntax):
    """The same tensor in another layout."""

    name = "ttg.convert_layout"
    force_warp_shuffle = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        if not isinstance(source, TensorType) or not isinstance(result, TensorType):
            raise VerifyException("ttg.convert_layout: source and result must be tensors")
        if (source.shape, source.element_type) != (result.shape, result.element_type):
            raise VerifyException("ttg.convert_layout: only the layout may change")


@irdl_op_definition
class LocalAllocOp(IRDLOperation):
    """A buffer in shared memory, maybe initialised with a tensor."""

    name = "ttg.local_alloc"
    src = opt_operand_def(TensorType)
    alignment = opt_prop_def(IntegerAttr)
    result = result_def(MemDescType)
    traits = traits_def(MemoryAllocEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        inputs, outputs = parse_functional_type(parser)
        return build(cls, resolve(parser, operands, inputs), outputs, attrs)

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        printer.print_string(" : ")
        print_functional_type(printer, self)


@irdl_op_definition
class LocalDeallocOp(IRDLOperation):
    name = "ttg.local_dealloc"
    src = operand_def(MemDescType)
    traits = traits_def(MemoryFreeEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return build(cls, [parser.resolve_operand(operand, parser.parse_type())], [], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.src.type)


@irdl_op_definition
class LocalLoadOp(ConversionSyntax):
    """Read a buffer into a tensor."""

    name = "ttg.local_load"
    traits = traits_def(MemoryReadEffect())


@irdl_op_definition
class LocalStoreOp(IRDLOperation):
    """Write a tensor to a buffer."""

    name = "ttg.local_store"
    src = operand_def(TensorType)
    dst = operand_def(MemDescType)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        source = parse_type_after(parser, ":")
        parser.parse_punctuation("->")
        return build(cls, resolve(parser, operands, [source, parser.parse_type()]), [], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.src.type)
        print_type_after(printer, "->", self.dst.type)


@irdl_op_definition
class MemDescIndexOp(IRDLOperation):
    """The view of element `index` along dimension 0."""

    name = "ttg.memdesc_index"
    src = operand_def(MemDescType)
    index = operand_def(i32)
    result = result_def(MemDescType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation("[")
        index = parser.parse_unresolved_operand()
        parser.parse_punctuation("]")
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        values = resolve(parser, [source, index], [parser.parse_type(), i32])
        parser.parse_punctuation("->")
        return build(cls, values, [parser.parse_type()], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        printer.print_string("[")
        printer.print_operand(self.index)
        printer.print_string("]")
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.src.type)
        print_type_after(printer, "->", self.result.type)


@irdl_op_definition
class MemDescTransOp(ConversionSyntax):
    """The same memory with its dimensions permuted."""

    name = "ttg.memdesc_trans"
    order = prop_def(DenseArrayBase)
    traits = traits_def(Pure())


@irdl_op_definition
class MemDescReshapeOp(ConversionSyntax):
    name = "ttg.memdesc_reshape"
    traits = traits_def(Pure())


@irdl_op_definition
class MemDescReinterpretOp(ConversionSyntax):
    name = "ttg.memdesc_reinterpret"
    traits = traits_def(Pure())


@irdl_op_definition
class MemDescSubsliceOp(IRDLOperation):
    """The view of a smaller shape at constant offsets: `%src[0, 16]`."""

    name = "ttg.memdesc_subslice"
    src = operand_def(MemDescType)
    offsets = prop_def(DenseArrayBase)
    result = result_def(MemDescType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        offsets = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        attrs = parser.parse_optional_attr_dict()
        source = parser.resolve_operand(operand, parse_type_after(parser, ":"))
        result = parse_type_after(parser, "->")
        properties = {"offsets": DenseArrayBase.from_list(i32, offsets)}
        return build(cls, [source], [result], attrs, properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        printer.print_string(f"[{', '.join(str(n) for n in self.offsets.get_values())}]")
        print_attr_dict(self, printer, ("offsets",))
        print_type_after(printer, ":", self.src.type)
        print_type_after(printer, "->", self.result.type)


@irdl_op_definition
class LocalGatherOp(IRDLOperation):
    """Read a buffer where `indices` point to along `axis`."""

    name = "ttg.local_gather"
    src = operand_def(MemDescType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(MemoryReadEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_indexed(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        result = parse_type_after(parser, "->")
        return build(cls, resolve(parser, operands, types), [result], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_indexed(printer, self.src, (self.indices,))
        print_attr_dict(self, printer)
        print_type_after(printer, ":", *self.operand_types)
        print_type_after(printer, "->", self.result.type)


def parse_indexed(parser: Parser) -> list[UnresolvedOperand]:
    """`%buffer[%indices]`."""
    operands = [parser.parse_unresolved_operand()]
    parser.parse_punctuation("[")
    operands.append(parser.parse_unresolved_operand())
    parser.parse_punctuation("]")
    return operands


@irdl_op_definition
class LocalScatterOp(IRDLOperation):
    """Write `values` where `indices` point to along `axis`.  Operands: dst, values, indices."""

    name = "ttg.local_scatter"
    dst = operand_def(MemDescType)
    values = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        buffer, indices = parse_indexed(parser)
        parser.parse_punctuation(",")
        values = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        buffer_type, index_type, value_type = parse_type_list(parser)
        types = [buffer_type, value_type, index_type]
        return build(cls, resolve(parser, [buffer, values, indices], types), [], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_indexed(printer, self.dst, (self.indices,))
        printer.print_string(", ")
        printer.print_operand(self.values)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.dst.type, self.indices.type, self.values.type)


@irdl_op_definition
class Fp4ToFpOp(ConversionSyntax):
    """Unpack pairs of 4-bit floats (e2m1) along `axis`, the low half first."""

    name = "ttg.fp4_to_fp"
    axis = prop_def(IntegerAttr)
    traits = traits_def(Pure())


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All subgroups of the work-group meet; accesses to the named memories become visible.

    `ttg.barrier local|global_write`; the set is kept in the order it was written.
    """

    name = "ttg.barrier"
    spaces = prop_def(StringAttr, prop_name="addrSpace")
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    SPACES: ClassVar = (
        "none",
        "local",
        "global_read",
        "global_write",
        "tensor_read",
        "tensor_write",
        "all",
    )

    def __init__(self, *spaces: str) -> None:
        super().__init__(properties={"addrSpace": StringAttr("|".join(spaces))})

    @property
    def has_local(self) -> bool:
        return not {"local", "all"}.isdisjoint(self.spaces.data.split("|"))

    @property
    def has_global(self) -> bool:
        names = {"global_read", "global_write", "all"}
        return not names.isdisjoint(self.spaces.data.split("|"))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names = [parser.parse_keyword_in(cls.SPACES)]
        while parser.parse_optional_punctuation("|") is not None:
            names.append(parser.parse_keyword_in(cls.SPACES))
        attrs = parser.parse_optional_attr_dict()
        return build(cls, [], [], attrs, {"addrSpace": StringAttr("|".join(names))})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.spaces.data}")
        print_attr_dict(self, printer, ("addrSpace",))

    def verify_(self) -> None:
        if unknown := set(self.spaces.data.split("|")) - set(self.SPACES):
            raise VerifyException(f"ttg.barrier: unknown memories {', '.join(sorted(unknown))}")


@irdl_op_definition
class WarpIdOp(IRDLOperation):
    """The number of this subgroup in its work-group."""

    name = "ttg.warp_id"
    omit_uniform_hint = opt_prop_def(UnitAttr, prop_name="omitUniformHint")
    result = result_def(i32)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return build(cls, [], [i32], parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        print_attr_dict(self, printer)


TTG = Dialect(
    "ttg",
    [
        ConvertLayoutOp,
        LocalAllocOp,
        LocalDeallocOp,
        LocalLoadOp,
        LocalStoreOp,
        MemDescIndexOp,
        MemDescSubsliceOp,
        LocalGatherOp,
        LocalScatterOp,
        Fp4ToFpOp,
        MemDescTransOp,
        MemDescReshapeOp,
        MemDescReinterpretOp,
        BarrierOp,
        WarpIdOp,
    ],
    [*TTG_LAYOUTS, SharedMemoryAttr, MemDescType],
)
