"""Dialect `xetile`: tiles of a matrix that a subgroup loads, multiplies and stores.

A tile is a rectangle of a 2D base tensor in memory.  It may be larger than any instruction, and
may be partly outside the tensor: loads read zeros there, and stores drop elements there.

    %a = xetile.init_tile %base, %y, %x, %rows, %columns, %pitch
         : i64, index, index, i32, i32, i64 -> !xetile.tile<32x32xbf16>
    %v = xetile.load_tile %a {inner_blocks = [8, 16]}
         : !xetile.tile<32x32xbf16> -> vector<4x2x8x16xbf16>

Source: the RFC for XeTile and XeGPU, section "XeTile Dialect".  These rules apply where it
contradicts itself or leaves something open:

- `tile<64x64xbf16, index, index, index, index, index>` repeats the types of the offsets, sizes and
  stride in the tile's type.  They are read and dropped, because a type has sizes and elements only.
- `update_tile_offset` has no result in the example.  Here it returns the moved tile, and takes two
  offsets, rows first, like `init_tile` (the example's type list has one).
- `store_tile` writes its operands as tile, vector but their types as vector, tile; here both are
  vector, tile, as in `xegpu.store_nd`.
- `inner_blocks = [8, 16]` and `Transpose = TRUE` are outside of a dictionary in the examples;
  here they are `{inner_blocks = [8, 16], transpose}`.
- `init_tile` also takes an address, and numbers for offsets, sizes and stride; for a memref of
  static shape sizes and stride may be left out.
- Type colons, missing in the examples, are required (the RFC's test puts them in).
- Additions: `order` and `memory_scope` of a tile, cache hints as in XeGPU, and C of `tile_mma`.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from triton_xe.dialects.xetile.ops import (
    InitCoopTileOp,
    InitTileOp,
    LoadTileOp,
    PrefetchTileOp,
    StoreTileOp,
    TileMmaMxOp,
    TileMmaOp,
    UpdateTileOffsetOp,
)
from triton_xe.dialects.xetile.types import TileType, register_shape, tile_type

__all__ = [
    "InitCoopTileOp",
    "InitTileOp",
    "LoadTileOp",
    "PrefetchTileOp",
    "StoreTileOp",
    "TileMmaMxOp",
    "TileMmaOp",
    "TileType",
    "UpdateTileOffsetOp",
    "XeTile",
    "register_shape",
    "tile_type",
]

XeTile = Dialect(
    "xetile",
    [
        InitTileOp, InitCoopTileOp, LoadTileOp, StoreTileOp, PrefetchTileOp, TileMmaMxOp, TileMmaOp,
        UpdateTileOffsetOp,
    ],
    [TileType],
)  # fmt: skip
