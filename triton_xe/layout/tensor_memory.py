"""NVIDIA's tensor memory: the element in each row and column.

In-dims are row (0 to 127, the lanes of four warps), col (counted in elements) and block.  An
all-zero basis in a row, or at the low columns, is unused memory; any other is a copy. Parameters
and meaning: `TritonNvidiaGPUAttrDefs.td` of triton 3.9; for the scales, the PTX ISA on
`tcgen05.mma` scale factor layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from triton_xe.layout import tiling
from triton_xe.layout.encodings import Encoding, NamedEncoding, mlir
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import BlockBases, Shape, dim_names

ROWS, HALF_ROWS = 128, 64
SCALE_ROWS, SCALE_COLUMNS = 32, 4
SCALE_ORDERS = ("mnThenK", "kThenMn")


class MemoryEncoding(Encoding):
    """A layout of tensor memory: matrices only, printed without braces."""

    cga_layout: BlockBases

    @property
    def rank(self) -> int:
        return 2

    def __str__(self) -> str:
        fields = ", ".join(f"{name} = {value}" for name, value in self.parameters())
        return f"#{self.mnemonic}<{fields}>"

    def _piece(self, shape: Shape) -> Shape:
        """Shape of the piece of one block; refuse a tensor too small for all blocks."""
        pieces = tiling.block_layout(self.cga_layout, 2).out_dims.values()
        if any(size < parts for size, parts in zip(shape, pieces, strict=True)):
            self.refuse(f"{list(shape)} cannot be split over {list(pieces)} blocks")
        return tiling.shape_per_block(self.cga_layout, shape)


@dataclass(frozen=True)
class TensorMemoryEncoding(MemoryEncoding):
    """Matrices in tiles of `block_m` x `block_n`: down the columns of memory along M, then N.

    Each element has `col_stride` columns, of which it uses the first.  `two_ctas` is the form of
    `cta_group::2`; `fp4_padded` leaves every second column empty.  Tiles of 64 rows use rows 0-15,
    32-47, 64-79 and 96-111 of memory, and the next tile uses the rows in between.
    """

    mnemonic: ClassVar[str] = "ttng.tensor_memory_encoding"
    block_m: int = mlir("blockM", one_of=(HALF_ROWS, ROWS))
    block_n: int = mlir("blockN", powers=True)
    col_stride: int = mlir("colStride", default=1, always=True, one_of=(1, 2, 4))
    cga_layout: BlockBases = mlir("CGALayout", default=())
    two_ctas: bool = mlir("twoCTAs", default=False, absent=False)
    fp4_padded: bool = mlir("fp4Padded", default=False, absent=False)

    def check(self) -> None:
        if self.fp4_padded and self.col_stride != 1:
            self.refuse(f"fp4Padded needs colStride = 1, got {self.col_stride}")
        if self.two_ctas and self.cga_layout[:1] != ((1, 0),):
            self.refuse("twoCTAs needs [1, 0] as the first basis of CGALayout")

    def linear_layout(self, shape: Shape) -> LinearLayout:
        piece = self._piece(shape)
        n = min(self.block_n, piece[1])
        if piece[0] < self.block_m:
            self.refuse(f"a block of {piece[0]} rows is less than blockM {self.block_m}")
        rows = [(1 << bit, 0) for bit in range(self.block_m.bit_length() - 1)]
        columns = [(0, 1 << bit) for bit in range(n.bit_length() - 1)]
        if self.block_m == HALF_ROWS and self.two_ctas:
            rows.append(self._column_that_is_a_row(columns))
        elif self.block_m == HALF_ROWS:
            rows.insert(4, self._between(piece, n))
        empty = (self.col_stride.bit_length() - 1) + self.fp4_padded
        columns = [(0, 0)] * empty + columns
        bases = {"row": rows, "col": columns}
        tile = LinearLayout(bases, _reached(bases), require_surjective=False)
        for name, size in zip(dim_names(2), piece, strict=True):
            tile *= LinearLayout.identity1d(max(1, size // tile.out_dims[name]), "col", name)
        return tile * tiling.block_layout(self.cga_layout, 2)

    def _column_that_is_a_row(self, columns: list[tuple[int, int]]) -> tuple[int, int]:
        """Basis that moves to rows 64-127, where the form of two CTAs has the upper half of the
        columns.
        """
        if not columns:
            self.refuse("twoCTAs with blockM 64 needs two columns")
        return columns.pop()

    def _between(self, piece: Shape, n: int) -> tuple[int, int]:
        """Basis of the rows that a tile of 64 leaves free: the next tile, or nothing."""
        if piece[0] > self.block_m:
            return (HALF_ROWS, 0)
        return (0, n) if piece[1] > n else (0, 0)


def _reached(bases: dict[str, list[tuple[int, int]]]) -> dict[str, int]:
    """Twice the largest basis along each dim."""
    vectors = [vector for part in bases.values() for vector in part]
    return {
        name: max(2 * max(vector[dim] for vector in vectors), 1)
        for dim, name in enumerate(dim_names(2))
    }


@dataclass(frozen=True)
class TensorMemoryScalesEncoding(MemoryEncoding):
    """Scales of a scaled product: 32 rows by 4 columns, equal for each of the four warps.

    Two such pieces, or two pairs if there are more, are adjacent columns.  The remaining pieces go
    along M or N first (`block_rep_order` = `mnThenK`) or along K first (`kThenMn`).
    """

    mnemonic: ClassVar[str] = "ttng.tensor_memory_scales_encoding"
    cga_layout: BlockBases = mlir("CGALayout", default=())
    block_rep_order: str = mlir(
        "blockRepOrder", default=SCALE_ORDERS[0], absent=SCALE_ORDERS[0], one_of=SCALE_ORDERS
    )

    def linear_layout(self, shape: Shape) -> LinearLayout:
        piece = self._piece(shape)
        mn, k = dim_names(2)
        tile = (
            LinearLayout.identity1d(SCALE_ROWS, "row", mn)
            * LinearLayout.zeros1d(ROWS // SCALE_ROWS, "row", mn)
            * LinearLayout.identity1d(SCALE_COLUMNS, "col", k)
            * LinearLayout.identity1d(4 if piece[0] > 2 * SCALE_ROWS else 2, "col", mn)
        )
        order = (0, 1) if self.block_rep_order == SCALE_ORDERS[0] else (1, 0)
        for dim in order:
            name = dim_names(2)[dim]
            repeats = max(1, piece[dim] // tile.out_dims[name])
            tile *= LinearLayout.identity1d(repeats, "col", name)
        sizes = dict(zip((mn, k), piece, strict=True))
        return tiling.shrink(tile, sizes) * tiling.block_layout(self.cga_layout, 2)


@dataclass(frozen=True)
class TensorMemorySpace(NamedEncoding):
    """`#ttng.tensor_memory`: the memory of a memory descriptor, not a layout."""

    mnemonic: ClassVar[str] = "ttng.tensor_memory"
    why: ClassVar[str] = "names a memory, it does not say in which order data is in it"
