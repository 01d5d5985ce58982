"""Affine formulas of integers, pointers and masks over the positions in a block.

They are derived from the arithmetic in ttgir; layouts do not matter:

    index    = start + sum over dims of  stride[d] * position[d]
    pointers = base + index (in elements)
    mask     = and of  low[d] <= position[d] < high[d]

`position[d]` runs over 0 .. shape[d]-1 inside the block.  If no formula exists, `Unknown` is raised
with the reason.

A formula is exact integer arithmetic, but a kernel computes with a number of bits.  Sums,
differences and products agree with it modulo 2^bits.  Other uses need the exact number: extensions,
comparisons, divisions, and additions to a pointer.  For these, `Affine.exact` adds the conditions
under which the formula fits the bits, unless the ranges of its symbols prove them.  A formula is
valid if all of its conditions hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd, inf, prod
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

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
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.block_2d import ALIGNED, BASE_ALIGNMENT, Alignment, Guard
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.fact import Range, full, signed
from triton_xe.lowering.facts.poly import MAX_DEGREE, Poly, Symbol, at_least
from triton_xe.lowering.facts.values import (
    Carried,
    Reshape,
    Unknown,
    bits_of,
    carried,
    constant_of,
    dimension_map,
    shape_of,
)


@dataclass(frozen=True)
class Remainder:
    """Symbol: `value % modulus` of two scalars; value must not be negative."""

    value: Poly
    modulus: Poly

    @property
    def depth(self) -> int:
        """Nesting depth of remainders."""
        symbols = self.value.symbols | self.modulus.symbols
        return 1 + max((s.depth for s in symbols if isinstance(s, Remainder)), default=0)


@dataclass(frozen=True)
class Iteration:
    """Symbol: the number of complete iterations of a loop, 0 in the first one."""

    loop: Operation


@dataclass(frozen=True)
class LastIteration:
    """Symbol: the index of the last iteration of a loop that runs at least once."""

    loop: Operation


@dataclass(frozen=True)
class Misalignment:
    """Symbol: `address % BASE_ALIGNMENT`, the bytes before the first element in a surface's row."""

    base: SSAValue


@dataclass(frozen=True)
class Wrap:
    """Wraparound of an index along a dimension, if `start` + position reaches `end`.

    If guard `unless` is satisfied the block does not reach it, and `symbol` equals `start`.
    """

    start: Poly
    end: Poly
    unless: Guard
    symbol: Symbol = None


class Index(NamedTuple):
    """start + sum of strides[d] * position[d]; `wraps` by dimension.

    For pointers it counts elements from `base`, a scalar pointer of the kernel.  With `is_exact`,
    no operation in it wraps around if the conditions hold.
    """

    start: Poly
    strides: tuple[Poly, ...]
    conditions: tuple[Guard, ...] = ()
    wraps: Mapping[int, Wrap] = MappingProxyType({})
    base: SSAValue | None = None
    is_exact: bool = True

    def without_wrap(self, dim: int) -> Index:
        """The index without the wraparound along a dimension, and without its condition."""
        wrap = self.wraps[dim]
        return self._replace(
            start=self.start.substitute({wrap.symbol: wrap.start}),
            conditions=tuple(c for c in self.conditions if c != wrap.unless),
            wraps={d: w for d, w in self.wraps.items() if d != dim},
        )

    def under(self, conditions: Iterable[Guard]) -> Index:
        """The index under more conditions."""
        every = tuple(dict.fromkeys((*self.conditions, *conditions)))
        return self if every == self.conditions else self._replace(conditions=every)

    def plus(self, other: Index, sign: int = 1) -> Index:
        """The sum with another index, or the difference for sign -1."""
        add = Poly.__add__ if sign == 1 else Poly.__sub__
        strides = tuple(map(add, self.strides, other.strides))
        return Index(add(self.start, other.start), strides, self.conditions,
                     _all_wraps(self, other), self.base, self.is_exact and other.is_exact,
                     ).under(other.conditions)

    def times(self, by: Poly) -> Index:
        """The product with a number that is equal at all positions."""
        return self._replace(start=self.start * by, strides=tuple([s * by for s in self.strides]))

    @property
    def varying(self) -> tuple[int, ...]:
        return tuple(d for d, s in enumerate(self.strides) if s.as_constant != 0)


