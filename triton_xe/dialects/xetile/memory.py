"""XeTile ops that load, store and prefetch tiles.

Source: the RFC for XeTile and XeGPU, section "XeTile Dialect"; see `triton_xe.dialects.xetile`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.access_attributes import (
    LOAD_HINTS,
    STORE_HINTS,
)
from triton_xe.dialects.text.tile_syntax import (
    static_array,
    static_values,
    verify_vector,
)
from triton_xe.dialects.xegpu.hints import HintedOp, hint_properties
from triton_xe.dialects.xetile.types import TileType, as_tile, register_shape

_UNIT = UnitAttr()


def _inner_blocks(array: DenseArrayBase | None) -> tuple[int, ...] | None:
    return None if array is None else static_values(array)


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
class LoadTileOp(HintedOp):
    """Read a tile; elements outside the base tensor read as zero."""

    name = "xetile.load_tile"
    tile = operand_def(TileType)
    inner_blocks = opt_prop_def(DenseArrayBase)
    transpose = opt_prop_def(UnitAttr)
    l1_hint, l2_hint, l3_hint = hint_properties()
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
        l1_hint: str | None = None,
        l2_hint: str | None = None,
        l3_hint: str | None = None,
    ) -> None:
        properties = self.hints(l1_hint, l2_hint, l3_hint)
        if inner_blocks is not None:
            properties["inner_blocks"] = static_array(inner_blocks)
        if transpose:
            properties["transpose"] = _UNIT
        if value_type is None:
            type_ = as_tile(tile.type)
            value_type = _vector(register_shape(type_, inner_blocks, transpose), type_.element_type)
        Operation.__init__(
            self, operands=(tile,), result_types=(value_type,), properties=properties
        )

    @property
    def tile_type(self) -> TileType:
        return as_tile(self.tile.type)

    @property
    def blocks(self) -> tuple[int, ...] | None:
        """inner_blocks as numbers."""
        return _inner_blocks(self.inner_blocks)

    def verify_(self) -> None:
        tile = self.tile_type
        self.verify_hints()
        _verify_inner_blocks(self.name, tile, self.blocks)
        shape = register_shape(tile, self.blocks, self.transpose is not None)
        verify_vector(
            self.name, f"the value of {tile}", self.value.type, (shape,), tile.element_type
        )

@lru_cache(maxsize=1024)


def _vector(shape: tuple[int, ...], element: Attribute) -> VectorType[Attribute]:
    return VectorType(element, shape)


@irdl_op_definition
class StoreTileOp(HintedOp):
    """Write a tile; elements outside the base tensor are dropped."""

    name = "xetile.store_tile"
    value = operand_def(VectorType)
    tile = operand_def(TileType)
    inner_blocks = opt_prop_def(DenseArrayBase)
    l1_hint, l2_hint, l3_hint = hint_properties()
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = STORE_HINTS

    def __init__(
        self,
        *,
        value: SSAValue,
        tile: SSAValue,
        inner_blocks: tuple[int, int] | None = None,
        l1_hint: str | None = None,
        l2_hint: str | None = None,
        l3_hint: str | None = None,
    ) -> None:
        properties = self.hints(l1_hint, l2_hint, l3_hint)
        if inner_blocks is not None:
            properties["inner_blocks"] = static_array(inner_blocks)
        Operation.__init__(self, operands=(value, tile), properties=properties)

    @property
    def tile_type(self) -> TileType:
        return as_tile(self.tile.type)

    @property
    def blocks(self) -> tuple[int, ...] | None:
        """inner_blocks as numbers."""
        return _inner_blocks(self.inner_blocks)

    def verify_(self) -> None:
        tile = self.tile_type
        self.verify_hints()
        _verify_inner_blocks(self.name, tile, self.blocks)
        shape = register_shape(tile, self.blocks)
        verify_vector(
            self.name, f"the value for {tile}", self.value.type, (shape,), tile.element_type
        )


@irdl_op_definition
class PrefetchTileOp(HintedOp):
    """Bring a tile into the cache; what lies outside the base tensor is ignored."""

    name = "xetile.prefetch_tile"
    tile = operand_def(TileType)
    l1_hint, l2_hint, l3_hint = hint_properties()
    traits = traits_def(MemoryWriteEffect())
    ALLOWED_HINTS: ClassVar = LOAD_HINTS

    def __init__(
        self,
        *,
        tile: SSAValue,
        l1_hint: str | None = None,
        l2_hint: str | None = None,
        l3_hint: str | None = None,
    ) -> None:
        Operation.__init__(self, operands=(tile,), properties=self.hints(l1_hint, l2_hint, l3_hint))

    @property
    def tile_type(self) -> TileType:
        return as_tile(self.tile.type)

    def verify_(self) -> None:
        self.verify_hints()
        if self.tile_type.scope != "global":
            raise VerifyException(
                f"{self.name}: only global memory is cached; the tile lies in"
                f" {self.tile_type.scope}"
            )


