"""Values of tensor elements after the end of a row that is shorter than its block.

    %at = make_range(0, 4096) ; %m = cmpi slt, %at, splat %n ; %x = tt.load %p, %m, 0
 -> from element %n on, all elements of %m are false, and all of %x are 0

If all elements after the end are equal, and reducing one more of them changes nothing, a block
needs only one of them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import product

from xdsl.dialects import arith, scf
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from triton_xe.dialects.arith_ext import (
    CmpfOp,
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
from triton_xe.dialects.tt.memory import AtomicOp, LoadOp, StoreOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    ApproxDivFOp,
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    PreciseDivFOp,
    ReshapeOp,
    SplatOp,
)
from triton_xe.dialects.tt.structure import CallOp, ReduceOp, ReduceReturnOp, ReturnOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.facts.values import bits_of, constant_of, shape_of
from triton_xe.lowering.layouts.elementwise import is_elementwise

Tail = frozenset[float]
"""All elements after a row's end are one value, which is one of these, or unknown (`ANY`)."""
ANY: Tail = frozenset()
ZERO: Tail = frozenset({0.0})
_NAN, _LEAST = math.nan, -math.inf
_ZERO, _LOW = {0.0, _NAN}, {_LEAST, _NAN}
UNCHANGED = {0.0, math.inf, _LEAST, _NAN}
"""Values for which x + x is x, so that a sum that has one may add another."""
_OF_ZEROS = (
    ExtSIOp, ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp,
    arith.AddiOp, arith.SubiOp, arith.OrIOp,
)
"""Operations whose result is zero if all operands are."""
_QUOTIENTS = (arith.DivfOp, PreciseDivFOp, ApproxDivFOp)
_SAME_AGAIN = (
    arith.MaximumfOp, arith.MaxnumfOp, arith.MinimumfOp, arith.MinnumfOp, arith.MaxSIOp,
    arith.MaxUIOp, arith.MinSIOp, arith.MinUIOp, arith.AndIOp, arith.OrIOp,
)
"""Operations for which combining a value with itself gives the value."""
_ALIKE = (ConvertLayoutOp, ExpandDimsOp, BroadcastOp, SplatOp, ExtSIOp)
"""Operations whose result has the operand's elements."""
_PLAIN = (*_ALIKE, AddPtrOp, LoadOp, ReturnOp, scf.YieldOp)


class Known(Enum):
    """Known meaning of an integer value."""

    PLACE = "how far from its row's beginning each element is"
    ZERO = "0, as long as rows are short"