@dataclass(frozen=True)
class Mask:
    """Bounds on block positions; a missing entry is no bound."""

    low: Mapping[int, Poly] = field(default_factory=dict)
    high: Mapping[int, Poly] = field(default_factory=dict)
    conditions: tuple[Guard, ...] = ()


Arithmetic = arith.AddiOp | arith.SubiOp | arith.MuliOp


_MOVED = (ConvertLayoutOp, ExpandDimsOp, ReshapeOp, BroadcastOp, TransOp)
_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
_RING = (*_SUMS, arith.ShLIOp)
"""Operations whose results modulo 2^bits follow from their operands modulo 2^bits."""
_INDEXED = frozenset[type[Operation]]((
    *_MOVED, *_RING, SplatOp, ExtSIOp, ExtUIOp, IndexCastOp, TruncIOp, arith.RemSIOp, arith.RemUIOp,
    AddPtrOp))
_BOUNDED = frozenset[type[Operation]]((*_MOVED, arith.AndIOp))
_ENDLESS: Any = (-inf, inf)
_ZERO = Poly({})
NOT_NEGATIVE = "offsets are not negative"
Formula = TypeVar("Formula")


def _remembered(
    known: dict[SSAValue, Formula | Unknown], value: SSAValue,
    through: frozenset[type[Operation]], find: Callable[[SSAValue], Formula],
) -> Formula:
    """Return the cached formula of a value, computed by `find` if needed, or raise `Unknown`.

    Operands of operations of classes `through` are computed first, without recursion, because
    expressions may be arbitrarily deep.
    """
    waiting = [(value, False)]
    while waiting:
        at, ready = waiting.pop()
        if at in known:
            continue
        if not ready and type(at.owner) in through:
            waiting += [(at, True), *((v, False) for v in at.owner.operands)]  # type: ignore[union-attr]
            continue
        known[at] = Unknown("a loop makes the value from itself")
        try:
            known[at] = find(at)
        except Unknown as reason:
            known[at] = reason
    found = known[value]
    if isinstance(found, Unknown):
        raise Unknown(str(found))
    return found


