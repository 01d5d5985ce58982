"""Shared-memory layouts: the element at each offset of the memory.

In-dims are offset (counted in elements) and block.  Parameters and meaning: `TritonGPUAttrDefs.td`
of triton 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

from triton_xe.errors import LayoutError
from triton_xe.layout import tiling
from triton_xe.layout.attribute_text import Fields, fail
from triton_xe.layout.encodings import (
    Encoding,
    Ints,
    NamedEncoding,
    bases_text,
    check_dims,
    ints,
    mlir,
)
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.layout.tiling import BlockBases, Shape, dim_name, dim_names


class SharedEncoding(Encoding):
    """A layout of shared (local) memory."""

    what: ClassVar[str] = "a shared-memory layout"
    dims: ClassVar[Sequence[str]] = ("offset", "block")
    optional_dims: ClassVar[Sequence[str]] = ("block",)


@dataclass(frozen=True)
class SwizzledSharedEncoding(SharedEncoding):
    """Consecutive rows, in which groups of `vec` columns are xored with the row's phase.

    The phase is `row // per_phase % max_phase`; `order` lists the dims fastest first.
    """

    mnemonic: ClassVar[str] = "ttg.swizzled_shared"
    vec: int = mlir("vec", powers=True)
    per_phase: int = mlir("perPhase", powers=True)
    max_phase: int = mlir("maxPhase", powers=True)
    order: Ints = mlir("order")
    cga_layout: BlockBases = mlir("CGALayout", default=())

    def phase(self, row: int) -> int:
        """Number that the columns of a row are xored with, in groups of `vec`."""
        return row // self.per_phase % self.max_phase

    def _piece(self, shape: Shape) -> Shape:
        return tiling.shape_per_block(self.cga_layout, shape)

    def linear_layout(self, shape: Shape) -> LinearLayout:
        sizes = self._piece(shape)
        if self.rank == 1:
            return tiling.cover(tiling.identity("offset", sizes, (0,)), self.cga_layout, shape)
        column, row = self.order[0], self.order[1]
        bases = [(0, 1 << bit) for bit in range(sizes[column].bit_length() - 1)]
        for bit in range(sizes[row].bit_length() - 1):
            bases.append((1 << bit, self.vec * self.phase(1 << bit) % sizes[column]))
        matrix = LinearLayout({"offset": bases}, [dim_name(row), dim_name(column)])
        matrix *= tiling.identity("offset", [1] * self.rank, (row, column))
        matrix *= tiling.identity("offset", sizes, self.order[2:])
        return tiling.cover(matrix, self.cga_layout, shape)


@dataclass(frozen=True)
class AmdRotatingSharedEncoding(SwizzledSharedEncoding):
    """`SwizzledSharedEncoding` whose phase also advances from one block of rows to the next."""

    mnemonic: ClassVar[str] = "ttg.amd_rotating_shared"

    def phase(self, row: int) -> int:
        block = row // (self.per_phase * self.max_phase) % self.max_phase
        return super().phase(row) ^ block

    def _piece(self, shape: Shape) -> Shape:
        return shape


@dataclass(frozen=True)
class SharedLinearEncoding(SharedEncoding):
    """A linear layout given by its bases; `alignment` in bytes.  Only for tensors of its own
    shape.
    """

    mnemonic: ClassVar[str] = "ttg.shared_linear"
    layout: LinearLayout
    alignment: int = mlir("alignment", powers=True)

    def check(self) -> None:
        check_dims(self, self.layout)
        bare = self.layout.without_zero_bases("offset").without_zero_bases("block")
        if not bare.is_invertible:
            raise LayoutError("#ttg.shared_linear must be bijective once copies are left out")

    def parameters(self) -> Iterable[tuple[str, str]]:
        for name, vectors in self.layout.bases.items():
            if vectors or name != "block":
                yield name, bases_text(vectors)

    def __str__(self) -> str:
        fields = ", ".join(f"{name} = {value}" for name, value in self.parameters())
        return f"#{self.mnemonic}<{{{fields}}}, alignment = {self.alignment}>"

    def linear_layout(self, shape: Shape) -> LinearLayout:
        return of_own_shape(self.layout, shape, "#ttg.shared_linear")


@dataclass(frozen=True)
class PaddedSharedEncoding(SharedEncoding):
    """`paddings[i]` unused elements after every `intervals[i]` elements.

    `layout` orders the elements; `linear_layout` is that order without the padding, and
    `padded_offset` converts its offsets to addresses.
    """

    mnemonic: ClassVar[str] = "ttg.padded_shared"
    intervals: Ints = mlir("the intervals", powers=True)
    paddings: Ints = mlir("the paddings", powers=True)
    layout: LinearLayout = mlir("layout")

    def check(self) -> None:
        what = "#ttg.padded_shared"
        if not self.intervals or len(self.intervals) != len(self.paddings):
            raise LayoutError(f"{what} needs as many paddings as intervals, and at least one")
        if len(set(self.intervals)) != len(self.intervals):
            raise LayoutError(f"{what} names an interval twice: {ints(self.intervals)}")
        check_dims(self, self.layout)
        if any(column & (column - 1) for column in self.layout.columns):
            self.refuse("each basis must be zero or a power of two in one dim")
        if not self.layout.sublayout(["offset"], self.layout.out_dims).is_injective:
            raise LayoutError(f"{what} cannot hold an element twice")

    @classmethod
    def read(cls, entries: Fields) -> Self:
        """Also read `order` and `shape`, which replace the bases of a plain layout."""
        if not entries.paddings:
            fail(entries.column, "'[interval:+padding, ...]'", "'{'")
        if not entries.has("shape") and not entries.has("offset"):
            raise LayoutError(
                f"column {entries.column}: #{cls.mnemonic} says which elements it pads: add order"
                " and shape, {order = [1, 0], shape = [16, 32]}, which texts of older Tritons lack")
        if entries.has("order"):
            order, shape = entries.integers("order"), entries.integers("shape")
            rank = len(shape)
            if sorted(order) != list(range(rank)):
                fail(entries.item("order").column, f"an order of {rank} dims", str(list(order)))
            rows = tiling.identity("offset", shape, order).transpose_outs(dim_names(rank))
            layout = rows * block_dim(rank)
        else:
            layout = entries.layout(cls.dims, cls.optional_dims)
        intervals, paddings = zip(*entries.paddings, strict=True)
        return cls(intervals, paddings, layout)

    @property
    def rank(self) -> int:
        return len(self.layout.out_dims)

    @property
    def order(self) -> Ints:
        """Dims in the order in which offsets step through them; the others follow, last dim
        first.
        """
        seen: list[int] = []
        for basis in self.layout.bases["offset"]:
            dim = next(dim for dim, value in enumerate(basis) if value)
            if dim not in seen:
                seen.append(dim)
        return (*seen, *(dim for dim in reversed(range(self.rank)) if dim not in seen))

    @property
    def shape(self) -> Ints:
        return tuple(self.layout.out_dims.values())

    def parameters(self) -> Iterable[tuple[str, str]]:
        plain = tiling.identity("offset", self.shape, self.order)
        if self.layout == plain.transpose_outs(dim_names(self.rank)) * block_dim(self.rank):
            yield "order", ints(self.order)
            yield "shape", ints(self.shape)
            return
        for name, vectors in self.layout.bases.items():
            yield name, bases_text(vectors)

    def __str__(self) -> str:
        pairs = zip(self.intervals, self.paddings, strict=True)
        padding = ", ".join(f"{interval}:+{extra}" for interval, extra in pairs)
        fields = ", ".join(f"{name} = {value}" for name, value in self.parameters())
        return f"#{self.mnemonic}<[{padding}] {{{fields}}}>"

    def linear_layout(self, shape: Shape) -> LinearLayout:
        return of_own_shape(self.layout, shape, "#ttg.padded_shared")

    def padded_offset(self, offset: int) -> int:
        """The address, in elements, of the element at `offset` of the layout."""
        pairs = zip(self.intervals, self.paddings, strict=True)
        return offset + sum(offset // interval * padding for interval, padding in pairs)


@dataclass(frozen=True)
class NvmmaSharedEncoding(SharedEncoding):
    """Operands of NVIDIA's wgmma and tcgen05, as TMA copies arrange them.

    Tiles of 8 rows by `swizzling_byte_width` bytes, in groups of 16 bytes xored with the row.
    """

    mnemonic: ClassVar[str] = "ttg.nvmma_shared"
    swizzling_byte_width: int = mlir("swizzlingByteWidth", one_of=(0, 32, 64, 128))
    transposed: bool = mlir("transposed", absent=False)
    element_bit_width: int = mlir("elementBitWidth", powers=True)
    fp4_padded: bool = mlir("fp4Padded", default=False, absent=False)
    cga_layout: BlockBases = mlir("CGALayout", default=())
    tensor_rank: int = mlir("rank", default=2, absent=2)

    @property
    def rank(self) -> int:
        return self.tensor_rank

    @classmethod
    def read(cls, entries: Fields) -> Self:
        """Without `rank`, take the rank of the bases, or 2 if there are none."""
        rank = entries.integer("rank", 2)
        if not entries.has("rank") and entries.has("CGALayout"):
            rank = max((len(basis) for basis in entries.bases("CGALayout")), default=2)
        return cls(
            entries.integer("swizzlingByteWidth"),
            entries.boolean("transposed", False),
            entries.integer("elementBitWidth"),
            entries.boolean("fp4Padded", False),
            entries.block_bases(rank),
            rank,
        )

    def parameters(self) -> Iterable[tuple[str, str]]:
        """Omit the rank if the blocks imply it."""
        return (one for one in super().parameters() if one[0] != "rank" or not self.cga_layout)

    def copy_shape(self, shape: Sequence[int]) -> list[int]:
        """The box one TMA copy moves: at most 256 elements per dim and one swizzle width."""
        inner = 0 if self.transposed else self.rank - 1
        packing = 2 if self.fp4_padded else 1
        box = [min(size, 256) for size in shape]
        box[inner] = min(shape[inner] * packing, 256) // packing
        if self.swizzling_byte_width:
            width = 8 * self.swizzling_byte_width // (self.element_bit_width * packing)
            box[inner] = min(width, box[inner])
        return box

    def linear_layout(self, shape: Shape) -> LinearLayout:
        piece = tiling.shape_per_block(self.cga_layout, shape)
        box = self.copy_shape(piece)
        if self.swizzling_byte_width:
            tile = self._swizzled_layout(box).transpose_outs(dim_names(self.rank))
        else:
            tile = self._plain(box)
        tile = tiling.grow(tile, dict(zip(dim_names(self.rank), piece, strict=True)))
        return tiling.cover(tile, self.cga_layout, shape)

    def _contiguous_last(self, box: list[int]) -> list[int]:
        """Move the contiguous dim, which is the first one if transposed, to the end."""
        return [*box[1:], box[0]] if self.transposed else box

    def _plain(self, box: list[int]) -> LinearLayout:
        """Row-major order.

        If transposed, the order of triton 3.9: for rank 3 that is dim1, dim0, dim2 with the sizes
        of dim0, dim2, dim1.
        """
        order = list(reversed(range(self.rank)))
        if not self.transposed:
            return tiling.identity("offset", box, order)
        result = LinearLayout.empty()
        sizes = self._contiguous_last(box)
        for size_of, dim in zip(order, [*order[1:], order[0]], strict=True):
            result *= LinearLayout.identity1d(sizes[size_of], "offset", dim_name(dim))
        return result.transpose_outs([dim_name(dim) for dim in order])

    def _swizzled_layout(self, box: list[int]) -> LinearLayout:
        """Core matrices repeated down the rows, then to the right.

        All dims but the last count as rows (as columns if transposed).
        """
        tile = self._core_matrix()
        rows, columns = prod(box[:-1]), box[-1]
        if self.transposed:
            rows, columns = columns, rows
        if columns < tile.out_dims["dim1"] or rows < tile.out_dims["dim0"]:
            raise LayoutError(
                f"#ttg.nvmma_shared needs at least {tile.out_dims['dim0']} rows of "
                f"{tile.out_dims['dim1']} elements, the tensor has {rows} of {columns}"
            )
        tile = tiling.grow(tile, {"dim0": rows, "dim1": columns}).transpose_outs(["dim1", "dim0"])
        names = dim_names(self.rank)
        if self.transposed:
            names, box = [*names[1:], names[0]], self._contiguous_last(box)
        return tile.reshape_outs(dict(reversed([*zip(names, box, strict=True)])))

    def _core_matrix(self) -> LinearLayout:
        vec = 128 // self.element_bit_width
        per_phase = 128 // self.swizzling_byte_width
        max_phase = self.swizzling_byte_width // 16
        columns = 8 * self.swizzling_byte_width // self.element_bit_width
        bases = [(0, self._packed(1 << bit)) for bit in range(columns.bit_length() - 1)]
        for row in (1, 2, 4):
            bases.append((row, self._packed(vec * (row // per_phase % max_phase))))
        return LinearLayout({"offset": bases}, ["dim0", "dim1"])

    def _packed(self, column: int) -> int:
        """Column of padded fp4: of 16 columns the upper 8 are padding, which repeats the
        lower 8.
        """
        return column // 16 * 8 + column % 8 if self.fp4_padded else column


@dataclass(frozen=True)
class PartitionedSharedEncoding(SharedEncoding):
    """Pieces along `partition_dim`, distributed over `num_partitions` buffers, `num_groups`
    times.
    """

    mnemonic: ClassVar[str] = "ttg.partitioned_shared"
    num_partitions: int = mlir("numPartitions", powers=True)
    num_groups: int = mlir("numGroups", powers=True)
    partition_dim: int = mlir("partitionDim")
    partition_layout: SharedEncoding = mlir("partitionLayout")

    def check(self) -> None:
        if self.num_partitions < 2:
            self.refuse("numPartitions must be at least 2")
        if not isinstance(self.partition_layout, SharedEncoding):
            self.refuse("partitionLayout must be a shared-memory layout")
        if not 0 <= self.partition_dim < self.rank:
            self.refuse(f"partitionDim is {self.partition_dim}, rank {self.rank}")

    def linear_layout(self, shape: Shape) -> LinearLayout:
        """Layout with the in-dims offset, block, partition."""
        pieces = self.num_partitions * self.num_groups
        if shape[self.partition_dim] < pieces:
            raise LayoutError(
                f"#ttg.partitioned_shared cuts dim {self.partition_dim} into {pieces} pieces, "
                f"but the tensor has {shape[self.partition_dim]} there"
            )
        piece = list(shape)
        piece[self.partition_dim] //= pieces
        name = dim_name(self.partition_dim)
        inner = self.partition_layout.linear_layout(tuple(piece))
        inner *= LinearLayout.identity1d(self.num_partitions, "partition", name)
        return inner * LinearLayout.identity1d(self.num_groups, "offset", name)


@dataclass(frozen=True)
class SharedMemorySpace(NamedEncoding):
    """`#ttg.shared_memory`: the memory of a memory descriptor, not a layout."""

    mnemonic: ClassVar[str] = "ttg.shared_memory"
    why: ClassVar[str] = "names a memory, it does not say in which order data is in it"


def block_dim(rank: int) -> LinearLayout:
    """Layout of one block."""
    return LinearLayout({"block": ()}, dim_names(rank))


def of_own_shape(layout: LinearLayout, shape: Shape, what: str) -> LinearLayout:
    if tuple(layout.out_dims.values()) != shape:
        own = list(layout.out_dims.values())
        raise LayoutError(f"{what} is for tensors of shape {own}, not {list(shape)}")
    return layout
