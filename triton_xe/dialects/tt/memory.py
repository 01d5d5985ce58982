"""Ops of dialect `tt` that touch memory: loads, stores, atomics, tensor descriptors."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, TensorType, UnitAttr, i32, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
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
    print_indexed,
    print_operands,
    print_type_after,
    resolve,
    segment_sizes,
)
from triton_xe.dialects.tt.types import PointerType, TensorDescType, pointee_type

RMW_KINDS = ("and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch")
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("gpu", "cta", "sys")
REDUCE_KINDS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """Load through a pointer or a tensor of pointers; `other` where `mask` is false."""

    name = "tt.load"
    ptr = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    is_volatile = opt_prop_def(BoolAttr, prop_name="isVolatile")
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        ptr = parse_type_after(parser, ":")
        result = pointee_type(ptr)
        count = len(operands)
        types = [ptr, bool_like(ptr), result][:count]
        sizes = segment_sizes(1, int(count > 1), int(count > 2))
        values = resolve(parser, operands, types)
        return build(cls, values, [result], attrs, {"operandSegmentSizes": sizes})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.ptr.type)

    def verify_(self) -> None:
        if pointee_type(self.ptr.type) != self.result.type:
            raise VerifyException("tt.load: the result must have the type the pointer points to")
        if self.other is not None and self.mask is None:
            raise VerifyException("tt.load: `other` needs a mask")


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Store through a pointer or a tensor of pointers, where `mask` is true."""

    name = "tt.store"
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    ignore_cta = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        ptr = parse_type_after(parser, ":")
        types = [ptr, pointee_type(ptr), bool_like(ptr)][: len(operands)]
        return build(cls, resolve(parser, operands, types), [], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.ptr.type)

    def verify_(self) -> None:
        if pointee_type(self.ptr.type) != self.value.type:
            raise VerifyException("tt.store: the value must have the type the pointer points to")


# Atomics


class AtomicSyntax(IRDLOperation, ABC):
    """`[kind,] sem, scope, operands {attrs} : types`."""

    sem = prop_def(KeywordConstraint(SEMANTICS))
    scope = prop_def(KeywordConstraint(SCOPES))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @staticmethod
    def parse_keywords(parser: Parser, names: tuple[str, ...]) -> dict[str, Attribute]:
        keywords: dict[str, Attribute] = {}
        for name in names:
            keywords[name] = parse_keyword_attr(parser)
            parser.parse_punctuation(",")
        return keywords

    def print_keywords(self, printer: Printer, names: tuple[str, ...]) -> None:
        printer.print_string(" ")
        for name in names:
            attr = self.properties[name]
            assert isinstance(attr, StringAttr)
            printer.print_string(f"{attr.data}, ")


ORDERING = ("sem", "scope")


@irdl_op_definition
class AtomicLoadOp(AtomicSyntax):
    name = "tt.atomic_load"
    ptr = operand_def()
    mask = opt_operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        keywords = cls.parse_keywords(parser, ORDERING)
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        inputs, outputs = parse_functional_type(parser)
        return build(cls, resolve(parser, operands, inputs), outputs, attrs, keywords)

    def print(self, printer: Printer) -> None:
        self.print_keywords(printer, ORDERING)
        print_operands(printer, self.operands)
        print_attr_dict(self, printer, ORDERING)
        printer.print_string(" : ")
        print_functional_type(printer, self)


@irdl_op_definition
class AtomicStoreOp(AtomicSyntax):
    name = "tt.atomic_store"
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        keywords = cls.parse_keywords(parser, ORDERING)
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        ptr = parse_type_after(parser, ":")
        types = [ptr, pointee_type(ptr), bool_like(ptr)][: len(operands)]
        return build(cls, resolve(parser, operands, types), [], attrs, keywords)

    def print(self, printer: Printer) -> None:
        self.print_keywords(printer, ORDERING)
        print_operands(printer, self.operands)
        print_attr_dict(self, printer, ORDERING)
        print_type_after(printer, ":", self.ptr.type)


@irdl_op_definition
class AtomicPollOp(AtomicSyntax):
    """Load until the value is the expected one, or the timeout expires."""

    name = "tt.atomic_poll"
    ptr = operand_def()
    expected = operand_def()
    timeout = opt_operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        keywords = cls.parse_keywords(parser, ORDERING)
        operands = parse_operand_list(parser)
        timeout = []
        if parser.parse_optional_keyword("timeout") is not None:
            timeout = [parser.parse_operand(i64)]
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        result = parse_type_after(parser, "->")
        values = [*resolve(parser, operands, types), *timeout]
        return build(cls, values, [result], attrs, keywords)

    def print(self, printer: Printer) -> None:
        self.print_keywords(printer, ORDERING)
        print_operands(printer, self.operands[:2])
        if self.timeout is not None:
            printer.print_string(" timeout ")
            printer.print_operand(self.timeout)
        print_attr_dict(self, printer, ORDERING)
        print_type_after(printer, ":", *self.operand_types[:2])
        print_type_after(printer, "->", self.result.type)


