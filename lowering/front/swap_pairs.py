"""Rule swap-pairs: exchange neighbours in sorting networks, which are written as sums of pairs.

    xor(%x, broadcast(reduce_xor %x))                 along a dim of 2

 -> xe.swap %x

    broadcast(reduce_add (%x * (1 - arange(0, 2))))   the first of each pair, of reshape %t

 -> select(xe.position_bit, xe.swap %t, %t)           in the shape of %t

The elements of a pair differ in one bit of their row-major position.  Therefore a swap does not
depend on the shape, and reshapes are left out.  Then the tensors of a network get a layout in which
few swaps cross warps.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, TensorType, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.arith_ext import ExtSIOp, ExtUIOp, SelectOp, TruncIOp
from triton_xe.dialects.layouts import encoding_of
from triton_xe.dialects.tt.ops import (
    BitcastOp,
    BroadcastOp,
    DotOp,
    DotScaledOp,
    ExpandDimsOp,
    MakeRangeOp,
    ReshapeOp,
)
from triton_xe.dialects.tt.structure import CallOp, FuncOp, ReduceOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import PositionBitOp, SwapOp
from triton_xe.layout import BlockedEncoding, to_linear_layout
from triton_xe.layout.defaults import blocked_for
from triton_xe.layout.encodings import Encoding
from triton_xe.lowering.facts.values import constant_of, shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.rematerialize import before_conversions, exchange_layouts
from triton_xe.lowering.rewriting import (
    all_of,
    erase_dead,
    is_unused,
    locate,
)

_CASTS = (ExtSIOp, ExtUIOp, TruncIOp)
_BY_ELEMENT = (*_CASTS, BitcastOp, arith.BitcastOp)


def swap_pairs(function: FuncOp, scope: Scope) -> None:
    """Sums that select one of two neighbours -> exchanges between lanes."""
    if _Rewriting().rewrite(function):
        _erase_folds(function)
        _keep_in_warps(function, scope.lanes, scope.warps)


class _Fold(NamedTuple):
    """Fold by `kind` of each pair along a dim, with the result in both positions."""

    kind: type[Operation]
    source: SSAValue
    dim: int

    @property
    def stride(self) -> int:
        return prod(shape_of(self.source)[self.dim + 1 :])


def _fold_of(value: SSAValue) -> _Fold | None:
    """Match broadcast(expand_dims(reduce %source)), in the shape of the source."""
    if not isinstance(spread := value.owner, BroadcastOp):
        return None
    if not isinstance(kept := spread.src.owner, ExpandDimsOp):
        return None
    if not isinstance(fold := before_conversions(kept.src).owner, ReduceOp) or len(fold.srcs) != 1:
        return None
    dim, combining = fold.axis.value.data, list(fold.combine.block.ops)
    shape = shape_of(fold.srcs[0])
    if kept.axis.value.data != dim or shape[dim] != 2 or shape != shape_of(value):
        return None
    if len(combining) != 2 or set(combining[0].operands) != set(fold.combine.block.args):
        return None
    return _Fold(type(combining[0]), before_conversions(fold.srcs[0]), dim)


def _indicator_of(value: SSAValue) -> tuple[int, int] | None:
    """The dim of 2 along which a tensor is 1 in one position and 0 in the other, and that
    position.
    """
    op, shape = value.owner, shape_of(value)
    if isinstance(op, MakeRangeOp):
        return (0, 1) if shape == (2,) and not op.start.value.data else None
    if isinstance(op, arith.SubiOp) and constant_of(op.lhs) == 1:
        found = _indicator_of(op.rhs)
        return (found[0], 1 - found[1]) if found else None
    if not isinstance(op, (*_CASTS, ConvertLayoutOp, ExpandDimsOp, ReshapeOp, BroadcastOp)):
        return None
    if isinstance(op, ExtSIOp) and _tensor(op.input).element_type == i1:
        return None  # -1
    found = _indicator_of(op.operands[0])
    if found is None or isinstance(op, (*_CASTS, ConvertLayoutOp, BroadcastOp)):
        return found
    return (shape.index(2), found[1]) if prod(shape) == 2 else None


class _Rewriting:
    """Replaces folds by swaps; equal ones are created once per block."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], SSAValue] = {}

    def rewrite(self, function: Operation) -> bool:
        """Rewrite a function; return True if it changed."""
        some = False
        for op in all_of(function, arith.XOrIOp, BroadcastOp, ReshapeOp):
            made = self._match_swap(op) or self._match_pick(op) or self._match_indicator(op)
            if made is not None:
                some = True
                Rewriter.replace_op(op, [], [made])
        return some

    def _match_swap(self, op: Operation) -> SSAValue | None:
        """Match x ^ (x ^ its neighbour)."""
        if not isinstance(op, arith.XOrIOp):
            return None
        for one, other in (op.operands, op.operands[::-1]):
            fold = _fold_of(other)
            if fold and fold.kind is arith.XOrIOp and fold.source is before_conversions(one):
                return self._swap(op, one, fold.stride)
        return None

    def _match_pick(self, op: Operation) -> SSAValue | None:
        """Match the sum of a pair of which one is multiplied by 0."""
        fold = _fold_of(op.results[0])
        if fold is None or fold.kind is not arith.AddiOp:
            return None
        widen = fold.source.owner
        product = widen.input if isinstance(widen, ExtSIOp | ExtUIOp) else fold.source
        if not isinstance(product.owner, arith.MuliOp):
            return None
        for value, factor in (product.owner.operands, product.owner.operands[::-1]):
            place = _indicator_of(factor)
            if place is None or place[0] != fold.dim:
                continue
            flat = self._skip_reshapes(op, value)
            swapped = self._swap(op, flat, fold.stride)
            arms = (flat, swapped) if place[1] else (swapped, flat)
            made = self._insert_once(op, SelectOp(self._bit(op, flat, fold.stride), *arms))
            if isinstance(widen, ExtSIOp | ExtUIOp):
                made = self._repeat_cast(op, widen, made)
            return self._reshape_like(op, op.results[0], made)
        return None

    def _match_indicator(self, op: Operation) -> SSAValue | None:
        """The position of an element in its pair, in another shape."""
        if not isinstance(op, ReshapeOp) or prod(shape_of(op.result)) == 2:
            return None
        place = _indicator_of(op.src)
        if place is None or not place[1]:
            return None
        bit = self._bit(op, op.result, prod(shape_of(op.src)[place[0] + 1 :]))
        if op.result.type.element_type == i1:
            return bit
        return self._insert_once(op, ExtUIOp.create(operands=[bit], result_types=[op.result.type]))

    # -- writing -------------------------------------------------------------------------------

    def _insert_once(self, at: Operation, op: Operation) -> SSAValue:
        """The result of an operation before `at`, reused if it was already created there."""
        key = (at.parent, type(op), *op.operands, *op.properties.items(), *op.result_types)
        if key not in self._known:
            locate(at, op)
            Rewriter.insert_op(op, InsertPoint.before(at))
            self._known[key] = op.results[0]
        return self._known[key]

    def _swap(self, at: Operation, value: SSAValue, stride: int) -> SSAValue:
        return self._insert_once(at, SwapOp.create(
            operands=[value], result_types=[value.type],
            properties={"stride": IntegerAttr(stride, i64)}))

    def _bit(self, at: Operation, like: SSAValue, stride: int) -> SSAValue:
        return self._insert_once(at, PositionBitOp.create(
            result_types=[TensorType(i1, shape_of(like), _tensor(like).encoding)],
            properties={"stride": IntegerAttr(stride, i64)}))

    def _skip_reshapes(self, at: Operation, value: SSAValue) -> SSAValue:
        """Skip reshapes, which do not change the elements."""
        op = value.owner
        if isinstance(op, ReshapeOp) and op.allow_reorder is None:
            return op.src
        if not isinstance(op, _BY_ELEMENT):
            return value
        flat = self._skip_reshapes(at, op.operands[0])
        if shape_of(flat) == shape_of(value):
            return value
        return self._repeat_cast(at, op, flat)

    def _repeat_cast(self, at: Operation, cast: Operation, value: SSAValue) -> SSAValue:
        """Cast another tensor in the same way."""
        kind = TensorType(_tensor(cast.results[0]).element_type, shape_of(value),
                          _tensor(value).encoding)
        return self._insert_once(at, type(cast).create(
            operands=[value], result_types=[kind], properties=dict(cast.properties)))

    def _reshape_like(self, at: Operation, value: SSAValue, new: SSAValue) -> SSAValue:
        """Reshape the new value; if `value` was reshaped back, use the new value directly."""
        for use in list(value.uses):
            if isinstance(use.operation, ReshapeOp) and use.operation.result.type == new.type:
                use.operation.result.replace_all_uses_with(new)
        if new.type == value.type:
            return new
        moved = ConvertLayoutOp if shape_of(new) == shape_of(value) else ReshapeOp
        return self._insert_once(at, moved.create(operands=[new], result_types=[value.type]))


