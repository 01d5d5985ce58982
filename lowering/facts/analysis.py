"""The one analysis of integers, pointers and masks: facts that hold for every launch.

    >>> from triton_xe.lowering.import_ttgir import import_ttgir
    >>> module = import_ttgir('''tt.func @f(%n: i32) {
    ...   %c = arith.constant 16 : i32
    ...   %m = arith.remui %n, %c : i32
    ...   tt.return }''')
    >>> Facts().range(list(module.walk())[3].results[0])
    (0, 15)

A fact is solved when it is asked for: the values that it depends on are visited once, those of
loops until nothing changes.  Values keep their facts, so an analysis must be made anew after
a change of the code.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from triton_xe.dialects.arith_ext import CmpiOp
from triton_xe.dialects.llvm_ext import AssumeOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.lowering.facts.fact import (
    Fact,
    Range,
    full,
    join,
    power_of_two_divisor,
    rounded,
    signed,
    unknown,
)
from triton_xe.lowering.facts.rules import RULES, Result
from triton_xe.lowering.facts.values import (
    bits_of,
    carried,
    constant_of,
    declared_multiple,
    pointee_bytes_or_1,
    shape_of,
    states_facts,
)

PATIENCE = 3
"""Changes of a range in a loop after which its ends are taken as unbounded."""
HINTS = ("tt.contiguity", "tt.constancy", "tt.divisibility")
"""Attributes by which the program states facts of values (`tl.multiple_of` and its kin)."""


def has_promises(ops: Iterable[Operation]) -> bool:
    """True if the program states facts of some values, so that trusting facts may differ."""
    return any(type(op) is AssumeOp or not op.attributes.keys().isdisjoint(HINTS) for op in ops)


class _Node:
    """A value, the nodes that its fact is computed from, and the fact, once there is one."""

    __slots__ = ("fact", "is_carried", "sources", "value")

    def __init__(self, value: SSAValue, sources: Sequence[SSAValue], is_carried: bool) -> None:
        self.value, self.is_carried = value, is_carried
        self.sources: Any = sources
        self.fact: Any = None


class Facts:
    """Facts about the values of one function.

    With `trusting`, what the program states is taken as true: `tl.multiple_of` and its kin,
    `tl.assume`.  Without it, only what the operations prove.  `ideal` facts are those of a program
    where nothing wraps around and no dividend is negative: good for choices of what is fast.
    `assumed` are ranges of some values.
    """

    def __init__(
        self, *, trusting: bool = True, ideal: bool = False,
        assumed: Mapping[SSAValue, Range] = MappingProxyType({}),
    ) -> None:
        self.trusting, self.ideal, self.assumed = trusting, ideal, assumed
        self._nodes: dict[SSAValue, _Node] = {}

    def of(self, value: SSAValue) -> Fact:
        """The fact of a value."""
        node = self._nodes.get(value)
        if node is None:
            self.solve([value])
            node = self._nodes[value]
        fact: Fact = node.fact
        return fact

    def range(self, value: SSAValue) -> Range:
        """The least and the greatest number that elements can be, as signed numbers."""
        return self.of(value).range

    def wraps(self, op: Operation) -> bool:
        """True if a sum, difference, product or left shift may not have room in its bits."""
        (value,) = op.results
        result = Result(op, value, self.ideal)
        return not result.bits or result.ranged(*map(self.of, op.operands))[1]

    def solve(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        """Solve values at once; returns those that had no facts, each after its sources."""
        nodes, order = self._nodes, self._unsolved(values)
        for node in order:
            node.sources = [nodes[source] for source in node.sources]
        for node in order:
            node.fact = self._evaluated(node)
        self._reach_fixed_point(order)
        return [node.value for node in order]

    def _reach_fixed_point(self, order: Sequence[_Node]) -> None:
        """Weaken facts until those of loop-carried values hold in each iteration."""
        waiting = deque([node for node in order if node.is_carried])
        if not waiting:
            return
        users: defaultdict[_Node, list[_Node]] = defaultdict(list)
        changes: dict[_Node, int] = {}
        for node in order:
            for source in node.sources:
                users[source].append(node)
        while waiting:
            at = waiting.popleft()
            new, old = self._evaluated(at), at.fact
            if new == old:
                continue
            changes[at] = changes.get(at, 0) + 1
            new = _weakened(at, old, new, changes[at])
            if new != old:
                at.fact = new
                waiting += users[at]

    def _unsolved(self, values: Iterable[SSAValue]) -> list[_Node]:
        """New nodes of values without facts that some values depend on, each after its sources.

        A loop-carried value comes after its initial value, and before the value that the loop
        yields for it.
        """
        nodes, order, handed_back = self._nodes, list[_Node](), deque(values)
        while handed_back:
            waiting: list[SSAValue | _Node] = [handed_back.popleft()]
            while waiting:
                at = waiting.pop()
                if isinstance(at, _Node):
                    order.append(at)
                elif at not in nodes:
                    first, later = _ordered_sources(at)
                    nodes[at] = _Node(at, (*first, *later), bool(later))
                    handed_back += later
                    waiting.append(nodes[at])
                    waiting += first
        return order

    def needed(self, values: Iterable[SSAValue]) -> dict[SSAValue, None]:
        """Solved values, and all that they depend on."""
        found, waiting = dict[SSAValue, None](), [self._nodes[value] for value in values]
        while waiting:
            node = waiting.pop()
            if node.value not in found:
                found[node.value] = None
                waiting += node.sources
        return found

    def _evaluated(self, node: _Node) -> Fact:
        """Compute the fact of a value from those of its operands, assumptions and promises."""
        given = [source.fact for source in node.sources]
        computed = rounded(self._computed(node, given))
        if self.assumed and node.value in self.assumed:
            low, high = self.assumed[node.value]
            computed = computed._replace(
                low=max(computed.low, low), high=min(computed.high, high))
        return self._stated(node.value, computed) if self.trusting else computed

    def _computed(self, node: _Node, given: Sequence[Any]) -> Fact:
        """Compute a value's fact from those of its sources.

        The fact of the value that a loop yields is None at first.
        """
        value = node.value
        op: Any = value.owner
        rule = RULES.get(type(op))
        if rule is not None:
            return rule(Result(op, value, self.ideal), given)
        if type(value) is BlockArgument:
            return _block_argument(node, [fact for fact in given if fact is not None])
        if type(op) is arith.ConstantOp:
            return _constant(value, op)
        if type(op) in (scf.ForOp, scf.IfOp):
            return _joined(value, given)
        return unknown(bits_of(value), len(shape_of(value)))

    def _stated(self, value: SSAValue, fact: Fact) -> Fact:
        """The fact with what the program states of the value."""
        op: Any = value.owner
        if type(value) is not BlockArgument and op.attributes and states_facts(op):
            fact = _hinted(op, fact)
        return fact if type(value.type) is TensorType else _assumed(value, fact)


def _ordered_sources(value: SSAValue) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    """Values that a fact is computed from, and those that only a loop's back edge passes."""
    op: Any = value.owner
    if type(value) is BlockArgument:
        held = carried(value)
        if held is not None:
            return (held.start,), (held.end,)
        loop = value.block.parent_op()
        return (tuple(loop.operands[:3]), ()) if isinstance(loop, scf.ForOp) else ((), ())
    if type(op) in RULES:
        return op.operands, ()
    if type(op) is scf.ForOp:
        return (op.body.block.args[op.results.index(value) + 1],), ()
    if type(op) is scf.IfOp:
        place = op.results.index(value)
        return [region.block.last_op.operands[place] for region in op.regions], ()  # type: ignore[union-attr]
    return (), ()


