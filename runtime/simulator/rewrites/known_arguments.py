"""Specialise a kernel's host function for argument values of an earlier launch.

Masks mostly depend on an argument: `column < N`.  For the value that the argument had, or for all
values that put every lane inside, these masks are constants.  LLVM then turns full masks into plain
accesses and removes empty ones.  Other launches use the general function.  Only comparisons become
constants, so that the results have the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from triton_xe.llvm import Block, Function, Instruction, Operand
from triton_xe.llvm.builder import Builder
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import constant, integers
from triton_xe.llvm.types import I1, VOID
from triton_xe.runtime.simulator.analysis.shapes import (
    RULES,
    WIDE,
    Shape,
    constant_shape,
    transfer,
)

_SWAPPED = {"sgt": "slt", "sge": "sle", "slt": "sgt", "sle": "sge", "eq": "eq", "ne": "ne"}
_PREDICATES = {
    "slt": lambda x, y: x < y, "sle": lambda x, y: x <= y, "sgt": lambda x, y: x > y,
    "sge": lambda x, y: x >= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
}
Numbers = NDArray[np.int64]
_RISING = ("slt", "sle")


@dataclass(frozen=True, eq=False)
class _Comparison:
    """Comparison of known numbers, one in each lane, with an argument."""

    instruction: Instruction
    argument: str
    side: int
    """Index of the operand that is the argument."""
    predicate: str
    """Predicate with the numbers on the left side."""
    numbers: Numbers
    """Numbers of each subgroup that the function runs for, in order."""

    def true_lanes(self, value: int) -> NDArray[np.bool_]:
        """Lanes of each subgroup for which it is true if the argument is `value`."""
        return np.asarray(_PREDICATES[self.predicate](self.numbers, value))

    def is_always_true(self, value: int) -> bool:
        """True if it is true in all lanes."""
        return bool(self.true_lanes(value).all())


def for_arguments(
    function: Function, known: Mapping[str, int], *, sg: str = "", sub_groups: int = 1
) -> list[Function]:
    """The function, preceded by a version for these arguments if that may be faster.

    `known`: values of arguments, by the name of their loads.  The parameter `sg` is the number of
    the subgroup, if the function runs for several.
    """
    facts = Facts(function)
    numbers = _Evaluation(facts, sg, sub_groups)
    found = [c for i in function.instructions()
             if (c := _find_comparison(i, numbers, known)) is not None]
    if not found:
        return [function]
    general, special = (replace(
        function, name=f"{function.name}_{name}", is_internal=True,
        attributes=f"{function.attributes} noinline") for name in ("general", "special"))
    changed = {id(c.instruction): _fold(c, known[c.argument]) for c in found}
    special.blocks = [
        Block(b.label, [x for i in b.instructions for x in changed.get(id(i), (i,))])
        for b in function.blocks]
    return [_dispatcher(facts, general, special, found, known), general, special]


def _fold(c: _Comparison, value: int) -> tuple[Instruction, ...]:
    """Fold the comparison to a constant, equal for all subgroups or selected by subgroup."""
    i, is_true = c.instruction, c.true_lanes(value)
    if c.instruction.operands[1 - c.side].is_constant:
        operands = list(i.operands)
        operands[c.side] = constant(operands[c.side].type, value)
        return (replace(i, operands=operands),)
    always, ever = np.all(is_true, axis=0), np.any(is_true, axis=0)
    differs = np.asarray(always != ever)
    t, name = i.type, i.result
    yes, open_ = (integers(I1, [int(x) for x in np.asarray(flags)]) for flags in (always, differs))
    if not differs.any():
        return (Instruction("and", t, [yes, yes], name),)
    tested, kept = (Operand(t, f"{name}.{part}") for part in ("tested", "open"))
    return (replace(i, result=tested.text), Instruction("and", t, [tested, open_], kept.text),
            Instruction("or", t, [kept, yes], name))


def _find_comparison(
    i: Instruction, evaluation: _Evaluation, known: Mapping[str, int]
) -> _Comparison | None:
    """A comparison of an argument with known numbers; None if it is none."""
    if i.opcode != "icmp" or i.extra not in _SWAPPED or i.operands[0].type.kind != "vec":
        return None
    for side in range(2):
        argument = _splat_scalar(i.operands[side], evaluation.facts)
        numbers = evaluation.numbers(i.operands[1 - side]) if argument in known else None
        if numbers is not None:
            predicate = i.extra if side else _SWAPPED[i.extra]
            return _Comparison(i, str(argument), side, predicate, numbers)
    return None


class _Evaluation:
    """Evaluation of numbers that are known except for the subgroup: a row for each subgroup."""

    def __init__(self, facts: Facts, sg: str, sub_groups: int) -> None:
        self.facts, self.sub_groups = facts, sub_groups
        self.known: dict[str, Shape] = {}
        """Shapes of values, with subgroups in place of lanes."""
        if sg:
            self.known[sg] = Shape(False, np.arange(sub_groups, dtype=np.int64)[None, :], 0)

    def numbers(self, x: Operand) -> Numbers | None:
        """The numbers of a value by subgroup and element; None if they are not known."""
        table = self._shape(x).table
        return None if table is None else np.broadcast_to(
            table, (x.type.lanes, self.sub_groups)).T

    def _shape(self, x: Operand) -> Shape:
        """The shape of a value, which is wide unless its numbers are known."""
        if x.local is None:
            return constant_shape(x, self.sub_groups)
        if x.local not in self.known:
            i = self.facts.maker(x)
            has_rule = i is not None and i.type.scalar.kind == "int" and i.opcode in RULES
            self.known[x.local] = self._result(i) if i is not None and has_rule else WIDE
        return self.known[x.local]

    def _result(self, i: Instruction) -> Shape:
        """The shape of a result, from those of its operands."""
        shapes = [self._shape(o) for o in i.operands]
        return transfer(i, shapes, self.sub_groups) if all(s.pure for s in shapes) else WIDE


def _splat_scalar(x: Operand | None, facts: Facts) -> str | None:
    """The scalar that all elements of `x` equal, or that it is itself."""
    while x is not None and (i := facts.maker(x)) is not None:
        taken = facts.extraction(x)
        if x.type.kind == "vec":
            x = _scalar_of(x, facts, range(x.type.count))
        elif taken is not None:
            x = _scalar_of(taken[0], facts, taken[1:])
        else:
            return i.result
    return None


def _scalar_of(x: Operand, facts: Facts, elements: Iterable[int]) -> Operand | None:
    """The scalar that these elements of a vector equal, if they are known to be equal."""
    i, elements = facts.maker(x), set(elements)
    if i is None:
        return None
    if i.opcode == "insertelement":
        return i.operands[1] if elements == {i.operands[2].integer_value()} else None
    if i.opcode != "shufflevector":
        return None
    count = i.operands[0].type.count
    taken = {i.indices[k] for k in elements}
    found = {_scalar_of(source, facts, own) for source, own in (
        (i.operands[0], {k for k in taken if 0 <= k < count}),
        (i.operands[1], {k - count for k in taken if k >= count})) if own}
    return found.pop() if len(found) == 1 else None


def _dispatcher(
    facts: Facts, general: Function, special: Function, found: list[_Comparison],
    known: Mapping[str, int],
) -> Function:
    """Function that calls one of the two versions, by the values of the arguments."""
    chooser = replace(facts.function, blocks=[Block("%entry")])
    b = Builder(chooser, "fits")
    tests = []
    for name in dict.fromkeys(c.argument for c in found):
        x = _reload(b, facts.makers[name], facts)
        own = [c for c in found if c.argument == name]
        if all(c.predicate in _RISING and c.is_always_true(known[name]) for c in own):
            least = max(int(c.numbers.max()) + (c.predicate == "slt") for c in own)
            tests.append(b.icmp("sge", x, least))
        else:
            tests.append(b.icmp("eq", x, known[name]))
    fits = tests[0]
    for test in tests[1:]:
        fits = b.binary("and", fits, test)
    b.cond_br(fits, "%like", "%other")
    for label, version in (("%like", special), ("%other", general)):
        b.start(label)
        b.call(version.name, VOID, chooser.arguments)
        b.ret()
    return chooser


def _reload(b: Builder, load: Instruction, facts: Facts) -> Operand:
    """Load the argument again."""
    address = facts.maker(load.operands[0])
    if address is not None:
        b.append(address)
    return b.append(load).value
