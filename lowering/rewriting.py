"""Helpers for rewriting xDSL operations in place, and for emitting scalar arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache, reduce
from typing import Any, TypeVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnknownLoc,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, MemoryEffect, MemoryFreeEffect, MemoryWriteEffect

from triton_xe.dialects.arith_ext import CmpiOp, ExtSIOp, TruncIOp
from triton_xe.dialects.layouts import encoding_of
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.structure import ExternElementwiseOp, FuncOp, ReduceOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.xe import DivisorOp
from triton_xe.dialects.xegpu.nd import PrefetchNdOp
from triton_xe.dialects.xegpu.scattered import PrefetchOp
from triton_xe.dialects.xetile.ops import PrefetchTileOp
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.layout import to_linear_layout
from triton_xe.lowering.facts.affine import (
    Affine,
    Iteration,
    LastIteration,
    Misalignment,
    Remainder,
)
from triton_xe.lowering.facts.fact import fitting
from triton_xe.lowering.facts.poly import Poly, Symbol, at_least
from triton_xe.lowering.facts.values import Unknown


def detach(op: Operation) -> None:
    """Remove an operation from its block without erasing it."""
    op.detach()  # type: ignore[no-untyped-call]


def put(op: Operation, at: InsertPoint) -> SSAValue:
    """Insert a new operation and return its result."""
    Rewriter.insert_op(op, at)
    return op.results[0]


def put_before(op: Operation, before: Operation) -> SSAValue:
    """Insert a new operation before another one, at its source location, and return its result."""
    locate(before, op)
    return put(op, InsertPoint.before(before))


def locate(source: Operation, *made: Operation) -> None:
    """Give new operations the source location of `source`."""
    for op in made:
        if isinstance(op.location, UnknownLoc):
            op.location = source.location


def locate_since(before: Operation | None, op: Operation) -> None:
    """Set the source location of the operations between `before` and `op` to that of `op`."""
    made = op.prev_op
    while made is not None and made is not before:
        locate(op, made)
        made = made.prev_op


def replace_by(op: Operation, write: Callable[[], Sequence[SSAValue]]) -> None:
    """Replace an operation by the results of `write`, which inserts operations before it.

    They get the operation's source location.
    """
    before = op.prev_op
    results = write()
    locate_since(before, op)
    Rewriter.replace_op(op, [], results)


_PROPERTIES: dict[tuple[Any, ...], dict[str, Attribute]] = {}


def _binary(kind: Any, left: SSAValue, right: SSAValue, *how: str) -> Operation:
    """Create an operation on two scalars; its properties are cached."""
    known = _PROPERTIES.get((kind, *how))
    if known is None:
        known = _PROPERTIES[kind, *how] = dict(kind(left, right, *how).properties)
    result = i1 if kind is CmpiOp else left.type
    made = kind.create(operands=(left, right), result_types=(result,), properties=dict(known))
    assert isinstance(made, Operation)
    return made


@lru_cache(maxsize=256)
def _number(value: int, kind: IntegerType) -> IntegerAttr[IntegerType]:
    return IntegerAttr(value, kind)


class Scalars:
    """Emits scalar arithmetic at one insertion point; equal expressions are emitted once.

    Polynomials are computed with 64 bits and truncated to 32 if requested.
    """

    def __init__(self, at: InsertPoint) -> None:
        self._at = at
        self._known: dict[object, SSAValue] = {}

    def insert(self, op: Operation) -> SSAValue:
        Rewriter.insert_op(op, self._at)
        return op.results[0]

    def constant(self, value: int, kind: IntegerType = i64) -> SSAValue:
        key = ("constant", value, kind)
        if key not in self._known:
            self._known[key] = self.insert(arith.ConstantOp.create(
                result_types=(kind,), properties={"value": _number(value, kind)}))
        return self._known[key]

    def wide(self, value: SSAValue) -> SSAValue:
        """A scalar or an address as i64."""
        if value.type == i64:
            return value
        if isinstance(value.type, PointerType):
            return self.address(value)
        if ("wide", value) not in self._known:
            self._known["wide", value] = self.insert(ExtSIOp(value, i64))
        return self._known["wide", value]

    def poly(self, poly: Poly) -> SSAValue:
        """The value of a polynomial as i64."""
        if poly in self._known:
            return self._known[poly]
        total: SSAValue | None = None
        for monomial, coefficient in poly.terms.items():
            term = self._term(monomial, coefficient)
            total = term if total is None else self.insert(_binary(arith.AddiOp, total, term))
        self._known[poly] = self.constant(0) if total is None else total
        return self._known[poly]

    def poly32(self, poly: Poly) -> SSAValue:
        """The value of a polynomial as i32; the caller guarantees that it fits."""
        constant = poly.as_constant
        if constant is not None:
            return self.constant(constant, i32)
        key = ("narrow", poly)
        if key not in self._known:
            only = next(iter(poly.symbols)) if len(poly.symbols) == 1 else None
            if isinstance(only, SSAValue) and only.type == i32 and poly == Poly.symbol(only):
                self._known[key] = only
            else:
                self._known[key] = self.insert(TruncIOp(self.poly(poly), i32))
        return self._known[key]

    def _term(self, monomial: Sequence[Symbol], coefficient: int) -> SSAValue:
        """Write the product of symbols and a coefficient."""
        if not monomial:
            return self.constant(coefficient)
        product: SSAValue | None = None
        for symbol in monomial:
            factor = self._symbol(symbol)
            product = factor if product is None else self.insert(
                _binary(arith.MuliOp, product, factor))
        assert product is not None
        if coefficient == 1:
            return product
        return self.insert(_binary(arith.MuliOp, product, self.constant(coefficient)))

    def _symbol(self, symbol: Symbol) -> SSAValue:
        if isinstance(symbol, SSAValue):
            return self.wide(symbol)
        if symbol not in self._known:
            self._known[symbol] = self._derived(symbol)
        return self._known[symbol]

    def _derived(self, symbol: Symbol) -> SSAValue:
        """Emit a symbol that is not an SSA value: a remainder, a misalignment, an iteration."""
        if isinstance(symbol, Remainder):
            return self.insert(arith.RemSIOp(self.poly(symbol.value), self.poly(symbol.modulus)))
        if isinstance(symbol, Misalignment):
            return self._remainder_of_power(self.address(symbol.base), block_2d.BASE_ALIGNMENT)
        assert isinstance(symbol, (Iteration, LastIteration))
        low, high, step = (self.wide(v) for v in symbol.loop.operands[:3])
        if isinstance(symbol, Iteration):
            gone = arith.SubiOp(self.wide(symbol.loop.regions[0].block.args[0]), low)
            return self.insert(arith.DivSIOp(self.insert(gone), step))
        span = self.insert(arith.SubiOp(high, low))
        before_last = self.insert(arith.SubiOp(span, self.constant(1)))
        return self.insert(arith.DivSIOp(before_last, step))

    def all_hold(self, guards: Iterable[Guard]) -> SSAValue | None:
        """Emit an i1 that is true if all guards are satisfied; None if there are no guards."""
        holds: SSAValue | None = None
        guards = list(guards)
        for guard in dict.fromkeys((*overflow_guards(guards), *guards)):
            test = self._holds(guard)
            holds = test if holds is None else self.insert(_binary(arith.AndIOp, holds, test))
        return holds

    def _holds(self, guard: Guard) -> SSAValue:
        """Emit an i1 that is true if a guard is satisfied."""
        amount, bound = guard.amount, guard.bound
        if guard.relation is Relation.AT_LEAST:
            if bound.as_constant is not None and amount not in self._known:
                amount, bound = amount - amount.constant_part, bound - amount.constant_part
            left, right = self.poly(amount), self.poly(bound)
            return self.insert(_binary(CmpiOp, left, right, "sge"))
        rest = self._remainder_of_power(self.poly(amount), bound)
        return self.insert(_binary(CmpiOp, rest, self.constant(0), "eq"))

    def _remainder_of_power(self, value: SSAValue, power_of_2: int) -> SSAValue:
        return self.insert(_binary(arith.AndIOp, value, self.constant(power_of_2 - 1)))

    def address(self, base: SSAValue) -> SSAValue:
        """A scalar pointer as i64."""
        from triton_xe.dialects.tt.ops import PtrToIntOp

        key = ("address", base)
        if key not in self._known:
            self._known[key] = self.insert(PtrToIntOp(operands=[base], result_types=[i64]))
        return self._known[key]


def overflow_guards(guards: Iterable[Guard], affine: Affine | None = None) -> Iterator[Guard]:
    """Yield guards under which evaluating `guards` in 64 bits does not overflow.

    They bound single symbols so that all compared numbers fit 63 bits.  Most sums need no bound.
    Products of three symbols do.  Raises `Unknown` if no bounds suffice.
    """
    affine, what = affine or Affine(), "numbers have room in 64 bits"
    sides = [side for guard in guards if guard.relation is Relation.AT_LEAST
             for side in (guard.amount, guard.bound)]
    for poly in (part for side in sides for part in _parts(side)):
        limit, ends = 1 << 63, affine.bounds(poly)
        if fitting(ends, 63) == ends:
            continue
        while fitting(ends, 63) != ends:
            limit >>= 1
            if not limit:
                raise Unknown("a number has no room in 64 bits")
            ends = affine.bounds(poly, dict.fromkeys(poly.symbols, (-limit, limit)))
        for one in (Poly.symbol(s) for s in dict.fromkeys(s for term in poly.terms for s in term)):
            low, high = affine.bounds(one)
            if high > limit:
                yield at_least(Poly.constant(limit), one, what)
            if low < -limit:
                yield at_least(one, Poly.constant(-limit), what)


def _parts(poly: Poly) -> Iterator[Poly]:
    """Yield the polynomials inside of a polynomial's remainders, then itself."""
    for symbol in poly.symbols:
        if isinstance(symbol, Remainder):
            yield from _parts(symbol.value)
            yield from _parts(symbol.modulus)
    yield poly


