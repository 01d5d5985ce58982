"""Default layouts, computed from shapes and operands as Triton's own constructors do.

Formulas: the builders in `TritonGPUAttrDefs.td`.

>>> str(blocked_for((64, 64), (1, 8), (1, 0), warps=4, lanes=16))[12:]
'<{sizePerThread = [1, 8], threadsPerWarp = [2, 8], warpsPerCTA = [4, 1], order = [1, 0]}>'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from triton_xe.errors import LayoutError
from triton_xe.layout import tiling
from triton_xe.layout.amd import AmdMfmaEncoding, AmdWmmaEncoding
from triton_xe.layout.attribute_text import split_blocks
from triton_xe.layout.encodings import BlockedEncoding, DistributedEncoding, DotOperandEncoding
from triton_xe.layout.nvidia import NvidiaMmaEncoding
from triton_xe.layout.shared import (
    NvmmaSharedEncoding,
    PaddedSharedEncoding,
    SwizzledSharedEncoding,
)
from triton_xe.layout.tiling import BlockBases

_BANK_BITS = 1024
"""Bits that all banks of NVIDIA's shared memory deliver in one access."""


def blocked_for(
    shape: Sequence[int], size_per_thread: Sequence[int], order: Sequence[int], *,
    warps: int, lanes: int, blocks: int = 1,
) -> BlockedEncoding:
    """Assign lanes, then warps, along the fastest dim first; blocks of a cluster along the
    slowest.
    """
    rank = len(shape)
    split, left = [1] * rank, blocks
    for dim in reversed(order):
        split[dim] = _limit(left, shape[dim] // size_per_thread[dim])
        left //= split[dim]
    together = [*split[:-1], split[-1] * left]
    bases = split_blocks(tuple(together), tuple(split), tuple(order)) if blocks > 1 else ()
    piece = tiling.shape_per_block(bases, shape)
    per_warp, per_block, threads = [1] * rank, [1] * rank, warps * lanes
    for dim in order[:-1]:
        here = _limit(threads, piece[dim] // size_per_thread[dim])
        per_warp[dim] = _limit(here, lanes // prod(per_warp))
        per_block[dim] = _limit(here // per_warp[dim], warps // prod(per_block))
        threads //= here
    per_warp[order[-1]], per_block[order[-1]] = lanes // prod(per_warp), warps // prod(per_block)
    return BlockedEncoding(
        tuple(size_per_thread), tuple(per_warp), tuple(per_block), tuple(order), bases)


def _limit(wanted: int, most: int) -> int:
    return min(wanted, max(1, most))


def dot_operand_for(op_idx: int, parent: DistributedEncoding, bits: int) -> DotOperandEncoding:
    """Operand layout with as many adjacent elements as fit 32 bits, for NVIDIA's products."""
    packed = isinstance(parent, NvidiaMmaEncoding)
    return DotOperandEncoding(op_idx, parent, max(32 // bits, 1) if packed else 0)


def swizzled_for(
    operand: DotOperandEncoding, shape: Sequence[int], order: Sequence[int], bits: int, *,
    transposed: bool = False, blocks: BlockBases = (),
) -> SwizzledSharedEncoding:
    """Shared-memory layout from which an operand is read without bank conflicts.

    It is not swizzled if the product is not NVIDIA's.  `bits` is the size of an element;
    `transposed` refers to the access.
    """
    if isinstance(operand.parent, AmdMfmaEncoding | AmdWmmaEncoding):
        raise LayoutError(f"how #{operand.parent.mnemonic} is swizzled is not known here")
    if not isinstance(operand.parent, NvidiaMmaEncoding):
        return SwizzledSharedEncoding(1, 1, 1, tuple(order), blocks)
    inner = tiling.shape_per_block(blocks, shape)[order[0]]
    k, _ = tiling.dot_operand_dims(operand.op_idx, len(order))
    vec, rows = 4 * operand.k_width, 8
    if transposed != (order[0] != k):
        vec, rows = rows, vec
    per_phase = max(_BANK_BITS // (bits * inner), 1)
    phases = _limit(rows, _BANK_BITS // (vec * bits))
    return SwizzledSharedEncoding(
        vec, per_phase, max(phases // per_phase, 1), tuple(order), blocks)


def nvmma_for(
    shape: Sequence[int], order: Sequence[int], bits: int, *, fp4_padded: bool = False,
    blocks: BlockBases = (),
) -> NvmmaSharedEncoding:
    """Layout swizzled by the largest number of bytes that divides a row, if there are 8 rows."""
    piece = tiling.shape_per_block(blocks, shape)
    row = piece[order[0]] * bits // 8 * (2 if fp4_padded else 1)
    width = next((size for size in (128, 64, 32) if row and not row % size), 0)
    if prod(piece) // piece[order[0]] < 8:
        width = 0
    return NvmmaSharedEncoding(width, order[0] == 0, bits, fp4_padded, blocks, len(shape))


def padded_for(
    pads: Iterable[tuple[int, int]], order: Sequence[int], shape: Sequence[int]
) -> PaddedSharedEncoding:
    """Layout with `padding` elements after every `interval` elements, of a tensor in this order."""
    intervals, paddings = zip(*pads, strict=True)
    rows = tiling.identity("offset", shape, order).transpose_outs(tiling.dim_names(len(shape)))
    return PaddedSharedEncoding(intervals, paddings, rows * tiling.block_layout((), len(shape)))
