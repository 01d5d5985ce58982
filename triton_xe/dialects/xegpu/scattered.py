"""XeGPU ops on scattered memory: one address per work-item.

Offsets count elements.  In the whole-vector flavour offsets, masks and values are vectors with one
entry per work-item; with an sg_map on the descriptor, values are one work-item's fragment, and
offsets and masks may be that work-item's own scalar (or vector of 1).

Source: the XeGPU RFC, sections on create_tdesc, load_gather, store_scatter, prefetch,
update_offset and atomic_rmw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.access_attributes import (
    FLOAT_ATOMICS,
    INTEGER_ATOMICS,
    LOAD_HINTS,
    STORE_HINTS,
    AtomicKindAttr,
    MemoryScopeAttr,
)
from triton_xe.dialects.xegpu.nd import (
    TRANSPOSED,
    AccessOp,
    DescriptorOp,
    verify_memory_scope,
    verify_memref,
    verify_same_desc,
)
from triton_xe.dialects.xegpu.syntax import ADDRESS, is_index, static_values, verify_vector
from triton_xe.dialects.xegpu.types import TensorDescType, value_shapes


def verify_scattered(name: str, type_: Attribute) -> TensorDescType:
    assert isinstance(type_, TensorDescType)
    if not type_.scattered:
        raise VerifyException(
            f"{name}: takes a scattered descriptor from xegpu.create_tdesc, not the block {type_}"
        )
    return type_


def _verify_per_lane(
    name: str,
    what: str,
    type_: Attribute,
    desc: TensorDescType,
    kind: str,
    accepts: Callable[[Attribute], bool],
) -> None:
    """Refuse anything but one entry per work-item, or the work-item's own with an sg_map."""
    lanes = desc.get_shape()[0]
    own = desc.lane_map is not None
    if isinstance(type_, VectorType):
        fits = type_.get_shape() == (lanes,) or (own and type_.get_shape() == (1,))
        if fits and accepts(type_.element_type):
            return
    elif own and accepts(type_):
        return
    alternative = f", or one {kind}" if own else ""
    raise VerifyException(
        f"{name}: {what} of {desc} is a vector of {lanes} {kind}{alternative}, not {type_}"
    )


def _is_offset(element: Attribute) -> bool:
    return is_index(element, (16, 32, 64))


def _verify_offsets(name: str, type_: Attribute, desc: TensorDescType) -> None:
    _verify_per_lane(name, "the offsets", type_, desc, "index, i16, i32 or i64", _is_offset)


def _verify_mask(name: str, type_: Attribute, desc: TensorDescType) -> None:
    _verify_per_lane(name, "the mask", type_, desc, "i1", lambda element: element == i1)


