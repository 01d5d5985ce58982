"""Ops of dialect `tt` that touch memory: loads, stores, atomics, tensor descriptors."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, StringAttr, TensorType, UnitAttr, i32, i64
from xdsl.ir import Attribute, SSAValue
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
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from triton_xe.dialects.text.assembly import (
    ANY,
    FieldOp,
    Follows,
    KeywordConstraint,
    bool_like,
    need_shape,
    parse_operand_list,
    resolve,
    shape_of_type,
)
from triton_xe.dialects.tt.types import CachePolicyAttr, PointerType, TensorDescType, pointee_type

RMW_KINDS = ("and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch")
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("gpu", "cta", "sys")
REDUCE_KINDS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")

MASK = Follows(bool_like, "the mask must have the shape and layout of the pointer")


@irdl_custom_directive
class Hints(CustomDirective):
    """`cacheModifier = ca evictionPolicy = evict_first`: Triton's spelling of `cachePolicy` up to
    3.8.

    It is only read; the hints are printed as in Triton 3.9, in the dictionary.
    """

    CLAUSES: ClassVar = {
        "cacheModifier": CachePolicyAttr.MODIFIERS, "evictionPolicy": CachePolicyAttr.EVICTIONS,
    }

    def parse(self, parser: Parser, state: ParsingState) -> None:
        hints: dict[str, str] = {}
        while (clause := parser.parse_optional_keyword_in(self.CLAUSES)) is not None:
            parser.parse_punctuation("=")
            hints[clause] = parser.parse_keyword_in(self.CLAUSES[clause])
        if hints:
            policy = tuple(hints.get(clause, words[0]) for clause, words in self.CLAUSES.items())
            state.properties["cachePolicy"] = CachePolicyAttr.new(policy)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing."""


@irdl_op_definition
class LoadOp(FieldOp):
    """Load through a pointer or a tensor of pointers; `other` where `mask` is false.

    `block`: the program wants 2D messages.  `unpacked`: its elements are unpacked for a dot.
    `columns`: lanes load whole columns of operand B.  `hidden`: no stored value depends on what the
    mask excludes.  `before_stores`: later stores may alias it through another argument.
    """

    name = "tt.load"
    POINTEE: ClassVar = Follows(
        pointee_type, "tt.load: the result must have the type the pointer points to"
    )

    ptr = operand_def(ANY)
    mask = opt_operand_def(MASK)
    other = opt_operand_def(POINTEE)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    is_volatile = opt_prop_def(BoolAttr, prop_name="isVolatile")
    block = opt_prop_def(UnitAttr, prop_name="xe.block")
    unpacked = opt_prop_def(UnitAttr, prop_name="xe.unpacked")
    columns = opt_prop_def(UnitAttr, prop_name="xe.columns")
    hidden = opt_prop_def(UnitAttr, prop_name="xe.hidden")
    before_stores = opt_prop_def(UnitAttr, prop_name="xe.before_stores")
    result = result_def(POINTEE)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$ptr (`,` $mask^ (`,` $other^)?)? custom<Hints>() attr-dict `:` type($ptr)"
    custom_directives: ClassVar = (Hints,)

    def verify_(self) -> None:
        if self.other is not None and self.mask is None:
            self.refuse("`other` needs a mask")
        if self.hidden is not None and self.mask is None:
            self.refuse("only masked elements are hidden")


STORED = Follows(
    pointee_type, "tt.store: the value must have the type the pointer points to"
)


@irdl_op_definition
class StoreOp(FieldOp):
    """Store through a pointer or a tensor of pointers, where `mask` is true; with `block`, by 2D
    messages.
    """

    name = "tt.store"
    ptr = operand_def(ANY)
    value = operand_def(STORED)
    mask = opt_operand_def(MASK)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    ignore_cta = opt_prop_def(UnitAttr)
    block = opt_prop_def(UnitAttr, prop_name="xe.block")
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$ptr `,` $value (`,` $mask^)? custom<Hints>() attr-dict `:` type($ptr)"
    custom_directives: ClassVar = (Hints,)


# Atomics


class AtomicOp(FieldOp, ABC):
    """An access with a memory ordering and a scope."""

    sem = prop_def(KeywordConstraint(SEMANTICS))
    scope = prop_def(KeywordConstraint(SCOPES))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    ORDER: ClassVar = "custom<Keyword>($sem) `,` custom<Keyword>($scope) `,` "

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            need_shape(self, value, shape_of_type(self.operands[0].type))


@irdl_op_definition
class AtomicLoadOp(AtomicOp):
    name = "tt.atomic_load"
    ptr = operand_def()
    mask = opt_operand_def()
    result = result_def()
    assembly_format = AtomicOp.ORDER + "operands attr-dict `:` functional-type(operands, results)"


@irdl_op_definition
class AtomicStoreOp(AtomicOp):
    name = "tt.atomic_store"
    ptr = operand_def(ANY)
    value = operand_def(STORED)
    mask = opt_operand_def(MASK)
    assembly_format = AtomicOp.ORDER + "$ptr `,` $value (`,` $mask^)? attr-dict `:` type($ptr)"


@irdl_op_definition
class AtomicPollOp(AtomicOp):
    """Load until the value is the expected one, or the timeout expires."""

    name = "tt.atomic_poll"
    ptr = operand_def()
    expected = operand_def()
    timeout = opt_operand_def(i64)
    result = result_def()
    assembly_format = AtomicOp.ORDER + (
        "$ptr `,` $expected (`timeout` $timeout^)? attr-dict"
        " `:` type($ptr) `,` type($expected) `->` type($result)"
    )

    def verify_(self) -> None:
        """Refuse a tensor of timeouts: all elements share one."""