class Affine:
    """Formulas of the values of one function; results are cached."""

    def __init__(
        self, facts: Facts | None = None, needed: Alignment = ALIGNED, *, opaque: bool = False
    ) -> None:
        self.facts = facts or Facts(trusting=False)
        self.needed = needed
        """Alignment of surfaces that the device needs."""
        self.opaque = opaque
        """True if scalars whose formulas have conditions are symbols of their own."""
        self.surfaces: dict[tuple[Operation, Operation | None], Any] = {}
        """Surfaces that accesses touch, by the access and the loop around it."""
        self._indices: dict[SSAValue, Index | Unknown] = {}
        self._masks: dict[SSAValue, Mask | Unknown] = {}
        self._exact: dict[SSAValue, Index] = {}
        self._ranges: dict[Symbol, Range] = {}

    # -- ranges and divisors of polynomials --------------------------------------------------------

    def bounds(
        self, poly: Poly, assumed: Mapping[Symbol, Range] = MappingProxyType({})
    ) -> Range:
        """Lower and upper bound of a polynomial, with assumed ranges of symbols."""
        low = high = 0
        for monomial, coefficient in poly.terms.items():
            a = b = coefficient
            for symbol in monomial:
                if symbol not in self._ranges:
                    self._ranges[symbol] = self._symbol_range(symbol)
                least, most = self._ranges[symbol]
                if symbol in assumed:
                    least, most = max(least, assumed[symbol][0]), min(most, assumed[symbol][1])
                corners = a * least, a * most, b * least, b * most
                a, b = min(corners), max(corners)
            low, high = low + a, high + b
        return low, high

    def _symbol_range(self, symbol: Symbol) -> Range:
        """Range of a symbol of formulas, from facts."""
        if isinstance(symbol, SSAValue):
            return self.facts.range(symbol)
        if isinstance(symbol, Remainder):
            return 0, max(self.bounds(symbol.modulus)[1] - 1, 0)
        if isinstance(symbol, Misalignment):
            return 0, BASE_ALIGNMENT - 1
        assert isinstance(symbol, Iteration | LastIteration)
        low, high, step = (self.facts.range(v) for v in symbol.loop.operands[:3])
        least, most = (max((high[i] - low[1 - i] - 1) // max(step[1 - i], 1), 0) for i in (0, 1))
        return least if isinstance(symbol, LastIteration) else 0, most

    def multiple_of(self, poly: Poly) -> int:
        """A known divisor of the value of a polynomial; 0 if the value is 0."""
        out = 0
        for monomial, coefficient in poly.terms.items():
            out = gcd(out, coefficient * prod(map(self._symbol_multiple, monomial)))
        return out

    def _symbol_multiple(self, symbol: Symbol) -> int:
        if isinstance(symbol, Remainder):
            return gcd(self.multiple_of(symbol.value), self.multiple_of(symbol.modulus)) or 1
        return self.facts.of(symbol).divisor if isinstance(symbol, SSAValue) else 1

    def nonnegative(
        self, poly: Poly, assumed: Mapping[Symbol, Range] = MappingProxyType({})
    ) -> bool:
        """True if a polynomial is certainly not negative, with assumed ranges of symbols."""
        return self.bounds(poly, assumed)[0] >= 0

    # -- integers ----------------------------------------------------------------------------------

    def scalar(self, value: SSAValue) -> Poly:
        """A scalar integer as a polynomial without conditions; at worst a symbol of its own."""
        found = self.exact(value)
        return Poly.symbol(value) if found.conditions else found.start

    def index(self, value: SSAValue) -> Index:
        """A scalar or a tensor of integers or pointers as a formula, modulo 2^bits."""
        return _remembered(self._indices, value, _INDEXED, self._small_index)

    def exact(self, value: SSAValue) -> Index:
        """Formula of integers, with the conditions under which it fits their bits."""
        if value not in self._exact:
            found = self.index(value)
            found = found if found.is_exact else self._fitting(found, value)
            is_symbol = self.opaque and found.conditions and not found.strides
            self._exact[value] = Index(Poly.symbol(value), ()) if is_symbol else found
        return self._exact[value]

    def _fitting(self, found: Index, value: SSAValue) -> Index:
        """Add the conditions under which the formula's least and greatest element fit its bits."""
        bits = bits_of(value)
        (least, most), what = full(bits), f"numbers of {bits} bits do not wrap around"
        limits = full(min(bits, 63))  # a test with 64 bits computes sums of both sides
        low = high = found.start
        needs: list[Guard] = []
        for stride, size in zip(found.strides, shape_of(value), strict=True):
            end, (lowest, highest) = stride * (size - 1), self.bounds(stride)
            if highest <= 0:
                low = low + end
            else:
                high = high + end
                if lowest < 0:
                    needs.append(at_least(stride, Poly({}), NOT_NEGATIVE))
        assumed = implied(needs)
        if self.bounds(low, assumed)[0] < least:
            needs.append(at_least(low, Poly.constant(limits[0]), what))
        if self.bounds(high, assumed)[1] > most:
            needs.append(at_least(Poly.constant(limits[1]), high, what))
        return found.under(needs)._replace(is_exact=True)

    def _small_index(self, value: SSAValue) -> Index:
        found = self._index(value)
        if found.start.is_small and all([poly.is_small for poly in found.strides]):
            return found
        if shape_of(value):
            raise Unknown("the formula of the index is too long")
        return Index(Poly.symbol(value), ())

    def _index(self, value: SSAValue) -> Index:
        """Affine form of an integer or address; raise `Unknown` if it has none."""
        if type(value.type) is PointerType:
            return Index(_ZERO, (), base=value)
        zero, constant = (_ZERO,) * len(shape_of(value)), constant_of(value)
        if constant is not None:
            return Index(Poly.constant(signed(constant, bits_of(value))), zero)
        owner: Any = value.owner
        kind = type(owner)  # not by `match`, whose test of each class takes 0.3 us
        if kind in _SUMS:
            return self._arithmetic(owner)
        if isinstance(value, BlockArgument):
            return self._block_argument(value)
        if kind is AddPtrOp:
            return self.index(owner.ptr).plus(self._offset(owner.offset))
        if kind is ConvertLayoutOp:
            return self.index(owner.src)
        if kind is ExtSIOp or kind is IndexCastOp:
            return self.exact(owner.input)
        if kind is ExtUIOp:
            return self.natural(owner.input)
        if kind is MakeRangeOp:
            return Index(Poly.constant(owner.start.value.data), (Poly.constant(1),))
        if kind is SplatOp:
            return self.index(owner.src)._replace(strides=zero)
        if kind in _MOVED:
            return reshape_index(self.index(owner.src), owner)
        bits = constant_of(owner.rhs) if kind is arith.ShLIOp else None
        if bits is not None and 0 <= bits < bits_of(value):
            return self._result(owner, self.index(owner.lhs).times(Poly.constant(1 << bits)))
        if not zero:
            return Index(Poly.symbol(value), ())
        if kind is TruncIOp:
            return self.index(owner.input)._replace(is_exact=False)
        if kind is arith.RemSIOp or kind is arith.RemUIOp:
            return self._wrapped(owner, shape_of(value))
        if kind is SelectOp:
            return self._selected(owner)
        raise Unknown(f"{owner.name} has no affine form")

    def natural(self, value: SSAValue) -> Index:
        """Formula of integers, under conditions that they fit and are not negative."""
        found = self.exact(value)
        if any(self.bounds(stride)[0] < 0 for stride in found.strides):
            raise Unknown("an unsigned number that falls along a dimension")
        if self.nonnegative(found.start):
            return found
        return found.under([at_least(found.start, Poly({}), NOT_NEGATIVE)])

    def _arithmetic(self, op: Arithmetic) -> Index:
        """Affine form of a sum, difference or product."""
        left, right = map(self.index, op.operands)
        if type(op) is arith.MuliOp:
            if left.varying and right.varying:
                raise Unknown("a product of two block positions is not affine")
            vary, by = (left, right) if left.varying else (right, left)
            return self._result(op, vary.times(by.start).under(by.conditions), by.is_exact)
        return self._result(op, left.plus(right, 1 if type(op) is arith.AddiOp else -1))

    def _result(self, op: Operation, found: Index, is_exact: bool = True) -> Index:
        """Mark the formula of a sum or product exact if its operands are and it does not wrap."""
        is_exact = is_exact and found.is_exact and not self.facts.wraps(op)
        return found if is_exact == found.is_exact else found._replace(is_exact=is_exact)

    def _block_argument(self, value: SSAValue) -> Index:
        """Affine form of a loop's counter, of a value that a loop advances, or of a parameter."""
        found, loop = carried(value), value.owner.parent_op()
        if found is not None:
            try:
                return self._advance(value, found, self.index(found.start))
            except Unknown:
                if shape_of(value):
                    raise
        if isinstance(loop, scf.ForOp) and found is None:
            step = constant_of(loop.step)
            if step is not None:
                return Index(Poly.symbol(Iteration(loop)) * step + self.scalar(loop.lb), ())
        if shape_of(value):
            raise Unknown("a block argument that is not carried by a for loop")
        return Index(Poly.symbol(value), ())

    def _selected(self, op: SelectOp) -> Index:
        """`where(x < bound, x, y)` -> x, if the whole block is below the bound."""
        compare = op.cond.owner
        if not isinstance(compare, CmpiOp):
            raise Unknown("a choice of positions by something else than a comparison")
        chosen, left = self.index(op.lhs), self.exact(compare.lhs)
        bound = self.exact(compare.rhs)
        if compare.comparison != "slt":
            raise Unknown("a choice of positions by another comparison than x < bound")
        strides = [s.as_constant for s in left.strides]
        if bound.varying or any(s is None or s < 0 for s in strides):
            raise Unknown("a choice between positions of which any may be taken")
        last = left.start
        for stride, size in zip(strides, shape_of(op.result), strict=True):
            last = last + (stride or 0) * (size - 1)
        below = at_least(bound.start, last + 1, "the whole block is below the bound")
        varying = [d for d, s in enumerate(strides) if s]
        wraps = dict(chosen.wraps)
        if chosen == self.index(compare.lhs) and len(varying) == 1 and strides[varying[0]] == 1:
            wraps[varying[0]] = Wrap(left.start, bound.start, below)
        return chosen._replace(wraps=wraps).under(
            [*left.conditions, *bound.conditions, below])

    def _advance(self, value: SSAValue, found: Carried, start: Index) -> Index:
        """`start` plus the loop-carried growth, which must be one scalar step."""
        step = self._growth(found.end, value)
        if not invariant_in(step.start, found.loop):
            raise Unknown("the step of a loop-carried tensor changes in the loop")
        passed = step.times(Poly.symbol(Iteration(found.loop)))
        moved = start.plus(passed._replace(strides=(_ZERO,) * len(start.strides)))
        return moved._replace(is_exact=False)

    def _growth(self, value: SSAValue, start: SSAValue) -> Index:
        """Sum of the steps that an iteration adds to a loop-carried value."""
        total = Index(Poly({}), ())
        while value is not start:
            match value.owner:
                case AddPtrOp(ptr=before, offset=step):
                    advanced = self._offset
                case arith.AddiOp(lhs=before, rhs=step):
                    advanced = self.index
                case _:
                    raise Unknown("a loop-carried tensor is not advanced by additions alone")
            try:
                by = advanced(step)
            except Unknown:
                by = None
            if by is None or by.varying:
                raise Unknown("a loop-carried tensor is advanced by different steps")
            total = total.plus(Index(by.start, (), by.conditions))
            value = before
        return total

    def moved(self, offset: SSAValue, index: Index) -> Index:
        """A scalar pointer offset as an index with the rank of `index`."""
        return self._offset(offset)._replace(strides=(_ZERO,) * len(index.strides))

    def _offset(self, value: SSAValue) -> Index:
        """Formula of a pointer offset: exact, or modulo 2^64 for 64-bit offsets."""
        return self.index(value) if bits_of(value) == 64 else self.exact(value)

    def mask(self, value: SSAValue | None) -> Mask:
        """Bounds on block positions that a tensor of conditions tests."""
        if value is None:
            return Mask()
        return _remembered(self._masks, value, _BOUNDED, self._mask)

    def _mask(self, value: SSAValue) -> Mask:
        """Bounds that a mask tests, for each dimension; raise `Unknown` for other masks."""
        if constant_of(value) in (1, -1):
            return Mask()
        match value.owner:
            case Block():
                raise Unknown("the mask is a block argument")
            case arith.AndIOp(lhs=left, rhs=right):
                return _conjunction(self.mask(left), self.mask(right))
            case CmpiOp() as op:
                return self._bound(op)
            case ConvertLayoutOp(src=source):
                return self.mask(source)
            case ExpandDimsOp() | ReshapeOp() | BroadcastOp() | TransOp() as op:
                return _reshape_mask(self.mask(op.src), op)
        raise Unknown(f"the mask comes from {value.owner.name}")

    def _bound(self, op: CmpiOp) -> Mask:
        """The mask of a comparison of one block position with a bound."""
        left, right = self.exact(op.lhs), self.exact(op.rhs)
        kind = op.comparison
        if kind in ("sgt", "sge"):
            left, right = right, left
            kind = {"sgt": "slt", "sge": "sle"}[kind]
        if kind not in ("slt", "sle"):
            raise Unknown(f"the mask compares with {kind}")
        conditions = left.conditions + right.conditions
        strides = [a - b for a, b in zip(left.strides, right.strides, strict=True)]
        varying = [(d, s.as_constant) for d, s in enumerate(strides) if s.as_constant != 0]
        room = right.start - left.start + (1 if kind == "sle" else 0)
        if len(varying) != 1 or varying[0][1] not in (1, -1):
            raise Unknown("the mask does not bound one block position")
        dim, sign = varying[0]
        if sign == 1:
            return Mask(high={dim: room}, conditions=conditions)
        return Mask(low={dim: -room + 1}, conditions=conditions)


    def _wrapped(self, op: arith.RemSIOp | arith.RemUIOp, shape: tuple[int, ...]) -> Index:
        """(start + position) % modulus, contiguous as long as the block does not wrap."""
        left, right = self.exact(op.lhs), self.exact(op.rhs)
        if right.varying or len(left.varying) != 1:
            raise Unknown("a remainder of more than one block position")
        (dim,) = left.varying
        if left.strides[dim].as_constant != 1:
            raise Unknown("a remainder of a strided position")
        symbol = Remainder(left.start, right.start)
        if symbol.depth > MAX_DEGREE:
            raise Unknown("a remainder of too many remainders")
        start = Poly.symbol(symbol)
        natural = self.natural(op.lhs)
        inside = at_least(right.start, start + shape[dim], "the block does not wrap around")
        wraps = {**left.wraps, dim: Wrap(left.start, right.start, inside, symbol)}
        return Index(start, left.strides, natural.conditions, wraps).under(
            [*right.conditions, inside])


def limit(need: Guard) -> tuple[Symbol, Range] | None:
    """The range of a symbol that a condition a >= b implies; None if it has several symbols."""
    gap = need.amount - need.bound
    if len(gap.terms) != 1 + bool(gap.constant_part):
        return None
    ((monomial, factor),) = ((m, c) for m, c in gap.terms.items() if m)
    if len(monomial) != 1:
        return None
    ends = (-(gap.constant_part // factor), inf) if factor > 0 else (
        -inf, gap.constant_part // -factor)
    return monomial[0], ends  # type: ignore[return-value]


def intersected(limits: Iterable[tuple[Symbol, Range] | None]) -> dict[Symbol, Range]:
    """The ranges of symbols within all limits."""
    found: dict[Symbol, Range] = {}
    for symbol, (low, high) in filter(None, limits):
        least, most = found.get(symbol, _ENDLESS)
        found[symbol] = max(low, least), min(high, most)
    return found


def implied(needs: Iterable[Guard]) -> dict[Symbol, Range]:
    """The ranges of single symbols that conditions of the form a >= b imply.

    >>> needs = [at_least(Poly.symbol("n") * 2, Poly.constant(5), "long enough")]
    >>> implied(needs)["n"][0]
    3
    """
    return intersected(map(limit, needs))


def invariant_in(poly: Poly, loop: Operation | None) -> bool:
    """True if no symbol of `poly` is computed inside the loop, if there is one."""
    return all(not is_computed_in(symbol, loop) for symbol in poly.symbols)


def is_computed_in(symbol: Symbol, loop: Operation | None) -> bool:
    """True if a symbol is computed in the body of `loop`."""
    if loop is None:
        return False
    if isinstance(symbol, Iteration):
        return symbol.loop is loop or loop.is_ancestor(symbol.loop)
    if isinstance(symbol, Remainder):
        return not (invariant_in(symbol.value, loop) and invariant_in(symbol.modulus, loop))
    if not isinstance(symbol, SSAValue):
        return False
    owner = symbol.owner
    return loop.is_ancestor(owner) and owner is not loop


def reshape_index(source: Index, op: Reshape) -> Index:
    """The formula after a change of shape that adds, drops, stretches or permutes dims."""
    dims = dimension_map(op)
    strides = tuple(Poly({}) if d is None else source.strides[d] for d in dims)
    wraps = {dims.index(d): wrap for d, wrap in source.wraps.items() if d in dims}
    return source._replace(strides=strides, wraps=wraps)


def _reshape_mask(source: Mask, op: Reshape) -> Mask:
    dims = dimension_map(op)
    place = {d: new for new, d in enumerate(dims) if d is not None}
    bounded = set(source.low) | set(source.high)
    if not bounded <= set(place):
        raise Unknown("the mask bounds a dimension of size 1")
    low = {place[d]: p for d, p in source.low.items()}
    return Mask(low, {place[d]: p for d, p in source.high.items()}, source.conditions)


def _conjunction(left: Mask, right: Mask) -> Mask:
    """The conjunction of two masks; `Unknown` if they bound one dimension differently."""
    for name in ("low", "high"):
        mine, other = getattr(left, name), getattr(right, name)
        if any(d in mine and mine[d] != other[d] for d in other):
            raise Unknown("the mask bounds one dimension twice")
    return Mask(
        {**left.low, **right.low},
        {**left.high, **right.high},
        left.conditions + right.conditions,
    )


def _all_wraps(left: Index, right: Index) -> dict[int, Wrap]:
    """Wraps of a sum, without those of dimensions along which both sides wrap."""
    both = left.wraps.keys() & right.wraps.keys()
    return {d: w for d, w in {**left.wraps, **right.wraps}.items() if d not in both}
