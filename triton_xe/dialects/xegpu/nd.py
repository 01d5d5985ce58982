"""XeGPU ops on blocks: one descriptor, one message for the whole subgroup.

Source: the XeGPU RFC, sections on create_nd_tdesc, load_nd, store_nd, prefetch_nd and
update_nd_offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    VectorType,
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
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from triton_xe.dialects.access_attributes import LOAD_HINTS, STORE_HINTS, MemoryScopeAttr
from triton_xe.dialects.xegpu.syntax import (
    HintedOp,
    Index,
    IndexedOp,
    PlacedOp,
    TileOp,
    static_array,
    static_values,
)
from triton_xe.dialects.xegpu.types import TensorDescType, value_shapes, vnni_factor
from triton_xe.hardware import block_2d
from triton_xe.hardware.target import Target

TRANSPOSED = static_array((1, 0))
LEAST_PITCH, LARGEST_PITCH = 64, (1 << 24) - 16
"""Bytes of the least and the largest pitch of a surface on all devices; the least is also a width.
"""


class DescriptorOp(TileOp):
    """An op that creates or takes a tensor descriptor."""

    SCATTERED: ClassVar = False

    @property
    def desc_type(self) -> TensorDescType:
        types = (*self.operand_types, *self.result_types)
        return next(type_ for type_ in types if isinstance(type_, TensorDescType))

    def verify_desc(self) -> TensorDescType:
        """Refuse a block descriptor where a scattered one is needed, and vice versa."""
        desc = self.desc_type
        if desc.scattered and not self.SCATTERED:
            self.refuse(f"takes a block from xegpu.create_nd_tdesc, not the scattered {desc}")
        if self.SCATTERED and not desc.scattered:
            self.refuse(
                f"takes a scattered descriptor from xegpu.create_tdesc, not the block {desc}"
            )
        return desc

    def verify_moved(self, before: Attribute, after: Attribute) -> None:
        if before != after:
            self.refuse(f"moving keeps the type of the descriptor; {before} became {after}")

    def verify_memory_scope(self, scope: MemoryScopeAttr | None) -> None:
        held = self.desc_type.memory_scope
        if scope is not None and scope.data != held:
            self.refuse(f"memory_scope is {scope.data}, but the descriptor's is {held}")

    def verify_value(
        self, what: str, value: SSAValue, shapes: Sequence[tuple[int, ...]] | None = None
    ) -> None:
        """Refuse a value of another shape or element type; `what` is "of" a read, "for" a write."""
        desc = self.desc_type
        self.verify_vector(
            f"the value {what} {desc}", value.type, shapes or value_shapes(desc), desc.element_type
        )


class AccessOp(HintedOp, DescriptorOp):
    """An access through a tensor descriptor."""

    def verify_access(self) -> TensorDescType:
        """Refuse other descriptors and hints, and a valid part that is larger than the block."""
        desc = self.verify_desc()
        valid = self.properties.get("xe.valid")
        if isinstance(valid, DenseArrayBase):
            used, shape = static_values(valid), desc.get_shape()
            if len(used) != len(shape) or any(not 0 < n <= shape[d] for d, n in enumerate(used)):
                self.refuse(f"xe.valid = {used} is no part of {desc}")
        self.verify_hints()
        return desc


@irdl_op_definition
class CreateNdTdescOp(PlacedOp, DescriptorOp):
    """Describe a block of an n-dimensional tensor; for n > 2 it is a list of 2D blocks.

    Offsets, shape and strides count elements, outermost dimension first.  The base tensor is a
    memref, or an address with its shape and strides; a 1D block at an address may leave them out.

        %t = xegpu.create_nd_tdesc %base, %y, %x, %h, %w, %pitch, 1
             : ui64, index, index, index, index, index -> !xegpu.tensor_desc<8x16xbf16>

    Attributes of this project: with `xe.gather`, the block is moved by gathers.  With
    `xe.transposed`, elements along its rows are one pitch from each other in memory, and elements
    along its columns are adjacent.  `xe.base_alignment` is the known alignment of the base address,
    in bytes.
    """

    name = "xegpu.create_nd_tdesc"
    LISTS: ClassVar = ("offsets", "shape", "strides")
    static_offsets = prop_def(DenseArrayBase)
    static_shape = prop_def(DenseArrayBase)
    static_strides = prop_def(DenseArrayBase)
    gather_transposed = opt_prop_def(UnitAttr, prop_name="xe.transposed")
    desc = result_def(TensorDescType)
    traits = traits_def(Pure())

    @property
    def shape(self) -> tuple[Index, ...]:
        """Shape of the base tensor; empty if the memref has it or a 1D block needs none."""
        return self.index_lists[1]

    @property
    def strides(self) -> tuple[Index, ...]:
        return self.index_lists[2]

    def verify_(self) -> None:
        self.verify_indices()
        desc = self.desc_type
        if desc.scattered:
            self.refuse("makes blocks; a scattered descriptor comes from xegpu.create_tdesc")
        if desc.rank == 1 and desc.boundary_check:
            self.refuse(
                "a 1D descriptor needs boundary_check = false; nothing checks the bounds of a 1D"
                " access"
            )
        self.verify_alignment()
        if self.gather_transposed is not None and self.gather is None:
            self.refuse("only gathers take xe.transposed")
        offsets, shape, strides = self.static_lists
        if len(offsets) != desc.rank:
            self.refuse(
                f"a {desc.rank}D descriptor takes {desc.rank} offsets, not {len(offsets)}"
            )
        self._verify_base(desc, (len(shape), len(strides)))
        if strides and strides[-1] not in (1, DYNAMIC_INDEX):
            self.refuse(f"the stride of the innermost dimension must be 1, not {strides[-1]}")

    def _verify_base(self, desc: TensorDescType, counts: tuple[int, int]) -> None:
        memref, rank = self.base.type, desc.rank
        self.verify_memref(memref, rank, desc.element_type)
        optional = memref.has_static_shape() if isinstance(memref, MemRefType) else rank == 1
        if counts == (rank, rank) or (optional and counts == (0, 0)):
            return
        none = "none or " if optional else ""
        self.refuse(
            f"a {rank}D descriptor at {memref} takes {none}{rank} sizes and {rank} strides of the"
            f" base tensor, not {counts[0]} and {counts[1]}"
        )

    @classmethod
    def lists_of(
        cls, parser: Parser, flat: list[Index], result: Attribute
    ) -> Sequence[Sequence[Index]]:
        if not isinstance(result, TensorDescType):
            parser.raise_error(f"{cls.name} makes a !xegpu.tensor_desc, not {result}")
        n = result.rank
        if n == 2 and len(flat) == 5:
            flat.append(1)
        if len(flat) not in (n, 3 * n):
            parser.raise_error(
                f"{cls.name} takes {n} offsets, alone or with {n} sizes and {n} strides; these are"
                f" {len(flat)} numbers"
            )
        return flat[:n], flat[n : 2 * n], flat[2 * n :]


def broken_rule(op: CreateNdTdescOp, device: Target) -> str | None:
    """The rule that keeps 2D messages of a device from a surface, by constants of the op alone."""
    if not device.has_block_2d:
        return f"{device.name} has no 2D block messages"
    bits, columns, pitch = op.desc_type.element_bits, op.shape[-1], op.strides[-2]

    def in_bytes(value: Index, otherwise: int) -> int:
        return value * bits // 8 if isinstance(value, int) else otherwise

    if any(in_bytes(stride, 0) % block_2d.OFFSET_BYTES for stride in op.strides[:-2]):
        return f"an outer stride is not a multiple of {block_2d.OFFSET_BYTES} bytes"
    return block_2d.check_surface(
        width_bytes=in_bytes(columns, LEAST_PITCH), pitch_bytes=in_bytes(pitch, LARGEST_PITCH),
        height=1, element_bits=max(bits, 8), needed=block_2d.alignment(device))


@irdl_op_definition
class LoadNdOp(AccessOp):
    """Read a block; elements outside the base tensor read as zero.

    packed: rows are packed into 32 bits (VNNI).  transpose = [1, 0] exchanges the dimensions, in
    units of transpose_bit_width bits if that is given.

    Attributes of this project: only the `xe.valid` rows and columns are loaded, the others read as
    zero.
    """

    name = "xegpu.load_nd"
    desc = operand_def(TensorDescType)
    packed = opt_prop_def(UnitAttr)
    transpose = opt_prop_def(DenseArrayBase)
    transpose_bit_width = opt_prop_def(IntegerAttr)
    valid = opt_prop_def(DenseArrayBase, prop_name="xe.valid")
    value = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def __init__(
        self, *, packed: bool = False, transpose: bool = False, transpose_bit_width: int = 0,
        **given: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            packed=packed,
            transpose=TRANSPOSED if transpose else None,
            transpose_bit_width=transpose_bit_width or None,
            **given,
        )

    @property
    def unit_bits(self) -> int:
        """The value of transpose_bit_width, or 0."""
        width = self.transpose_bit_width
        return 0 if width is None else width.value.data

    def verify_(self) -> None:
        desc = self.verify_access()
        packed, transposed = self.packed is not None, self.transpose is not None
        if packed:
            self._verify_packed(desc)
        if self.transpose is not None:
            self._verify_transpose(desc, static_values(self.transpose))
        if self.unit_bits:
            self._verify_unit(desc)
        self.verify_value("of", self.value, value_shapes(desc, packed, transposed, self.unit_bits))

    def _verify_packed(self, desc: TensorDescType) -> None:
        if self.transpose is not None:
            self.refuse(
                "packed (VNNI) and transpose cannot be combined; use transpose with"
                " transpose_bit_width = 32"
            )
        factor, element = vnni_factor(desc.element_type), desc.element_type
        if factor == 1:
            self.refuse(f"packed (VNNI) is for elements of less than 32 bits, not {element}")
        if desc.rank < 2 or desc.get_shape()[-2] % factor:
            self.refuse(
                f"packed (VNNI) needs a 2D block whose rows are a multiple of {factor}, not {desc}"
            )
        lanes = desc.lane_map
        if lanes is not None and lanes.data[0] != factor:
            self.refuse(
                f"with packed, wi_data[0] must be the VNNI factor {factor} of {element},"
                f" not {lanes.data[0]}"
            )

    def _verify_transpose(self, desc: TensorDescType, order: tuple[int, ...]) -> None:
        swapped = (*range(desc.rank - 2), desc.rank - 1, desc.rank - 2)
        if order != swapped or desc.rank < 2:
            self.refuse(
                "transpose is [1, 0] and needs a 2D block (of more dimensions, it swaps the last"
                f" two), not {list(order)} of {desc}"
            )
        lanes = desc.lane_map
        if lanes is not None and lanes.layout[1] != 1:
            self.refuse(
                "with transpose, the work-items are along the rows:"
                f" wi_layout = [{lanes.lanes}, 1], not {list(lanes.layout)}"
            )

    def _verify_unit(self, desc: TensorDescType) -> None:
        if self.transpose is None:
            self.refuse("transpose_bit_width needs transpose = [1, 0]")
        bits, row_bits = desc.element_bits, desc.get_shape()[-1] * desc.element_bits
        if self.unit_bits % bits or row_bits % self.unit_bits:
            self.refuse(
                f"transpose_bit_width is a multiple of the element's {bits} bits that divides a row"
                f" of {row_bits} bits, not {self.unit_bits}"
            )


@irdl_op_definition
class StoreNdOp(AccessOp):
    """Write a block; elements outside the base tensor are dropped.

    Attribute of this project: only the `xe.valid` rows and columns are written.
    """

    name = "xegpu.store_nd"
    value = operand_def(VectorType)
    desc = operand_def(TensorDescType)
    valid = opt_prop_def(DenseArrayBase, prop_name="xe.valid")
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = STORE_HINTS

    def verify_(self) -> None:
        self.verify_access()
        self.verify_value("for", self.value)


@irdl_op_definition
class PrefetchNdOp(AccessOp):
    """Prefetch a block into the cache; elements outside the base tensor are ignored."""

    name = "xegpu.prefetch_nd"
    desc = operand_def(TensorDescType)
    memory_scope = opt_prop_def(MemoryScopeAttr)
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def verify_(self) -> None:
        self.verify_access()
        self.verify_memory_scope(self.memory_scope)


@irdl_op_definition
class UpdateNdOffsetOp(IndexedOp, DescriptorOp):
    """Move a block descriptor by a number of elements in each dimension."""

    name = "xegpu.update_nd_offset"
    desc = operand_def(TensorDescType)
    static_offsets = prop_def(DenseArrayBase)
    moved = result_def(TensorDescType)
    traits = traits_def(Pure())

    def __init__(self, *, desc: SSAValue, offsets: Sequence[Index]) -> None:
        super().__init__(desc=desc, offsets=offsets, moved_type=desc.type)

    def verify_(self) -> None:
        desc = self.verify_desc()
        self.verify_indices()
        self.verify_moved(desc, self.moved.type)
        count = len(self.static_lists[0])
        if count != desc.rank:
            self.refuse(f"a {desc.rank}D descriptor moves by {desc.rank} offsets, not {count}")