@irdl_op_definition
class AtomicRMWOp(AtomicOp):
    """Read, combine with `val`, write back; the result is the old value."""

    name = "tt.atomic_rmw"
    atomic_rmw_op = prop_def(KeywordConstraint(RMW_KINDS))
    ptr = operand_def()
    val = operand_def()
    mask = opt_operand_def()
    result = result_def()
    assembly_format = (
        "custom<Keyword>($atomic_rmw_op) `,` " + AtomicOp.ORDER
        + "operands attr-dict `:` functional-type(operands, results)"
    )

    @property
    def kind(self) -> str:
        assert isinstance(self.atomic_rmw_op, StringAttr)
        return self.atomic_rmw_op.data


@irdl_op_definition
class AtomicCASOp(AtomicOp):
    """Write `val` if memory contains `cmp`; the result is the old value."""

    name = "tt.atomic_cas"
    ptr = operand_def()
    cmp = operand_def()
    val = operand_def()
    result = result_def()
    assembly_format = AtomicOp.ORDER + "operands attr-dict `:` functional-type(operands, results)"


# Tensor descriptors


@irdl_op_definition
class MakeTensorDescOp(FieldOp):
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
        lists = []
        for _ in range(2):
            parser.parse_punctuation(",")
            with parser.in_square_brackets():
                lists.append(parse_operand_list(parser))
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pointer = _parse_short(parser, PointerType)
        parser.parse_punctuation(",")
        made = cls(
            base=parser.resolve_operand(base, pointer),
            shape=resolve(parser, lists[0], [i32] * len(lists[0])),
            strides=resolve(parser, lists[1], [i64] * len(lists[1])),
            padding=attrs.pop("padding", None),
            result_type=_parse_short(parser, TensorDescType),
        )
        made.attributes |= attrs
        return made

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.base)
        for values in (self.shape, self.strides):
            printer.print_string(", ")
            with printer.in_square_brackets():
                printer.print_list(values, printer.print_operand)
        printer.print_op_attributes(self.properties | self.attributes)
        printer.print_string(" : ")
        assert isinstance(self.base.type, PointerType)
        self.base.type.print_parameters(printer)
        printer.print_string(", ")
        self.result.type.print_parameters(printer)


def _parse_short(parser: Parser, cls: type[PointerType | TensorDescType]) -> Attribute:
    """Parse a type of a known class, for which libtriton prints `<f32>` instead of
    `!tt.ptr<f32>`.
    """
    if parser._current_token.text == "<":
        return cls.new(cls.parse_parameters(parser))
    return parser.parse_type()


def _need_indices(op: FieldOp, desc: SSAValue, indices: Sequence[SSAValue]) -> None:
    assert isinstance(desc.type, TensorDescType)
    rank = len(desc.type.get_shape())
    if len(indices) != rank:
        op.refuse(f"{desc.type} takes {rank} indices, not {len(indices)}")


@irdl_op_definition
class DescriptorLoadOp(FieldOp):
    """Load the block at `indices`; elements outside the tensor read the descriptor's padding."""

    name = "tt.descriptor_load"
    desc = operand_def(TensorDescType)
    indices = var_operand_def(i32)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    block = opt_prop_def(UnitAttr, prop_name="xe.block")
    result = result_def(TensorType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$desc `[` $indices `]` custom<Hints>() attr-dict `:` type($desc) `->` type($result)")
    custom_directives: ClassVar = (Hints,)

    def verify_(self) -> None:
        _need_indices(self, self.desc, self.indices)


class DescriptorWriteOp(FieldOp, ABC):
    """Write a block to the tensor of a descriptor."""

    desc = operand_def(TensorDescType)
    src = operand_def(TensorType)
    indices = var_operand_def(i32)

    def verify_(self) -> None:
        _need_indices(self, self.desc, self.indices)


@irdl_op_definition
class DescriptorStoreOp(DescriptorWriteOp):
    """Store the block at `indices`; elements outside the tensor are dropped."""

    name = "tt.descriptor_store"
    block = opt_prop_def(UnitAttr, prop_name="xe.block")
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$desc `[` $indices `]` `,` $src attr-dict `:` type($desc) `,` type($src)"


@irdl_op_definition
class DescriptorReduceOp(DescriptorWriteOp):
    """Combine the block at `indices` with `src`, atomically by element."""

    name = "tt.descriptor_reduce"
    kind = prop_def(KeywordConstraint(REDUCE_KINDS))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "custom<Keyword>($kind) `,` $desc `[` $indices `]` `,` $src attr-dict"
        " `:` type($desc) `,` type($src)"
    )


@irdl_op_definition
class DescriptorGatherOp(FieldOp):
    """Load the rows `x_offsets`, from column `y_offset` on."""

    name = "tt.descriptor_gather"
    desc = operand_def(TensorDescType)
    x_offsets = operand_def(TensorType)
    y_offset = operand_def(i32)
    result = result_def(TensorType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$desc `[` $x_offsets `,` $y_offset `]` attr-dict `:` functional-type(operands, results)"
    )


@irdl_op_definition
class DescriptorScatterOp(FieldOp):
    """Store rows of `src` to the rows `x_offsets`, from column `y_offset` on."""

    name = "tt.descriptor_scatter"
    desc = operand_def(TensorDescType)
    x_offsets = operand_def(TensorType)
    y_offset = operand_def(i32)
    src = operand_def(TensorType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$desc `[` $x_offsets `,` $y_offset `]` `,` $src attr-dict `:` type(operands)"
    )
