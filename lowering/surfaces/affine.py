"""What a tensor of integers, pointers or masks is, as a formula over block positions.

Read from ttgir (any layout: only the arithmetic counts):

    index    = start + sum over dims of  stride[d] * position[d]
    pointers = base + index (in elements)
    mask     = and of  low[d] <= position[d] < high[d]

`position[d]` runs over 0 .. shape[d]-1 inside the block.  Where no formula exists,
`Unknown` is raised with the reason; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from triton_xe.hardware.block_2d import Guard
from triton_xe.lowering.surfaces.poly import Poly, Symbol, at_least


class Unknown(Exception):
    """No formula, and why."""


@dataclass(frozen=True)
class Remainder:
    """The symbol `value % modulus` of two scalars (value must not be negative)."""

    value: Poly
    modulus: Poly


@dataclass(frozen=True)
class Iteration:
    """The symbol "how many times this loop has run": 0 in the first iteration."""

    loop: Operation


@dataclass(frozen=True)
class Index:
    """start + sum of strides[d] * position[d]."""

    start: Poly
    strides: tuple[Poly, ...]
    conditions: tuple[Guard, ...] = ()

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


def attribute(op: Operation, name: str) -> Any:
    """A property or attribute of an operation, whichever holds it."""
    found = op.properties.get(name)
    return op.attributes.get(name) if found is None else found


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor value, () of a scalar."""
    kind = value.type
    return tuple(kind.get_shape()) if isinstance(kind, TensorType) else ()


def constant_of(value: SSAValue) -> int | None:
    """The integer a scalar or splat constant holds."""
    op = value.owner
    if not isinstance(op, Operation) or op.name != "arith.constant":
        return None
    held = attribute(op, "value")
    if isinstance(held, IntegerAttr):
        return held.value.data
    if isinstance(held, DenseIntOrFPElementsAttr) and held.is_splat():
        first = held.get_values()[0]
        return int(first) if isinstance(first, int) else None
    return None


def declared_multiple(value: SSAValue) -> int:
    """The divisibility that the frontend states of a function argument."""
    if not isinstance(value, BlockArgument):
        return 1
    function = value.block.parent_op()
    if function is None or function.name != "tt.func":
        return 1
    attributes = attribute(function, "arg_attrs")
    if attributes is None:
        return 1
    stated = attributes.data[value.index].data.get("tt.divisibility")
    return 1 if stated is None else int(stated.value.data)


SLT = 2
"""The predicate "signed less than" of arith.cmpi."""
_TRANSPARENT = frozenset({"arith.extsi", "arith.extui", "arith.index_cast", "arith.trunci"})
_SAME_VALUES = frozenset({"ttg.convert_layout", *_TRANSPARENT})


