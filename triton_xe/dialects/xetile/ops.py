"""The ops of XeTile: make and move tiles, load, store, prefetch and multiply them.

Source: the RFC for XeTile and XeGPU, section "XeTile Dialect"; see `triton_xe.dialects.xetile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    MemRefType,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from triton_xe.dialects.access_attributes import LOAD_HINTS, STORE_HINTS
from triton_xe.dialects.xegpu.dpas import scaled_reason
from triton_xe.dialects.xegpu.syntax import (
    HintedOp,
    Index,
    IndexedOp,
    PlacedOp,
    TileOp,
    static_values,
    with_result_of_acc,
)
from triton_xe.dialects.xegpu.types import bit_width, vector_type
from triton_xe.dialects.xetile.types import TileType, as_tile, register_shape


class OnTileOp(TileOp):
    """An op that creates or takes a tile."""

    @property
    def tile_type(self) -> TileType:
        types = (*self.operand_types, *self.result_types)
        return next(type_ for type_ in types if isinstance(type_, TileType))


# Tiles; no memory is touched


@irdl_op_definition
class InitTileOp(PlacedOp, OnTileOp):
    """Create a tile of a base tensor.

    Offsets (row, column), sizes (rows, columns of the base tensor) and stride (of its leading
    dimension) count elements.  A memref of static shape implies its sizes and stride.
    """

    name = "xetile.init_tile"
    LISTS: ClassVar = ("offsets", "sizes", "stride")
    static_offsets = prop_def(DenseArrayBase)
    static_sizes = prop_def(DenseArrayBase)
    static_stride = prop_def(DenseArrayBase)
    tile = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, *, stride: Index | None = None, **given: Any) -> None:
        super().__init__(stride=() if stride is None else (stride,), **given)

    @property
    def sizes(self) -> tuple[Index, ...]:
        """Rows and columns of the base tensor; empty if the memref has them."""
        return self.index_lists[1]

    @property
    def stride(self) -> Index | None:
        """Elements from one row (column, if column-major) to the next; None if the memref has
        it.
        """
        return next(iter(self.index_lists[2]), None)

    def verify_(self) -> None:
        self.verify_indices()
        counts = tuple(len(numbers) for numbers in self.static_lists)
        memref = self.base.type
        optional = isinstance(memref, MemRefType) and memref.has_static_shape()
        if counts != (2, 2, 1) and not (optional and counts == (2, 0, 0)):
            self.refuse(
                "takes 2 offsets, 2 sizes and 1 stride (a memref of static shape may do without"
                f" sizes and stride), not {counts[0]}, {counts[1]} and {counts[2]}"
            )
        self.verify_alignment()
        tile = self.tile_type
        self.verify_memref(memref, 2, tile.element_type)
        if isinstance(memref, MemRefType) and not tile.row_major:
            self.refuse(f"a memref is row-major, so are its tiles, not {tile}")
        for least, sizes in enumerate(self.static_lists[1:]):
            wrong = [size for size in sizes if size < least and size != DYNAMIC_INDEX]
            if wrong:
                self.refuse(f"sizes are not negative and the stride is positive, not {wrong[0]}")

    @classmethod
    def lists_of(
        cls, parser: Parser, flat: list[Index], result: Attribute
    ) -> Sequence[Sequence[Index]]:
        as_tile(result)
        if len(flat) not in (2, 5):
            parser.raise_error(
                f"{cls.name} takes 2 offsets, alone or with 2 sizes and a stride; these are"
                f" {len(flat)} numbers"
            )
        return flat[:2], flat[2:4], flat[4:]


@irdl_op_definition
class InitCoopTileOp(IndexedOp, OnTileOp):
    """The part of a tile that one of several cooperating subgroups processes.

    The tile is split into parts of the result's size, counted row by row; subgroup `coop_id` of
    `coop_size` takes part `coop_id` modulo their number.
    """

    name = "xetile.init_coop_tile"
    LISTS: ClassVar = ("coop",)
    tile = operand_def(TileType)
    static_coop = prop_def(DenseArrayBase)
    part = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(
        self, *, tile: SSAValue, coop_id: Index, coop_size: Index, part_type: TileType
    ) -> None:
        super().__init__(tile=tile, coop=(coop_id, coop_size), part_type=part_type)

    @property
    def coop_id(self) -> Index:
        return self.index_lists[0][0]

    @property
    def coop_size(self) -> Index:
        return self.index_lists[0][1]

    @property
    def part_type(self) -> TileType:
        return as_tile(self.part.type)

    @property
    def parts(self) -> tuple[int, int]:
        """Number of parts along the rows and along the columns."""
        whole, part = self.tile_type, self.part_type
        return whole.rows // part.rows, whole.columns // part.columns

    def verify_(self) -> None:
        self.verify_indices()
        whole, part = self.tile_type, self.part_type
        same = ("element_type", "order", "memory_scope")
        if any(getattr(whole, name) != getattr(part, name) for name in same):
            self.refuse(
                "a part has the elements, order and memory_scope of its tile;"
                f" {whole} became {part}"
            )
        if whole.rows % part.rows or whole.columns % part.columns:
            self.refuse(f"{whole} does not divide into parts of {part.rows}x{part.columns}")
        (pair,) = self.static_lists
        if len(pair) != 2:
            self.refuse(f"takes coop_id and coop_size, not {len(pair)}")
        count = self.parts[0] * self.parts[1]
        if pair[1] != DYNAMIC_INDEX and pair[1] < count:
            self.refuse(f"{pair[1]} subgroups cannot take {count} parts, one each")


@irdl_op_definition
class UpdateTileOffsetOp(IndexedOp, OnTileOp):
    """Move a tile by a number of rows and columns."""

    name = "xetile.update_tile_offset"
    tile = operand_def(TileType)
    static_offsets = prop_def(DenseArrayBase)
    moved = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, *, tile: SSAValue, offsets: Sequence[Index]) -> None:
        super().__init__(tile=tile, offsets=offsets, moved_type=tile.type)

    def verify_(self) -> None:
        self.verify_indices()
        if self.moved.type != self.tile.type:
            self.refuse(
                f"moving keeps the type of the tile; {self.tile.type} became {self.moved.type}"
            )
        (offsets,) = self.static_lists
        if len(offsets) != 2:
            self.refuse(f"a tile moves by 2 offsets, not {len(offsets)}")


# Accesses


class RegisterAccessOp(HintedOp, OnTileOp):
    """An access that moves a tile between memory and a vector."""

    inner_blocks = opt_prop_def(DenseArrayBase)

    @property
    def blocks(self) -> tuple[int, ...] | None:
        """inner_blocks as numbers."""
        return None if self.inner_blocks is None else static_values(self.inner_blocks)

    def verify_access(self, what: str, value: SSAValue, transpose: bool = False) -> None:
        """Refuse wrong hints and blocks, and a vector that does not fit the tile."""
        tile, blocks = self.tile_type, self.blocks
        self.verify_hints()
        if blocks is not None and (len(blocks) != 2 or min(blocks) < 1):
            self.refuse(f"inner_blocks is two positive numbers, not {list(blocks)}")
        if blocks is not None and (tile.rows % blocks[0] or tile.columns % blocks[1]):
            self.refuse(f"inner_blocks {list(blocks)} do not divide {tile} into whole blocks")
        shape = register_shape(tile, blocks, transpose)
        self.verify_vector(f"the value {what} {tile}", value.type, (shape,), tile.element_type)


@irdl_op_definition
class LoadTileOp(RegisterAccessOp):
    """Read a tile; elements outside the base tensor read as zero."""

    name = "xetile.load_tile"
    tile = operand_def(TileType)
    transpose = opt_prop_def(UnitAttr)
    value = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def __init__(
        self,
        *,
        tile: SSAValue,
        inner_blocks: tuple[int, int] | None = None,
        transpose: bool = False,
        value_type: Attribute | None = None,
        **given: Any,
    ) -> None:
        """Build the op; `value_type` may be left out."""
        if value_type is None:
            type_ = as_tile(tile.type)
            shape = register_shape(type_, inner_blocks, transpose)
            value_type = vector_type(type_.element_type, shape)
        super().__init__(
            tile=tile, inner_blocks=inner_blocks, transpose=transpose, value_type=value_type,
            **given,
        )  # fmt: skip

    def verify_(self) -> None:
        self.verify_access("of", self.value, self.transpose is not None)


@irdl_op_definition
class StoreTileOp(RegisterAccessOp):
    """Write a tile; elements outside the base tensor are dropped."""

    name = "xetile.store_tile"
    value = operand_def(VectorType)
    tile = operand_def(TileType)
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = STORE_HINTS

    def verify_(self) -> None:
        self.verify_access("for", self.value)


@irdl_op_definition
class PrefetchTileOp(HintedOp, OnTileOp):
    """Prefetch a tile into the cache; elements outside the base tensor are ignored."""

    name = "xetile.prefetch_tile"
    tile = operand_def(TileType)
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def verify_(self) -> None:
        self.verify_hints()
        scope = self.tile_type.scope
        if scope != "global":
            self.refuse(f"only global memory is cached; the tile is in {scope}")


# Matrix multiplication

@irdl_op_definition
class TileMmaMxOp(TileOp):
    """D = C + scale(A) * scale(B) on tiles in registers; elements of i8 are pairs of e2m1.

    Scales are E8M0 bytes for 32 elements along K: `scale_a` is M x K/32, `scale_b` N x K/32.
    """

    name = "xetile.tile_mma_mx"
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    acc = operand_def(VectorType)
    scale_a = operand_def(VectorType)
    scale_b = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.acc.type != self.result.type:
            self.refuse(
                f"C and the result have the same type, not {self.acc.type} and {self.result.type}")
        if any(len(v.type.get_shape()) != 2 for v in self.operands):  # type: ignore[attr-defined]
            self.refuse("matrices and scales are 2D vectors")
        reason = scaled_reason(*(v.type for v in self.operands))
        if reason:
            self.refuse(reason)


@irdl_op_definition
class TileMmaOp(TileOp):
    """D = C + A * B on tiles in registers; without `acc`, C is zero.

    2D: MxK, KxN, MxN.  4D: [M', K', m, k], [K', N', k, n], [M', N', m, n].
    """

    name = "xetile.tile_mma"
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    acc = opt_operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    def __init__(self, **given: Any) -> None:
        """Build the op; `result_type` may be left out if `acc` is given."""
        super().__init__(**with_result_of_acc(self.name, given))

    @property
    def vectors(self) -> tuple[VectorType[Attribute], ...]:
        """The types of A, B and the result."""
        types = (self.a.type, self.b.type, self.result.type)
        return tuple(type_ for type_ in types if isinstance(type_, VectorType))

    def verify_(self) -> None:
        a, b, result = self.vectors
        if self.acc is not None and self.acc.type != result:
            self.refuse(f"C and the result have the same type, not {self.acc.type} and {result}")
        if len({vector.get_num_dims() for vector in (a, b, result)}) != 1:
            self.refuse(f"A, B and C are all 2D or all 4D, not {a}, {b} and {result}")
        am, ak, bm, bk = self._blocked(a, "A")
        kb, n, kk, bn = self._blocked(b, "B")
        if (ak, bk) != (kb, kk) or self._blocked(result, "C") != (am, n, bm, bn):
            self.refuse(
                f"shapes must be MxK, KxN and MxN, both outer and inner, not {a}, {b} and {result}"
            )
        self._verify_elements(a.element_type, b.element_type, result.element_type)

    def _blocked(self, vector: VectorType[Attribute], matrix: str) -> tuple[int, ...]:
        """(outer rows, outer columns, inner rows, inner columns); 1 block if the vector is 2D."""
        shape = vector.get_shape()
        if len(shape) not in (2, 4):
            self.refuse(f"matrix {matrix} is a 2D vector, or 4D with inner blocks, not {vector}")
        return shape if len(shape) == 4 else (1, 1, *shape)

    def _verify_elements(self, a: Attribute, b: Attribute, result: Attribute) -> None:
        floats = [isinstance(element, AnyFloat) for element in (a, b, result)]
        if any(floats) != all(floats):
            self.refuse(f"A, B and C all hold floats or all integers, not {a}, {b} and {result}")
        if bit_width(result) < max(bit_width(a), bit_width(b)):
            self.refuse(
                f"C's elements are at least as wide as those of A and B, not {result} for {a} and"
                f" {b}"
            )
