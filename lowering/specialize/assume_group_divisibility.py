"""Rule assume-group-divisibility: assume that a block of weights is in one group.

    %g = arith.divsi (make_range(0, 64) + %start), splat %group      -> condition: 64 divides %group

A group shares its scales and zero points, so those of all rows of the block are equal, and are
loaded once.  Group sizes that are not known to be multiples of `LEAST` get no condition, because
usual launches would fail it.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, i32
from xdsl.ir import Block, BlockArgument, SSAValue

from triton_xe.dialects.tt.ops import BroadcastOp, DotOp, ExpandDimsOp, SplatOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.poly import Poly
from triton_xe.lowering.facts.values import declared_multiple, shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.dpas_choice import instruction_of
from triton_xe.lowering.rewriting import all_of
from triton_xe.lowering.specialize.launch_guards import assume_all
from triton_xe.lowering.surfaces.operand_loads import operand_loads

Division = arith.DivSIOp | arith.DivUIOp
LEAST = 16
"""Divisor of usual group sizes, which Triton states of arguments."""


def assume_group_divisibility(function: FuncOp, scope: Scope) -> None:
    """Assume that blocks of weights share one group's scales, checked by a launch guard."""
    dots = [dot for dot in all_of(function, DotOp)
            if not isinstance(instruction_of(dot, scope.target), str)]
    wanted: dict[BlockArgument, tuple[int, Division]] = {}
    for division, size in _divisions(dots):
        rows = _rows_of_a_group(division, scope.affine.facts)
        if rows > max(declared_multiple(size), wanted.get(size, (0, division))[0]):
            wanted[size] = rows, division
    for size, (rows, division) in wanted.items():
        what = f"groups are a multiple of {rows} long"
        guard = Guard(Poly.symbol(size), Relation.MULTIPLE_OF, rows, what)
        if declared_multiple(size) >= LEAST and assume_all(
                [guard], division, f"all rows of a block in one group, if {what}"):
            _declare(function, size.index, rows)


def _divisions(dots: list[DotOp]) -> Iterator[tuple[Division, BlockArgument]]:
    """Divisions by arguments in the indices of dot operands' loads."""
    work, seen = [load.ptr for dot in dots for operand in (dot.a, dot.b)
                  for load in operand_loads(operand)], set[SSAValue]()
    while work:
        value = work.pop()
        op = value.owner
        if value in seen or isinstance(op, Block) or not shape_of(value):
            continue
        seen.add(value)
        work += op.operands
        if isinstance(op, Division):
            size = _splatted(op.rhs)
            if isinstance(size, BlockArgument) and isinstance(size.owner.parent_op(), FuncOp):
                yield op, size


def _splatted(value: SSAValue) -> SSAValue | None:
    """The scalar that all elements of a tensor equal; None if there is none."""
    while isinstance(value.owner, BroadcastOp | ExpandDimsOp | ConvertLayoutOp):
        value = value.owner.operands[0]
    return value.owner.src if isinstance(value.owner, SplatOp) else None


def _rows_of_a_group(division: Division, facts: Facts) -> int:
    """Number of consecutive rows with equal quotients, if the divisor is a multiple of it.

    1 if the dividends may be negative, because their quotients are rounded towards zero.
    """
    rows = facts.of(division.lhs)
    natural = isinstance(division, arith.DivUIOp) or rows.low >= 0
    return min(rows.contiguity[0], rows.divisibility[0]) if natural else 1


def _declare(function: FuncOp, index: int, multiple: int) -> None:
    """Set `tt.divisibility` of an argument."""
    assert function.arg_attrs is not None
    held = list(function.arg_attrs.data)
    held[index] = DictionaryAttr(
        held[index].data | {"tt.divisibility": IntegerAttr(multiple, i32)})
    function.arg_attrs = ArrayAttr(held)