def _tensor(value: SSAValue) -> TensorType[Attribute]:
    assert isinstance(value.type, TensorType)
    return value.type


def _erase_folds(function: Operation) -> None:
    """Erase unused reductions, and operations that only they used."""
    erase_dead(function)
    for op in all_of(function, ReduceOp):
        if is_unused(op):
            Rewriter.erase_op(op)
    erase_dead(function)


# -- layouts ---------------------------------------------------------------------------------------


def _keep_in_warps(function: FuncOp, lanes: int, warps: int) -> None:
    """Replace blocked layouts in which many swaps cross warps."""
    swaps = all_of(function, SwapOp)
    if all_of(function, CallOp, DotOp, DotScaledOp) or not function.is_kernel:
        return
    replacements: dict[Encoding, Encoding] = {}
    for held in dict.fromkeys(encoding_of(op.result.type) for op in swaps):
        mine = [op for op in swaps if encoding_of(op.result.type) == held]
        shape = shape_of(mine[0].result)
        if not isinstance(held, BlockedEncoding) or held.cga_layout:
            continue
        strides = [op.stride.value.data for op in mine if shape_of(op.result) == shape]
        other = _layout_in_warps(shape, 2 * max(strides), lanes, warps)
        if _count_crossings(other, shape, strides) < _count_crossings(held, shape, strides):
            replacements[held] = other
    if replacements:
        exchange_layouts(function, replacements)


def _layout_in_warps(shape: tuple[int, ...], span: int, lanes: int, warps: int) -> BlockedEncoding:
    """Layout with as many as possible of `span` neighbours in the registers and lanes of one
    warp.
    """
    held = max(1, min(span, prod(shape) // warps) // lanes)
    each = [1] * len(shape)
    for dim in reversed(range(len(shape))):
        each[dim] = min(held, shape[dim])
        held //= each[dim]
    order = tuple(reversed(range(len(shape))))
    return blocked_for(shape, each, order, warps=warps, lanes=lanes)


def _count_crossings(held: Encoding, shape: tuple[int, ...], strides: list[int]) -> int:
    """Number of swaps that cross warps."""
    sizes = [prod(shape[dim + 1 :]) for dim in range(len(shape))]
    bases = to_linear_layout(held, shape).bases["warp"]
    moved = [sum(at * size for at, size in zip(base, sizes, strict=True)) for base in bases]
    return sum(stride in moved for stride in strides)
