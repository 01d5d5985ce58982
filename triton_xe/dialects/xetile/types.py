"""The tile type of XeTile, and the types of vectors that contain a tile.

Source: the RFC for XeTile and XeGPU, section "XeTile Dialect"; see `triton_xe.dialects.xetile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    ContainerType,
    IndexType,
    IntAttr,
    IntegerType,
    ShapedType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.access_attributes import MemoryScopeAttr, int_array, ints, parse_int_list
from triton_xe.dialects.xegpu.types import bit_width

ROW_MAJOR = (1, 0)
COLUMN_MAJOR = (0, 1)


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute, ShapedType, ContainerType[Attribute]):
    """A tile of `rows` by `columns` elements.

    - order: dimensions by contiguity in memory, the contiguous one first; default [1, 0]
      (row-major).
    - memory_scope: default global.
    """

    name = "xetile.tile"
    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    order: ArrayAttr[IntAttr]
    memory_scope: MemoryScopeAttr

    def get_num_dims(self) -> int:
        return len(self.shape.data)

    def get_shape(self) -> tuple[int, ...]:
        return ints(self.shape)

    def get_element_type(self) -> Attribute:
        return self.element_type

    @property
    def rows(self) -> int:
        return self.shape.data[0].data

    @property
    def columns(self) -> int:
        return self.shape.data[1].data

    @property
    def row_major(self) -> bool:
        return ints(self.order) == ROW_MAJOR

    @property
    def scope(self) -> str:
        return self.memory_scope.data

    def verify(self) -> None:
        shape = self.get_shape()
        if len(shape) != 2 or min(shape) < 1:
            raise VerifyException(
                f"tile: a tile has rows and columns, both positive, not {list(shape)}"
            )
        if ints(self.order) not in (ROW_MAJOR, COLUMN_MAJOR):
            raise VerifyException(
                "tile: order is [1, 0] (row-major) or [0, 1] (column-major),"
                f" not {list(ints(self.order))}"
            )
        bit_width(self.element_type)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        order: tuple[int, ...] = ROW_MAJOR
        scope = "global"
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
            while parser.parse_optional_punctuation(",") is not None:
                if parser.parse_optional_keyword("order") is not None:
                    parser.parse_punctuation("=")
                    order = parse_int_list(parser)
                elif parser.parse_optional_keyword("memory_scope") is not None:
                    parser.parse_punctuation("=")
                    scope = MemoryScopeAttr.parse_keyword(parser)
                elif not isinstance(parser.parse_type(), IndexType | IntegerType):
                    parser.raise_error("a tile takes order, memory_scope and index types only")
        return int_array(tuple(shape)), element, int_array(order), MemoryScopeAttr(scope)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.rows}x{self.columns}x")
        printer.print_attribute(self.element_type)
        if not self.row_major:
            printer.print_string(f", order = {list(ints(self.order))}")
        if self.scope != "global":
            printer.print_string(f", memory_scope = {self.scope}")
        printer.print_string(">")


@lru_cache(maxsize=1024)
def tile_type(
    rows: int,
    columns: int,
    element_type: Attribute,
    *,
    order: tuple[int, ...] = ROW_MAJOR,
    memory_scope: str = "global",
) -> TileType:
    """The tile type; equal calls give the same object.

    >>> from xdsl.dialects.builtin import bf16
    >>> print(tile_type(64, 64, bf16))
    !xetile.tile<64x64xbf16>
    """
    scope = MemoryScopeAttr(memory_scope)
    return TileType(int_array((rows, columns)), element_type, int_array(order), scope)


def as_tile(type_: Attribute) -> TileType:
    if not isinstance(type_, TileType):
        raise VerifyException(f"expected a !xetile.tile, not {type_}")
    return type_


@lru_cache(maxsize=1024)
def register_shape(
    tile: TileType, inner_blocks: tuple[int, ...] | None = None, transpose: bool = False
) -> tuple[int, ...]:
    """Shape of the vector of a tile: [m, n], or [m/MB, n/NB, MB, NB] with inner blocks.

    If transposed, both pairs of dimensions are exchanged; inner_blocks are those before the
    transpose.

    >>> from xdsl.dialects.builtin import bf16
    >>> register_shape(tile_type(64, 64, bf16), (8, 16), transpose=True)
    (4, 8, 16, 8)
    """
    rows, columns = tile.get_shape()
    if inner_blocks is None:
        return (columns, rows) if transpose else (rows, columns)
    height, width = inner_blocks
    outer, inner = (rows // height, columns // width), (height, width)
    return (*outer[::-1], *inner[::-1]) if transpose else (*outer, *inner)
