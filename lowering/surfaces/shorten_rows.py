"""Pass shorten-rows: reductions of rows that fit one subgroup get a version of their own.

    %m = cmpi slt, make_range(0, 4096), splat %n ; tt.load %p, %m, 0 ; tt.reduce ; ...
 -> condition of a launch: %n has at least 256 elements
    in the version for other launches: make_range(0, 256), one subgroup

A block much longer than the row computes mostly on what the mask leaves out.  The short version
keeps at least one element behind the row's end; where all of those are the same value, and reducing
it once more changes nothing, the rest of them need not be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from triton_xe.conditions import SHORT_ROWS
from triton_xe.dialects.arith_ext import (
    CmpiOp,
    ExtFOp,
    ExtSIOp,
    ExtUIOp,
    FPToSIOp,
    FPToUIOp,
    SelectOp,
    SIToFPOp,
    TruncFOp,
    TruncIOp,
    UIToFPOp,
)
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.memory import AtomicOp, LoadOp, StoreOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    ApproxDivFOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    MakeRangeOp,
    PreciseDivFOp,
    ReshapeOp,
    SplatOp,
)
from triton_xe.dialects.tt.structure import FuncOp, ReduceOp, ReturnOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.layout import BlockedEncoding
from triton_xe.lowering.layouts.elementwise import is_elementwise
from triton_xe.lowering.module_facts import WARPS, module_lanes, options_of, remark
from triton_xe.lowering.rewriting import functions
from triton_xe.lowering.surfaces.affine import shape_of
from triton_xe.lowering.surfaces.launch_guards import assume
from triton_xe.lowering.surfaces.poly import Poly
from triton_xe.lowering.targeted_pass import TargetedPass

PER_LANE = 16
"""Elements of a short row that one lane holds."""
WORTH = 8
"""A block that is so many times as long as a short row takes at least a tenth longer."""
Tail = frozenset[float]
"""All elements behind a row's end are one value, which is one of these, or any at all (`ANY`)."""
ANY: Tail = frozenset()
ZERO: Tail = frozenset({0.0})
_NAN, _LEAST = math.nan, -math.inf
_ZERO, _LOW = {0.0, _NAN}, {_LEAST, _NAN}
_UNCHANGED = {0.0, math.inf, _LEAST, _NAN}
"""Values that a sum has one of already: another one of the same changes nothing."""
_OF_ZERO = (ExtSIOp, ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp)
"""Casts that make zero of zero."""
_QUOTIENTS = (arith.DivfOp, PreciseDivFOp, ApproxDivFOp)
_SAME_AGAIN = (
    arith.MaximumfOp, arith.MaxnumfOp, arith.MinimumfOp, arith.MinnumfOp, arith.MaxSIOp,
    arith.MaxUIOp, arith.MinSIOp, arith.MinUIOp, arith.AndIOp, arith.OrIOp,
)
"""Combining a value with itself gives the value."""
_KNOWN = (
    AddPtrOp, GetNumProgramsOp, GetProgramIdOp, MakeRangeOp, SplatOp, LoadOp, StoreOp,
    ConvertLayoutOp, ReshapeOp, ReduceOp, ReturnOp,
)


@dataclass(frozen=True)
class ShortenRowsPass(TargetedPass):
    """Reductions of rows that fit one subgroup get a version of their own."""

    short_rows: bool = False
    """Make that version."""
    name: ClassVar = "shorten-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lanes = module_lanes(op, self.device(op))
        if options_of(op).guards != "launch" and not self.short_rows:
            return
        for function in functions(op):
            size = function.is_kernel and row_size(function, lanes * PER_LANE)
            if size and self.short_rows:
                _shorten(op, function, lanes)
            elif size:
                _prefer_long(size, function, lanes * PER_LANE)


def row_size(function: FuncOp, shortest: int) -> SSAValue | None:
    """The argument that says how long a row is, where a block is much longer than `shortest`."""
    ops = list(function.body.block.ops) if len(function.body.blocks) == 1 else []
    if not any(isinstance(op, ReduceOp) for op in ops) or not all(map(_is_known, ops)):
        return None
    shapes = {shape_of(v) for op in ops for v in (*op.operands, *op.results)} - {()}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or shape[0] < WORTH * shortest:
        return None
    ends = _Ends()
    return ends.bound if all(map(ends.read, ops)) else None


def _is_known(op: Operation) -> bool:
    if isinstance(op, AtomicOp):
        return not any(map(shape_of, op.operands))
    return isinstance(op, _KNOWN) or is_elementwise(op)


def _prefer_long(size: SSAValue, function: FuncOp, shortest: int) -> None:
    first = next(op for op in function.body.block.ops if isinstance(op, ReduceOp))
    long = Guard(Poly.symbol(size), Relation.AT_LEAST, Poly.constant(shortest), SHORT_ROWS)
    assume([long], first)
    remark(first, f"rows of up to {shortest - 1} elements run in a version for one subgroup")


def _shorten(module: ModuleOp, function: FuncOp, lanes: int) -> None:
    length = lanes * PER_LANE
    for op in list(function.body.block.ops):
        if isinstance(op, MakeRangeOp):
            op.properties["end"] = IntegerAttr(length, i32)
        for result in op.results:
            if isinstance(result.type, TensorType):
                kind = TensorType(result.type.element_type, [length], _layout(result.type, lanes))
                _retype(op, kind)
                Rewriter.replace_value_with_new_type(result, kind)
    module.attributes[WARPS] = IntegerAttr(1, i32)


