"""Pass strength-reduce-divisions: fewer instructions for divisions with bounded operands.

    %group = arith.divsi %program, %size          xe.quick = "small"
    %tiles = arith.divsi %length, 256             xe.quick = "unsigned"

The conditions of a launch fail unless every divisor among their steps is positive.  So a division
that is one of the steps has a positive divisor.  If its dividend is not negative, it is unsigned.
If the dividend is below 2^20, the quotient is exact in a float: it becomes a product with the
reciprocal and one correction (`triton_xe.lowering.spirv.quotients`), 12 instructions instead of 36.
One more condition bounds the number of programs.  Then small multiples of a program id are divided
in 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, StringAttr, i32, i64
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from triton_xe.conditions import Step, Table
from triton_xe.dialects.arith_ext import ExtSIOp, TruncIOp
from triton_xe.lowering.emit.maths.reciprocals import MOST_DIVIDED, QUICK
from triton_xe.lowering.facts.values import Unknown
from triton_xe.lowering.module_facts import LAUNCH_CONDITIONS, launch_conditions_of
from triton_xe.lowering.rewriting import all_of, functions
from triton_xe.lowering.surfaces.launch_guards import value_of
from triton_xe.lowering.targeted_pass import TargetedPass

DIVISIONS = ("divide", "remainder")
UNKNOWN = -(1 << 63)


@dataclass(frozen=True)
class StrengthReduceDivisionsPass(TargetedPass):
    """Strength-reduce divisions whose operands are bounded by launch conditions."""

    name: ClassVar = "strength-reduce-divisions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        text = launch_conditions_of(op)
        if not text:
            return
        table = Table.read(text)
        bounds = StepBounds(table)
        for function in functions(op):
            for division in all_of(function, arith.DivSIOp, arith.RemSIOp):
                if division.result.type == i32 and (how := _how(division, bounds)):
                    division.attributes[QUICK] = StringAttr(how)
                elif division.result.type == i64 and _fits_words(division, bounds):
                    _divide_words(division)
        op.attributes[LAUNCH_CONDITIONS] = StringAttr(table.text())


class StepBounds:
    """Bounds of the steps of a table that follow from all of its conditions.

        >>> table = Table()
        >>> size, tile = table.step("argument", 1, 0, 32), table.step("program", 0)
        >>> group = table.step("divide", tile, size, 32)
        >>> table.require("at_least", size, table.constant(7), what="long enough")
        >>> bounds = StepBounds(table)
        >>> bounds.least(size), bounds.least(group), bounds.program_of(group) == tile
        (7, 0, True)
    """

    def __init__(self, table: Table) -> None:
        self.table, self.count = table, len(table.steps)
        self._bounds: dict[int, int] = {}
        for step in table.steps:
            if step.op == "at_least" and table.steps[step.b].op == "constant":
                self._note(step.a, table.steps[step.b].a)

    def _note(self, number: int, bound: int) -> None:
        """Note a lower bound of a step, and of the step that it is a positive multiple of."""
        self._bounds[number] = max(bound, self._bounds.get(number, UNKNOWN))
        step = self.table.steps[number]
        if step.op == "multiply":
            for one, other in ((step.a, step.b), (step.b, step.a)):
                by = self.table.steps[other]
                if by.op == "constant" and by.a > 0:
                    self._note(one, -(-bound // by.a))

    def least(self, number: int) -> int:
        """Lower bound of a step."""
        step = self.table.steps[number]
        return max(self._bounds.get(number, UNKNOWN), self._least(step))

    def _least(self, step: Step) -> int:
        if step.op == "constant":
            return step.a
        if step.op in ("program", "programs"):
            return 0
        if step.op in ("add", "multiply", "minimum", "maximum", *DIVISIONS):
            a, b = self.least(step.a), self.least(step.b)
            if step.op == "maximum":
                return max(a, b)
            if step.op == "minimum":
                return min(a, b)
            if step.op in DIVISIONS:
                return 0 if a >= 0 else UNKNOWN
            if a >= 0 and b >= 0:
                return a + b if step.op == "add" else a * b
        return UNKNOWN

    def program_of(self, number: int) -> int | None:
        """Program id that is an upper bound of a step, which is not negative."""
        step = self.table.steps[number]
        if step.op == "program":
            return number
        if step.op in DIVISIONS:
            return self.program_of(step.a)
        return None

    def multiple_of_program(self, number: int) -> tuple[int, int] | None:
        """Program id and factor whose product bounds a step, which is not negative."""
        step = self.table.steps[number]
        if step.op == "multiply" and self.table.steps[step.b].op == "constant":
            found = self.multiple_of_program(step.a)
            return None if found is None else (found[0], found[1] * self.table.steps[step.b].a)
        program = self.program_of(number)
        return None if program is None else (program, 1)

    def divides(self, a: int, b: int, bits: int = 32) -> bool:
        """True if a step divides `a` by `b`, so that the conditions imply that `b` is positive."""
        made = (Step(op, a, b, bits) for op in DIVISIONS)
        return any(step in self.table.steps for step in made)


def _steps(op: Operation, bounds: StepBounds) -> tuple[int, int] | None:
    """The steps of a division's operands, if the first one is not negative."""
    length = len(bounds.table.steps)
    try:
        a, b = (value_of(v, bounds.table) for v in op.operands)
    except Unknown:
        return None
    finally:
        bounds.table.shorten(length)
    return None if max(a, b) >= bounds.count or bounds.least(a) < 0 else (a, b)


def _few_programs(bounds: StepBounds, program: int) -> None:
    """Add the condition that program ids are small."""
    most = bounds.table.constant(MOST_DIVIDED - 1)
    bounds.table.require("at_least", most, program, what="there are few enough programs")


def _fits_words(op: Operation, bounds: StepBounds) -> bool:
    """True if the operands of a 64-bit division are not negative and fit 32 bits."""
    found = _steps(op, bounds)
    if found is None or not bounds.divides(*found, 64):
        return False
    divisor, multiple = bounds.table.steps[found[1]], bounds.multiple_of_program(found[0])
    if (divisor.op, divisor.bits) != ("argument", 32) or multiple is None or (
            not 0 < multiple[1] <= (1 << 31) // MOST_DIVIDED):
        return False
    _few_programs(bounds, multiple[0])
    return True


def _divide_words(op: Operation) -> None:
    """Divide in 32 bits."""
    left, right = (TruncIOp(v, i32) for v in op.operands)
    divide = arith.DivSIOp if isinstance(op, arith.DivSIOp) else arith.RemSIOp
    made = divide(left.result, right.result)
    made.attributes[QUICK] = StringAttr("unsigned")
    wide = ExtSIOp(made.result, i64)
    Rewriter.replace_op(op, [left, right, made, wide])


def _how(op: Operation, bounds: StepBounds) -> str:
    """Form of a division: "small", "unsigned", or "" for none."""
    found = _steps(op, bounds)
    if found is None:
        return ""
    a, b = found
    divisor = bounds.table.steps[b]
    if divisor.op == "constant":
        return "unsigned" if divisor.a > 0 else ""
    if not bounds.divides(a, b):
        return ""
    program = bounds.program_of(a)
    if program is None:
        return "unsigned"
    _few_programs(bounds, program)
    return "small"
