"""Run programs that are inside all bounds without masks.

      body:                                     %last = %base + 15 ; %inside = %last < %n
        %m = icmp slt i32 %base + lane, %n  ->  br i1 %inside, label %body, label %cold
        predicated load if %m                 body:
                                                load

Hosts compute and apply a mask for each access.  Bounds that move with the program id mostly hold
for whole programs.  The test is made at the start of the kernel, for all subgroups of a program.
Programs that fail it run again in the whole kernel (see `analysis.guards`).

Long kernels keep their masks, which then cost little, and so do kernels in which the compiler has
made such versions itself.  For kernels with loops see `inside_loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from triton_xe.intrinsics import find, genisa, opencl
from triton_xe.llvm import Block, Function, Instruction, Operand
from triton_xe.llvm.builder import Builder
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import TRUE, constant, substitute
from triton_xe.llvm.solver import reached
from triton_xe.llvm.types import I32, I64, Type
from triton_xe.runtime.simulator.analysis.guards import (
    COLD,
    cold_block,
    copies,
    group_uniform_slice,
    may_trap,
)
from triton_xe.runtime.simulator.analysis.kernel_sizes import Sizes

LONGEST = 1000
"""Instructions up to which a kernel is compiled again in a few tenths of a second at most."""
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
_DISTANCE = {"slt": 1, "sgt": 1, "sle": 0, "sge": 0}
"""Signed comparisons of order, and the least distance of the numbers if they are true."""


@dataclass(frozen=True)
class _Sum:
    """Sum of 32-bit values that are equal in a program, and a number from `least` to `most`."""

    values: tuple[str, ...]
    least: int
    most: int

    @property
    def is_value(self) -> bool:
        return len(self.values) == 1 and self.least == self.most == 0

    @property
    def is_index(self) -> bool:
        """True if it is known but for the lane and the subgroup, and not negative."""
        return not self.values and self.least >= 0


Bounds = dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[int, _Sum, _Sum]]
"""By their values: distance, low and high, where `low + distance <= high` in all lanes."""


def inside_bounds(function: Function, sizes: Sizes) -> Function | None:
    """The kernel for programs inside all bounds, which begins with a test; None without bounds."""
    first, *rest = function.blocks
    last = first.instructions[-1]
    instructions = list(function.instructions())
    has_versions = any(i.fallback is not None for i in instructions)
    if (last.opcode != "br" or len(last.labels) != 1 or len(instructions) > LONGEST
            or has_versions or function.loops()):
        return None
    facts = Facts(function)
    found = BoundSearch(facts, sizes, lambda x: group_uniform_slice(x, facts.makers, function),
                        [i for i in instructions if find(i.callee) is opencl.GROUP_ID])
    inside = {i for i in instructions
              if (condition := condition_of(i)) is not None and found.is_bounded(condition, 0)}
    if not found.true:
        return None
    entry = Block(first.label, first.instructions[:-1])
    made = replace(function, blocks=[entry])
    condition = tests_of(Builder(made, "xe.inside"), found)
    entry.instructions.append(replace(last, operands=[condition], labels=[*last.labels, COLD]))
    kept = [Block(b.label, [unmasked(i) if i in inside else i for i in b.instructions
                            if i.result not in found.true]) for b in rest]
    substitute(kept, {name: constant(t, 1) for name, t in found.true.items()})
    made.blocks += [*kept, cold_block()]
    return made


def condition_of(i: Instruction) -> Operand | None:
    """The condition of a masked access; None for other instructions."""
    known = find(i.callee)
    return (i.operands[2] if known is genisa.PREDICATED_LOAD else
            i.operands[3] if known is genisa.PREDICATED_STORE else None)


def unmasked(i: Instruction) -> Instruction:
    """A plain access in place of a masked one."""
    align = i.operands[1 + (i.result is None)].integer_value() or 0
    if i.result is None:
        return replace(i, opcode="store", operands=[i.operands[1], i.operands[0]], callee="",
                       align=align)
    return replace(i, opcode="load", operands=i.operands[:1], callee="", align=align,
                   unfilled=False)


class BoundSearch:
    """Comparisons that are true in all lanes of most programs.

    `slice_of` returns the instructions that compute a value for all lanes, or None.  With
    `together`, the value and the comparisons are for all subgroups, else for one.  Bounds depend
    on one of the results `moving`.
    """

    def __init__(
        self, facts: Facts, sizes: Sizes,
        slice_of: Callable[[Operand], list[Instruction] | None], moving: Iterable[Instruction],
        *, together: bool = True,
    ) -> None:
        self.facts = facts
        self._slice_of = slice_of
        self._moving = reached((str(i.result) for i in moving), facts.results)
        self.true: dict[str, Type] = {}
        """Comparison -> its type, for those that the test covers."""
        self.bounds: Bounds = {}
        self.slices: dict[str, list[Instruction]] = {}
        """Value of a bound -> the instructions that compute it from arguments and program ids."""
        self._ids = {opencl.LANE_ID: sizes.lanes}
        if together:
            self._ids[opencl.SUB_GROUP_ID] = sizes.sub_groups
        self._known: dict[tuple[str, int], _Sum | None] = {}

    def is_bounded(self, x: Operand, element: int) -> bool:
        """True if an element of a condition consists of bounds, which are noted."""
        x, element = self._source(x, element)
        i = self.facts.maker(x)
        if i is None:
            return x == TRUE
        if i.opcode == "and":
            return all([self.is_bounded(o, element) for o in i.operands])
        return i.opcode == "icmp" and (i.value.text in self.true or self._note(i))

    def _note(self, i: Instruction) -> bool:
        """Note a comparison if it is a bound that moves with the program id."""
        distance = _DISTANCE.get(i.extra)
        if distance is None or i.operands[0].type.scalar not in (I32, I64):
            return False
        low, high = i.operands if i.extra[1] == "l" else reversed(i.operands)
        found: Bounds = {}
        for element in range(i.type.lanes):
            below, limit = self._sum(low, element), self._limit(high, element)
            if below is None or limit is None:
                return False
            _add(found, distance, below, limit)
        if any(self._moving.isdisjoint(low + high) for low, high in found):
            return False
        for bound in found.values():
            _add(self.bounds, *bound)
        self.true[i.value.text] = i.type
        return True

    def _limit(self, x: Operand, element: int) -> _Sum | None:
        """The upper side of a comparison, also if it is selected by a condition that is a bound."""
        x, element = self._source(x, element)
        i = self.facts.maker(x)
        if i is not None and i.opcode == "select":
            condition, x, _ = i.operands
            if not self.is_bounded(condition, element):
                return None
        return self._sum(x, element)

    def _source(self, x: Operand, element: int) -> tuple[Operand, int]:
        """The value that an element of a vector is taken from, and the element there."""
        while (i := self.facts.maker(x)) is not None:
            if i.opcode == "shufflevector" and i.indices[element] >= 0:
                second, element = divmod(i.indices[element], i.operands[0].type.count)
                x = i.operands[second]
            elif i.opcode == "extractelement" and (at := i.operands[1].integer_value()) is not None:
                x, element = i.operands[0], at
            elif i.opcode == "insertelement" and (at := i.operands[2].integer_value()) is not None:
                x = i.operands[1 if at == element else 0]
            else:
                break
        return (x.elements[element] if x.elements else x), element

    def _sum(self, x: Operand, element: int) -> _Sum | None:
        """An integer as a sum; None if it is none."""
        x, element = self._source(x, element)
        if x.is_constant:
            number = 0 if x.is_zero else x.integer_value()
            return None if number is None else _constant(number, x.type.scalar.bits)
        key = x.text, element
        if key not in self._known:
            self._known[key] = None  # no loops
            self._known[key] = self._of_result(x, element) or self._of_program(x)
        return self._known[key]

    def _of_result(self, x: Operand, element: int) -> _Sum | None:
        """The sum that an instruction computes."""
        i = self.facts.maker(x)
        if i is None:
            return None
        if count := self._ids.get(find(i.callee)):
            return _Sum((), 0, count - 1)
        rule = _RULES.get(i.opcode)
        parts = [self._sum(o, element) for o in i.operands] if rule is not None else []
        return None if rule is None or None in parts else rule(*parts)

    def _of_program(self, x: Operand) -> _Sum | None:
        """A 32-bit value that is equal in all lanes and subgroups."""
        if x.type is not I32:
            return None
        found = self._slice_of(x)
        if found is None or any(map(may_trap, found)):
            return None
        self.slices[x.text] = found
        return _Sum((x.text,), 0, 0)


def _constant(number: int, bits: int) -> _Sum | None:
    """A constant, perhaps written as an unsigned number; None if it has more than 32 bits."""
    half = 1 << bits - 1
    signed = (number + half) % (2 * half) - half
    return _Sum((), signed, signed) if _LEAST <= signed <= _MOST else None


def _add(bounds: Bounds, distance: int, low: _Sum, high: _Sum) -> None:
    """Add a bound to those of the same values."""
    key = low.values, high.values
    most, below, limit = bounds.get(key, (distance, low, high))
    bounds[key] = (max(most, distance), _union(below, low), _union(limit, high))


def _union(x: _Sum, y: _Sum) -> _Sum:
    return replace(x, least=min(x.least, y.least), most=max(x.most, y.most))


def _plus(x: _Sum, y: _Sum) -> _Sum | None:
    made = _Sum(tuple(sorted(x.values + y.values)), x.least + y.least, x.most + y.most)
    return made if made.values or _LEAST <= made.least <= made.most <= _MOST else None


def _index(low: int, high: int) -> _Sum | None:
    """A number without values, if 32 bits hold it."""
    return _Sum((), low, high) if high <= _MOST else None


def _product(x: _Sum, y: _Sum) -> _Sum | None:
    is_index = x.is_index and y.is_index
    return _index(x.least * y.least, x.most * y.most) if is_index else None


def _shifted(x: _Sum, y: _Sum) -> _Sum | None:
    return _product(x, _Sum((), 1 << y.least, 1 << y.most)) if y.is_index and y.most < 32 else None


def _of_bits(x: _Sum, y: _Sum) -> _Sum | None:
    """Bits of two numbers, merged."""
    bits = max(x.most, y.most).bit_length()
    return _index(0, (1 << bits) - 1) if x.is_index and y.is_index else None


def _common_bits(x: _Sum, y: _Sum) -> _Sum | None:
    found = [z.most for z in (x, y) if z.is_index]
    return _index(0, min(found)) if found else None


def _part(x: _Sum, y: _Sum) -> _Sum | None:
    """A number divided by a constant of at least 1."""
    is_part = x.is_index and y.is_index and y.least == y.most > 0
    return _index(x.least // y.most, x.most // y.most) if is_part else None


def _rest(x: _Sum, y: _Sum) -> _Sum | None:
    is_rest = y.is_index and y.least == y.most > 0
    return _index(0, y.most - 1) if is_rest else None


def _as_wide(x: _Sum) -> _Sum | None:
    return x if x.is_value or x.is_index else None


_RULES: Mapping[str, Callable[..., _Sum | None]] = {
    "add": _plus, "mul": _product, "shl": _shifted, "or": _of_bits, "xor": _of_bits,
    "and": _common_bits, "udiv": _part, "urem": _rest, "sext": _as_wide,
    "lshr": lambda x, y: _part(x, _Sum((), 1 << y.least, 1 << y.most)) if y.is_index else None,
    "zext": lambda x: x if x.is_index else None,
}


def tests_of(b: Builder, found: BoundSearch) -> Operand:
    """Compute if all bounds hold, as signed numbers of 64 bits."""
    values = {v: None for low, high in found.bounds for v in low + high}
    copied = copies(b, (i for value in values for i in found.slices[value]))
    conditions = [c for bound in found.bounds.values() for c in _holds(b, copied, *bound)]
    made, *others = conditions
    for other in others:
        made = b.and_(made, other)
    return made


def _holds(
    b: Builder, copied: Mapping[str, Operand], distance: int, low: _Sum, high: _Sum
) -> Iterable[Operand]:
    """Conditions under which a bound holds, and no sum of 32 bits in it wraps around."""
    below, limit = (_total(b, [copied.get(v, Operand(I32, v)) for v in x.values])
                    for x in (low, high))
    yield b.icmp("sle", b.add(below, low.most + distance), b.add(limit, high.least))
    if low.least < 0 or len(low.values) > 1:
        yield b.icmp("sge", b.add(below, low.least), _LEAST)
    if high.most > 0 or len(high.values) > 1:
        yield b.icmp("sle", b.add(limit, high.most), _MOST)


def _total(b: Builder, values: list[Operand]) -> Operand:
    total = constant(I64, 0)
    for value in values:
        total = b.add(b.sext(value, I64), total)
    return total
