"""Between which numbers an integer lies, as far as the operations that made it say."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.arith_ext import ExtSIOp, ExtUIOp, TruncIOp
from triton_xe.dialects.tt.ops import (
    BroadcastOp,
    ExpandDimsOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.facts.values import constant_of

Range = tuple[int, int]
DEPTH = 8
_SAME = (ExtSIOp, BroadcastOp, ExpandDimsOp, ReshapeOp, SplatOp, TransOp, ConvertLayoutOp)
_SUMS: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: int.__add__, arith.SubiOp: int.__sub__, arith.MuliOp: int.__mul__,
}


def integer_range(value: SSAValue, depth: int = DEPTH) -> Range:
    """The least and the greatest number, as signed ones, that an integer can be."""
    bits = _bits(value)
    widest = (-(1 << bits - 1), (1 << bits - 1) - 1)
    known = constant_of(value)
    if known is not None and widest[0] <= known <= widest[1]:
        return known, known
    op = value.owner
    if isinstance(op, Block) or depth == 0:
        return widest
    low, high = _made(op, depth - 1) or widest
    return (low, high) if widest[0] <= low and high <= widest[1] else widest


def _made(op: Operation, depth: int) -> Range | None:
    """The range of an operation's result, were there no limit to it."""
    ranges = [integer_range(v, depth) for v in op.operands[:2] if _bits(v)]
    if isinstance(op, GetProgramIdOp | GetNumProgramsOp):
        return 0, (1 << _bits(op.results[0]) - 1) - 1
    if isinstance(op, MakeRangeOp):
        return op.start.value.data, op.end.value.data - 1
    if isinstance(op, ExtUIOp):
        return ranges[0] if ranges[0][0] >= 0 else (0, (1 << _bits(op.input)) - 1)
    if isinstance(op, (*_SAME, TruncIOp)):
        return ranges[0]
    if isinstance(op, arith.AndIOp):
        tops = [high for low, high in ranges if low >= 0]
        return (0, min(tops)) if tops else None
    if isinstance(op, arith.RemSIOp | arith.RemUIOp) and (by := constant_of(op.rhs) or 0) > 0:
        return (0 if ranges[0][0] >= 0 or isinstance(op, arith.RemUIOp) else 1 - by), by - 1
    if isinstance(op, arith.DivUIOp | arith.RemUIOp):
        return (0, ranges[0][1]) if ranges[0][0] >= 0 else None
    if isinstance(op, arith.RemSIOp):
        return min(ranges[0][0], 0), max(ranges[0][1], 0)
    if isinstance(op, arith.DivSIOp):
        most = max(map(abs, ranges[0]))
        return (0 if ranges[0][0] >= 0 and (constant_of(op.rhs) or 0) > 0 else -most), most
    if type(op) in _SUMS:
        ends = [_SUMS[type(op)](a, b) for a, b in product(*ranges)]
        return min(ends), max(ends)
    return None


def _bits(value: SSAValue) -> int:
    kind = get_element_type_or_self(value.type)
    return kind.width.data if isinstance(kind, IntegerType) else 0
