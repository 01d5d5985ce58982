"""Pass count-positions: let loops count the position of a block in place of their iterations.

    %t = create_nd_tdesc %a, %y, %x               %t = create_nd_tdesc %a, %y, 0
    scf.for %i = 0 to %n step 1                   scf.for %p = %x to %x + 32 * %n step 32 {
        iter_args(%u = %t) {                   ->   %u = update_nd_offset %t, 0, %p
      load_nd %u                                    load_nd %u
      yield update_nd_offset %u, 0, 32              yield
    }                                             }

A loop without another use of its counter then advances one number fewer.  Descriptors that become
address payloads are left alone, because a payload holds the position.

The loop ends when the position is equal to the last one, so that it may begin near the largest
number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, i32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe, xegpu
from triton_xe.dialects.arith_ext import IndexCastOp, TruncIOp
from triton_xe.hardware.target import Target
from triton_xe.lowering.emit.xegpu.payloads import is_zero, offsets_of, payload_shape
from triton_xe.lowering.facts.values import constant_of
from triton_xe.lowering.rewriting import (
    all_of,
    drop_dead_carries,
    is_unused,
    last_of,
    put,
    put_before,
)
from triton_xe.lowering.targeted_pass import TargetedPass


@dataclass(frozen=True)
class Position:
    """A coordinate of a carried descriptor: each iteration moves it `by` elements in `dim`."""

    index: int
    created: xegpu.CreateNdTdescOp
    move: xegpu.UpdateNdOffsetOp
    dim: int
    by: int


@dataclass(frozen=True)
class CountPositionsPass(TargetedPass):
    """Count the position of a block in loops that do not use their counter."""

    name: ClassVar = "count-positions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        for loop in all_of(op, scf.ForOp):
            found = position(loop, target)
            if found is not None:
                _count(loop, found)


def position(loop: scf.ForOp, target: Target) -> Position | None:
    """The first position that a loop can count; None if it uses its counter, or may not run."""
    if xe.RUNS.of(loop) is None or loop.body.block.args[0].first_use is not None:
        return None
    following = last_of(loop.body.block).operands
    for index, (start, arg, end) in enumerate(
        zip(loop.iter_args, loop.body.block.args[1:], following, strict=True)
    ):
        created, move = start.owner, end.owner
        if not (isinstance(created, xegpu.CreateNdTdescOp) and created.desc_type.rank == 2
                and isinstance(move, xegpu.UpdateNdOffsetOp) and move.desc is arg
                and loop.results[index].first_use is None and end.has_one_use()):
            continue
        steps = offsets_of(move)
        moving = [dim for dim, step in enumerate(steps) if not is_zero(step)]
        by = _known(steps[moving[0]]) if len(moving) == 1 else None
        if by is not None and by > 0 and payload_shape(created, target, lambda _: True) is None:
            return Position(index, created, move, moving[0], by)
    return None


def _known(value: SSAValue | int) -> int | None:
    return value if isinstance(value, int) else constant_of(value)


def _count(loop: scf.ForOp, found: Position) -> None:
    """Count a position: create the descriptor at 0, and move it at the start of each iteration."""
    body, created = loop.body.block, found.created
    offsets = list(created.offsets)
    start = _as_i32(loop, offsets[found.dim])
    by = _number(loop, found.by)
    covered = put_before(arith.MuliOp(_as_i32(loop, _trips(loop)), by), loop)
    offsets[found.dim] = 0
    base = xegpu.CreateNdTdescOp(
        base=created.base, offsets=offsets, shape=created.shape, strides=created.strides,
        desc_type=created.desc_type)
    base.properties |= {k: v for k, v in created.properties.items() if k.startswith("xe.")}
    loop.operands = [start, put_before(arith.AddiOp(start, covered), loop), by, *loop.iter_args]
    body.erase_arg(body.args[0])
    place: list[Any] = [0, 0]
    place[found.dim] = body.insert_arg(i32, 0)
    here = put(xegpu.UpdateNdOffsetOp(desc=put_before(base, loop), offsets=place),
               InsertPoint.at_start(body))
    body.args[1 + found.index].replace_all_uses_with(here)
    last_of(body).operands[found.index] = body.args[1 + found.index]
    xe.RUNS.put(loop, "exact")
    drop_dead_carries(loop)
    for op in (found.move, created):
        if is_unused(op):
            Rewriter.erase_op(op)


def _trips(loop: scf.ForOp) -> SSAValue:
    """Number of iterations of a loop that runs at least once."""
    low, step = constant_of(loop.lb), constant_of(loop.step)
    if low == 0 and step == 1:
        return loop.ub
    span = put_before(arith.SubiOp(loop.ub, loop.lb), loop)
    rounded = put_before(arith.AddiOp(span, loop.step), loop)
    one = _number(loop, 1, span.type)
    return put_before(arith.DivUIOp(put_before(arith.SubiOp(rounded, one), loop), loop.step), loop)


def _number(loop: scf.ForOp, value: int, kind: Any = i32) -> SSAValue:
    return put_before(arith.ConstantOp(IntegerAttr(value, kind)), loop)


def _as_i32(loop: scf.ForOp, value: SSAValue | int) -> SSAValue:
    """A coordinate, or a number of iterations, as i32."""
    if isinstance(value, int):
        return _number(loop, value)
    if value.type == i32:
        return value
    cast = IndexCastOp if isinstance(value.type, IndexType) else TruncIOp
    return put_before(cast(value, i32), loop)
