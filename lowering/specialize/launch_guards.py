"""Guards that the host tests before a launch: those of arguments, grid sizes and program ids.

A guard becomes steps of a table of conditions (`triton_xe.conditions`), which is attached to the
module.  Guards on other values, such as loaded ones, stay in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from triton_xe.conditions import WIDTHS, Table
from triton_xe.dialects.arith_ext import ExtSIOp, ExtUIOp, IndexCastOp, SelectOp, TruncIOp
from triton_xe.dialects.tt.ops import AddPtrOp, GetNumProgramsOp, GetProgramIdOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.lowering.facts.affine import (
    Affine,
    Iteration,
    LastIteration,
    Misalignment,
    Remainder,
)
from triton_xe.lowering.facts.poly import Monomial, Poly, Symbol
from triton_xe.lowering.facts.values import (
    Unknown,
    attribute,
    bits_of,
    constant_of,
    pointee_bytes,
)
from triton_xe.lowering.module_facts import (
    LAUNCH_CONDITIONS,
    launch_conditions_of,
    module_of,
    options_of,
    remark,
)

_BINARY: dict[type[Operation], str] = {
    arith.AddiOp: "add", arith.SubiOp: "subtract", arith.MuliOp: "multiply",
    arith.DivSIOp: "divide", arith.RemSIOp: "remainder",
    arith.MinSIOp: "minimum", arith.MaxSIOp: "maximum",
}
_UNSIGNED: dict[type[Operation], str] = {
    arith.DivUIOp: "divide", arith.RemUIOp: "remainder",
    arith.MinUIOp: "minimum", arith.MaxUIOp: "maximum",
}
_AXES = ("x", "y", "z")
DEPTH = 100
"""Longest chain of steps for an amount."""


def tested_in_kernel(guards: Iterable[Guard], at: Operation) -> list[Guard]:
    """The guards of an access that the host cannot decide, for the module that `at` is in."""
    return left_by(Table(), guards, at)


def left_by(table: Table, guards: Iterable[Guard], at: Operation) -> list[Guard]:
    """Turn guards into conditions of a table; return those that the host cannot test."""
    if options_of(module_of(at)).guards == "kernel":
        return list(guards)
    steps = Steps(table)
    return [guard for guard in guards if not steps.tests(guard)]


def assume(guards: Iterable[Guard], at: Operation) -> list[Guard]:
    """Turn guards into conditions of a launch; return those that the host cannot test."""
    guards, module = list(guards), module_of(at)
    if not guards:
        return []
    table = Table.read(launch_conditions_of(module))
    left = left_by(table, guards, at)
    if table.steps:
        module.attributes[LAUNCH_CONDITIONS] = StringAttr(table.text())
    return left


def assume_all(guards: Sequence[Guard], at: Operation, what: str) -> bool:
    """Assume guards at launch, with a remark; False, and nothing, if a launch cannot test all."""
    if tested_in_kernel(guards, at):
        return False
    assume(guards, at)
    remark(at, what)
    return True


def value_of(value: SSAValue, table: Table) -> int:
    """Step of a table that computes a scalar, added if needed; `Unknown` if the host cannot."""
    return Steps(table).value(value)


class Steps:
    """Writer of the steps that compute an amount; `Unknown` if the host cannot compute it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._known: dict[object, int] = {}
        """Steps of values, and of products of symbols with a factor."""
        self._tested: dict[Guard, bool] = {}
        self._depth = 0

    def tests(self, guard: Guard) -> bool:
        """Append the test of a guard; False, and nothing, if the host cannot test it."""
        if guard not in self._tested:
            self._tested[guard] = self.computes(self.require, guard)
        return self._tested[guard]

    def computes(self, write: Callable[[Any], object], what: object) -> bool:
        """True if the host can compute something; otherwise the table stays unchanged."""
        length = len(self.table.steps)
        try:
            write(what)
        except Unknown:
            self.table.shorten(length)
            self._known = {v: step for v, step in self._known.items() if step < length}
            self._depth = 0
            return False
        return True

    def require(self, guard: Guard) -> None:
        """Append the test of a guard."""
        if guard.relation is Relation.MULTIPLE_OF:
            amount, bits = self.poly(guard.amount), _log2(guard.bound)
            self.table.require("multiple", amount, bits, what=guard.what)
        else:
            added, taken = (guard.amount - guard.bound).terms_by_sign()
            self.table.require("at_least", self._sum(added), self._sum(taken), what=guard.what)

    def base(self, pointer: SSAValue) -> int:
        """Step with an address modulo `ALIGNMENT`.

        The address may add an offset that the host does not know, times known factors.  An example
        is blocks that are selected by a loaded index, such as experts.  Then a condition requires
        these factors to be aligned, so that the offset does not change the remainder.
        """
        if self.computes(self.value, pointer) or not isinstance(pointer.owner, AddPtrOp):
            return self.value(pointer)
        # casts and sums keep the lowest bits, whatever wraps around
        moved = Affine().index(pointer.owner.offset).start * pointee_bytes(pointer)
        total = self.base(pointer.owner.ptr)
        for symbols, factor in moved.terms.items():
            known = tuple(s for s in symbols if self.computes(self.symbol, s))
            if len(known) == len(symbols):
                total = self.table.step("add", total, self._term(known, factor))
            elif known:
                self.table.require(
                    "multiple", self._term(known, factor), _log2(block_2d.BASE_ALIGNMENT),
                    what="gathered blocks are aligned")
            elif factor % block_2d.BASE_ALIGNMENT:
                raise Unknown("the host does not know where blocks are")
        return total

    def poly(self, poly: Poly) -> int:
        """Positive terms minus negative terms."""
        added, taken = poly.terms_by_sign()
        total = self._sum(added)
        return self.table.step("subtract", total, self._sum(taken)) if taken else total

    def _sum(self, products: Mapping[Monomial, int]) -> int:
        terms = [self._term(symbols, factor) for symbols, factor in products.items()]
        return self._fold("add", terms or [self.table.constant(0)])

    def _term(self, symbols: tuple[Symbol, ...], factor: int) -> int:
        """Append the product of symbols and a factor; return its number."""
        known = self._known.get((symbols, factor))
        if known is None:
            known = self._known[symbols, factor] = self._product(symbols, factor)
        return known

    def _product(self, symbols: tuple[Symbol, ...], factor: int) -> int:
        parts = [self.symbol(symbol) for symbol in symbols]
        if not -(1 << 63) <= factor < 1 << 63:
            raise Unknown("a number has no room in 64 bits")
        if factor != 1 or not parts:
            parts.append(self.table.constant(factor))
        return self._fold("multiply", parts)

    def _fold(self, op: str, parts: list[int]) -> int:
        return reduce(lambda total, part: self.table.step(op, total, part), parts)

    def symbol(self, symbol: Symbol) -> int:
        """Step that computes a symbol of a formula."""
        match symbol:
            case SSAValue():
                return self.value(symbol)
            case Remainder(value, modulus):
                return self.table.step("remainder", self.poly(value), self.poly(modulus))
            case LastIteration(loop):
                return self.last_iteration(loop)
            case Misalignment(base):
                return self.table.step("rest", self.base(base), _log2(block_2d.BASE_ALIGNMENT))
            case Iteration(loop):
                after = self.table.step("add", self.last_iteration(loop), self.table.constant(1))
                return self.table.step("span", self.table.constant(0), after)
        raise Unknown(f"{symbol} is no symbol of the host")

    def last_iteration(self, loop: Operation) -> int:
        """Step that computes the number of a loop's last iteration."""
        low, high, step = (self.value(bound) for bound in loop.operands[:3])
        span = self.table.step("subtract", high, low)
        before = self.table.step("subtract", span, self.table.constant(1))
        return self.table.step("divide", before, step)

    def value(self, value: SSAValue) -> int:
        """The number of the step that computes a scalar."""
        known = self._known.get(value)
        if known is None:
            if self._depth == DEPTH:
                raise Unknown("the value is computed in too many steps")
            self._depth += 1
            known = self._known[value] = self._value(value)
            self._depth -= 1
        return known

    def _value(self, value: SSAValue) -> int:
        """Append steps that compute an integer on the host; return the number of the last."""
        constant = constant_of(value)
        if constant is not None:
            return self.table.constant(constant)
        op: Any = value.owner
        if isinstance(value, BlockArgument):
            return self._block_argument(value)
        bits = bits_of(value)
        if bits not in WIDTHS:
            raise Unknown(f"the host does not compute with integers of {bits} bits")
        for names, read in ((_BINARY, self.value), (_UNSIGNED, self._unsigned)):
            if type(op) in names:
                left, right = map(read, op.operands)
                return self.table.step(names[type(op)], left, right, bits)
        match op:
            case ExtUIOp(input=source):
                return self._unsigned(source)
            case arith.ShRUIOp(lhs=source) if (
                    (by := constant_of(op.rhs)) is not None and 0 <= by < bits):
                power = self.table.constant(1 << by)
                return self.table.step("divide", self._unsigned(source), power, bits)
            case arith.AndIOp(lhs=source) if (power := _power_above(constant_of(op.rhs))):
                return self.table.step("rest", self.value(source), power)
            case GetProgramIdOp() | GetNumProgramsOp():
                asks = "program" if isinstance(op, GetProgramIdOp) else "programs"
                return self.table.step(asks, _AXES.index(attribute(op, "axis").data))
            case ExtSIOp(input=source) | IndexCastOp(input=source):
                return self.value(source)
            case TruncIOp(input=source):
                return self.table.step("add", self.value(source), self.table.constant(0), bits)
            case SelectOp(lhs=chosen, rhs=other):
                return self.table.step("either", self.value(chosen), self.value(other))
            case AddPtrOp(ptr=base, offset=offset):
                size = self.table.constant(pointee_bytes(value))
                moved = self.table.step("multiply", self.value(offset), size)
                return self.table.step("add", self.value(base), moved)
        raise Unknown(f"the host does not know the result of {op.name}")

    def _unsigned(self, value: SSAValue) -> int:
        """An integer of up to 32 bits read as unsigned."""
        bits = bits_of(value)
        if not 0 < bits <= 32:
            raise Unknown("the host computes with signed integers of 64 bits")
        if isinstance(value.owner, TruncIOp):  # the lower bits are those of the wider integer
            value = value.owner.input
        return self.table.step("rest", self.value(value), bits)

    def _block_argument(self, value: SSAValue) -> int:
        """Append steps for a parameter, a loop's counter, or a value that a loop advances."""
        assert isinstance(value, BlockArgument)
        owner, kind = value.block.parent_op(), value.type
        if isinstance(owner, FuncOp) and owner.is_kernel:
            if isinstance(kind, PointerType):
                return self.table.step("address", value.index)
            if isinstance(kind, IntegerType):
                return self.table.step("argument", value.index, 0, max(kind.width.data, 8))
        if isinstance(owner, scf.ForOp) and not value.index:
            step = self.value(owner.step)
            passed = self.table.step("multiply", self.symbol(Iteration(owner)), step)
            return self.table.step("add", self.value(owner.lb), passed)
        formula = Affine().scalar(value)
        if isinstance(kind, IntegerType) and formula != Poly.symbol(value):
            found = self.poly(formula)
            return self.table.step("add", found, self.table.constant(0), kind.width.data)
        raise Unknown("the host does not know what a loop carries")


def _power_above(mask: int | None) -> int:
    """k if the mask is 2**k - 1, otherwise 0."""
    return mask.bit_length() if mask and 0 < mask < 1 << 32 and not mask & mask + 1 else 0


def _log2(value: int) -> int:
    return value.bit_length() - 1
