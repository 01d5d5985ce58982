"""From the layout of one tile to the layout of a tensor: the rules that all encodings share.

A tile repeats until it covers the tensor; if it is larger than the tensor, it holds copies.  Then
the blocks (CTAs) of a cluster are assigned.  The rules are those of Triton's
`combineCtaCgaWithShape` (lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from triton_xe.errors import LayoutError
from triton_xe.layout.linear_layout import LinearLayout

Shape = tuple[int, ...]
BlockBases = tuple[tuple[int, ...], ...]


def dim_name(dim: int) -> str:
    return f"dim{dim}"


def dim_names(rank: int) -> list[str]:
    """`dim0`, `dim1`, ...: the names of outputs in every tensor layout."""
    return [dim_name(dim) for dim in range(rank)]


def check_shape(shape: Sequence[int], rank: int, what: str) -> None:
    if len(shape) != rank:
        raise LayoutError(f"{what} has rank {rank}, but the tensor shape is {list(shape)}")
    for size in shape:
        if size < 1 or size & (size - 1):
            raise LayoutError(f"tensor sizes must be powers of two, got {list(shape)}")


def is_power_of_two(value: int) -> bool:
    return value > 0 and not value & (value - 1)


def identity(in_dim: str, sizes: Sequence[int], order: Sequence[int]) -> LinearLayout:
    """`in_dim` counts through a box of `sizes`, dim `order[0]` first; outs in that order too."""
    total = prod(sizes[dim] for dim in order)
    flat = LinearLayout.identity1d(total, in_dim, in_dim)
    return flat.reshape_outs({dim_name(dim): sizes[dim] for dim in order})


def copied_identity(
    in_dim: str, sizes: Sequence[int], order: Sequence[int], copied: int
) -> LinearLayout:
    """`identity`, except that steps along dim `copied` map to zero (its slots share elements)."""
    result = LinearLayout.empty()
    for dim in order:
        make = LinearLayout.zeros1d if dim == copied else LinearLayout.identity1d
        result *= make(sizes[dim], in_dim, dim_name(dim))
    return result


def grow(layout: LinearLayout, sizes: Mapping[str, int]) -> LinearLayout:
    """Repeat in the first in-dim until no out-dim is smaller than `sizes`, minor out-dim first."""
    in_dim = next(iter(layout.in_dims))
    for name, size in layout.out_dims.items():
        if size < sizes[name]:
            layout *= LinearLayout.identity1d(sizes[name] // size, in_dim, name)
    return layout


def shrink(
    layout: LinearLayout, sizes: Mapping[str, int], keep_register_copies: bool = True
) -> LinearLayout:
    """Map steps that would leave the tensor to zero along that dim, so that the slots become
    copies.

    Without `keep_register_copies`, registers that become copies here are left out.
    """
    new = {name: min(size, sizes[name]) for name, size in layout.out_dims.items()}
    if new == layout.out_dims:
        return layout
    limits = list(new.values())
    bases: dict[str, list[tuple[int, ...]]] = {}
    for in_dim, vectors in layout.bases.items():
        bases[in_dim] = []
        for vector in vectors:
            cut = tuple(v if v < limit else 0 for v, limit in zip(vector, limits, strict=True))
            becomes_copy = any(vector) and not any(cut)
            if keep_register_copies or in_dim != "register" or not becomes_copy:
                bases[in_dim].append(cut)
    return LinearLayout(bases, new, require_surjective=False)


def block_layout(block_bases: BlockBases, rank: int) -> LinearLayout:
    """First piece of each block of a cluster; all-zero bases are multicast copies."""
    return LinearLayout({"block": block_bases}, dim_names(rank))


def cover(tile: LinearLayout, block_bases: BlockBases, shape: Sequence[int]) -> LinearLayout:
    """Repeat the tile of one block over `shape`, after the blocks have split it.

    The order of the tile's out-dims is the order of repetition; the result has dim0, dim1, ...
    Raise `LayoutError` if a size is no power of two.
    """
    names = dim_names(len(shape))
    sizes = dict(zip(names, shape, strict=True))
    blocks = shrink(block_layout(block_bases, len(shape)), sizes).transpose_outs(tile.out_dims)
    per_block = {name: max(1, sizes[name] // blocks.out_dims[name]) for name in names}
    tile = shrink(grow(tile, per_block), per_block)
    result = (tile * blocks).transpose_outs(names)
    if result.out_dims != sizes:
        raise LayoutError(f"no layout covers {list(shape)}: each size must be a power of two")
    return result


def shape_per_block(block_bases: BlockBases, shape: Sequence[int]) -> Shape:
    """Shape of the piece that one block holds."""
    split = block_layout(block_bases, len(shape)).out_dims.values()
    return tuple(size // min(size, parts) for size, parts in zip(shape, split, strict=True))


def matrix_order(rank: int, row_major: bool) -> tuple[int, ...]:
    """Dims of a (batched) matrix, fastest first."""
    order = [rank - 1, rank - 2] if row_major else [rank - 2, rank - 1]
    return (*order, *reversed(range(rank - 2)))


def dot_operand_dims(op_idx: int, rank: int) -> tuple[int, int]:
    """The (K, non-K) dims of operand A (0) or B (1)."""
    return (rank - 1, rank - 2) if op_idx == 0 else (rank - 2, rank - 1)