def retyped(value: Attribute, encoding: Attribute | None) -> TensorType[Attribute]:
    """A tensor type with another encoding."""
    assert isinstance(value, TensorType)
    return TensorType(
        value.element_type, value.get_shape(), value.encoding if encoding is None else encoding
    )


def retype(value: SSAValue, kind: TensorType[Any]) -> None:
    """Change the type of a tensor; a splat constant keeps its element."""
    match value.owner:
        case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as held):
            value.owner.properties["value"] = DenseIntOrFPElementsAttr(kind, held.data)
    Rewriter.replace_value_with_new_type(value, kind)


def is_pure(op: Operation) -> bool:
    """True if an unused operation can be erased, because it at most reads memory."""
    if type(op) is ExternElementwiseOp:
        return bool(op.pure.value.data)
    return _only_reads(type(op)) and not op.regions


@cache
def _only_reads(kind: type[Operation]) -> bool:
    """True if operations of a class declare that they only read; unknown classes do not."""
    if kind is arith.RemUIOp:  # xDSL's class declares no effects
        return True
    effects = [trait for trait in kind.traits if isinstance(trait, MemoryEffect)]
    writes = any(isinstance(trait, MemoryWriteEffect | MemoryFreeEffect) for trait in effects)
    return bool(effects) and not writes and not kind.has_trait(IsTerminator)


