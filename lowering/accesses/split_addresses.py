"""Pass split-addresses: add loop-carried offsets that are equal in all lanes to the base.

    %at = addi %rows, splat %k ; tt.addptr (splat %base), %at

 -> %moved = tt.addptr %base, %k ; tt.addptr (splat %moved), %rows

It applies to 64-bit offsets (as in descriptors) on devices without 2D messages, because their sums
and products are equal in any order.  The offset of a lane from the base is then loop-invariant, and
computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import AddPtrOp, BroadcastOp, ExpandDimsOp, ReshapeOp, SplatOp
from triton_xe.lowering.facts.values import Unknown
from triton_xe.lowering.rewriting import all_of, erase_dead, functions
from triton_xe.lowering.targeted_pass import TargetedPass

MOST_STEPS = 60
"""Most values through which offsets are followed."""


@dataclass(frozen=True)
class SplitAddressesPass(TargetedPass):
    """Add loop-carried offsets that are equal in all lanes to the base address."""

    name: ClassVar = "split-addresses"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.native_device(op)
        if target is None or target.has_block_2d:
            return
        for function in functions(op):
            for load in all_of(function, LoadOp):
                loop = load.parent_op()
                if isinstance(loop, scf.ForOp):
                    _split(load, loop)
            erase_dead(function)


def _split(load: LoadOp, loop: scf.ForOp) -> None:
    moved = load.ptr.owner
    if not isinstance(moved, AddPtrOp) or not isinstance(moved.ptr.owner, SplatOp):
        return
    kind = moved.offset.type
    if not isinstance(kind, TensorType) or kind.element_type != i64:
        return
    parts = _Splitter(loop, InsertPoint.before(load))
    try:
        moves, stays = parts.of(moved.offset)
    except Unknown:
        return
    if moves is None or stays is None:
        return
    base = parts.put(AddPtrOp(
        operands=[moved.ptr.owner.src, moves], result_types=[moved.ptr.owner.src.type]))
    all_lanes = parts.put(SplatOp(operands=[base], result_types=[moved.ptr.type]))
    pointer = AddPtrOp(operands=[all_lanes, stays], result_types=[load.ptr.type])
    load.operands[0] = parts.put(pointer)


class Parts(NamedTuple):
    """A tensor as the sum of a loop-variant scalar and a loop-invariant tensor."""

    moves: SSAValue | None
    stays: SSAValue | None


class _Splitter:
    """Creates the parts of offsets: variant parts before an access, invariant parts before its
    loop.
    """

    def __init__(self, loop: scf.ForOp, at: InsertPoint) -> None:
        self._loop, self._at, self._before = loop, at, InsertPoint.before(loop)
        self._known: dict[SSAValue, Parts] = {}

    def of(self, value: SSAValue) -> Parts:
        """The parts of a tensor; raise `Unknown` if it is no such sum."""
        if len(self._known) > MOST_STEPS:
            raise Unknown("offsets are computed in too many steps")
        if value not in self._known:
            self._known[value] = Parts(None, None)
            self._known[value] = self._of(value)
        return self._known[value]

    def _of(self, value: SSAValue) -> Parts:
        op = value.owner
        if not isinstance(op, Operation):
            raise Unknown("a loop carries the offsets")
        if not self._loop.is_ancestor(op):
            return Parts(None, value)
        match op:
            case SplatOp():
                return Parts(op.src, None)
            case arith.AddiOp():
                return self._sum(self.of(op.lhs), self.of(op.rhs))
            case arith.MuliOp():
                return self._product(op)
            case ExpandDimsOp() | BroadcastOp() | ReshapeOp():
                moves, stays = self.of(op.src)
                return Parts(moves, stays and self._again(op, [stays]))
        raise Unknown(f"offsets come from {op.name}")

    def _sum(self, left: Parts, right: Parts) -> Parts:
        def added(a: SSAValue | None, b: SSAValue | None, at: InsertPoint) -> SSAValue | None:
            return self.put(arith.AddiOp(a, b), at) if a and b else a or b

        return Parts(added(left.moves, right.moves, self._at),
                     added(left.stays, right.stays, self._before))

    def _product(self, op: arith.MuliOp) -> Parts:
        """The parts of a product of a sum and a loop-invariant number."""
        for value, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            splat = factor.owner
            if not isinstance(splat, SplatOp) or self._is_inside(splat.src):
                continue
            moves, stays = self.of(value)
            if stays is not None and self._is_inside(factor):
                factor = self._again(splat, [splat.src])
            return Parts(
                moves and self.put(arith.MuliOp(moves, splat.src)),
                stays and self.put(arith.MuliOp(stays, factor), self._before))
        raise Unknown("offsets are multiplied by what is not the same in all lanes and passes")

    def _again(self, op: Operation, operands: list[SSAValue]) -> SSAValue:
        """The result of an operation on invariant values, before the loop."""
        copy = op.clone()
        copy.operands = operands
        return self.put(copy, self._before)

    def put(self, op: Operation, at: InsertPoint | None = None) -> SSAValue:
        """The result of a new operation, before the access or elsewhere."""
        Rewriter.insert_op(op, at or self._at)
        return op.results[0]

    def _is_inside(self, value: SSAValue) -> bool:
        return self._loop.is_ancestor(value.owner)
