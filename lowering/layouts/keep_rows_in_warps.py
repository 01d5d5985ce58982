"""Rule keep-rows-in-warps: scan and reduce each row inside of one warp, if every warp has a row.

    #ttg.blocked<{threadsPerWarp = [1, 16], warpsPerCTA = [1, 4]}>
 -> #ttg.blocked<{threadsPerWarp = [1, 16], warpsPerCTA = [4, 1]}>

Triton distributes warps first along rows, because their elements are adjacent.  Then warps exchange
the totals of each row through shared local memory, with a barrier.  If each warp has whole rows,
messages move as many bytes, and a lane has as many elements.

A layout stays if it is also that of a tensor of which each lane would need more elements.  The
weights of columns are an example, which each warp would load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import LayoutAttr, encoding_of
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import AddPtrOp, BroadcastOp, ExpandDimsOp, MakeRangeOp, SplatOp
from triton_xe.dialects.tt.structure import FoldOp, ReduceOp, ScanOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.layout import BlockedEncoding, to_linear_layout
from triton_xe.layout.encodings import Encoding
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.rematerialize import (
    exchange_layouts,
    exchanged_in,
    is_cheap,
    layout_attr_of,
    rematerialize,
    slice_of,
)
from triton_xe.lowering.rewriting import all_of, below, values_below

Exchange = Mapping[Encoding, Encoding]
"""The new layout of tensors by their old one."""
_RESHAPES = (BroadcastOp, ExpandDimsOp)
"""Operations whose operand may have another layout, if lanes and warps have the same elements."""
_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp)
_ANY_WARPS = (AddPtrOp, LoadOp, StoreOp, MakeRangeOp, SplatOp)
"""Operations that, besides elementwise ones, are correct however warps share their tensors."""


def keep_rows_in_warps(op: ReduceOp | ScanOp, scope: Scope) -> None:
    """Scan and reduce each row inside of one warp, if every warp has a row."""
    held, axis = encoding_of(op.srcs[0].type), int(op.axis.value.data)
    if not isinstance(held, BlockedEncoding):
        return
    kept = with_whole_rows(held, shape_of(op.srcs[0]), axis)
    if kept is not None:
        exchange(scope, {held: kept}, axis)


def exchange(scope: Scope, exchanged: Exchange, axis: int) -> None:
    """Replace layouts of a function, if all users are correct with other ones, and none costs more.

    All scans and reductions of these layouts are along one axis.
    """
    if not _may_exchange(scope.function, exchanged, axis):
        return
    exchange_layouts(scope.function, exchanged)
    for user in all_of(scope.function, *_RESHAPES):
        encoding = layout_attr_of(user.results[0])
        if is_cheap(user.operands[0]):
            inner = slice_of(user, encoding) if isinstance(user, ExpandDimsOp) else encoding
            user.operands[0] = rematerialize(user.operands[0], inner, scope.made)


def with_whole_rows(
    held: BlockedEncoding, shape: Sequence[int], axis: int
) -> BlockedEncoding | None:
    """The layout with all warps along other dimensions; None if these are too short.

    >>> layout = BlockedEncoding((1, 4), (1, 16), (1, 4), (1, 0))
    >>> with_whole_rows(layout, (8, 512), 1).warps_per_cta
    (4, 1)
    >>> with_whole_rows(layout, (2, 512), 1)
    """
    left, warps = held.warps_per_cta[axis], list(held.warps_per_cta)
    if left == 1:
        return None
    warps[axis] = 1
    for dim in held.order:
        if dim != axis:
            covered = held.size_per_thread[dim] * held.threads_per_warp[dim] * warps[dim]
            more = min(left, max(shape[dim] // covered, 1))
            warps[dim] *= more
            left //= more
    return replace(held, warps_per_cta=tuple(warps)) if left == 1 else None


def _may_exchange(function: Operation, exchanged: Exchange, axis: int) -> bool:
    """True if all users of a layout are correct with another one, and none costs more."""
    if not all(_allows(op, exchanged, axis) for op in below(function)):
        return False
    return not any(_follows(v, exchanged) and not is_cheap(v) and _takes_more(v.type, exchanged)
                   for v in values_below(function))


def _allows(op: Operation, exchanged: Exchange, axis: int) -> bool:
    """True if an operation may get another number of warps along dimensions of its tensors."""
    tensors = [v for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
    others = [v for v in tensors if not _follows(v, exchanged)]
    if len(others) == len(tensors) or type(op) in _CONTROL:
        return True
    if isinstance(op, ConvertLayoutOp):
        return encoding_of(op.src.type) not in exchanged and (
            encoding_of(op.result.type) not in exchanged)
    if isinstance(op, FoldOp):
        return encoding_of(op.srcs[0].type) in exchanged and int(op.axis.value.data) == axis
    if type(op) in _RESHAPES:
        return all(v is op.operands[0] and is_cheap(v) for v in others)
    return not others and (type(op) in _ANY_WARPS or is_elementwise(op))


def _follows(value: SSAValue, exchanged: Exchange) -> bool:
    """True if a tensor changes with a layout: it has the layout, or a slice of it."""
    kind = value.type
    if not isinstance(kind, TensorType) or not isinstance(kind.encoding, LayoutAttr):
        return False
    return exchanged_in(encoding_of(kind), exchanged) != encoding_of(kind)


def _takes_more(kind: Attribute, exchanged: Exchange) -> bool:
    """True if a lane has more elements of a tensor in the other layout."""
    assert isinstance(kind, TensorType)
    encoding, shape = encoding_of(kind), tuple(kind.get_shape())
    before, after = (to_linear_layout(e, shape).in_dims["register"]
                     for e in (encoding, exchanged_in(encoding, exchanged)))
    return after > before
