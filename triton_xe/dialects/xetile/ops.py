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
    IntegerAttr,
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
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.access_attributes import LOAD_HINTS, STORE_HINTS
from triton_xe.dialects.xegpu.nd import verify_alignment, verify_memref
from triton_xe.dialects.xegpu.syntax import (
    ADDRESS,
    HintedOp,
    Index,
    IndexedOp,
    TileOp,
    static_values,
    verify_vector,
)
from triton_xe.dialects.xegpu.types import bit_width, vector_type
from triton_xe.dialects.xetile.types import TileType, as_tile, register_shape
from triton_xe.errors import LegalityError


class OnTileOp(TileOp):
    """An op that makes a tile, or takes one."""

    @property
    def tile_type(self) -> TileType:
        types = (*self.operand_types, *self.result_types)
        return next(type_ for type_ in types if isinstance(type_, TileType))


# Tiles; no memory is touched


@irdl_op_definition
class InitTileOp(IndexedOp, OnTileOp):
    """Make a tile of a base tensor.

    Offsets (row, column), sizes (rows, columns of the base tensor) and stride (of its leading
    dimension) count elements.  A memref of static shape says its sizes and stride itself.
    """

    name = "xetile.init_tile"
    LISTS: ClassVar = ("offsets", "sizes", "stride")
    HIDDEN: ClassVar = ("static_offsets", "static_sizes", "static_stride")
    base = operand_def(ADDRESS)
    static_offsets = prop_def(DenseArrayBase)
    static_sizes = prop_def(DenseArrayBase)
    static_stride = prop_def(DenseArrayBase)
    gather = opt_prop_def(UnitAttr, prop_name="xe.gather")
    base_alignment = opt_prop_def(IntegerAttr, prop_name="xe.base_alignment")
    tile = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, *, stride: Index | None = None, **given: Any) -> None:
        super().__init__(stride=() if stride is None else (stride,), **given)

    @property
    def sizes(self) -> tuple[Index, ...]:
        """Rows and columns of the base tensor; empty when the memref says them."""
        return self.index_lists[1]

    @property
    def stride(self) -> Index | None:
        """Elements from one row (column, if column-major) to the next; None: the memref says."""
        return next(iter(self.index_lists[2]), None)

    def verify_(self) -> None:
        self.verify_indices()
        counts = tuple(len(numbers) for numbers in self.static_lists)
        memref = self.base.type
        optional = isinstance(memref, MemRefType) and memref.has_static_shape()
        if counts != (2, 2, 1) and not (optional and counts == (2, 0, 0)):
            raise VerifyException(
                f"{self.name}: takes 2 offsets, 2 sizes and 1 stride (a memref of static shape may"
                f" do without sizes and stride), not {counts[0]}, {counts[1]} and {counts[2]}"
            )
        verify_alignment(self.name, self.base_alignment)
        tile = self.tile_type
        if isinstance(memref, MemRefType):
            verify_memref(self.name, memref, 2, tile.element_type)
            if not tile.row_major:
                raise VerifyException(
                    f"{self.name}: a memref is row-major, so are its tiles, not {tile}"
                )
        for size in self.static_lists[1] + self.static_lists[2]:
            if size < 1 and size != DYNAMIC_INDEX:
                raise VerifyException(f"{self.name}: sizes and stride are positive, not {size}")

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
    """The part of a tile that one of several cooperating subgroups takes.

    The tile is cut into parts of the result's size, counted row by row; subgroup `coop_id` of
    `coop_size` takes part `coop_id` modulo their number.
    """

    name = "xetile.init_coop_tile"
    LISTS: ClassVar = ("coop",)
    HIDDEN: ClassVar = ("static_coop",)
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
        """How many parts lie below each other and side by side."""
        whole, part = self.tile_type, self.part_type
        return whole.rows // part.rows, whole.columns // part.columns

    def verify_(self) -> None:
        self.verify_indices()
        whole, part = self.tile_type, self.part_type
        same = ("element_type", "order", "memory_scope")
        if any(getattr(whole, name) != getattr(part, name) for name in same):
            raise VerifyException(
                f"{self.name}: a part has the elements, order and memory_scope of its tile;"
                f" {whole} became {part}"
            )
        if whole.rows % part.rows or whole.columns % part.columns:
            raise VerifyException(
                f"{self.name}: {whole} does not divide into parts of {part.rows}x{part.columns}"
            )
        (pair,) = self.static_lists
        if len(pair) != 2:
            raise VerifyException(f"{self.name}: takes coop_id and coop_size, not {len(pair)}")
        count = self.parts[0] * self.parts[1]
        if pair[1] != DYNAMIC_INDEX and pair[1] < count:
            raise VerifyException(
                f"{self.name}: {pair[1]} subgroups cannot take {count} parts, one each"
            )


@irdl_op_definition
class UpdateTileOffsetOp(IndexedOp, OnTileOp):
    """The same tile, moved by a number of rows and columns."""

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
            raise VerifyException(
                f"{self.name}: moving keeps the type of the tile; {self.tile.type} became"
                f" {self.moved.type}"
            )
        (offsets,) = self.static_lists
        if len(offsets) != 2:
            raise VerifyException(f"{self.name}: a tile moves by 2 offsets, not {len(offsets)}")


# Accesses


