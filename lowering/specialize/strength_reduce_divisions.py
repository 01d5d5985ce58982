"""Rule strength-reduce-divisions: fewer instructions for divisions with bounded operands.

    %group = arith.divsi %program, %size          xe.quick = "small"
    %tiles = arith.divsi %length, 256             xe.quick = "unsigned"

The conditions of a launch fail unless every divisor among their steps is positive.  Therefore a
division that is one of the steps has a positive divisor.  If its dividend is not negative, it is
unsigned.  If the dividend is below 2^20, the quotient is exact in a float.  It becomes a product
with the reciprocal and one correction (`triton_xe.lowering.spirv.quotients`), 12 instructions
instead of 36.  One more condition bounds the number of programs.  Then small multiples of a program
id are divided in 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, i32, i64
from xdsl.ir import Block, Operation, SSAValue

from triton_xe.conditions import Step, Table
from triton_xe.dialects.tt.ops import GetProgramIdOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.xe import QUICK
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.fact import Range
from triton_xe.lowering.facts.reciprocals import MOST_DIVIDED
from triton_xe.lowering.facts.values import Unknown, constant_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.module_facts import LAUNCH_CONDITIONS, launch_conditions_of
from triton_xe.lowering.rewriting import all_of
from triton_xe.lowering.specialize.launch_guards import value_of
from triton_xe.lowering.specialize.narrow_divisions import divide_words

DIVISIONS = ("divide", "remainder")
_MOST, _MOST_OF_ALL = (1 << 31) - 1, (1 << 63) - 1


def strength_reduce_divisions(function: FuncOp, scope: Scope) -> None:
    """Strength-reduce divisions whose operands are bounded by launch conditions."""
    text = launch_conditions_of(scope.module)
    divisions = all_of(function, arith.DivSIOp, arith.RemSIOp) if text else []
    if not divisions:
        return
    table = Table.read(text)
    known = _Known(function, divisions, table)
    for division in divisions:
        if division.result.type == i32 and (how := known.form_of(division)):
            QUICK.put(division, how)
        elif division.result.type == i64 and known.fits_words(division):
            divide_words(division, how="unsigned")
    scope.module.attributes[LAUNCH_CONDITIONS] = StringAttr(table.text())


def least_arguments(table: Table) -> dict[int, int]:
    """Lower bounds of arguments that the conditions imply, by their index.

        >>> table = Table()
        >>> size, tile = table.step("argument", 1, 0, 32), table.step("program", 0)
        >>> twice = table.step("multiply", size, table.constant(2), 32)
        >>> table.require("at_least", twice, table.constant(7), what="long enough")
        >>> least_arguments(table)
        {1: 4}
    """
    steps, least = table.steps, dict[int, int]()
    bounds = [(step.b, 1) for step in steps if step.op in DIVISIONS]
    bounds += [(step.a, steps[step.b].a) for step in steps
               if step.op == "at_least" and steps[step.b].op == "constant"]
    while bounds:
        number, bound = bounds.pop()
        step = steps[number]
        if step.op == "argument":
            least[step.a] = max(bound, least.get(step.a, bound))
        elif step.op == "multiply":
            bounds += [(one, -(-bound // steps[other].a))
                       for one, other in ((step.a, step.b), (step.b, step.a))
                       if steps[other].op == "constant" and steps[other].a > 0]
    return least


class _Known:
    """Facts of numbers that the launch tests: steps of its table have room in their bits.

    `few` are those of a launch with less than `MOST_DIVIDED` programs along each axis.
    """

    def __init__(self, function: FuncOp, divisions: Iterable[Operation], table: Table) -> None:
        self.table, self.count = table, len(table.steps)
        self.entry = function.body.blocks[0]
        plain = _facts({})
        self.tested = {op for op in divisions if self._is_tested(op, plain)}
        bounded: dict[SSAValue, Range] = {op.operands[1]: (1, _MOST_OF_ALL) for op in self.tested}
        bounded |= {self.entry.args[n]: (low, _MOST_OF_ALL)
                    for n, low in least_arguments(table).items()}
        programs = dict.fromkeys(
            [op.result for op in all_of(function, GetProgramIdOp)], (0, MOST_DIVIDED - 1))
        self.all, self.few = (_facts(assumed) for assumed in (bounded, bounded | programs))

    def _is_tested(self, op: Operation, facts: Facts) -> bool:
        """True if the launch tests that a division's operands have room, and the divisor is > 0.

        Numbers that a loop computes have more steps than those of the table.
        """
        facts.range(op.operands[0])
        if any(isinstance(value.owner, Block) and value.owner is not self.entry
               for value in facts.needed(op.operands[:1])):
            return False
        length = len(self.table.steps)
        try:
            a, b = (value_of(v, self.table) for v in op.operands)
        except Unknown:
            return False
        finally:
            self.table.shorten(length)
        bits = 32 if op.results[0].type == i32 else 64
        divided = any(Step(name, a, b, bits) in self.table for name in DIVISIONS)
        return max(a, b) < self.count and (divided or (constant_of(op.operands[1]) or 0) > 0)

    def _require_few_programs(self, value: SSAValue) -> None:
        """Add the condition that the program ids which a value depends on are small."""
        most = self.table.constant(MOST_DIVIDED - 1)
        for program in self.few.needed([value]):
            if isinstance(program.owner, GetProgramIdOp):
                self.table.require("at_least", most, value_of(program, self.table),
                                   what="there are few enough programs")

    def form_of(self, op: Operation) -> str:
        """Form of a division: "small", "unsigned", or "" for none."""
        left, right = op.operands
        if op not in self.tested:
            return ""
        low, high = self.few.range(left)
        if 0 <= low and high < MOST_DIVIDED and constant_of(right) is None:
            self._require_few_programs(left)
            return "small"
        return "unsigned" if self.all.range(left)[0] >= 0 else ""

    def fits_words(self, op: Operation) -> bool:
        """True if the operands of a 64-bit division are not negative and fit 32 bits."""
        (low, high), (_, most) = map(self.few.range, op.operands)
        fits = op in self.tested and low >= 0 and max(high, most) <= _MOST
        if fits:
            self._require_few_programs(op.operands[0])
        return fits


def _facts(assumed: Mapping[SSAValue, Range]) -> Facts:
    return Facts(trusting=False, ideal=True, assumed=assumed)