@irdl_op_definition
class CreateTdescOp(DescriptorOp):
    """Describe one chunk of memory per work-item: base plus that work-item's offset.

    %t = xegpu.create_tdesc %base, %offsets : ui64, vector<16xindex>
         -> !xegpu.tensor_desc<16x8xui16, memory_scope = slm, #xegpu.scattered>
    """

    name = "xegpu.create_tdesc"
    base = operand_def(ADDRESS)
    offsets = operand_def()
    chunk_size_per_lane = opt_prop_def(IntegerAttr)
    desc = result_def(TensorDescType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        desc = self.desc_type
        if not desc.scattered:
            raise VerifyException(
                f"{self.name}: makes scattered descriptors (#xegpu.scattered); the block {desc}"
                " comes from xegpu.create_nd_tdesc"
            )
        if isinstance(self.base.type, MemRefType):
            verify_memref(self.name, self.base.type, 1, desc.element_type)
        _verify_offsets(self.name, self.offsets.type, desc)
        chunk = self.chunk_size_per_lane
        if chunk is not None and chunk.value.data != desc.chunk_size_per_lane:
            raise VerifyException(
                f"{self.name}: chunk_size_per_lane is {chunk.value.data}, but {desc} has chunks of"
                f" {desc.chunk_size_per_lane}"
            )


@irdl_op_definition
class LoadGatherOp(AccessOp):
    """Read each work-item's chunk where its mask is set; elsewhere the value is undefined.

    With chunks of more than one element the value is transposed: [chunk, work-items].
    """

    name = "xegpu.load_gather"
    desc = operand_def(TensorDescType)
    mask = operand_def()
    transpose = opt_prop_def(DenseArrayBase)
    value = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def __init__(self, *, desc: SSAValue, **given: Any) -> None:
        """`transpose` is set where the descriptor has chunks, as the verifier demands."""
        type_ = desc.type
        chunks = isinstance(type_, TensorDescType) and type_.chunk_size_per_lane > 1
        super().__init__(desc=desc, transpose=TRANSPOSED if chunks else None, **given)

    def verify_(self) -> None:
        desc = verify_scattered(self.name, self.desc.type)
        self.verify_hints()
        _verify_mask(self.name, self.mask.type, desc)
        _verify_transpose(self.name, self.transpose, desc)
        if desc.rank == 2 and self.transpose is None:
            raise VerifyException(
                f"{self.name}: chunks are loaded with transpose = [1, 0], which puts"
                f" chunk_size_per_lane first; {desc} has chunks of {desc.chunk_size_per_lane}"
            )
        shapes = value_shapes(desc, transpose=self.transpose is not None)
        verify_vector(self.name, f"the value of {desc}", self.value.type, shapes, desc.element_type)


def _verify_transpose(name: str, transpose: DenseArrayBase | None, desc: TensorDescType) -> None:
    if transpose is None:
        return
    if static_values(transpose) != (1, 0):
        raise VerifyException(f"{name}: transpose is [1, 0], not {list(static_values(transpose))}")
    if desc.chunk_size_per_lane == 1:
        raise VerifyException(
            f"{name}: transpose needs a chunk_size_per_lane larger than 1, {desc} has 1"
        )


@irdl_op_definition
class StoreScatterOp(AccessOp):
    """Write each work-item's chunk where its mask is set.

    Chunks are [work-items, chunk], or [chunk, work-items] with transpose = [1, 0].
    """

    name = "xegpu.store_scatter"
    value = operand_def(VectorType)
    desc = operand_def(TensorDescType)
    mask = operand_def()
    transpose = opt_prop_def(DenseArrayBase)
    memory_scope = opt_prop_def(MemoryScopeAttr)
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = STORE_HINTS

    def __init__(self, *, transpose: bool = False, **given: Any) -> None:
        super().__init__(transpose=TRANSPOSED if transpose else None, **given)

    def verify_(self) -> None:
        desc = verify_scattered(self.name, self.desc.type)
        self.verify_hints()
        verify_memory_scope(self.name, self.memory_scope, desc)
        _verify_mask(self.name, self.mask.type, desc)
        _verify_transpose(self.name, self.transpose, desc)
        shapes = value_shapes(desc, transpose=self.transpose is not None)
        verify_vector(
            self.name, f"the value for {desc}", self.value.type, shapes, desc.element_type
        )


@irdl_op_definition
class PrefetchOp(AccessOp):
    """Bring each work-item's chunk into the cache."""

    name = "xegpu.prefetch"
    desc = operand_def(TensorDescType)
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def verify_(self) -> None:
        verify_scattered(self.name, self.desc.type)
        self.verify_hints()


@irdl_op_definition
class UpdateOffsetOp(DescriptorOp):
    """The same descriptor, each work-item moved by its own number of elements."""

    name = "xegpu.update_offset"
    desc = operand_def(TensorDescType)
    offsets = operand_def()
    moved = result_def(TensorDescType)
    traits = traits_def(Pure())

    def __init__(self, *, desc: SSAValue, offsets: SSAValue) -> None:
        super().__init__(desc=desc, offsets=offsets, moved_type=desc.type)

    def verify_(self) -> None:
        desc = verify_scattered(self.name, self.desc.type)
        verify_same_desc(self.name, desc, self.moved.type)
        _verify_offsets(self.name, self.offsets.type, desc)


@irdl_op_definition
class AtomicRmwOp(DescriptorOp):
    """Combine the value with memory atomically where the mask is set; returns what was there.

    %old = xegpu.atomic_rmw "addf", %value, %desc, %mask
           : vector<16xf32>, !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1>
           -> vector<16xf32>
    """

    name = "xegpu.atomic_rmw"
    HIDDEN: ClassVar = ("kind",)
    value = operand_def(VectorType)
    desc = operand_def(TensorDescType)
    mask = operand_def()
    kind = prop_def(AtomicKindAttr)
    old = result_def(VectorType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, *, value: SSAValue, **given: Any) -> None:
        super().__init__(value=value, old_type=value.type, **given)

    def verify_(self) -> None:
        desc = verify_scattered(self.name, self.desc.type)
        _verify_mask(self.name, self.mask.type, desc)
        element = desc.element_type
        verify_vector(
            self.name, f"the value for {desc}", self.value.type, value_shapes(desc), element
        )
        if self.old.type != self.value.type:
            raise VerifyException(
                f"{self.name}: returns the type of its value, {self.value.type},"
                f" not {self.old.type}"
            )
        kind = self.kind.data
        if kind in FLOAT_ATOMICS and not isinstance(element, AnyFloat):
            raise VerifyException(
                f"{self.name}: {kind} is for floats, not {element}; integers have"
                f" {', '.join(INTEGER_ATOMICS)} and assign"
            )
        if kind in INTEGER_ATOMICS and not isinstance(element, IntegerType):
            raise VerifyException(
                f"{self.name}: {kind} is for integers, not {element}; floats have"
                f" {', '.join(FLOAT_ATOMICS)} and assign"
            )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kind = AtomicKindAttr(AtomicKindAttr.parse_keyword(parser))
        parser.parse_optional_punctuation(",")
        return cls.parse_rest(parser, {"kind": kind})

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.kind.data}",')
        super().print(printer)