class RowEnds:
    """Analysis of a kernel whose blocks are `length` long in the dim of their rows.

    A row has `size` elements, an argument of the kernel, and fewer than `short`.
    """

    def __init__(self, length: int, size: SSAValue, short: int) -> None:
        self.length, self.size, self.short = length, size, short
        self.is_asked = self.folds = False
        """True if positions are compared with the size; True if rows are reduced."""
        self._tails: dict[SSAValue, Tail | None] = {}
        self._same: dict[SSAValue, SSAValue | Known] = {}

    def read(self, blocks: Iterable[Block]) -> bool:
        """Visit all operations; True if fewer elements after the end change no result."""
        return all(self._reads(op) for block in blocks for op in block.ops)

    # -- what is known of values ---------------------------------------------------------------

    def is_long(self, value: SSAValue) -> bool:
        """True if a tensor has rows."""
        return self.length in shape_of(value)

    def _of(self, value: SSAValue) -> Tail | None:
        return self._tails.get(value) if self.is_long(value) else ANY

    def _is(self, value: SSAValue) -> SSAValue | Known:
        return self._same.get(value, value)

    def _note(self, value: SSAValue, tail: Tail | None) -> None:
        if self.is_long(value):
            self._tails[value] = tail

    def _joined(self, values: Sequence[SSAValue]) -> Tail | None:
        """Elements after the end of a value that is one of these."""
        tails = [self._of(value) for value in values]
        known = [tail for tail in tails if tail is not None]
        if len(known) < len(tails):
            return None
        return ANY if ANY in known else frozenset().union(*known)

    # -- operations ----------------------------------------------------------------------------

    def _reads(self, op: Operation) -> bool:
        match op:
            case scf.ForOp():
                return self._loop(op)
            case scf.IfOp():
                return self._branches(op)
            case ReduceOp():
                return self._folds(op)
            case CallOp():
                return False
        values = (*op.operands, *op.results)
        if not any(map(shape_of, values)):
            self._identify(op)
            return not op.regions
        if op.regions and any(map(self.is_long, values)):
            return False
        if not self._works_by_elements(op):
            return False
        self._identify(op)
        for result in op.results:
            self._note(result, self._tail(op))
        return True

    def _works_by_elements(self, op: Operation) -> bool:
        """True if an operation has no other effect of fewer elements after the end."""
        match op:
            case StoreOp() | AtomicOp():
                mask = getattr(op, "mask", None)
                return not any(map(self.is_long, op.operands)) or (
                    mask is not None and self._of(mask) == ZERO)
            case ReshapeOp():
                return shape_of(op.src) == shape_of(op.result) and all(
                    isinstance(use.operation, ReduceOp) for use in op.result.uses)
            case MakeRangeOp():
                return not (self.is_long(op.result) and op.start.value.data)
            case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as held):
                return bool(held.is_splat())
        return is_elementwise(op) or isinstance(op, _PLAIN)

    def _identify(self, op: Operation) -> None:
        """Note the meaning of an integer result."""
        same = [self._is(value) for value in op.operands]
        found: SSAValue | Known | None = None
        match op:
            case MakeRangeOp() if self.is_long(op.result):
                found = Known.PLACE
            case arith.ConstantOp() if constant_of(op.results[0]) == 0:
                found = Known.ZERO
            case arith.AddiOp() if Known.ZERO in same:
                found = same[1 - same.index(Known.ZERO)]
            case arith.SubiOp() if same[1] is Known.ZERO:
                found = same[0]
            case arith.MuliOp() if Known.ZERO in same:
                found = Known.ZERO
            case _ if isinstance(op, _ALIKE):
                found = same[0]
        if found is not None:
            self._same[op.results[0]] = found

    def _tail(self, op: Operation) -> Tail | None:
        match op:
            case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as held):
                value = float(held.get_values()[0])
                return frozenset({_NAN if math.isnan(value) else value})
            case LoadOp(mask=SSAValue() as mask, other=SSAValue() as other):
                return self._of(other) if self._of(mask) == ZERO else None
            case CmpiOp() if self._is_inside(op):
                return ZERO
            case ConvertLayoutOp() | ReshapeOp() | ExpandDimsOp() | BroadcastOp() | SplatOp():
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
        """True if a comparison is true for the elements of a row alone: `position < size`."""
        left, right = map(self._is, (op.lhs, op.rhs))
        if op.comparison == "sgt":
            left, right = right, left
        elif op.comparison != "slt":
            return False
        found = left is Known.PLACE and right is self.size
        self.is_asked |= found
        return found

    # -- reductions ----------------------------------------------------------------------------

    def _folds(self, op: ReduceOp) -> bool:
        shape = shape_of(op.srcs[0])
        if self.length not in shape:
            return True
        if shape[op.axis.value.data] == self.length:
            self.folds = True
            return self._folds_away(op)
        tails = [self._of(value) for value in op.srcs]
        for result in op.results:
            self._note(result, None if None in tails else ANY)
        return True

    def _folds_away(self, op: ReduceOp) -> bool:
        """True if reducing one element after the end is the same as reducing all of them."""
        if len(op.srcs) > 1:
            return self._first_is_taken(op) or self._stays_the_same(op)
        combining, tail = list(op.combine.block.ops), self._of(op.srcs[0])
        kind = combining[0]
        if tail is None or len(combining) != 2 or set(kind.operands) != set(op.combine.block.args):
            return False
        if isinstance(kind, arith.AddfOp):
            return bool(tail) and tail <= UNCHANGED
        if isinstance(kind, arith.AddiOp | arith.XOrIOp):
            return tail == ZERO
        return isinstance(kind, _SAME_AGAIN)

    def _first_is_taken(self, op: ReduceOp) -> bool:
        """True if a reduction selects the first of two elements after the end, in either order.

        The region may only compare values of one source with each other, so that one pair of
        positions represents all.
        """
        pairs: list[list[tuple[float, float]]] = []
        for value in op.srcs:
            tail = self._of(value)
            if self._is(value) is Known.PLACE:
                pairs.append([(1.0, 2.0)])
            elif tail:
                pairs.append([(one, one) for one in tail])
            else:
                return False
        return all(
            _same(_combined(op.combine.block, (*first, *second)), first)
            and _same(_combined(op.combine.block, (*second, *first)), first)
            for first, second in (zip(*chosen, strict=True) for chosen in product(*pairs)))

    def _stays_the_same(self, op: ReduceOp) -> bool:
        """True if combining the value after the end with itself gives that value.

        An example is a mean with its deviations, whose elements have a weight.
        """
        tails = [self._of(value) for value in op.srcs]
        return all(tail and tail <= UNCHANGED for tail in tails) and all(
            _same(_combined(op.combine.block, (*one, *one), exact=True), one)
            for one in product(*(tail or () for tail in tails)))

    # -- control flow --------------------------------------------------------------------------

    def _branches(self, op: scf.IfOp) -> bool:
        regions = [region for region in op.regions if region.blocks]
        if not all(self.read(region.blocks) for region in regions):
            return False
        for number, result in enumerate(op.results):
            self._note(result, self._joined([_yielded(region.block)[number] for region in regions]))
        return True

    def _loop(self, loop: scf.ForOp) -> bool:
        place, *carried = loop.body.block.args
        once = self._runs_once(loop)
        if once:
            self._same[place] = Known.ZERO
        before: list[Tail | None] = [self._of(value) for value in loop.iter_args]
        for tries in range(3):
            for value, tail in zip(carried, before, strict=True):
                self._note(value, tail)
            if not self.read(loop.body.blocks):
                return False
            both = zip(loop.iter_args if once else carried, _yielded(loop.body.block), strict=True)
            after = [self._joined(values) for values in both]
            if once or after == before:
                break
            before = [new if new in (None, old) else None if tries else ANY
                      for old, new in zip(before, after, strict=True)]
        else:
            return False
        for result, tail in zip(loop.results, after, strict=True):
            self._note(result, tail)
        return True

    def _runs_once(self, loop: scf.ForOp) -> bool:
        """True if a loop over a row, block by block, ends after one iteration for short rows."""
        step = constant_of(loop.step)
        if constant_of(loop.lb) != 0 or step is None or "unsignedCmp" in loop.properties:
            return False
        if self._is(loop.ub) is self.size:
            return step >= self.short
        match loop.ub.owner:
            case arith.DivSIOp(lhs=SSAValue(owner=arith.AddiOp() as total), rhs=by):
                left, right = total.operands
                divisor, added = constant_of(by), constant_of(right)
                return (step == 1 and self._is(left) is self.size and divisor is not None
                        and added is not None and added >= 0
                        and self.short + added < 2 * divisor)
        return False


