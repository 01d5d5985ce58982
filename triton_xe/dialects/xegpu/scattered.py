"""XeGPU ops on scattered memory: one address per work-item.

Offsets count elements.  In the whole-vector flavour offsets, masks and values are vectors with one
entry per work-item.  With an sg_map on the descriptor, values are one work-item's fragment, and
offsets and masks may be that work-item's own scalar (or vector of 1).

Source: the XeGPU RFC, sections on create_tdesc, load_gather, store_scatter, prefetch,
update_offset and atomic_rmw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, IntegerAttr, IntegerType, VectorType, i1
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

from triton_xe.dialects.access_attributes import (
    FLOAT_ATOMICS,
    INTEGER_ATOMICS,
    LOAD_HINTS,
    STORE_HINTS,
    AtomicKindAttr,
    MemoryScopeAttr,
)
from triton_xe.dialects.xegpu.nd import TRANSPOSED, AccessOp, DescriptorOp
from triton_xe.dialects.xegpu.syntax import ADDRESS, is_index, static_values
from triton_xe.dialects.xegpu.types import TensorDescType, value_shapes


def _is_offset(element: Attribute) -> bool:
    return is_index(element, (16, 32, 64))


class ChunkOp(DescriptorOp):
    """An op on one chunk of memory per work-item."""

    SCATTERED: ClassVar = True

    def _verify_per_lane(
        self, what: str, value: SSAValue, kind: str, accepts: Callable[[Attribute], bool]
    ) -> None:
        """Refuse a value that is not a vector of one entry per work-item.

        With an sg_map it may also be the work-item's own entry.
        """
        desc, type_ = self.desc_type, value.type
        lanes, own = desc.get_shape()[0], desc.lane_map is not None
        if isinstance(type_, VectorType):
            fits = type_.get_shape() == (lanes,) or (own and type_.get_shape() == (1,))
            if fits and accepts(type_.element_type):
                return
        elif own and accepts(type_):
            return
        alternative = f", or one {kind}" if own else ""
        self.refuse(f"{what} of {desc} is a vector of {lanes} {kind}{alternative}, not {type_}")

    def verify_offsets(self, offsets: SSAValue) -> None:
        self._verify_per_lane("the offsets", offsets, "index, i16, i32 or i64", _is_offset)

    def verify_mask(self, mask: SSAValue) -> None:
        self._verify_per_lane("the mask", mask, "i1", lambda element: element == i1)


class ChunkAccessOp(AccessOp, ChunkOp):
    """An access to chunks; with transpose = [1, 0] the chunk is the first dimension of a value."""

    def verify_chunks(
        self, what: str, value: SSAValue, mask: SSAValue, transpose: DenseArrayBase | None
    ) -> None:
        """Refuse a mask or a value whose type does not match the descriptor."""
        desc = self.verify_access()
        self.verify_mask(mask)
        order = None if transpose is None else static_values(transpose)
        if order not in (None, (1, 0)):
            self.refuse(f"transpose is [1, 0], not {list(order or ())}")
        if order is not None and desc.chunk_size_per_lane == 1:
            self.refuse(f"transpose needs a chunk_size_per_lane larger than 1, {desc} has 1")
        self.verify_value(what, value, value_shapes(desc, transpose=order is not None))


@irdl_op_definition
class CreateTdescOp(ChunkOp):
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
            self.refuse(
                f"makes scattered descriptors (#xegpu.scattered); the block {desc} comes from"
                " xegpu.create_nd_tdesc"
            )
        self.verify_memref(self.base.type, 1, desc.element_type)
        self.verify_offsets(self.offsets)
        chunk = self.chunk_size_per_lane
        if chunk is not None and chunk.value.data != desc.chunk_size_per_lane:
            self.refuse(
                f"chunk_size_per_lane is {chunk.value.data}, but {desc} has chunks of"
                f" {desc.chunk_size_per_lane}"
            )


@irdl_op_definition
class LoadGatherOp(ChunkAccessOp):
    """Read each work-item's chunk where its mask is set; otherwise the value is undefined.

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
        """Create the op; set `transpose` for chunks of several elements, which need it."""
        type_ = desc.type
        chunks = isinstance(type_, TensorDescType) and type_.chunk_size_per_lane > 1
        super().__init__(desc=desc, transpose=TRANSPOSED if chunks else None, **given)

    def verify_(self) -> None:
        desc = self.verify_desc()
        if desc.rank == 2 and self.transpose is None:
            self.refuse(
                "chunks are loaded with transpose = [1, 0], which puts chunk_size_per_lane first;"
                f" {desc} has chunks of {desc.chunk_size_per_lane}"
            )
        self.verify_chunks("of", self.value, self.mask, self.transpose)


@irdl_op_definition
class StoreScatterOp(ChunkAccessOp):
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
        self.verify_desc()
        self.verify_memory_scope(self.memory_scope)
        self.verify_chunks("for", self.value, self.mask, self.transpose)


@irdl_op_definition
class PrefetchOp(ChunkAccessOp):
    """Prefetch each work-item's chunk into the cache."""

    name = "xegpu.prefetch"
    desc = operand_def(TensorDescType)
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def verify_(self) -> None:
        self.verify_access()


@irdl_op_definition
class UpdateOffsetOp(ChunkOp):
    """Move each work-item's offset of a descriptor by its own number of elements."""

    name = "xegpu.update_offset"
    desc = operand_def(TensorDescType)
    offsets = operand_def()
    moved = result_def(TensorDescType)
    traits = traits_def(Pure())

    def __init__(self, *, desc: SSAValue, offsets: SSAValue) -> None:
        super().__init__(desc=desc, offsets=offsets, moved_type=desc.type)

    def verify_(self) -> None:
        self.verify_moved(self.verify_desc(), self.moved.type)
        self.verify_offsets(self.offsets)


@irdl_op_definition
class AtomicRmwOp(ChunkOp):
    """Combine the value with memory atomically where the mask is set; the result is the old value.

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
        element = self.verify_desc().element_type
        self.verify_mask(self.mask)
        self.verify_value("for", self.value)
        if self.old.type != self.value.type:
            self.refuse(f"returns the type of its value, {self.value.type}, not {self.old.type}")
        kind = self.kind.data
        for kinds, held, name, others, other in (
            (FLOAT_ATOMICS, AnyFloat, "floats", INTEGER_ATOMICS, "integers"),
            (INTEGER_ATOMICS, IntegerType, "integers", FLOAT_ATOMICS, "floats"),
        ):
            if kind in kinds and not isinstance(element, held):
                self.refuse(
                    f"{kind} is for {name}, not {element}; {other} have {', '.join(others)} and"
                    " assign"
                )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kind = AtomicKindAttr(AtomicKindAttr.parse_keyword(parser))
        parser.parse_optional_punctuation(",")
        return cls.parse_rest(parser, {"kind": kind})

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.kind.data}",')
        super().print(printer)
