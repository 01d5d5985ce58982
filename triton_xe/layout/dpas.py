"""`#xe.dpas`: layouts of the operands and results of DPAS, the matrix instruction of Intel GPUs.

One DPAS instruction computes C[M, N] += A[M, K] * B[K, N], where M = repeat_count,
N = execution_size and K = systolic_depth * ops_per_channel.  A 32-bit channel has ops_per_channel
elements (1: 32 bit, 2: 16 bit, 4: 8 bit, 8: 4 bit).  A warp has a cluster of `rep_cluster`
instructions, the warps have adjacent clusters, and this block repeats until it covers the tensor.
Operands repeat along K first, then along their other dim; the result repeats along N first.

Register layouts of the instruction: visa `DPAS` documentation of the Intel graphics compiler.
Order of the repetitions: Intel's Triton backend (DPAStoLinearLayout), whose printed register
tables this reproduces.

>>> from triton_xe.hardware.dpas import EXECUTION_SIZES, SYSTOLIC_DEPTH
>>> from triton_xe.layout.encodings import DotOperandEncoding, to_linear_layout
>>> dpas = DpasEncoding(8, 8, 16, 2, 16, (8, 4), (4, 2))
>>> to_linear_layout(dpas, (256, 256)).apply({"register": 9, "lane": 3, "warp": 5, "block": 0})
{'dim0': 33, 'dim1': 51}
>>> to_linear_layout(DotOperandEncoding(1, dpas, 2), (32, 256)).bases["register"][:5]
((1, 0), (2, 0), (4, 0), (8, 0), (0, 16))
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from triton_xe.errors import LayoutError
from triton_xe.hardware.dpas import EXECUTION_SIZES, SYSTOLIC_DEPTH
from triton_xe.layout import tiling
from triton_xe.layout.attribute_text import Fields, fail, show
from triton_xe.layout.encodings import DistributedEncoding, Ints, mlir
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import Shape, dim_name, dim_names

Basis = tuple[int, int]


@dataclass(frozen=True)
class DpasEncoding(DistributedEncoding):
    """Layout of the result of a product that DPAS computes.

    `warps_per_cta` and `rep_cluster` have the rank of the tensor, 2 or 3 (with a batch dimension
    first).
    """

    mnemonic: ClassVar[str] = "xe.dpas"
    repeat_count: int = mlir("repeatCount", one_of=(1, 2, 4, 8))
    systolic_depth: int = mlir("systolicDepth", one_of=(SYSTOLIC_DEPTH,))
    execution_size: int = mlir("executionSize", one_of=EXECUTION_SIZES)
    ops_per_channel: int = mlir("opsPerChan", one_of=(1, 2, 4, 8))
    threads_per_warp: int = mlir("threadsPerWarp")
    warps_per_cta: Ints = mlir("warpsPerCTA", powers=True)
    rep_cluster: Ints = mlir("repCluster", powers=True)

    def check(self) -> None:
        what, size = "#xe.dpas", self.execution_size
        if self.threads_per_warp not in (size, 2 * size):
            self.refuse(
                f"threadsPerWarp must be {size} or {2 * size}, got {self.threads_per_warp}"
            )
        if self.repeat_count < self.rows_per_register:
            self.refuse(
                f"{self.threads_per_warp} lanes need a repeatCount of at least "
                f"{self.rows_per_register}, got {self.repeat_count}"
            )
        if len(self.warps_per_cta) not in (2, 3) or self.rank != len(self.rep_cluster):
            raise LayoutError(f"warpsPerCTA and repCluster of {what} must both have rank 2 or 3")
        if self.rank == 3 and self.rep_cluster[0] != 1:
            raise LayoutError(f"{what} cannot cluster over the batch: repCluster[0] must be 1")

    @classmethod
    def read(cls, entries: Fields) -> Self:
        """Also read the derived entries A, B, C of Intel's spelling, and check them.

        `fp4KPack` (pairs of 4-bit elements in bytes) does not change the positions of the bytes.
        """
        made = super().read(entries)
        for name, shape in {"A": made.shape_a, "B": made.shape_b, "C": made.shape_c}.items():
            if entries.has(name) and entries.integers(name)[-2:] != shape:
                item = entries.item(name)
                fail(item.column, f"{name} = {list(shape)}", show(item.value))
        packed = entries.integer("fp4KPack") if entries.has("fp4KPack") else None
        if packed is not None and (packed, made.ops_per_channel) != (2, 4):
            column = entries.item("fp4KPack").column
            fail(column, "fp4KPack = 2 with opsPerChan = 4", "another pair")
        return made

    @property
    def rows_per_register(self) -> int:
        """Rows of C, or packed rows of B, that one register of all lanes holds."""
        return self.threads_per_warp // self.execution_size

    @property
    def k_size(self) -> int:
        """K of one instruction."""
        return self.systolic_depth * self.ops_per_channel

    @property
    def a_elements_per_lane(self) -> int:
        """Adjacent elements along K of A in one lane: the lanes share a row of A."""
        return max(1, self.k_size // self.execution_size)

    @property
    def shape_a(self) -> Ints:
        """A for one warp: all instructions of a cluster, one step of K."""
        return (self.repeat_count * self.rep_cluster[-2], self.k_size)

    @property
    def shape_b(self) -> Ints:
        return (self.k_size, self.execution_size * self.rep_cluster[-1])

    @property
    def shape_c(self) -> Ints:
        return (
            self.repeat_count * self.rep_cluster[-2],
            self.execution_size * self.rep_cluster[-1],
        )

    @property
    def block(self) -> Ints:
        """Rows and columns of the result of all warps, each of which has one rectangle of it."""
        return tuple(size * warps for size, warps in zip(
            self.shape_c, self.warps_per_cta[-2:], strict=True))

    def linear_layout(self, shape: Shape) -> LinearLayout:
        m, n = self.rank - 2, self.rank - 1
        tile = self._instruction(*self._bases_c())
        for dim in (n, m):
            tile *= LinearLayout.identity1d(self.rep_cluster[dim], "register", dim_name(dim))
        order = tiling.matrix_order(self.rank, row_major=True)
        tile *= tiling.identity("warp", self.warps_per_cta, order)
        return tiling.cover(self._repeat(tile, (n, m), shape), (), shape)

    def expected_k_width(self, op_idx: int) -> int:
        """`kWidth` of the operand's `#ttg.dot_op`."""
        return self.ops_per_channel if op_idx == 1 else self.a_elements_per_lane

    def check_dot_operand(self, op_idx: int, k_width: int) -> None:
        expected = self.expected_k_width(op_idx)
        if k_width not in (0, expected):
            raise LayoutError(
                f"kWidth of operand {'AB'[op_idx]} of this #xe.dpas must be {expected}, "
                f"got {k_width}"
            )

    def dot_operand_layout(self, op_idx: int, k_width: int, shape: Shape) -> LinearLayout:
        """Operand layout; warps that differ along the other operand's dim hold copies."""
        k, other = tiling.dot_operand_dims(op_idx, self.rank)
        tile = self._instruction(*(self._bases_a() if op_idx == 0 else self._bases_b()))
        tile *= LinearLayout.identity1d(self.rep_cluster[other], "register", dim_name(other))
        order = tiling.matrix_order(self.rank, row_major=True)
        tile *= tiling.copied_identity("warp", self.warps_per_cta, order, copied=k)
        return tiling.cover(self._repeat(tile, (k, other), shape), (), shape)

    def _instruction(self, registers: list[Basis], lanes: list[Basis]) -> LinearLayout:
        return LinearLayout({"register": registers, "lane": lanes}, dim_names(self.rank)[-2:])

    def _repeat(self, tile: LinearLayout, dims: Iterable[int], shape: Shape) -> LinearLayout:
        """Repeat along `dims` in that order, then along the batch, to cover `shape`."""
        for dim in (*dims, *range(self.rank - 2)):
            times = shape[dim] // tile.out_dims.get(dim_name(dim), 1)
            tile *= LinearLayout.identity1d(max(1, times), "register", dim_name(dim))
        return tile

    def _bases_c(self) -> tuple[list[Basis], list[Basis]]:
        """Bases of C: lanes along N; lanes beyond N go along M."""
        rows = self.rows_per_register
        lanes = [(0, x) for x in _powers(1, self.execution_size)]
        lanes += [(y, 0) for y in _powers(1, rows)]
        return [(y, 0) for y in _powers(rows, self.repeat_count)], lanes

    def _bases_a(self) -> tuple[list[Basis], list[Basis]]:
        """Bases of A: a row fills the lanes along K; a register of all lanes holds 1 or more rows.

        If the repeat count is one row, the remaining lanes hold copies, which DPAS does not read.
        """
        packed = self.a_elements_per_lane
        columns = self.k_size // packed
        rows = self.threads_per_warp // columns
        lanes = [(0, packed * x) for x in _powers(1, columns)]
        lanes += [(y if y < self.repeat_count else 0, 0) for y in _powers(1, rows)]
        registers = [(0, x) for x in _powers(1, packed)]
        return registers + [(y, 0) for y in _powers(rows, self.repeat_count)], lanes

    def _bases_b(self) -> tuple[list[Basis], list[Basis]]:
        """Bases of B: the elements of a channel are neighbours along K ("VNNI"); lanes go
        along N.
        """
        ops, rows = self.ops_per_channel, self.rows_per_register
        lanes = [(0, x) for x in _powers(1, self.execution_size)]
        lanes += [(ops * y, 0) for y in _powers(1, rows)]
        registers = [(y, 0) for y in _powers(1, ops)]
        return registers + [(ops * y, 0) for y in _powers(rows, self.systolic_depth)], lanes


def _powers(start: int, stop: int) -> list[int]:
    """start, 2 * start, 4 * start, ... below stop."""
    result = []
    while start < stop:
        result.append(start)
        start *= 2
    return result
