"""One rule for each operation: the fact of its result, from the facts of its operands.

A rule's docstring is the formula that it implements, for elements of `bits` bits.  Sums,
differences and products are modulo 2^bits, quotients are rounded towards zero, `u` marks operations
on unsigned numbers.  Rules take and return `Fact`s; `RULES` has them by the class of the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.arith import IntegerOverflowFlag
from xdsl.ir import Operation, SSAValue

from triton_xe.conditions import RANGE_RULES, corners
from triton_xe.dialects.arith_ext import (
    CmpiOp,
    ExtSIOp,
    ExtUIOp,
    IndexCastOp,
    SelectOp,
    TruncIOp,
)
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BitcastOp,
    BroadcastOp,
    ExpandDimsOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    IntToPtrOp,
    MakeRangeOp,
    PtrToIntOp,
    ReshapeOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.facts.fact import (
    BIG,
    Fact,
    Range,
    clamped,
    fitting,
    full,
    power_of_two_divisor,
    unknown,
)
from triton_xe.lowering.facts.values import (
    Unknown,
    bits_of,
    dimension_map,
    pointee_bytes_or_1,
    shape_of,
)

Rule = Callable[["Result", Sequence[Fact]], Fact]
RULES: dict[type[Operation], Rule] = {}
_EXACT: dict[type[Operation], str] = {
    arith.AddiOp: "add", arith.SubiOp: "subtract", arith.MuliOp: "multiply",
}


class Result:
    """The one result of an operation: its bits and shape; a scalar is a row of one in facts.

    An `ideal` one is computed as if nothing wrapped around and no dividend were negative.
    """

    __slots__ = ("bits", "ideal", "op", "rank", "shape")

    def __init__(self, op: Operation, value: SSAValue, ideal: bool = False) -> None:
        self.op, self.ideal = op, ideal
        self.bits, self.shape = bits_of(value), shape_of(value)
        self.rank = len(self.shape) or 1

    @property
    def wraps(self) -> bool:
        """False if the operation is assumed not to wrap around."""
        if self.ideal:
            return False
        flags = self.op.properties.get("overflowFlags")
        return not (isinstance(flags, arith.IntegerOverflowAttr)
                    and IntegerOverflowFlag.NSW in flags.data)

    def ranged(self, a: Fact, b: Fact) -> tuple[Range, bool]:
        """The range of a sum, product or left shift, and True if it may wrap around."""
        if type(self.op) is not arith.ShLIOp:
            exact = RANGE_RULES[_EXACT[type(self.op)]](a, b)
        elif _shift_amounts(self.bits, b):
            exact = corners(int.__lshift__, a, b)
        else:
            return full(self.bits), True
        found = fitting(exact, self.bits)
        if found == exact or self.wraps:
            return found, found != exact
        return clamped(exact, self.bits), False

    def fact(
        self, found: Range | None = None, *, contiguity: Sequence[int] = (),
        constancy: Sequence[int] = (), divisibility: Sequence[int] = (),
    ) -> Fact:
        """Create a fact of this result; parts that are not given are unknown."""
        ones = (1,) * self.rank
        low, high = full(self.bits) if found is None else fitting(found, self.bits)
        return Fact(low, high, tuple(contiguity) or ones, tuple(constancy) or ones,
                    tuple(divisibility) or ones)


def rule(*ops: type[Operation]) -> Callable[[Rule], Rule]:
    """Register the rule of operations."""
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register


# -- numbers and shapes ----------------------------------------------------------------------------


@rule(MakeRangeOp)
def _make_range(to: Result, _: Sequence[Fact]) -> Fact:
    """start, start + 1, ..., end - 1"""
    start, end = to.op.start.value.data, to.op.end.value.data  # type: ignore[attr-defined]
    return to.fact((start, end - 1), contiguity=to.shape,
                   divisibility=(power_of_two_divisor(start),))


@rule(SplatOp)
def _splat(to: Result, given: Sequence[Fact]) -> Fact:
    """the scalar, everywhere"""
    return to.fact(given[0].range, constancy=to.shape,
                   divisibility=given[0].divisibility * len(to.shape))


@rule(ConvertLayoutOp)
def _same(_: Result, given: Sequence[Fact]) -> Fact:
    """x"""
    return given[0]


@rule(ExpandDimsOp, BroadcastOp, ReshapeOp, TransOp)
def _moved(to: Result, given: Sequence[Fact]) -> Fact:
    """x at other positions; along a new dimension all elements are equal"""
    source = given[0]
    try:
        dims = dimension_map(to.op)  # type: ignore[arg-type]
    except Unknown:
        return to.fact(source.range)
    return to.fact(
        source.range,
        contiguity=[1 if d is None else source.contiguity[d] for d in dims],
        constancy=[to.shape[i] if d is None else source.constancy[d] for i, d in enumerate(dims)],
        divisibility=[source.divisor if d is None else source.divisibility[d] for d in dims])


@rule(BitcastOp, IntToPtrOp, PtrToIntOp)
def _reinterpreted(to: Result, given: Sequence[Fact]) -> Fact:
    """the bits of x; runs remain if neighbours have the same distance as before"""
    source, before, after = given[0], to.op.operands[0], to.op.results[0]
    if bits_of(before) != to.bits:
        return unknown(to.bits, len(to.shape))
    if pointee_bytes_or_1(before) == pointee_bytes_or_1(after):
        return source
    unit = pointee_bytes_or_1(before)
    return to.fact(
        constancy=source.constancy,
        divisibility=source.firsts((1,) * to.rank, unit))


@rule(GetProgramIdOp, GetNumProgramsOp)
def _program(to: Result, _: Sequence[Fact]) -> Fact:
    """the number of a program, and how many there are: a grid has less than 2^31 along each axis"""
    return to.fact((0, full(to.bits)[1]))


# -- casts -----------------------------------------------------------------------------------------


@rule(ExtSIOp, IndexCastOp)
def _extended(to: Result, given: Sequence[Fact]) -> Fact:
    """x as a signed number"""
    before = bits_of(to.op.operands[0])
    return given[0] if to.bits >= before else _truncated(to, given)


@rule(ExtUIOp)
def _zero_extended(to: Result, given: Sequence[Fact]) -> Fact:
    """x as an unsigned number"""
    source = given[0]
    if source.low >= 0:
        return source
    bits = bits_of(to.op.operands[0])
    size = 1 << bits
    below = source.high < 0
    found = (source.low + size, source.high + size) if below else (0, size - 1)
    return (source if below else source.aligned(bits))._replace(low=found[0], high=found[1])


@rule(TruncIOp)
def _truncated(to: Result, given: Sequence[Fact]) -> Fact:
    """x modulo 2^bits"""
    source = given[0]
    low, high = fitting(source.range, to.bits)
    kept = source if (low, high) == source.range else source.aligned(to.bits)
    return kept._replace(low=low, high=high)


# -- sums and products -----------------------------------------------------------------------------


def _runs(a: Fact, b: Fact) -> list[int]:
    """Runs of a sum's exact elements: those of one side where the other is constant."""
    return list(map(max, map(min, a.contiguity, b.constancy), map(min, a.constancy, b.contiguity)))


