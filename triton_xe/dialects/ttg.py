"""Dialect `ttg`: the ops that libtriton 3.9.0 adds to `tt` once tensors have layouts.

Names and syntax follow `triton/Dialect/TritonGPU/IR/TritonGPUOps.td` of the installed wheel.  Only
ops that its passes create for an xpu target are defined.  These are layout conversion, shared
memory buffers and their views, copies to them, barriers, warp ids, partitions of specialized warps.
"""

from __future__ import annotations

from abc import ABC
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
    AnyAttr,
    AttrSizedOperandSegments,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    MemoryAllocEffect,
    MemoryFreeEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)

from triton_xe.dialects.layouts import TTG_LAYOUTS
from triton_xe.dialects.text.assembly import (
    ANY,
    FieldOp,
    KeywordConstraint,
    bool_like,
    ops_of,
)
from triton_xe.dialects.tt.memory import MASK, RMW_KINDS, LoadOp
from triton_xe.dialects.tt.ops import ConversionOp
from triton_xe.dialects.tt.structure import LeaveOp
from triton_xe.dialects.tt.types import pointee_type


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


@irdl_attr_definition
class AsyncTokenType(ParametrizedAttribute, TypeAttribute):
    """Token of an asynchronous copy."""

    name = "ttg.async.token"


def _dims(shape: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(n) for n in shape])


@irdl_op_definition
class ConvertLayoutOp(ConversionOp):
    """Convert a tensor to another layout.

    With `xe.shared`, it is left in shared memory, from where uses in the block read its elements.
    """

    name = "ttg.convert_layout"
    force_warp_shuffle = opt_prop_def(UnitAttr)
    shared = opt_prop_def(UnitAttr, prop_name="xe.shared")

    def verify_(self) -> None:
        source, result = self.src.type, self.result.type
        if not isinstance(source, TensorType) or not isinstance(result, TensorType):
            self.refuse("source and result must be tensors")
        if (source.shape, source.element_type) != (result.shape, result.element_type):
            self.refuse("only the layout may change")


# Buffers in shared memory


@irdl_op_definition
class LocalAllocOp(FieldOp):
    """Allocate a buffer in shared memory, optionally initialised with a tensor."""

    name = "ttg.local_alloc"
    src = opt_operand_def(TensorType)
    alignment = opt_prop_def(IntegerAttr)
    result = result_def(MemDescType)
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "$src attr-dict `:` functional-type($src, $result)"


@irdl_op_definition
class LocalDeallocOp(FieldOp):
    name = "ttg.local_dealloc"
    src = operand_def(MemDescType)
    traits = traits_def(MemoryFreeEffect())
    assembly_format = "$src attr-dict `:` type($src)"


