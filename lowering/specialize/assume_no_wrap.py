"""Rule assume-no-wrap: index arithmetic of 32 bits is assumed not to wrap, checked at launch.

    %at = arith.addi %start, %range          -> arith.addi %start, %range overflow<nsw>
    %q = arith.divsi %at, %size              -> arith.divui %at, %size
                                                condition: 2^31 - 1 is at least %start + 127, ...

Sums of 32 bits may wrap around, and quotients of negative numbers are rounded towards zero.  Both
are rare, and both prevent wide messages, which need consecutive addresses or equal elements.
Therefore the launch checks that neither happens, and otherwise runs the general version.  Only
operations from which an access gains get a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.arith import IntegerOverflowAttr, IntegerOverflowFlag
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from triton_xe.conditions import Table
from triton_xe.dialects.tt.memory import AtomicOp, LoadOp, StoreOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.fact import Fact
from triton_xe.lowering.facts.rules import RULES
from triton_xe.lowering.facts.values import Unknown, shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.module_facts import remark
from triton_xe.lowering.rewriting import all_of, locate
from triton_xe.lowering.specialize.launch_guards import Steps, assume

RING = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
_UNSIGNED: dict[type[Operation], type[Operation]] = {
    arith.DivSIOp: arith.DivUIOp, arith.RemSIOp: arith.RemUIOp,
}


def assume_no_wrap(function: FuncOp, scope: Scope) -> None:
    """Assume that index arithmetic does not wrap if accesses gain from it, checked at launch."""
    proved, used = scope.facts, list(_used(function))
    order = proved.solve(used)
    doubtful = [v for v in order if _is_doubtful(v, proved)]
    if not doubtful:
        return
    ideal = Facts(ideal=True)
    ideal.solve(used)
    gain = proved.needed(v for v in used if _gains(proved.of(v), ideal.of(v)))
    needs = _decidable([value for value in order if value in gain], set(doubtful), scope.affine)
    if not needs:
        return
    first = next(iter(needs))
    assume(dict.fromkeys(guard for guards in needs.values() for guard in guards), first)
    remark(first, "index arithmetic is assumed not to wrap around, checked at launch")
    for op in needs:
        if isinstance(op, RING):
            op.properties["overflowFlags"] = IntegerOverflowAttr([IntegerOverflowFlag.NSW])
        else:
            _make_unsigned(op)


def _used(function: FuncOp) -> Iterator[SSAValue]:
    """The pointers and masks of a function's accesses to tensors of pointers."""
    for access in all_of(function, LoadOp, StoreOp, AtomicOp):
        if shape_of(access.operands[0]):
            yield access.operands[0]
            mask = getattr(access, "mask", None)
            if mask is not None:
                yield mask


def _gains(proved: Fact, ideal: Fact) -> bool:
    """True if accesses could be wider under the ideal facts."""
    return proved[2:] != ideal[2:]  # all but the bounds


def _is_doubtful(value: SSAValue, facts: Facts) -> bool:
    """True if a value may have wrapped around, or is a quotient of a negative number."""
    op: Any = value.owner
    if type(op) in RING:
        return facts.wraps(op)
    return type(op) in _UNSIGNED and facts.range(op.operands[0])[0] < 0


def _decidable(
    order: Iterable[SSAValue], doubtful: set[SSAValue], affine: Affine
) -> dict[Operation, Sequence[Guard]]:
    """Doubtful operations that neither wrap nor divide negative numbers under some guards.

    A launch can check these guards, and so it can for all operands.
    """
    found, unmet = dict[Operation, Sequence[Guard]](), set[SSAValue]()
    host = Steps(Table())
    for value in order:
        op = value.owner
        if not isinstance(op, Operation):
            continue
        divides = value in doubtful and type(op) in _UNSIGNED
        try:
            guards = _conditions(value, affine) if value in doubtful else ()
        except Unknown:
            unmet.add(value)
            continue
        if not all(map(host.tests, guards)) or (
                type(op) in RULES and not divides and unmet & set(op.operands)):
            unmet.add(value)
        elif value in doubtful:
            found[op] = guards
    return found


def _conditions(value: SSAValue, affine: Affine) -> Sequence[Guard]:
    """Guards under which a value does not wrap, or is a quotient of natural numbers."""
    op: Any = value.owner
    if type(op) in RING:
        return affine.exact(value).conditions
    if not shape_of(value):
        raise Unknown("a quotient of scalars")
    return [guard for operand in op.operands for guard in affine.natural(operand).conditions]


def _make_unsigned(op: Operation) -> None:
    made = _UNSIGNED[type(op)](*op.operands)
    locate(op, made)
    Rewriter.replace_op(op, made)