@irdl_op_definition
class AtomicRMWOp(AtomicSyntax):
    """Read, combine with `val`, write back; the result is the old value."""

    name = "tt.atomic_rmw"
    atomic_rmw_op = prop_def(KeywordConstraint(RMW_KINDS))
    ptr = operand_def()
    val = operand_def()
    mask = opt_operand_def()
    result = result_def()

    @property
    def kind(self) -> str:
        assert isinstance(self.atomic_rmw_op, StringAttr)
        return self.atomic_rmw_op.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        keywords = cls.parse_keywords(parser, ("atomic_rmw_op", *ORDERING))
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        inputs, outputs = parse_functional_type(parser)
        return build(cls, resolve(parser, operands, inputs), outputs, attrs, keywords)

    def print(self, printer: Printer) -> None:
        self.print_keywords(printer, ("atomic_rmw_op", *ORDERING))
        print_operands(printer, self.operands)
        print_attr_dict(self, printer, ("atomic_rmw_op", *ORDERING))
        printer.print_string(" : ")
        print_functional_type(printer, self)


@irdl_op_definition
class AtomicCASOp(AtomicSyntax):
    """Write `val` where memory holds `cmp`; the result is the old value."""

    name = "tt.atomic_cas"
    ptr = operand_def()
    cmp = operand_def()
    val = operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        keywords = cls.parse_keywords(parser, ORDERING)
        operands = parse_operand_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        inputs, outputs = parse_functional_type(parser)
        return build(cls, resolve(parser, operands, inputs), outputs, attrs, keywords)

    def print(self, printer: Printer) -> None:
        self.print_keywords(printer, ORDERING)
        print_operands(printer, self.operands)
        print_attr_dict(self, printer, ORDERING)
        printer.print_string(" : ")
        print_functional_type(printer, self)


# Tensor descriptors


@irdl_op_definition
class MakeTensorDescOp(IRDLOperation):
    """A descriptor of a tensor in global memory: base, shape (i32), strides (i64) in elements."""

    name = "tt.make_tensor_descriptor"
    base = operand_def(PointerType)
    shape = var_operand_def(i32)
    strides = var_operand_def(i64)
    padding = opt_prop_def(IntegerAttr)
    result = result_def(TensorDescType)
    irdl_options = (SameVariadicOperandSize(),)
    traits = traits_def(Pure())

    PAD_NAN: ClassVar = 2

    @property
    def pads_with_nan(self) -> bool:
        return self.padding is not None and self.padding.value.data == self.PAD_NAN

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        base = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        shape = parse_index_list(parser)
        parser.parse_punctuation(",")
        strides = parse_index_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pointer = parse_short_type(parser, PointerType)
        parser.parse_punctuation(",")
        result = parse_short_type(parser, TensorDescType)
        types = [pointer, *[i32] * len(shape), *[i64] * len(strides)]
        return build(cls, resolve(parser, [base, *shape, *strides], types), [result], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.base)
        for values in (self.shape, self.strides):
            printer.print_string(", [")
            print_operands(printer, values)
            printer.print_string("]")
        print_attr_dict(self, printer)
        printer.print_string(" : ")
        assert isinstance(self.base.type, PointerType)
        self.base.type.print_parameters(printer)
        printer.print_string(", ")
        self.result.type.print_parameters(printer)


def parse_short_type(parser: Parser, cls: type[PointerType | TensorDescType]) -> Attribute:
    """A type of a known class: libtriton prints `<f32>` for `!tt.ptr<f32>` there."""
    if parser._current_token.text == "<":
        return cls.new(cls.parse_parameters(parser))
    return parser.parse_type()


def parse_index_list(parser: Parser) -> list[UnresolvedOperand]:
    """`[%a, %b]`."""
    parser.parse_punctuation("[")
    operands = parse_operand_list(parser)
    parser.parse_punctuation("]")
    return operands