class Affine:
    """Formulas of the values of one function; answers are remembered."""

    def __init__(self) -> None:
        self._scalars: dict[SSAValue, Poly] = {}
        self._indices: dict[SSAValue, Index | Unknown] = {}

    def scalar(self, value: SSAValue) -> Poly:
        """A scalar integer as a polynomial; what is not arithmetic is a symbol of its own."""
        known = self._scalars.get(value)
        if known is None:
            known = self._scalars[value] = self._scalar(value)
        return known

    def _scalar(self, value: SSAValue) -> Poly:
        op = value.owner
        if not isinstance(op, Operation):
            return self._block_argument(value, op)
        constant = constant_of(value)
        if constant is not None:
            return Poly.constant(constant)
        match op.name:
            case "arith.addi":
                return self.scalar(op.operands[0]) + self.scalar(op.operands[1])
            case "arith.subi":
                return self.scalar(op.operands[0]) - self.scalar(op.operands[1])
            case "arith.muli":
                return self.scalar(op.operands[0]) * self.scalar(op.operands[1])
            case "arith.shli" if (bits := constant_of(op.operands[1])) is not None:
                return self.scalar(op.operands[0]) * (1 << bits)
            case "arith.extsi" | "arith.index_cast":
                return self.scalar(op.operands[0])
        return Poly.symbol(value)

    def _block_argument(self, value: SSAValue, block: Any) -> Poly:
        loop = block.parent_op()
        if loop is None or loop.name != "scf.for" or not isinstance(value, BlockArgument):
            return Poly.symbol(value)
        if value.index == 0:
            low, step = constant_of(loop.operands[0]), constant_of(loop.operands[2])
            if step is not None and low is not None:
                return Poly.symbol(Iteration(loop)) * step + low
            return Poly.symbol(value)
        step_poly = self._induction_step(value, loop)
        if step_poly is None:
            return Poly.symbol(value)
        return self.scalar(loop.operands[2 + value.index]) + step_poly * Poly.symbol(
            Iteration(loop)
        )

    def _induction_step(self, value: BlockArgument, loop: Operation) -> Poly | None:
        """The invariant amount by which a loop-carried scalar grows in each iteration."""
        last = loop.regions[0].block.last_op
        assert last is not None
        grown, total = last.operands[value.index - 1], Poly({})
        while grown is not value:
            op = grown.owner
            if not isinstance(op, Operation) or op.name != "arith.addi":
                return None
            by = self.scalar(op.operands[1])
            if not invariant_in(by, loop):
                return None
            total += by
            grown = op.operands[0]
        return total

    def index(self, value: SSAValue) -> Index:
        """A tensor of integers as a formula over block positions."""
        known = self._indices.get(value)
        if known is None:
            try:
                known = self._index(value)
            except Unknown as reason:
                known = reason
            self._indices[value] = known
        if isinstance(known, Unknown):
            raise Unknown(str(known))
        return known

    def _index_if_known(self, value: SSAValue) -> Index | None:
        try:
            return self.index(value)
        except Unknown:
            return None

    def _index(self, value: SSAValue) -> Index:
        shape = shape_of(value)
        zero = (Poly({}),) * len(shape)
        constant = constant_of(value)
        if constant is not None:
            return Index(Poly.constant(constant), zero)
        op = value.owner
        if not isinstance(op, Operation):
            return self._carried_index(value, op)
        if op.name in _SAME_VALUES:
            return self.index(op.operands[0])
        match op.name:
            case "tt.make_range":
                return Index(Poly.constant(attribute(op, "start").value.data), (Poly.constant(1),))
            case "tt.splat":
                return Index(self.scalar(op.operands[0]), zero)
            case "tt.expand_dims" | "tt.reshape" | "tt.broadcast" | "tt.trans":
                return reshape_index(self.index(op.operands[0]), op)
            case "arith.addi" | "arith.subi" | "arith.muli" | "arith.remsi" | "arith.remui":
                return self._arithmetic(op)
            case "arith.select":
                return self._selected(op)
        raise Unknown(f"{op.name} has no affine form")

    def _selected(self, op: Operation) -> Index:
        """`where(x < bound, x, y)`: x, as long as the whole block is below the bound."""
        compare = op.operands[0].owner
        if not isinstance(compare, Operation) or compare.name != "arith.cmpi":
            raise Unknown("a choice of positions by something else than a comparison")
        chosen, left = self.index(op.operands[1]), self.index(compare.operands[0])
        bound = self._index_if_known(compare.operands[1])
        if attribute(compare, "predicate").value.data != SLT or bound is None:
            raise Unknown("a choice of positions by another comparison than x < bound")
        strides = [s.as_constant for s in left.strides]
        if bound.varying or any(s is None or s < 0 for s in strides):
            raise Unknown("a choice between positions of which any may be taken")
        last = left.start
        for stride, size in zip(strides, shape_of(op.results[0]), strict=True):
            last = last + (stride or 0) * (size - 1)
        below = at_least(bound.start, last + 1, "the whole block is below the bound")
        return replace(chosen, conditions=(*chosen.conditions, *left.conditions, below))

    def _arithmetic(self, op: Operation) -> Index:
        left, right = self.index(op.operands[0]), self.index(op.operands[1])
        conditions = left.conditions + right.conditions
        if op.name in ("arith.addi", "arith.subi"):
            sign = 1 if op.name == "arith.addi" else -1
            strides = tuple(
                a + b * sign for a, b in zip(left.strides, right.strides, strict=True)
            )
            return Index(left.start + right.start * sign, strides, conditions)
        if op.name == "arith.muli":
            if left.varying and right.varying:
                raise Unknown("a product of two block positions is not affine")
            vary, by = (left, right.start) if left.varying else (right, left.start)
            return Index(vary.start * by, tuple(s * by for s in vary.strides), conditions)
        return _wrapped(left, right, shape_of(op.results[0]), conditions)

    def _carried_index(self, value: SSAValue, block: Any) -> Index:
        loop = block.parent_op()
        if loop is None or loop.name != "scf.for" or not isinstance(value, BlockArgument):
            raise Unknown("a block argument that is not carried by a for loop")
        start = self.index(loop.operands[2 + value.index])
        return self._advance(value, loop, start)

    def _advance(self, value: BlockArgument, loop: Operation, start: Index) -> Index:
        """`start` plus the loop-carried growth, which must be one scalar step."""
        last = loop.regions[0].block.last_op
        assert last is not None
        step = self._growth(last.operands[value.index - 1], value)
        if not invariant_in(step, loop):
            raise Unknown("the step of a loop-carried tensor changes in the loop")
        return replace(start, start=start.start + step * Poly.symbol(Iteration(loop)))

    def _growth(self, value: SSAValue, carried: BlockArgument) -> Poly:
        total = Poly({})
        while value is not carried:
            op = value.owner
            if not isinstance(op, Operation) or op.name not in ("tt.addptr", "arith.addi"):
                raise Unknown("a loop-carried tensor is not advanced by additions alone")
            by = self._index_if_known(op.operands[1])
            if by is None or by.varying:
                raise Unknown("a loop-carried tensor is advanced by different steps")
            total += by.start
            value = op.operands[0]
        return total

    def pointers(self, value: SSAValue) -> Pointers:
        """A tensor of pointers as one base and a formula in elements."""
        op = value.owner
        if not isinstance(op, Operation):
            return self._carried_pointers(value, op)
        match op.name:
            case "tt.splat":
                zero = (Poly({}),) * len(shape_of(value))
                return Pointers(op.operands[0], Index(Poly({}), zero))
            case "tt.addptr":
                return self._added(op)
            case "tt.expand_dims" | "tt.reshape" | "tt.broadcast" | "tt.trans":
                source = self.pointers(op.operands[0])
                return Pointers(source.base, reshape_index(source.index, op))
            case "ttg.convert_layout":
                return self.pointers(op.operands[0])
        raise Unknown(f"pointers come from {op.name}")

    def _added(self, op: Operation) -> Pointers:
        source, by = self.pointers(op.operands[0]), self.index(op.operands[1])
        strides = tuple(a + b for a, b in zip(source.index.strides, by.strides, strict=True))
        conditions = source.index.conditions + by.conditions
        return Pointers(source.base, Index(source.index.start + by.start, strides, conditions))

    def _carried_pointers(self, value: SSAValue, block: Any) -> Pointers:
        loop = block.parent_op()
        if loop is None or loop.name != "scf.for" or not isinstance(value, BlockArgument):
            raise Unknown("pointers are a block argument that is not carried by a for loop")
        start = self.pointers(loop.operands[2 + value.index])
        return Pointers(start.base, self._advance(value, loop, start.index))

    def mask(self, value: SSAValue | None) -> Mask:
        """A tensor of conditions as bounds on block positions."""
        if value is None or constant_of(value) in (1, -1):
            return Mask()
        op = value.owner
        if not isinstance(op, Operation):
            raise Unknown("the mask is a block argument")
        match op.name:
            case "arith.andi":
                return _both(self.mask(op.operands[0]), self.mask(op.operands[1]))
            case "arith.cmpi":
                return self._bound(op)
            case "ttg.convert_layout":
                return self.mask(op.operands[0])
            case "tt.broadcast" | "tt.expand_dims" | "tt.reshape" | "tt.trans":
                return _reshape_mask(self.mask(op.operands[0]), op)
        raise Unknown(f"the mask comes from {op.name}")

    def _bound(self, op: Operation) -> Mask:
        left, right = (self._index_if_known(v) for v in op.operands)
        if left is None or right is None:
            raise Unknown("the mask compares values without an affine form")
        kind = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")[
            attribute(op, "predicate").value.data
        ]
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