def _yielded(block: Block) -> Sequence[SSAValue]:
    assert block.last_op is not None
    return block.last_op.operands


# -- values ----------------------------------------------------------------------------------------

_ARITHMETIC: dict[type[Operation], Callable[[float, float], float]] = {
    arith.AddfOp: operator.add, arith.SubfOp: operator.sub, arith.MulfOp: operator.mul,
}
_EXACT: dict[type[Operation], Callable[..., float]] = {
    **_ARITHMETIC, arith.AddiOp: operator.add, arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul, ExtFOp: float, TruncFOp: float, SIToFPOp: float, UIToFPOp: float,
}
_CHOICES = (*_SAME_AGAIN[:-2], SelectOp)
"""Operations whose result is one of the last two operands."""


def _computed(op: Operation, tails: list[Tail]) -> Tail:
    """Result of an operation whose operands each have one value; NaN propagates."""
    first, last = tails[0], tails[-1]
    given = [tail for tail in tails if tail]
    compute = _ARITHMETIC.get(type(op))
    if compute is not None and len(given) == 2 and first | last <= UNCHANGED:
        return frozenset(_number(compute(a, b)) for a, b in product(first, last))
    if isinstance(op, _CHOICES) and tails[-2] and last:
        return tails[-2] | last
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
    if isinstance(op, ExtFOp | TruncFOp) and first <= UNCHANGED:
        return first
    if isinstance(op, _OF_ZEROS) and all(tail == ZERO for tail in tails):
        return ZERO
    return ANY