def _summed(to: Result, a: Fact, b: Fact, runs: Sequence[int]) -> Fact:
    """A sum or difference whose exact elements count up in runs.

    Numbers of 64 bits may wrap inside a run: they are added to addresses, modulo 2^64 as well, or
    used in aligned runs.
    """
    found, wraps = to.ranged(a, b)
    made = to.fact(
        found, contiguity=runs, constancy=list(map(min, a.constancy, b.constancy)),
        divisibility=list(map(min, a.firsts(runs), b.firsts(runs))))
    return made.aligned(to.bits) if wraps and to.bits < 64 else made


@rule(arith.AddiOp)
def _added(to: Result, given: Sequence[Fact]) -> Fact:
    """x + y"""
    a, b = given
    return _summed(to, a, b, _runs(a, b))


@rule(arith.SubiOp)
def _subtracted(to: Result, given: Sequence[Fact]) -> Fact:
    """x - y: x alone makes runs"""
    a, b = given
    return _summed(to, a, b, list(map(min, a.contiguity, b.constancy)))


@rule(AddPtrOp)
def _moved_pointer(to: Result, given: Sequence[Fact]) -> Fact:
    """p + y * bytes of an element, modulo 2^64"""
    a, b = given
    unit, runs = pointee_bytes_or_1(to.op.results[0]), _runs(a, b)
    return to.fact(
        contiguity=runs, constancy=list(map(min, a.constancy, b.constancy)),
        divisibility=[min(x, y * unit) for x, y in zip(
            a.firsts(runs, unit), b.firsts(runs), strict=True)])


