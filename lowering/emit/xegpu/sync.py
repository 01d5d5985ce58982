"""Lower split barriers: arrive and wait."""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.dialects import xe
from triton_xe.intrinsics import genisa, spirv
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.types import I8, I16, number

BOTH = 0
"""Participants of a named barrier are producers and consumers."""
WORK_GROUP = 2
RELEASE_ALL, ACQUIRE_ALL = 772, 770
"""Shared local (256) and global (512) memory, with release (4) or acquire (2)."""


@lowers(xe.BarrierArriveOp)
def lower_barrier_arrive(em: Emitter, op: xe.BarrierArriveOp) -> None:
    """Lower to a release of shared local and global memory: earlier writes become visible."""
    if op.number is not None:
        _fence_all(em, RELEASE_ALL)
        subgroups = ir.constant(I8, em.state.num_warps)
        named = ir.constant(I8, op.number.value.data)
        em.call(genisa.NAMED_BARRIER_SIGNAL,
                [named, ir.constant(I16, BOTH), subgroups, subgroups])
        return
    em.has_arrived = True
    order = RELEASE_ALL if op.unordered is None else 0
    em.call(spirv.BARRIER_ARRIVE, [number(WORK_GROUP), number(WORK_GROUP), number(order)])


@lowers(xe.BarrierWaitOp)
def lower_barrier_wait(em: Emitter, op: xe.BarrierWaitOp) -> None:
    """Lower to an acquire: writes of the other subgroups before their arrival are visible."""
    if op.number is not None:
        em.call(genisa.NAMED_BARRIER_WAIT, [ir.constant(I8, op.number.value.data)])
        _fence_all(em, ACQUIRE_ALL)
        return
    em.has_arrived = False
    order = ACQUIRE_ALL if op.unordered is None else 0
    em.call(spirv.BARRIER_WAIT, [number(WORK_GROUP), number(WORK_GROUP), number(order)])


def _fence_all(em: Emitter, semantics: int) -> None:
    """Emit a fence of all memory, because named barriers do not order memory."""
    em.call(spirv.MEMORY_BARRIER, [number(WORK_GROUP), number(semantics)])