def _layout(kind: TensorType[Attribute], lanes: int) -> Attribute:
    held = encoding_of(kind)
    each = held.size_per_thread[0] if isinstance(held, BlockedEncoding) else 1
    return layout_attr(BlockedEncoding((min(each, PER_LANE),), (lanes,), (1,), (0,)))


def _retype(op: Operation, kind: TensorType[Attribute]) -> None:
    held = op.properties.get("value")
    if isinstance(held, DenseIntOrFPElementsAttr):
        op.properties["value"] = DenseIntOrFPElementsAttr(cast(TensorType[IntegerType], kind),
                                                          held.data)


class _Ends:
    """What tensors of a kernel hold behind the end of a row; None where elements differ."""

    def __init__(self) -> None:
        self.bound: BlockArgument | None = None
        """How long a row is."""
        self._tails: dict[SSAValue, Tail | None] = {}

    def read(self, op: Operation) -> bool:
        """Learn of one operation; whether it does the same with fewer elements behind the end."""
        match op:
            case StoreOp() if shape_of(op.value):
                return op.mask is not None and self._of(op.mask) == ZERO
            case ReduceOp():
                return self._folds_away(op)
            case MakeRangeOp() if op.start.value.data:
                return False
            case ReshapeOp() if any(not isinstance(u.operation, ReduceOp) for u in op.result.uses):
                return False
            case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as held) if not held.is_splat():
                return False
        for result in filter(shape_of, op.results):
            self._tails[result] = self._tail(op)
        return True

    def _of(self, value: SSAValue) -> Tail | None:
        return self._tails.get(value) if shape_of(value) else ANY

    def _folds_away(self, op: ReduceOp) -> bool:
        """Whether one element of all those behind the end does."""
        combining = list(op.combine.block.ops)
        if len(op.srcs) != 1 or len(combining) != 2:
            return False
        tail, kind = self._of(op.srcs[0]), combining[0]
        if tail is None or set(kind.operands) != set(op.combine.block.args):
            return False
        if isinstance(kind, arith.AddfOp):
            return bool(tail) and tail <= _UNCHANGED
        if isinstance(kind, arith.AddiOp | arith.XOrIOp):
            return tail == ZERO
        return isinstance(kind, _SAME_AGAIN)

    def _tail(self, op: Operation) -> Tail | None:
        match op:
            case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as held):
                value = float(held.get_values()[0])
                return frozenset({_NAN if math.isnan(value) else value})
            case LoadOp(mask=SSAValue() as mask, other=SSAValue() as other):
                return self._of(other) if self._of(mask) == ZERO else None
            case CmpiOp() if self._is_inside(op):
                return ZERO
            case SplatOp():
                return ANY
            case ConvertLayoutOp() | ReshapeOp():
                return self._of(op.operands[0])
        if not is_elementwise(op):
            return None
        tails = [self._of(value) for value in op.operands]
        known = [tail for tail in tails if tail is not None]
        if isinstance(op, SelectOp) and tails[0] == ZERO:
            return tails[2]
        if isinstance(op, arith.AndIOp) and ZERO in known:
            return ZERO
        return _computed(op, known) if len(known) == len(tails) else None

    def _is_inside(self, op: CmpiOp) -> bool:
        """Whether a comparison holds for the elements of a row alone: `range < size`."""
        left, right = (op.lhs, op.rhs) if op.comparison == "slt" else (op.rhs, op.lhs)
        place, splat = _plain(left), _plain(right)
        if op.comparison not in ("slt", "sgt") or not isinstance(place.owner, MakeRangeOp):
            return False
        size = _plain(splat.owner.src) if isinstance(splat.owner, SplatOp) else None
        if not isinstance(size, BlockArgument) or self.bound not in (None, size):
            return False
        self.bound = size
        return True


def _plain(value: SSAValue) -> SSAValue:
    """A value before it was made wider or laid out otherwise."""
    while isinstance(value.owner, ExtSIOp | ConvertLayoutOp):
        value = value.owner.operands[0]
    return value


def _computed(op: Operation, tails: list[Tail]) -> Tail:
    """What an operation makes of one value for each operand; not-a-number stays one."""
    first, last = tails[0], tails[-1]
    given = [tail for tail in tails if tail]
    if isinstance(op, arith.AddfOp) and any(tail <= _LOW for tail in given):
        return frozenset(_LOW)
    if isinstance(op, arith.SubfOp) and first and first <= _LOW:
        return frozenset(_LOW)
    if isinstance(op, math_dialect.ExpOp | math_dialect.Exp2Op) and first and first <= _LOW:
        return frozenset(_ZERO)
    if isinstance(op, arith.MulfOp):
        return _product(first, last)
    if isinstance(op, _QUOTIENTS) and first and first <= _ZERO:
        return frozenset(_ZERO)
    if isinstance(op, ExtFOp | TruncFOp) and first <= _UNCHANGED:
        return first
    if isinstance(op, _OF_ZERO) and first == ZERO:
        return first
    return ANY


def _product(left: Tail, right: Tail) -> Tail:
    for one, other in ((left, right), (right, left)):
        if one and one <= _ZERO:
            return frozenset(_ZERO)
        if one and one <= _LOW and other and all(each > 0 for each in other):
            return frozenset(_LOW)
    return ANY
