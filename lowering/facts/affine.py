"""What a tensor of integers, pointers or masks is, as a formula over block positions.

Read from ttgir (any layout: only the arithmetic counts):

    index    = start + sum over dims of  stride[d] * position[d]
    pointers = base + index (in elements)
    mask     = and of  low[d] <= position[d] < high[d]

`position[d]` runs over 0 .. shape[d]-1 inside the block.  Where no formula exists,
`Unknown` is raised with the reason; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

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
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.lowering.facts.poly import MAX_DEGREE, Poly, Symbol, at_least
from triton_xe.lowering.facts.values import (
    Carried,
    Reshape,
    Unknown,
    carried,
    constant_of,
    dimension_map,
    shape_of,
)
from triton_xe.lowering.facts.walks import operands_first, operands_of


@dataclass(frozen=True)
class Remainder:
    """The symbol `value % modulus` of two scalars (value must not be negative)."""

    value: Poly
    modulus: Poly

    @property
    def depth(self) -> int:
        """How many remainders are taken of one another."""
        symbols = self.value.symbols | self.modulus.symbols
        return 1 + max((s.depth for s in symbols if isinstance(s, Remainder)), default=0)


@dataclass(frozen=True)
class Iteration:
    """The symbol "how many times this loop has run": 0 in the first iteration."""

    loop: Operation


@dataclass(frozen=True)
class Wrap:
    """An index that goes on somewhere else where `start` + position reaches `end`.

    It does not as long as `unless` holds; `symbol` then stands for `start`.
    """

    start: Poly
    end: Poly
    unless: Guard
    symbol: Symbol = None


@dataclass(frozen=True)
class Index:
    """start + sum of strides[d] * position[d]; `wraps` by dimension."""

    start: Poly
    strides: tuple[Poly, ...]
    conditions: tuple[Guard, ...] = ()
    wraps: Mapping[int, Wrap] = field(default_factory=dict)

    def without_wrap(self, dim: int) -> Index:
        """The index that does not wrap along a dimension."""
        wrap = self.wraps[dim]

        def begin(symbol: Symbol) -> Poly | None:
            return wrap.start if symbol == wrap.symbol else None

        return replace(
            self, start=self.start.substitute(begin),
            conditions=tuple(c for c in self.conditions if c != wrap.unless),
            wraps={d: w for d, w in self.wraps.items() if d != dim},
        )

    @property
    def varying(self) -> tuple[int, ...]:
        return tuple(d for d, s in enumerate(self.strides) if s.as_constant != 0)


@dataclass(frozen=True)
class Pointers:
    """Addresses base + index * element size; `base` is a scalar pointer of the kernel."""

    base: SSAValue
    index: Index


@dataclass(frozen=True)
class Mask:
    """Bounds on block positions; a missing entry is no bound."""

    low: Mapping[int, Poly] = field(default_factory=dict)
    high: Mapping[int, Poly] = field(default_factory=dict)
    conditions: tuple[Guard, ...] = ()


Arithmetic = arith.AddiOp | arith.SubiOp | arith.MuliOp | arith.RemSIOp | arith.RemUIOp


_MOVED = (ConvertLayoutOp, ExpandDimsOp, ReshapeOp, BroadcastOp, TransOp)
_SUMMED = operands_of(
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp, ExtSIOp, IndexCastOp)
_INDEXED = operands_of(
    *_MOVED, ExtSIOp, ExtUIOp, IndexCastOp, TruncIOp, arith.AddiOp, arith.SubiOp, arith.MuliOp,
    arith.RemSIOp, arith.RemUIOp)
_BOUNDED = operands_of(*_MOVED, arith.AndIOp)
Formula = TypeVar("Formula")


def _pointed(op: Operation) -> Sequence[SSAValue]:
    return op.operands[:1] if isinstance(op, (*_MOVED, AddPtrOp)) else ()


def _remembered(
    known: dict[SSAValue, Formula | Unknown], value: SSAValue,
    through: Callable[[Operation], Iterable[SSAValue]], find: Callable[[SSAValue], Formula],
) -> Formula:
    """The formula of a value, or `Unknown` again, after those of what it is computed from."""
    for needed in operands_first(value, known, through):
        known[needed] = Unknown("a loop makes the value from itself")
        try:
            known[needed] = find(needed)
        except Unknown as reason:
            known[needed] = reason
    found = known[value]
    if isinstance(found, Unknown):
        raise Unknown(str(found))
    return found


class Affine:
    """Formulas of the values of one function; answers are remembered."""

    def __init__(self) -> None:
        self._scalars: dict[SSAValue, Poly] = {}
        self.surfaces: dict[tuple[Operation, Operation | None], Any] = {}
        """What accesses touch, by the access and the loop around it."""
        self._indices: dict[SSAValue, Index | Unknown] = {}
        self._pointers: dict[SSAValue, Pointers | Unknown] = {}
        self._masks: dict[SSAValue, Mask | Unknown] = {}

    def scalar(self, value: SSAValue) -> Poly:
        """A scalar integer as a polynomial; what is not arithmetic is a symbol of its own."""
        for needed in operands_first(value, self._scalars, _SUMMED):
            self._scalars[needed] = Poly.symbol(needed)  # to what a loop makes of it from itself
            found = self._scalar(needed)
            if found.is_small:
                self._scalars[needed] = found
        return self._scalars[value]

    def _scalar(self, value: SSAValue) -> Poly:
        constant = constant_of(value)
        if constant is not None:
            return Poly.constant(constant)
        match value.owner:
            case Block():
                return self._block_argument(value)
            case arith.AddiOp(lhs=left, rhs=right):
                return self.scalar(left) + self.scalar(right)
            case arith.SubiOp(lhs=left, rhs=right):
                return self.scalar(left) - self.scalar(right)
            case arith.MuliOp(lhs=left, rhs=right):
                return self.scalar(left) * self.scalar(right)
            case arith.ShLIOp(lhs=left, rhs=right) if (bits := constant_of(right)) is not None:
                return self.scalar(left) * (1 << bits)
            case ExtSIOp(input=source) | IndexCastOp(input=source):
                return self.scalar(source)
        return Poly.symbol(value)

    def _block_argument(self, value: SSAValue) -> Poly:
        found = carried(value)
        if found is not None:
            growth = self._induction_step(value, found)
            if growth is None:
                return Poly.symbol(value)
            return self.scalar(found.start) + growth * Poly.symbol(Iteration(found.loop))
        loop = value.owner.parent_op()
        if not isinstance(loop, scf.ForOp):
            return Poly.symbol(value)
        step = constant_of(loop.step)
        if step is None:
            return Poly.symbol(value)
        return Poly.symbol(Iteration(loop)) * step + self.scalar(loop.lb)

    def _induction_step(self, value: SSAValue, found: Carried) -> Poly | None:
        """The invariant amount by which a loop-carried scalar grows in each iteration."""
        grown, total = found.end, Poly({})
        while grown is not value:
            if not isinstance(grown.owner, arith.AddiOp):
                return None
            by = self.scalar(grown.owner.rhs)
            if not invariant_in(by, found.loop):
                return None
            total += by
            grown = grown.owner.lhs
        return total

    def index(self, value: SSAValue) -> Index:
        """A tensor of integers as a formula over block positions."""
        return _remembered(self._indices, value, _INDEXED, self._small_index)

    def _small_index(self, value: SSAValue) -> Index:
        found = self._index(value)
        if not all(poly.is_small for poly in (found.start, *found.strides)):
            raise Unknown("the formula of the index is too long")
        return found

    def _index_if_known(self, value: SSAValue) -> Index | None:
        try:
            return self.index(value)
        except Unknown:
            return None

    def _index(self, value: SSAValue) -> Index:
        zero = (Poly({}),) * len(shape_of(value))
        constant = constant_of(value)
        if constant is not None:
            return Index(Poly.constant(constant), zero)
        match value.owner:
            case Block():
                return self._carried_index(value)
            case ConvertLayoutOp(src=source):
                return self.index(source)
            case (ExtSIOp(input=source) | ExtUIOp(input=source) | IndexCastOp(input=source)
                  | TruncIOp(input=source)):
                return self.index(source)
            case MakeRangeOp(start=start):
                return Index(Poly.constant(start.value.data), (Poly.constant(1),))
            case SplatOp(src=source):
                return Index(self.scalar(source), zero)
            case ExpandDimsOp() | ReshapeOp() | BroadcastOp() | TransOp() as op:
                return reshape_index(self.index(op.src), op)
            case (arith.AddiOp() | arith.SubiOp() | arith.MuliOp() | arith.RemSIOp()
                  | arith.RemUIOp()) as op:
                return self._arithmetic(op)
            case SelectOp() as op:
                return self._selected(op)
        raise Unknown(f"{value.owner.name} has no affine form")

    def _selected(self, op: SelectOp) -> Index:
        """`where(x < bound, x, y)`: x, as long as the whole block is below the bound."""
        compare = op.cond.owner
        if not isinstance(compare, CmpiOp):
            raise Unknown("a choice of positions by something else than a comparison")
        chosen, left = self.index(op.lhs), self.index(compare.lhs)
        bound = self._index_if_known(compare.rhs)
        if compare.comparison != "slt" or bound is None:
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
        if chosen == left and len(varying) == 1 and strides[varying[0]] == 1:
            wraps[varying[0]] = Wrap(left.start, bound.start, below)
        return replace(
            chosen, conditions=(*chosen.conditions, *left.conditions, below), wraps=wraps)

    def _arithmetic(self, op: Arithmetic) -> Index:
        left, right = self.index(op.lhs), self.index(op.rhs)
        conditions = left.conditions + right.conditions
        if isinstance(op, arith.AddiOp | arith.SubiOp):
            sign = 1 if isinstance(op, arith.AddiOp) else -1
            strides = tuple(
                a + b * sign for a, b in zip(left.strides, right.strides, strict=True)
            )
            return Index(left.start + right.start * sign, strides, conditions,
                         _all_wraps(left, right))
        if isinstance(op, arith.MuliOp):
            if left.varying and right.varying:
                raise Unknown("a product of two block positions is not affine")
            vary, by = (left, right.start) if left.varying else (right, left.start)
            return Index(vary.start * by, tuple(s * by for s in vary.strides), conditions,
                         vary.wraps)
        return _wrapped(left, right, shape_of(op.result), conditions)

    def _carried_index(self, value: SSAValue) -> Index:
        found = carried(value)
        if found is None:
            raise Unknown("a block argument that is not carried by a for loop")
        return self._advance(value, found, self.index(found.start))

    def _advance(self, value: SSAValue, found: Carried, start: Index) -> Index:
        """`start` plus the loop-carried growth, which must be one scalar step."""
        step = self._growth(found.end, value)
        if not invariant_in(step, found.loop):
            raise Unknown("the step of a loop-carried tensor changes in the loop")
        return replace(start, start=start.start + step * Poly.symbol(Iteration(found.loop)))

    def _growth(self, value: SSAValue, start: SSAValue) -> Poly:
        total = Poly({})
        while value is not start:
            match value.owner:
                case AddPtrOp(ptr=before, offset=step) | arith.AddiOp(lhs=before, rhs=step):
                    by = self._index_if_known(step)
                case _:
                    raise Unknown("a loop-carried tensor is not advanced by additions alone")
            if by is None or by.varying:
                raise Unknown("a loop-carried tensor is advanced by different steps")
            total += by.start
            value = before
        return total

    def pointers(self, value: SSAValue) -> Pointers:
        """A tensor of pointers as one base and a formula in elements."""
        return _remembered(self._pointers, value, _pointed, self._pointers_of)

    def _pointers_of(self, value: SSAValue) -> Pointers:
        match value.owner:
            case Block():
                return self._carried_pointers(value)
            case SplatOp(src=base):
                return Pointers(base, Index(Poly({}), (Poly({}),) * len(shape_of(value))))
            case AddPtrOp() as op:
                return self._added(op)
            case ExpandDimsOp() | ReshapeOp() | BroadcastOp() | TransOp() as op:
                source = self.pointers(op.src)
                return Pointers(source.base, reshape_index(source.index, op))
            case ConvertLayoutOp(src=converted):
                return self.pointers(converted)
        raise Unknown(f"pointers come from {value.owner.name}")

    def _added(self, op: AddPtrOp) -> Pointers:
        source, by = self.pointers(op.ptr), self.index(op.offset)
        strides = tuple(a + b for a, b in zip(source.index.strides, by.strides, strict=True))
        conditions = source.index.conditions + by.conditions
        start, wraps = source.index.start + by.start, _all_wraps(source.index, by)
        return Pointers(source.base, Index(start, strides, conditions, wraps))

    def _carried_pointers(self, value: SSAValue) -> Pointers:
        found = carried(value)
        if found is None:
            raise Unknown("pointers are a block argument that is not carried by a for loop")
        start = self.pointers(found.start)
        return Pointers(start.base, self._advance(value, found, start.index))

    def mask(self, value: SSAValue | None) -> Mask:
        """A tensor of conditions as bounds on block positions."""
        if value is None:
            return Mask()
        return _remembered(self._masks, value, _BOUNDED, self._mask)

    def _mask(self, value: SSAValue) -> Mask:
        if constant_of(value) in (1, -1):
            return Mask()
        match value.owner:
            case Block():
                raise Unknown("the mask is a block argument")
            case arith.AndIOp(lhs=left, rhs=right):
                return _both(self.mask(left), self.mask(right))
            case CmpiOp() as op:
                return self._bound(op)
            case ConvertLayoutOp(src=source):
                return self.mask(source)
            case ExpandDimsOp() | ReshapeOp() | BroadcastOp() | TransOp() as op:
                return _reshape_mask(self.mask(op.src), op)
        raise Unknown(f"the mask comes from {value.owner.name}")

    def _bound(self, op: CmpiOp) -> Mask:
        left, right = self._index_if_known(op.lhs), self._index_if_known(op.rhs)
        if left is None or right is None:
            raise Unknown("the mask compares values without an affine form")
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


def invariant_in(poly: Poly, loop: Operation) -> bool:
    """Whether no symbol of `poly` is made inside the loop."""
    return all(not made_inside(symbol, loop) for symbol in poly.symbols)


def made_inside(symbol: Symbol, loop: Operation) -> bool:
    """Whether a symbol's value belongs to the body of `loop`."""
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
    return replace(source, strides=strides, wraps=wraps)