def _product(left: Tail, right: Tail) -> Tail:
    for one, other in ((left, right), (right, left)):
        if one and one <= _ZERO:
            return frozenset(_ZERO)
        if one and one <= _LOW and other and all(each > 0 for each in other):
            return frozenset(_LOW)
    return ANY


def _number(value: float) -> float:
    """The number, with a single NaN object, because sets compare NaN by identity."""
    return _NAN if math.isnan(value) else value


def _same(found: Sequence[float] | None, wanted: Sequence[float]) -> bool:
    return found is not None and list(map(repr, found)) == list(map(repr, wanted))


_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}
_LOGIC: dict[type[Operation], Callable[[bool, bool], bool]] = {
    arith.AndIOp: operator.and_, arith.OrIOp: operator.or_, arith.XOrIOp: operator.xor,
}


def _combined(
    block: Block, values: Sequence[float], *, exact: bool = False
) -> list[float] | None:
    """Results of a region for given arguments; None if it has other operations.

    Without `exact` the values represent others, and the region may only compare and select.
    """
    known: dict[SSAValue, float] = dict(zip(block.args, values, strict=True))
    for op in block.ops:
        known |= {value: number for value in op.operands if value not in known
                  and (number := _number_of(value)) is not None}
        if not known.keys() >= set(op.operands):
            return None
        if isinstance(op, ReduceReturnOp):
            return [known[value] for value in op.operands]
        found = _evaluated(op, known) if exact else None
        if found is None:
            found = _chosen(op, known, len(block.args) // 2)
        if found is None:
            return None
        known[op.results[0]] = found
    return None


def _number_of(value: SSAValue) -> float | None:
    """The number of a constant."""
    held = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    return float(held.value.data) if isinstance(held, FloatAttr) else constant_of(value)


def _evaluated(op: Operation, known: dict[SSAValue, float]) -> float | None:
    given = [known[value] for value in op.operands]
    if isinstance(op, CmpiOp | CmpfOp):
        return _compared(op, *given)
    if isinstance(op, _QUOTIENTS):
        return _quotient(*given)
    compute = _EXACT.get(type(op))
    if compute is None:
        return None
    made = _number(compute(*given))
    bits = bits_of(op.results[0])
    return None if bits and abs(made) >= 1 << bits - 1 else made


def _quotient(one: float, other: float) -> float:
    if other:
        return _number(one / other)
    return _NAN if not one or math.isnan(one) else math.copysign(math.inf, one)


def _chosen(op: Operation, known: dict[SSAValue, float], sources: int) -> float | None:
    match op:
        case CmpiOp(lhs=BlockArgument() as one, rhs=BlockArgument() as other) | CmpfOp(
            lhs=BlockArgument() as one, rhs=BlockArgument() as other
        ):
            alike = (one.index - other.index) % sources == 0
            return _compared(op, known[one], known[other]) if alike else None
        case SelectOp():
            return known[op.lhs] if known[op.cond] else known[op.rhs]
        case arith.ConstantOp():
            return _number_of(op.result)
    logic = _LOGIC.get(type(op))
    return None if logic is None else logic(*(bool(known[value]) for value in op.operands))


def _compared(op: CmpiOp | CmpfOp, one: float, other: float) -> bool | None:
    order, natural = _ORDERS.get(op.comparison[-2:]), min(one, other) >= 0
    if order is None or (isinstance(op, CmpiOp) and op.comparison[0] == "u" and not natural):
        return None
    if math.isnan(one) or math.isnan(other):
        return op.comparison[0] == "u"
    return order(one, other)