def orders_memory(op: Operation) -> bool:
    """True if a read must not move across an operation."""
    if op.regions:
        return not _stays_in_warps(op)
    return not is_pure(op) and not isinstance(op, _UNORDERED) and not op.has_trait(IsTerminator)


def _stays_in_warps(op: Operation) -> bool:
    """True if an operation only combines elements of a warp's lanes, without a barrier."""
    if not isinstance(op, ReduceOp):
        return False
    kind, axis = op.srcs[0].type, op.axis.value.data
    assert isinstance(kind, TensorType)
    layout = to_linear_layout(encoding_of(kind), tuple(kind.get_shape()))
    along = layout.sublayout(["warp"], [f"dim{axis}"])
    return not any(along.columns) and all(
        is_pure(inner) or inner.has_trait(IsTerminator) for inner in op.combine.block.ops)


_UNORDERED = (PrefetchTileOp, PrefetchNdOp, PrefetchOp, DivisorOp)


def is_unused(op: Operation) -> bool:
    """True if no result has a use."""
    for result in op.results:
        if result.first_use is not None:
            return False
    return True


def hoist(values: Iterable[SSAValue], anchor: Operation) -> bool:
    """Move the operations that compute `values` before `anchor`; False, and no move, if impossible.

    Only pure operations of the anchor's block that do not read memory are moved.
    """
    block = anchor.parent
    assert block is not None
    place = {op: i for i, op in enumerate(block.ops)}
    needed: set[Operation] = set()
    work = [v.owner for v in values]
    while work:
        op = work.pop()
        if not isinstance(op, Operation) or op in needed or place.get(op, -1) < place[anchor]:
            continue
        if not is_pure(op) or isinstance(op, LoadOp) or op is anchor:
            return False
        needed.add(op)
        work += [v.owner for v in op.operands]
    for op in sorted(needed, key=place.__getitem__):
        detach(op)
        Rewriter.insert_op(op, InsertPoint.before(anchor))
    return True


def erase_dead(root: Operation) -> None:
    """Erase unused pure operations, and loop-carried values without uses."""
    changed = True
    while changed:
        changed = False
        for op in reversed(below(root)):
            if op.parent is None or op is root:
                continue
            if type(op) is scf.ForOp:
                changed |= drop_dead_carries(op)
            elif op.results and is_unused(op) and is_pure(op):
                Rewriter.erase_op(op)