@irdl_op_definition
class LocalLoadOp(ConversionOp):
    """Read a buffer into a tensor."""

    name = "ttg.local_load"
    token = opt_operand_def(AsyncTokenType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$src (`token` $token^)? attr-dict `:` type($src) `->` type($result)"


@irdl_op_definition
class LocalStoreOp(FieldOp):
    """Write a tensor to a buffer."""

    name = "ttg.local_store"
    src = operand_def(TensorType)
    dst = operand_def(MemDescType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$src `,` $dst attr-dict `:` type($src) `->` type($dst)"


@irdl_op_definition
class MemDescIndexOp(FieldOp):
    """The view of element `index` along dimension 0."""

    name = "ttg.memdesc_index"
    src = operand_def(MemDescType)
    index = operand_def(i32)
    result = result_def(MemDescType)
    traits = traits_def(Pure())
    assembly_format = "$src `[` $index `]` attr-dict `:` type($src) `->` type($result)"


@irdl_op_definition
class MemDescTransOp(ConversionOp):
    """View of the same memory with its dimensions permuted."""

    name = "ttg.memdesc_trans"
    order = prop_def(DenseArrayBase)


@irdl_op_definition
class MemDescReshapeOp(ConversionOp):
    name = "ttg.memdesc_reshape"


@irdl_op_definition
class MemDescReinterpretOp(ConversionOp):
    name = "ttg.memdesc_reinterpret"


@irdl_op_definition
class MemDescSubsliceOp(FieldOp):
    """The view of a smaller shape at constant offsets: `%src[0, 16]`."""

    name = "ttg.memdesc_subslice"
    src = operand_def(MemDescType)
    offsets = prop_def(DenseArrayBase.constr(i32))
    result = result_def(MemDescType)
    traits = traits_def(Pure())
    assembly_format = "$src `` $offsets attr-dict `:` type($src) `->` type($result)"


@irdl_op_definition
class LocalGatherOp(FieldOp):
    """Read a buffer at `indices` along `axis`."""

    name = "ttg.local_gather"
    src = operand_def(MemDescType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$src `[` $indices `]` attr-dict `:` type(operands) `->` type($result)"


@irdl_op_definition
class LocalScatterOp(FieldOp):
    """Write `values` to a buffer at `indices` along `axis`."""

    name = "ttg.local_scatter"
    dst = operand_def(MemDescType)
    values = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$dst `[` $indices `]` `,` $values attr-dict"
        " `:` type($dst) `,` type($indices) `,` type($values)"
    )


@irdl_op_definition
class LocalAtomicScatterRMWOp(FieldOp):
    """Combine `values` with a buffer at `indices` along `axis`; the result is the old values."""

    name = "ttg.local_atomic_scatter_rmw"
    atomic_rmw_op = prop_def(KeywordConstraint(RMW_KINDS))
    dst = operand_def(MemDescType)
    values = operand_def(TensorType)
    indices = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "custom<Keyword>($atomic_rmw_op) `,` $dst `[` $indices `]` `,` $values (`,` $mask^)?"
        " attr-dict `:` functional-type(operands, $result)"
    )

    @property
    def kind(self) -> str:
        assert isinstance(self.atomic_rmw_op, StringAttr)
        return self.atomic_rmw_op.data


# Copies that run while the program goes on


@irdl_op_definition
class AsyncCopyGlobalToLocalOp(FieldOp):
    """Copy from pointers into a buffer; `other`, or zero, where `mask` is false."""

    name = "ttg.async_copy_global_to_local"
    src = operand_def(ANY)
    dst = operand_def(MemDescType)
    mask = opt_operand_def(MASK)
    other = opt_operand_def(LoadOp.POINTEE)
    cache_policy = opt_prop_def(AnyAttr(), prop_name="cachePolicy")
    is_volatile = opt_prop_def(BoolAttr, prop_name="isVolatile")
    contiguity = opt_prop_def(IntegerAttr)
    token = result_def(AsyncTokenType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """`%p, %b mask %m other %o {...} : type(%p) -> <memdesc without its name>`."""
        src = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        dst = parser.parse_unresolved_operand()
        given = [parser.parse_unresolved_operand() if parser.parse_optional_keyword(word) else None
                 for word in ("mask", "other")]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        parser.parse_punctuation("->")
        bare = parser._current_token.text == "<"
        buffer = (MemDescType.new(MemDescType.parse_parameters(parser)) if bare
                  else parser.parse_type())
        kinds = bool_like(kind), pointee_type(kind)
        optional = [() if one is None else (parser.resolve_operand(one, its),)
                    for one, its in zip(given, kinds, strict=True)]
        named = ("cachePolicy", "isVolatile", "contiguity")
        op = cls(
            operands=[parser.resolve_operand(src, kind), parser.resolve_operand(dst, buffer),
                      *optional],
            result_types=[AsyncTokenType()],
            properties={name: attributes.pop(name) for name in named if name in attributes},
        )
        op.attributes = attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.src, self.dst), printer.print_ssa_value)
        for word, value in (("mask", self.mask), ("other", self.other)):
            if value is not None:
                printer.print_string(f" {word} ")
                printer.print_ssa_value(value)
        shown = {k: v for k, v in self.properties.items() if k != "operandSegmentSizes"}
        printer.print_op_attributes({**shown, **self.attributes})
        printer.print_string(" : ")
        printer.print_attribute(self.src.type)
        printer.print_string(" -> ")
        assert isinstance(self.dst.type, MemDescType)
        self.dst.type.print_parameters(printer)