def _reshape_mask(source: Mask, op: Reshape) -> Mask:
    dims = dimension_map(op)
    place = {d: new for new, d in enumerate(dims) if d is not None}
    bounded = set(source.low) | set(source.high)
    if not bounded <= set(place):
        raise Unknown("the mask bounds a dimension of size 1")
    low = {place[d]: p for d, p in source.low.items()}
    return Mask(low, {place[d]: p for d, p in source.high.items()}, source.conditions)


def _both(left: Mask, right: Mask) -> Mask:
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
    """The wraps of a sum, without those of dimensions along which both sides wrap."""
    both = left.wraps.keys() & right.wraps.keys()
    return {d: w for d, w in {**left.wraps, **right.wraps}.items() if d not in both}


def _wrapped(
    left: Index, right: Index, shape: tuple[int, ...], conditions: tuple[Guard, ...]
) -> Index:
    """(start + position) % modulus, contiguous as long as the block does not wrap."""
    if right.varying or len(left.varying) != 1:
        raise Unknown("a remainder of more than one block position")
    (dim,) = left.varying
    if left.strides[dim].as_constant != 1:
        raise Unknown("a remainder of a strided position")
    symbol = Remainder(left.start, right.start)
    if symbol.depth > MAX_DEGREE:
        raise Unknown("a remainder of too many remainders")
    start = Poly.symbol(symbol)
    positive = at_least(left.start, Poly({}), "the wrapped index is not negative")
    inside = at_least(right.start, start + shape[dim], "the block does not wrap around")
    wraps = {**left.wraps, dim: Wrap(left.start, right.start, inside, symbol)}
    return Index(start, left.strides, (*conditions, positive, inside), wraps)