def drop_dead_carries(loop: scf.ForOp) -> bool:
    """Remove loop-carried values that are used only for their own next value; True if any."""
    body = loop.body.block
    last, carried = last_of(body), body.args[1:]
    dead = [i for i, result in enumerate(loop.results)
            if result.first_use is None and _is_dead_carry(carried[i], last, i)]
    if not dead:
        return False
    keep = [i for i in range(len(carried)) if i not in dead]
    for i in dead:
        carried[i].replace_all_uses_with(loop.iter_args[i])
    last.operands = [last.operands[i] for i in keep]
    for i in reversed(dead):
        body.erase_arg(carried[i])
    _with_carries(loop, [loop.iter_args[i] for i in keep], [loop.results[i] for i in keep])
    return True


def last_of(block: Block) -> Operation:
    """The terminator of a block."""
    assert block.last_op is not None
    return block.last_op


def _is_dead_carry(carried: SSAValue, last: Operation, i: int) -> bool:
    """True if a loop-carried value is used only to compute its own next value."""
    seen: set[Operation] = {last}
    work: list[SSAValue] = [carried]
    while work:
        for use in work.pop().uses:
            if use.operation is last:
                if use.index != i:
                    return False
            elif use.operation not in seen:
                if not is_pure(use.operation):
                    return False
                seen.add(use.operation)
                work.extend(use.operation.results)
    return True


def _with_carries(
    loop: scf.ForOp, carried: Sequence[SSAValue], results: Sequence[SSAValue]
) -> scf.ForOp:
    """Rebuild a loop with other loop-carried values; `results` are the old results to replace."""
    new = scf.ForOp(loop.lb, loop.ub, loop.step, carried, loop.detach_region(0))
    new.attributes = dict(loop.attributes)
    Rewriter.insert_op(new, InsertPoint.before(loop))
    for old, result in zip(results, new.results, strict=False):
        old.replace_all_uses_with(result)
    Rewriter.erase_op(loop)
    return new


def extend_for(
    loop: scf.ForOp, starts: Sequence[SSAValue]
) -> tuple[scf.ForOp, list[BlockArgument]]:
    """Add carried values to a loop; the caller adds the yield operands."""
    body = loop.body.block
    added = [body.insert_arg(value.type, len(body.args)) for value in starts]
    return _with_carries(loop, [*loop.iter_args, *starts], loop.results), added


def yield_more(loop: scf.ForOp, values: Sequence[SSAValue]) -> None:
    """Add operands to the terminator of a loop."""
    last = last_of(loop.body.block)
    last.operands = [*last.operands, *values]


def carry_more(body: Block, start: SSAValue) -> BlockArgument:
    """Add a loop-carried value, which the loop yields unchanged until its user replaces that."""
    loop = body.parent_op()
    assert isinstance(loop, scf.ForOp)
    loop, (added,) = extend_for(loop, [start])
    yield_more(loop, [added])
    return added


def conjuncts(mask: SSAValue) -> Iterator[SSAValue]:
    """Yield the conditions whose conjunction a mask is, in order."""
    if isinstance(mask.owner, arith.AndIOp):
        yield from conjuncts(mask.owner.lhs)
        yield from conjuncts(mask.owner.rhs)
    else:
        yield mask


def conjunction(conditions: Sequence[SSAValue], before: Operation) -> SSAValue:
    """The conjunction of conditions."""
    return reduce(lambda one, other: put_before(arith.AndIOp(one, other), before), conditions)


def functions(module: Operation) -> Iterator[FuncOp]:
    """Yield each tt.func of a module that has a body."""
    for op in module.regions[0].block.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op


_Op = TypeVar("_Op", bound=Operation)


def all_of(root: Operation, *kinds: type[_Op]) -> list[_Op]:
    """Operations of some classes below `root`, in order.

    Compares the class itself, which is several times as fast as `isinstance` of abstract classes.
    """
    return [op for op in below(root) if type(op) in kinds]  # type: ignore[misc]


def below(root: Operation) -> list[Operation]:
    """`root` and the operations in it, in the order of `walk`, without a generator for each."""
    found = [root]
    for region in root.regions:
        for block in region.blocks:
            op = block.first_op
            while op is not None:
                if op.regions:
                    found += below(op)
                else:
                    found.append(op)
                op = op._next_op  # not by the property, which takes half of the time
    return found


def values_below(root: Operation) -> Iterator[SSAValue]:
    """Results and block arguments of `root` and the operations in it."""
    for op in below(root):
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def if_else(condition: SSAValue, results: Sequence[Attribute]) -> scf.IfOp:
    """An scf.if with two empty blocks."""
    return scf.IfOp(condition, results, Region(Block()), Region(Block()))