class RegisterAccessOp(HintedOp, OnTileOp):
    """An access that moves a tile between memory and a vector."""

    inner_blocks = opt_prop_def(DenseArrayBase)

    @property
    def blocks(self) -> tuple[int, ...] | None:
        """inner_blocks as numbers."""
        return None if self.inner_blocks is None else static_values(self.inner_blocks)


def _verify_inner_blocks(name: str, tile: TileType, blocks: tuple[int, ...] | None) -> None:
    if blocks is None:
        return
    if len(blocks) != 2 or min(blocks) < 1:
        raise VerifyException(f"{name}: inner_blocks is two positive numbers, not {list(blocks)}")
    if tile.rows % blocks[0] or tile.columns % blocks[1]:
        raise VerifyException(
            f"{name}: inner_blocks {list(blocks)} do not divide {tile} into whole blocks"
        )


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
        """`value_type` may be left out."""
        if value_type is None:
            type_ = as_tile(tile.type)
            shape = register_shape(type_, inner_blocks, transpose)
            value_type = vector_type(type_.element_type, shape)
        super().__init__(
            tile=tile, inner_blocks=inner_blocks, transpose=transpose, value_type=value_type,
            **given,
        )  # fmt: skip

    def verify_(self) -> None:
        tile = self.tile_type
        self.verify_hints()
        _verify_inner_blocks(self.name, tile, self.blocks)
        shape = register_shape(tile, self.blocks, self.transpose is not None)
        verify_vector(
            self.name, f"the value of {tile}", self.value.type, (shape,), tile.element_type
        )


@irdl_op_definition
class StoreTileOp(RegisterAccessOp):
    """Write a tile; elements outside the base tensor are dropped."""

    name = "xetile.store_tile"
    value = operand_def(VectorType)
    tile = operand_def(TileType)
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = STORE_HINTS

    def verify_(self) -> None:
        tile = self.tile_type
        self.verify_hints()
        _verify_inner_blocks(self.name, tile, self.blocks)
        shape = register_shape(tile, self.blocks)
        verify_vector(
            self.name, f"the value for {tile}", self.value.type, (shape,), tile.element_type
        )


@irdl_op_definition
class PrefetchTileOp(HintedOp, OnTileOp):
    """Bring a tile into the cache; what lies outside the base tensor is ignored."""

    name = "xetile.prefetch_tile"
    tile = operand_def(TileType)
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def verify_(self) -> None:
        self.verify_hints()
        if self.tile_type.scope != "global":
            raise VerifyException(
                f"{self.name}: only global memory is cached; the tile lies in"
                f" {self.tile_type.scope}"
            )


# Matrix multiplication

Matrix = tuple[int, int, int, int]


def _blocked(vector: VectorType[Attribute], matrix: str) -> Matrix:
    """(outer rows, outer columns, inner rows, inner columns); 1 block if the vector is 2D."""
    shape = vector.get_shape()
    if len(shape) == 2:
        return 1, 1, shape[0], shape[1]
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    raise VerifyException(
        f"xetile.tile_mma: matrix {matrix} is a 2D vector, or 4D with inner blocks, not {vector}"
    )


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

    def __init__(
        self,
        *,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue | None = None,
        result_type: Attribute | None = None,
    ) -> None:
        """`result_type` may be left out when `acc` is given."""
        if result_type is None:
            if acc is None:
                raise LegalityError("xetile.tile_mma without acc needs a result type")
            result_type = acc.type
        super().__init__(a=a, b=b, acc=acc, result_type=result_type)

    @property
    def vectors(self) -> tuple[VectorType[Attribute], VectorType[Attribute], VectorType[Attribute]]:
        """The types of A, B and the result."""
        a, b, result = self.a.type, self.b.type, self.result.type
        assert isinstance(a, VectorType)
        assert isinstance(b, VectorType)
        assert isinstance(result, VectorType)
        return a, b, result

    def verify_(self) -> None:
        a, b, result = self.vectors
        if self.acc is not None and self.acc.type != result:
            raise VerifyException(
                f"{self.name}: C and the result have the same type, not {self.acc.type} and"
                f" {result}"
            )
        if len({len(vector.get_shape()) for vector in (a, b, result)}) != 1:
            raise VerifyException(
                f"{self.name}: A, B and C are all 2D or all 4D, not {a}, {b} and {result}"
            )
        am, ak, bm, bk = _blocked(a, "A")
        kb, n, kk, bn = _blocked(b, "B")
        if (ak, bk) != (kb, kk) or _blocked(result, "C") != (am, n, bm, bn):
            raise VerifyException(
                f"{self.name}: shapes must be MxK, KxN and MxN, outer and inner alike, not {a},"
                f" {b} and {result}"
            )
        _verify_elements(self.name, a.element_type, b.element_type, result.element_type)


def _verify_elements(name: str, a: Attribute, b: Attribute, result: Attribute) -> None:
    floats = [isinstance(element, AnyFloat) for element in (a, b, result)]
    if any(floats) != all(floats):
        raise VerifyException(
            f"{name}: A, B and C all hold floats or all integers, not {a}, {b} and {result}"
        )
    if bit_width(result) < max(bit_width(a), bit_width(b)):
        raise VerifyException(
            f"{name}: C's elements are at least as wide as those of A and B, not {result} for"
            f" {a} and {b}"
        )