@rule(arith.MuliOp)
def _multiplied(to: Result, given: Sequence[Fact]) -> Fact:
    """x * y"""
    a, b = given
    for one, other in ((a, b), (b, a)):
        if one.range == (1, 1):
            return other
    found, _ = to.ranged(a, b)
    return to.fact(
        found, constancy=list(map(min, a.constancy, b.constancy)),
        divisibility=[min(a.every(d) * b.every(d), BIG) for d in range(to.rank)])


# -- shifts ----------------------------------------------------------------------------------------


def _shift_amounts(bits: int, by: Fact) -> Range | None:
    """The bits that elements are shifted by; None if that may be all of them or more.

    Assumptions that contradict each other leave no number: `low` is then above `high`.
    """
    return by.range if 0 <= by.low <= by.high < bits else None


@rule(arith.ShLIOp)
def _shifted_left(to: Result, given: Sequence[Fact]) -> Fact:
    """x * 2^y"""
    a, by = given
    amounts = _shift_amounts(to.bits, by)
    constancy = list(map(min, a.constancy, by.constancy))
    if amounts is None:
        return to.fact(constancy=constancy)
    found, _ = to.ranged(a, by)
    return to.fact(found, constancy=constancy,
                   divisibility=[min(a.every(d) << min(amounts[0], 30), BIG)
                                 for d in range(to.rank)])


@rule(arith.ShRSIOp, arith.ShRUIOp)
def _shifted_right(to: Result, given: Sequence[Fact]) -> Fact:
    """x / 2^y, rounded down"""
    a, by = given
    amounts = _shift_amounts(to.bits, by)
    constancy = list(map(min, a.constancy, by.constancy))
    if amounts is None:
        return to.fact(constancy=constancy)
    is_signed = isinstance(to.op, arith.ShRSIOp) or a.low >= 0
    found = corners(int.__rshift__, a, amounts) if is_signed else None
    if not is_signed and amounts[0] > 0:
        found = 0, (1 << to.bits - amounts[0]) - 1
    if amounts[0] == amounts[1]:
        constancy = _equal_quotients(to, a, by, 1 << amounts[0])
    divisibility = [max(a.every(d) >> amounts[1], 1) for d in range(to.rank)]
    return to.fact(found, constancy=constancy, divisibility=divisibility)


# -- quotients and remainders ----------------------------------------------------------------------


def _whole_runs(a: Fact, b: Fact, dim: int, divisor: int) -> int:
    """Length of runs in which `a` counts up between multiples of `divisor`, and `b` is constant.

    A run begins at a multiple of its length.  So no number wraps around in it, and its quotients
    by one divisor, rounded down, are equal.
    """
    return min(a.contiguity[dim], a.divisibility[dim], divisor, b.constancy[dim])


def _equal_quotients(to: Result, a: Fact, b: Fact, divisor: int) -> list[int]:
    """Constancy of quotients that are rounded down."""
    return [max(min(a.constancy[d], b.constancy[d]), _whole_runs(a, b, d, divisor))
            for d in range(to.rank)]


def _rounds_down(to: Result, a: Fact) -> bool:
    """True if the quotients are rounded down: unsigned ones, and those of natural numbers."""
    return to.ideal or isinstance(to.op, arith.DivUIOp | arith.RemUIOp) or a.low >= 0


@rule(arith.DivSIOp, arith.DivUIOp)
def _divided(to: Result, given: Sequence[Fact]) -> Fact:
    """x / y, cut towards zero"""
    a, b = given
    if b.range == (1, 1):
        return a
    constancy = (_equal_quotients(to, a, b, b.divisor) if _rounds_down(to, a)
                 else list(map(min, a.constancy, b.constancy)))
    return to.fact(_quotients(to, a.range, b.range), constancy=constancy)