def reshape_index(source: Index, op: Operation) -> Index:
    """The formula after a change of shape that adds, drops, stretches or permutes dims."""
    dims = dimension_map(op)
    strides = tuple(Poly({}) if d is None else source.strides[d] for d in dims)
    return replace(source, strides=strides)


def dimension_map(op: Operation) -> tuple[int | None, ...]:
    """For each result dim the operand's dim it runs along, or None where it is constant."""
    old, new = shape_of(op.operands[0]), shape_of(op.results[0])
    if op.name == "tt.trans":
        return tuple(int(d) for d in attribute(op, "order").get_values())
    if op.name == "tt.broadcast":
        return tuple(d if old[d] == new[d] else None for d in range(len(new)))
    if op.name == "tt.expand_dims":
        axis = attribute(op, "axis").value.data
        return tuple(None if d == axis else d - (d > axis) for d in range(len(new)))
    kept = iter([d for d, size in enumerate(old) if size != 1])
    if [s for s in old if s != 1] != [s for s in new if s != 1]:
        raise Unknown("a reshape that splits or merges dimensions")
    return tuple(None if size == 1 else next(kept) for size in new)


def _reshape_mask(source: Mask, op: Operation) -> Mask:
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


def _wrapped(
    left: Index, right: Index, shape: tuple[int, ...], conditions: tuple[Guard, ...]
) -> Index:
    """(start + position) % modulus, contiguous as long as the block does not wrap."""
    if right.varying or len(left.varying) != 1:
        raise Unknown("a remainder of more than one block position")
    (dim,) = left.varying
    if left.strides[dim].as_constant != 1:
        raise Unknown("a remainder of a strided position")
    start = Poly.symbol(Remainder(left.start, right.start))
    needs = (
        at_least(left.start, Poly({}), "the wrapped index is not negative"),
        at_least(right.start, start + shape[dim], "the block does not wrap around"),
    )
    return Index(start, left.strides, conditions + needs)