def _constant(value: SSAValue, op: arith.ConstantOp) -> Fact:
    bits, shape = bits_of(value), shape_of(value)
    number = constant_of(value)
    if number is not None:
        number = signed(number, bits or 64)
        divisor = power_of_two_divisor(number)
        ones = (1,) * max(len(shape), 1)
        return Fact(number, number, ones, shape or (1,), (divisor,) * len(ones))
    fact = unknown(bits, len(shape))
    if not bits or not isinstance(op.value, DenseIntOrFPElementsAttr):
        return fact
    numbers = [signed(int(x), bits) for x in op.value.get_values()]
    return fact._replace(low=min(numbers), high=max(numbers))


def _joined(value: SSAValue, given: Sequence[Fact]) -> Fact:
    if not given:
        return unknown(bits_of(value), len(shape_of(value)))
    return reduce(partial(join, unit=pointee_bytes_or_1(value)), given)


def _block_argument(node: _Node, given: Sequence[Fact]) -> Fact:
    value: Any = node.value
    if node.is_carried:
        return _joined(value, given)
    bits, rank = bits_of(value), len(shape_of(value))
    fact, parent = unknown(bits, rank), value.block.parent_op()
    if isinstance(parent, FuncOp):
        multiple = power_of_two_divisor(declared_multiple(value))
        return fact._replace(divisibility=(multiple,) * len(fact.contiguity))
    if isinstance(parent, scf.ForOp) and not value.index and len(given) == 3:
        low, high, step = given  # `scf.for` ends before its counter could wrap
        return fact._replace(low=low.low, high=max(high.high - 1, low.low),
                             divisibility=(min(low.divisibility[0], step.divisibility[0]),))
    return fact


def _weakened(node: _Node, old: Fact, new: Fact, changes: int) -> Fact:
    """Fact that holds in each iteration of a loop; a carried value's range is soon unbounded."""
    fact = join(old, new, pointee_bytes_or_1(node.value))
    if changes < PATIENCE or not node.is_carried:
        return fact
    least, most = full(bits_of(node.value))
    low = old.low if fact.low == old.low else 0 if fact.low >= 0 else least
    return fact._replace(low=low, high=old.high if fact.high == old.high else most)


def _hinted(op: Operation, fact: Fact) -> Fact:
    """Facts that the program states of a value."""
    fields = []
    for name, have in zip(HINTS, fact[2:], strict=True):
        held = op.attributes.get(name)
        stated = [int(v) for v in getattr(held, "get_values", tuple)()]
        fields.append(tuple(map(max, have, stated)) if len(stated) == len(have) else have)
    return Fact(fact.low, fact.high, *fields)


_BELOW = {"slt": 1, "sle": 0}
_ABOVE = {"sgt": 1, "sge": 0}


def _assumed(value: SSAValue, fact: Fact) -> Fact:
    """Bounds that `tl.assume` states of a scalar, where it is computed."""
    for use in value.uses:
        op = use.operation
        if type(op) is CmpiOp and use.index == 0 and any(
                isinstance(u.operation, AssumeOp) and _is_reached(u.operation, value)
                for u in op.result.uses):
            bound = constant_of(op.rhs)
            if bound is None:
                continue
            if op.comparison in _BELOW:
                fact = fact._replace(high=min(fact.high, bound - _BELOW[op.comparison]))
            elif op.comparison in _ABOVE:
                fact = fact._replace(low=max(fact.low, bound + _ABOVE[op.comparison]))
    return fact


def _is_reached(op: Operation, value: SSAValue) -> bool:
    """True if an operation is executed whenever a value is computed."""
    owner = value.owner
    return op.parent is (owner if isinstance(owner, Block) else owner.parent)
