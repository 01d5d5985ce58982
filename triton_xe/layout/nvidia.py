"""`#ttg.nvidia_mma`: NVIDIA tensor cores, versions 2 (mma.sync) and 3 (wgmma).

Version 1 (Volta) has no conversion in triton 3.9 and is refused, as there.  Register layouts:
PTX ISA, sections on `mma.m16n8k16` and `wgmma`; parameters: `TritonGPUAttrDefs.td`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from triton_xe.errors import LayoutError
from triton_xe.layout import tiling
from triton_xe.layout.encodings import DistributedEncoding, Ints, mlir, without_dim
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import BlockBases, Shape, dim_name


@dataclass(frozen=True)
class NvidiaMmaEncoding(DistributedEncoding):
    """The result of a tensor core product.

    `instr_shape` is [16, 8] ([8, 8] for fp64; with a leading 1 per batch dim) for version 2 and
    [M, N, K] for version 3.
    """

    mnemonic: ClassVar[str] = "ttg.nvidia_mma"
    version_major: int = mlir("versionMajor", one_of=(2, 3))
    version_minor: int = mlir("versionMinor", absent=0)
    warps_per_cta: Ints = mlir("warpsPerCTA", powers=True)
    instr_shape: Ints = mlir("instrShape")
    cga_layout: BlockBases = mlir("CGALayout", default=())

    def __post_init__(self) -> None:
        if self.version_major == 1:
            raise LayoutError(f"#{self.mnemonic} version 1 (Volta) is no longer part of Triton")
        super().__post_init__()

    def check(self) -> None:
        what = "#ttg.nvidia_mma"
        if not all(map(tiling.is_power_of_two, self.instr_shape[:2])):
            raise LayoutError(f"instrShape of {what} must be powers of two, got {self.instr_shape}")
        rank = 3 if self.is_hopper else self.rank
        if self.rank not in (2, 3) or len(self.instr_shape) != rank:
            raise LayoutError(f"instrShape of {what} has {len(self.instr_shape)} sizes, not {rank}")
        if self.is_hopper and self.rank != 2:
            raise LayoutError(f"{what} version 3 has no batch dim")
        m, n = self._result_tile[-2:]
        if m % 8 or n % 8:
            raise LayoutError(f"instrShape of {what} must be multiples of 8, got {m} and {n}")

    @property
    def is_hopper(self) -> bool:
        return self.version_major == 3

    @property
    def _result_tile(self) -> Ints:
        return self.instr_shape[:2] if self.is_hopper else self.instr_shape

    @property
    def _warp_order(self) -> Ints:
        return tiling.matrix_order(self.rank, row_major=not self.is_hopper)

    def parameters(self) -> Iterable[tuple[str, str]]:
        """Print the blocks before the shape of the instruction."""
        return sorted(super().parameters(), key=lambda one: one[0] == "instrShape")

    def linear_layout(self, shape: Shape) -> LinearLayout:
        order = tiling.matrix_order(self.rank, row_major=True)
        tile = _tile(self._result_tile, 2, order, order)
        warps = tiling.identity("warp", self.warps_per_cta, self._warp_order)
        return tiling.cover(tile * warps.transpose_outs(tile.out_dims), self.cga_layout, shape)

    def check_dot_operand(self, op_idx: int, k_width: int) -> None:
        if not k_width:
            raise LayoutError("kWidth of #ttg.dot_op is required for #ttg.nvidia_mma")
        if self.is_hopper and op_idx == 1:
            raise LayoutError("operand B of #ttg.nvidia_mma version 3 lives in shared memory")

    def dot_operand_layout(self, op_idx: int, k_width: int, shape: Shape) -> LinearLayout:
        k, other = tiling.dot_operand_dims(op_idx, self.rank)
        m = self._result_tile[self.rank - 2]
        sizes = [1] * self.rank
        sizes[k] = k_width * (4 if m == 8 else 8)
        sizes[other] = m if op_idx == 0 else 8
        order = (k, other, *reversed(range(self.rank - 2)))
        tile = _tile(sizes, k_width, order, order)
        warps = tiling.copied_identity("warp", self.warps_per_cta, self._warp_order, copied=k)
        tile *= warps.transpose_outs(tile.out_dims)
        return tiling.cover(tile, without_dim(self.cga_layout, k), shape)


def _tile(
    sizes: Sequence[int], k_width: int, order: Sequence[int], repeat_order: Sequence[int]
) -> LinearLayout:
    """A warp's tile: 8 rows of 4 lanes that hold `k_width` neighbours; repeated along rows
    first.
    """
    inner, outer = order[0], order[1]
    tile = tiling.identity("register", [1] * len(sizes), repeat_order)
    tile *= LinearLayout.identity1d(k_width, "register", dim_name(inner))
    tile *= LinearLayout.identity1d(4, "lane", dim_name(inner))
    tile *= LinearLayout.identity1d(8, "lane", dim_name(outer))
    tile *= LinearLayout.identity1d(sizes[outer] // 8, "register", dim_name(outer))
    return tile * LinearLayout.identity1d(
        sizes[inner] // (4 * k_width), "register", dim_name(inner)
    )
