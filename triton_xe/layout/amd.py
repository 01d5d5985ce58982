"""`#ttg.amd_mfma`, `#ttg.amd_wmma`: layouts of AMD's matrix cores (CDNA: 64 lanes, RDNA: 32).

Register layouts: AMD's matrix instruction calculator; parameters: `TritonGPUAttrDefs.td`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from triton_xe.errors import LayoutError
from triton_xe.layout import tiling
from triton_xe.layout.attribute_text import Fields, Item
from triton_xe.layout.encodings import (
    DistributedEncoding,
    Ints,
    bases_text,
    cga_parameter,
    ints,
    mlir,
    without_dim,
)
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import BlockBases, Shape, dim_name, dim_names

MFMA_LANES = 64
WMMA_TILE = 16


@dataclass(frozen=True)
class AmdMfmaEncoding(DistributedEncoding):
    """The result of an MFMA product; `instr_shape` is [M, N, K] or [M, N].

    Versions 1-4 are gfx908, 90a, 942, 950.  A warp has `tiles_per_warp` adjacent tiles.  Entry
    `elementType` of older texts is ignored, as in libtriton; `elementBitWidth` is used instead.
    `MDim` and `NDim`, the names in the dialect's definition, are read as the shape.

    4x4 instructions, whose result every 16 lanes share, are supported although Triton 3.9 has no
    kernels with them.
    """

    mnemonic: ClassVar[str] = "ttg.amd_mfma"
    version: int = mlir("version", one_of=tuple(range(5)))
    warps_per_cta: Ints = mlir("warpsPerCTA", powers=True)
    instr_shape: Ints = mlir("instrShape")
    is_transposed: bool = mlir("isTransposed")
    cga_layout: BlockBases = mlir("CGALayout", default=())
    tiles_per_warp: Ints = mlir("tilesPerWarp", default=(), absent=(), powers=True)
    """One number per dim; all ones if absent."""
    element_bit_width: int = mlir("elementBitWidth", default=32, absent=32, one_of=(32, 64))

    def __post_init__(self) -> None:
        if not self.tiles_per_warp:
            object.__setattr__(self, "tiles_per_warp", (1,) * self.rank)
        super().__post_init__()

    @classmethod
    def read(cls, entries: Fields) -> Self:
        entries.used.add("elementType")
        if entries.has("MDim") and not entries.has("instrShape"):
            size = [Item(entries.integer(name), entries.item(name).column)
                    for name in ("MDim", "NDim")]
            entries.entries["instrShape"] = Item(size, size[0].column)
        return super().read(entries)

    def check(self) -> None:
        what = "#ttg.amd_mfma"
        if self.instr_shape[:2] not in ((32, 32), (16, 16), (64, 4), (4, 64), (4, 4)):
            raise LayoutError(f"{what} has no instruction of shape {ints(self.instr_shape)}")
        if len(self.instr_shape) not in (2, 3):
            raise LayoutError(f"instrShape of {what} must be [M, N, K] or [M, N]")
        if self.instr_shape[:2] == (64, 4) and not self.is_transposed:
            self.refuse("the 64x4 instruction is always transposed")
        if self.rank not in (2, 3) or len(self.tiles_per_warp) != self.rank:
            raise LayoutError(f"warpsPerCTA and tilesPerWarp of {what} must have rank 2 or 3")

    def parameters(self) -> Iterable[tuple[str, str]]:
        several = any(tiles != 1 for tiles in self.tiles_per_warp)
        return (one for one in super().parameters() if several or one[0] != "tilesPerWarp")

    def linear_layout(self, shape: Shape) -> LinearLayout:
        m, n = self.rank - 2, self.rank - 1
        tiles, warps = self.tiles_per_warp, self.warps_per_cta
        per_row = shape[n] // (self.instr_shape[1] * warps[n] * tiles[n])
        layout = self._instruction()
        for in_dim, size, dim in (
            ("register", tiles[n], n),
            ("warp", warps[n], n),
            ("register", max(1, per_row), n),
            ("register", tiles[m], m),
            ("warp", warps[m], m),
        ):
            layout *= LinearLayout.identity1d(size, in_dim, dim_name(dim))
        if self.rank == 3:
            layout *= LinearLayout.identity1d(warps[0], "warp", dim_name(0))
        return tiling.cover(layout, self.cga_layout, shape)

    def _instruction(self) -> LinearLayout:
        """Layout of one tile, out dims N then M: runs of 4 registers along M (N if transposed)."""
        m_size, n_size = self.instr_shape[:2]
        m, n = dim_name(self.rank - 2), dim_name(self.rank - 1)
        run, across, length, size = (m, n, m_size, n_size)
        if self.is_transposed:
            run, across, length, size = (n, m, n_size, m_size)
        height = 1 if self.element_bit_width == 64 else 4
        runs = min(MFMA_LANES // size, length // height)
        tile = LinearLayout.identity1d(height, "register", run)
        tile *= LinearLayout.identity1d(size, "lane", across)
        tile *= LinearLayout.identity1d(runs, "lane", run)
        tile *= LinearLayout.zeros1d(MFMA_LANES // (size * runs), "lane", run)
        times = m_size * n_size // (MFMA_LANES * height)
        tile *= LinearLayout.identity1d(max(1, times), "register", run)
        return tile.transpose_outs([n, m])

    def check_dot_operand(self, op_idx: int, k_width: int) -> None:
        _check_k_width(k_width, self)

    def dot_operand_layout(self, op_idx: int, k_width: int, shape: Shape) -> LinearLayout:
        k, other = tiling.dot_operand_dims(op_idx, self.rank)
        size = self.instr_shape[op_idx]
        tile = LinearLayout.identity1d(k_width, "register", dim_name(k))
        tile *= LinearLayout.identity1d(size, "lane", dim_name(other))
        tile *= LinearLayout.identity1d(MFMA_LANES // size, "lane", dim_name(k))
        if size == MFMA_LANES:
            tile *= LinearLayout.identity1d(16, "register", dim_name(k))
        times = shape[k] // tile.out_dims[dim_name(k)]
        tile *= LinearLayout.identity1d(max(1, times), "register", dim_name(k))
        tile *= LinearLayout.identity1d(self.tiles_per_warp[other], "register", dim_name(other))
        tile = tile.transpose_outs([dim_name(k), dim_name(other)])
        order = tiling.matrix_order(self.rank, row_major=True)
        tile *= tiling.identity("warp", self.warps_per_cta, order)
        return tiling.cover(tile, self.cga_layout, shape)


def _check_k_width(k_width: int, parent: DistributedEncoding) -> None:
    if not k_width:
        raise LayoutError(f"kWidth of #ttg.dot_op is required for #{parent.mnemonic}")
    if not tiling.is_power_of_two(k_width):
        raise LayoutError(f"kWidth of #ttg.dot_op must be powers of two, got [{k_width}]")


_WMMA_SHAPES = {
    1: ((16, 16, 16),),
    2: ((16, 16, 16), (16, 16, 32)),
    3: ((16, 16, 4), (16, 16, 32), (16, 16, 64), (16, 16, 128), (32, 16, 64), (32, 16, 128)),
}


def _warp_bases(warps: Ints) -> dict[str, Sequence[Ints]]:
    """Bases of tiles that are assigned to warps in order, last dim first."""
    rank = len(warps)
    steps = tiling.identity("warp", warps, range(rank)[::-1]).transpose_outs(dim_names(rank))
    return {"register": (), "warp": steps.bases["warp"]}


@dataclass(frozen=True)
class AmdWmmaEncoding(DistributedEncoding):
    """The result of a WMMA product.  `cta_layout` maps register (repetitions) and warp to tiles;
    version 1 is RDNA3, 2 RDNA4, 3 gfx1250."""

    mnemonic: ClassVar[str] = "ttg.amd_wmma"
    version: int = mlir("version", one_of=tuple(_WMMA_SHAPES))
    is_transposed: bool = mlir("isTranspose")
    cta_layout: LinearLayout = mlir("ctaLayout")
    cga_layout: BlockBases = ()
    instr_shape: Ints = (16, 16, 16)

    def check(self) -> None:
        what = "#ttg.amd_wmma"
        if self.instr_shape not in _WMMA_SHAPES[self.version]:
            raise LayoutError(
                f"{what} version {self.version} has no instruction {ints(self.instr_shape)}"
            )
        if tuple(self.cta_layout.in_dims) != ("register", "warp"):
            raise LayoutError(f"ctaLayout of {what} must have the in dims register and warp")
        if self.rank not in (2, 3):
            raise LayoutError(f"{what} must have rank 2 or 3, got {self.rank}")

    @classmethod
    def read(cls, entries: Fields) -> Self:
        """Without entry `rank`, the rank is that of the bases, or 2 if there are none.

        Older texts have `warpsPerCTA`: warps are numbered along the last dim first.
        """
        if entries.has("warpsPerCTA"):
            bases = _warp_bases(entries.integers("warpsPerCTA"))
        else:
            warps = entries.nested("ctaLayout")
            bases = {n: warps.bases(n) if warps.has(n) else () for n in ("register", "warp")}
            warps.finish()
        lengths = {len(basis) for part in bases.values() for basis in part}
        rank = entries.integer("rank", max(lengths, default=2))
        return cls(
            entries.integer("version"),
            entries.boolean("isTranspose", False),
            LinearLayout(bases, dim_names(rank)),
            entries.block_bases(rank),
            entries.integers("instrShape") if entries.has("instrShape") else (16, 16, 16),
        )

    def parameters(self) -> Iterable[tuple[str, str]]:
        yield "version", str(self.version)
        yield "isTranspose", str(self.is_transposed).lower()
        moving = [(name, b) for name, b in self.cta_layout.bases.items() if b]
        inner = ", ".join(f"{name} = {bases_text(bases)}" for name, bases in moving)
        yield "ctaLayout", f"{{{inner}}}"
        yield from cga_parameter(self.cga_layout)
        if self.instr_shape != (16, 16, 16):
            yield "instrShape", ints(self.instr_shape)

    def linear_layout(self, shape: Shape) -> LinearLayout:
        order = tiling.matrix_order(self.rank, row_major=True)
        layout = self._instruction() * self.cta_layout
        layout = layout.transpose_outs([dim_name(dim) for dim in order])
        return tiling.cover(layout, self.cga_layout, shape)

    def _instruction(self) -> LinearLayout:
        """Layout of one tile: lanes along N, registers along M (transposed: the reverse)."""
        m, n = dim_names(self.rank)[-2:]
        across, run = (m, n) if self.is_transposed else (n, m)
        lanes = LinearLayout.identity1d(WMMA_TILE, "lane", across)
        if self.version == 1:
            tile = lanes * LinearLayout.identity1d(2, "lane", run)
            tile = LinearLayout.identity1d(1, "register", across) * tile
            tile *= LinearLayout.identity1d(8, "register", run)
        else:
            tile = LinearLayout.identity1d(8, "register", run) * lanes
            tile *= LinearLayout.identity1d(2, "lane", run)
            tile *= LinearLayout.identity1d(self.instr_shape[0] // 16, "register", run)
        empty = tiling.identity("register", [1] * self.rank, range(self.rank))
        return empty * tile

    def operand_size(self, op_idx: int) -> int:
        """M for operand A, N for B; exchanged for a transposed instruction with M != N."""
        m, n, _ = self.instr_shape
        return (m, n)[1 - op_idx if self.is_transposed and m != n else op_idx]

    def check_dot_operand(self, op_idx: int, k_width: int) -> None:
        allowed = {1: (8, 16), 2: (4, 8, 16)}.get(self.version)
        if allowed and k_width not in allowed:
            raise LayoutError(
                f"kWidth of an operand of #ttg.amd_wmma version {self.version} must be one of "
                f"{list(allowed)}, got {k_width}"
            )
        _check_k_width(k_width, self)

    def dot_operand_layout(self, op_idx: int, k_width: int, shape: Shape) -> LinearLayout:
        k, other = tiling.dot_operand_dims(op_idx, self.rank)
        halves = LinearLayout.zeros1d if self.version == 1 else LinearLayout.identity1d
        tile = LinearLayout.identity1d(k_width, "register", dim_name(k))
        tile *= LinearLayout.identity1d(WMMA_TILE, "lane", dim_name(other))
        tile *= halves(2, "lane", dim_name(k))
        times = self.instr_shape[2] // (2 * k_width)
        tile *= LinearLayout.identity1d(max(1, times), "register", dim_name(k))
        times = self.operand_size(op_idx) // WMMA_TILE
        tile *= LinearLayout.identity1d(times, "register", dim_name(other))
        warps = self.cta_layout.resize_out(dim_name(k), 1).without_zero_bases("register")
        order = (k, other, *reversed(range(self.rank - 2)))
        layout = (tile * warps).transpose_outs([dim_name(dim) for dim in order])
        return tiling.cover(layout, without_dim(self.cga_layout, k), shape)