@irdl_op_definition
class DescriptorLoadOp(IRDLOperation):
    """Load the block at `indices`; outside the tensor it reads the descriptor's padding."""

    name = "tt.descriptor_load"
    desc = operand_def(TensorDescType)
    indices = var_operand_def(i32)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    result = result_def(TensorType)
    traits = traits_def(MemoryReadEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        desc = parser.parse_unresolved_operand()
        indices = parse_index_list(parser)
        attrs = parser.parse_optional_attr_dict()
        desc_type = parse_type_after(parser, ":")
        parser.parse_punctuation("->")
        values = resolve(parser, [desc, *indices], [desc_type, *[i32] * len(indices)])
        return build(cls, values, [parser.parse_type()], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_indexed(printer, self.desc, self.indices)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", self.desc.type)
        print_type_after(printer, "->", self.result.type)


class DescriptorWriteSyntax(IRDLOperation, ABC):
    """`%desc[%i, %j], %src {attrs} : type(desc), type(src)`.  Operand order: desc, src, indices."""

    desc = operand_def(TensorDescType)
    src = operand_def(TensorType)
    indices = var_operand_def(i32)

    @classmethod
    def parse_body(cls, parser: Parser, keywords: dict[str, Attribute]) -> Self:
        desc = parser.parse_unresolved_operand()
        indices = parse_index_list(parser)
        parser.parse_punctuation(",")
        source = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = [*parse_type_list(parser), *[i32] * len(indices)]
        return build(cls, resolve(parser, [desc, source, *indices], types), [], attrs, keywords)

    def print_body(self, printer: Printer, elided: tuple[str, ...]) -> None:
        print_indexed(printer, self.desc, self.indices)
        printer.print_string(", ")
        printer.print_operand(self.src)
        print_attr_dict(self, printer, elided)
        print_type_after(printer, ":", self.desc.type, self.src.type)


@irdl_op_definition
class DescriptorStoreOp(DescriptorWriteSyntax):
    """Store the block at `indices`; what lies outside the tensor is dropped."""

    name = "tt.descriptor_store"
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cls.parse_body(parser, {})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self.print_body(printer, ())


@irdl_op_definition
class DescriptorReduceOp(DescriptorWriteSyntax):
    """Combine the block at `indices` with `src`, atomically by element."""

    name = "tt.descriptor_reduce"
    kind = prop_def(KeywordConstraint(REDUCE_KINDS))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kind = parse_keyword_attr(parser)
        parser.parse_punctuation(",")
        return cls.parse_body(parser, {"kind": kind})

    def print(self, printer: Printer) -> None:
        assert isinstance(self.kind, StringAttr)
        printer.print_string(f" {self.kind.data}, ")
        self.print_body(printer, ("kind",))


@irdl_op_definition
class DescriptorGatherOp(IRDLOperation):
    """Load the rows `x_offsets`, from column `y_offset` on."""

    name = "tt.descriptor_gather"
    desc = operand_def(TensorDescType)
    x_offsets = operand_def(TensorType)
    y_offset = operand_def(i32)
    result = result_def(TensorType)
    traits = traits_def(MemoryReadEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        desc = parser.parse_unresolved_operand()
        offsets = parse_index_list(parser)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        inputs, outputs = parse_functional_type(parser)
        return build(cls, resolve(parser, [desc, *offsets], inputs), outputs, attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_indexed(printer, self.desc, (self.x_offsets, self.y_offset))
        print_attr_dict(self, printer)
        printer.print_string(" : ")
        print_functional_type(printer, self)


@irdl_op_definition
class DescriptorScatterOp(IRDLOperation):
    """Store rows of `src` to the rows `x_offsets`, from column `y_offset` on."""

    name = "tt.descriptor_scatter"
    desc = operand_def(TensorDescType)
    x_offsets = operand_def(TensorType)
    y_offset = operand_def(i32)
    src = operand_def(TensorType)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        desc = parser.parse_unresolved_operand()
        offsets = parse_index_list(parser)
        parser.parse_punctuation(",")
        source = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        return build(cls, resolve(parser, [desc, *offsets, source], types), [], attrs)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_indexed(printer, self.desc, (self.x_offsets, self.y_offset))
        printer.print_string(", ")
        printer.print_operand(self.src)
        print_attr_dict(self, printer)
        print_type_after(printer, ":", *self.operand_types)


MEMORY_OPS: list[type[Operation]] = [
    LoadOp,
    StoreOp,
    AtomicLoadOp,
    AtomicStoreOp,
    AtomicPollOp,
    AtomicRMWOp,
    AtomicCASOp,
    MakeTensorDescOp,
    DescriptorLoadOp,
    DescriptorStoreOp,
    DescriptorReduceOp,
    DescriptorGatherOp,
    DescriptorScatterOp,
]