class TokenOp(FieldOp, ABC):
    """Take tokens of copies, and return a token."""

    tokens = var_operand_def(AsyncTokenType)
    result = result_def(AsyncTokenType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$tokens attr-dict"


@irdl_op_definition
class AsyncCommitGroupOp(TokenOp):
    """Make a group of the copies since the last group."""

    name = "ttg.async_commit_group"
    assembly_format = "(`tokens` $tokens^)? attr-dict"


@irdl_op_definition
class AsyncWaitOp(TokenOp):
    """Wait until at most `num` groups of copies are pending."""

    name = "ttg.async_wait"
    num = prop_def(IntegerAttr)


@irdl_op_definition
class InlineAsmOp(FieldOp):
    """Assembly of the target, executed by each lane on all of its registers."""

    name = "ttg.inline_asm"
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(BoolAttr)
    arguments = var_operand_def()
    res = var_result_def()
    assembly_format = "$asm_string attr-dict $arguments `:` functional-type($arguments, $res)"


@irdl_op_definition
class Fp4ToFpOp(ConversionOp):
    """Unpack pairs of 4-bit floats (e2m1) along `axis`, the low half first."""

    name = "ttg.fp4_to_fp"
    axis = prop_def(IntegerAttr)


@irdl_op_definition
class BarrierOp(FieldOp):
    """Wait for all subgroups of the work-group; accesses to the named memories become visible.

    The syntax is `ttg.barrier local|global_write`; the set is printed in the order it was written.
    """

    name = "ttg.barrier"
    spaces = prop_def(StringAttr, prop_name="addrSpace")
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    SPACES: ClassVar = (
        "none", "local", "global_read", "global_write", "tensor_read", "tensor_write", "all",
    )  # fmt: skip

    def __init__(self, *spaces: str) -> None:
        super().__init__(properties={"addrSpace": StringAttr("|".join(spaces))})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names = parser.parse_list(
            parser.Delimiter.NONE, lambda: parser.parse_keyword_in(cls.SPACES), "|"
        )
        op = cls(*names)
        op.attributes = parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.spaces.data}")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if unknown := set(self.spaces.data.split("|")) - set(self.SPACES):
            self.refuse(f"unknown memories {', '.join(sorted(unknown))}")


@irdl_op_definition
class WarpIdOp(FieldOp):
    """The number of this subgroup in its work-group."""

    name = "ttg.warp_id"
    omit_uniform_hint = opt_prop_def(UnitAttr, prop_name="omitUniformHint")
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"


@irdl_op_definition
class WarpYieldOp(LeaveOp):
    """Return the results of the default partition."""

    name = "ttg.warp_yield"


@irdl_op_definition
class WarpReturnOp(FieldOp):
    """End a partition other than the default one."""

    name = "ttg.warp_return"
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"


def _located_argument(parser: Parser) -> Parser.Argument:
    argument = parser.parse_argument()
    parser.parse_optional_location()
    return argument


@irdl_op_definition
class WarpSpecializeOp(FieldOp):
    """A default partition, whose results are the op's results, and others with warps of their own.

    The other partitions get the captures as the arguments of their blocks.
    """

    name = "ttg.warp_specialize"
    captures = var_operand_def()
    warp_counts = prop_def(DenseArrayBase)
    res = var_result_def()
    default = region_def()
    partitions = var_region_def()

    @property
    def warps(self) -> tuple[int, ...]:
        """Number of warps of each partition but the default one."""
        return tuple(self.warp_counts.get_values())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        captures = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_keyword("default")
        regions, counts = [parser.parse_region()], list[int]()
        while parser.parse_optional_keyword(f"partition{len(counts)}") is not None:
            arguments = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _located_argument(parser))
            parser.parse_keyword("num_warps")
            with parser.in_parens():
                counts.append(parser.parse_integer())
            regions.append(parser.parse_region(arguments))
        parser.parse_punctuation(":")
        kind = parser.parse_function_type()
        made = cls.create(
            operands=parser.resolve_operands(captures, kind.inputs.data, parser.pos),
            result_types=list(kind.outputs), regions=regions,
            properties={"warp_counts": DenseArrayBase.from_list(i32, counts)})
        made.attributes |= {} if attributes is None else attributes.data
        return made

    def print(self, printer: Printer) -> None:
        printer.print_string("(")
        printer.print_list(self.captures, printer.print_operand)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" default ")
        printer.print_region(self.default)
        for number, (count, region) in enumerate(zip(self.warps, self.partitions, strict=True)):
            printer.print_string(f" partition{number}(")
            printer.print_list(region.block.args, printer.print_block_argument)
            printer.print_string(f") num_warps({count}) ")
            printer.print_region(region, print_entry_block_args=False)
        printer.print_string(" : ")
        printer.print_operation_type(self)

    def verify_(self) -> None:
        if len(self.warps) != len(self.partitions):
            self.refuse(f"{len(self.partitions)} partitions, warps of {len(self.warps)}")
        if any(region.block.arg_types != tuple(self.captures.types) for region in self.partitions):
            self.refuse("the captures are the arguments of each partition")
        yielded = self.default.block.last_op
        if yielded is None or tuple(yielded.operand_types) != tuple(self.result_types):
            self.refuse("the default partition yields the results")


TTG = Dialect(
    "ttg", ops_of(globals()), [*TTG_LAYOUTS, SharedMemoryAttr, MemDescType, AsyncTokenType]
)