def _quotients(to: Result, a: Range, b: Range) -> Range | None:
    """The range of quotients; None if nothing is known of it."""
    if isinstance(to.op, arith.DivUIOp) and (a[0] < 0 or b[0] < 0):
        if a[0] >= 0:
            return 0, a[1]
        return (0, ((1 << to.bits) - 1) // b[0]) if b[0] > 1 else None
    if b[0] > 0:
        return RANGE_RULES["divide"](a, b)
    most = max(abs(a[0]), abs(a[1]))
    return (0 if a[0] >= 0 and b[0] >= 0 else -most), most


@rule(arith.RemSIOp, arith.RemUIOp)
def _remainder(to: Result, given: Sequence[Fact]) -> Fact:
    """x - x / y * y"""
    a, b = given
    if 0 <= a.low and a.high < b.low:
        return a
    by = b.divisor
    runs = ([_whole_runs(a, b, d, by) for d in range(to.rank)] if _rounds_down(to, a)
            else [1] * to.rank)
    return to.fact(
        _remainders(to, a.range, b.range), contiguity=runs,
        constancy=list(map(min, a.constancy, b.constancy)),
        divisibility=[min(x, by) for x in a.firsts(runs)])


def _remainders(to: Result, a: Range, b: Range) -> Range | None:
    """The range of remainders; None if nothing is known of it."""
    if isinstance(to.op, arith.RemUIOp) and (a[0] < 0 or b[0] < 0):
        if a[0] >= 0:
            return 0, a[1]
        return (0, b[1] - 1) if b[0] > 0 else None
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


# -- bits ------------------------------------------------------------------------------------------


@rule(arith.AndIOp, arith.OrIOp, arith.XOrIOp)
def _bits(to: Result, given: Sequence[Fact]) -> Fact:
    """x & y, x | y, x ^ y"""
    a, b = given
    is_and = isinstance(to.op, arith.AndIOp)
    most = max if is_and else min
    width = max(max(-x.low - 1, x.high, 0).bit_length() for x in given)
    low, high = -(1 << width), (1 << width) - 1
    natural = [x for x in given if x.low >= 0]
    if is_and and natural:
        low, high = 0, min(x.high for x in natural)
    elif len(natural) == 2:
        low = 0
    return to.fact(
        (low, high), constancy=list(map(min, a.constancy, b.constancy)),
        divisibility=[most(a.every(d), b.every(d)) for d in range(to.rank)])


# -- choices ---------------------------------------------------------------------------------------


@rule(arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp)
def _extreme(to: Result, given: Sequence[Fact]) -> Fact:
    """the larger or the smaller one of x and y"""
    a, b = given
    which = "maximum" if isinstance(to.op, arith.MaxSIOp | arith.MaxUIOp) else "minimum"
    if isinstance(to.op, arith.MaxUIOp | arith.MinUIOp) and min(a.low, b.low) < 0:
        which = "either"
    return to.fact(
        RANGE_RULES[which](a, b), constancy=list(map(min, a.constancy, b.constancy)),
        divisibility=[min(a.every(d), b.every(d)) for d in range(to.rank)])


@rule(SelectOp)
def _selected(to: Result, given: Sequence[Fact]) -> Fact:
    """x where the condition holds, else y"""
    condition, a, b = given
    whole = not shape_of(to.op.operands[0])
    same = [BIG if whole else condition.constancy[d] for d in range(to.rank)]
    runs = [min(same[d], a.contiguity[d], b.contiguity[d]) for d in range(to.rank)]
    unit = pointee_bytes_or_1(to.op.results[0])
    return to.fact(
        RANGE_RULES["either"](a, b), contiguity=runs,
        constancy=list(map(min, same, a.constancy, b.constancy)),
        divisibility=list(map(min, a.firsts(runs, unit), b.firsts(runs, unit))))


@rule(CmpiOp)
def _compared(to: Result, given: Sequence[Fact]) -> Fact:
    """x < y and its kin

    A number that counts up may be below a bound in a whole run, or not at all.  That holds if the
    run begins at a multiple of its length, and so does the bound.
    """
    a, b = given
    predicate = to.op.comparison[1:]  # type: ignore[attr-defined]
    constancy = []
    for d in range(to.rank):
        run = min(a.constancy[d], b.constancy[d])
        if predicate in ("lt", "ge"):
            run = max(run, _whole_runs(a, b, d, b.divisor))
        if predicate in ("le", "gt"):
            run = max(run, _whole_runs(b, a, d, a.divisor))
        constancy.append(run)
    return to.fact(constancy=constancy)
