"""Lowering of XeGPU's named barriers and fences.

A device without named barriers takes the barrier of the work-group, which is the same if every
subgroup takes part.  Control flow is the same for all of them, so all reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.gpu_ext import BarrierOp
from triton_xe.dialects.xegpu.sync import (
    AllocNbarrierOp,
    FenceOp,
    InitNbarrierOp,
    NbarrierArriveOp,
    NbarrierWaitOp,
)
from triton_xe.errors import LegalityError
from triton_xe.intrinsics import genisa, spirv
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.types import I8, I16, bits_of, number
from triton_xe.lowering.emit.xegpu.sync import BOTH, WORK_GROUP
from triton_xe.lowering.facts.values import constant_of

MAX_BARRIERS = 32
DEVICE = 1
SLM_FENCE, GLOBAL_FENCE = 272, 528
"""Sequentially consistent (16), shared local (256) or global (512) memory."""


@dataclass(frozen=True)
class NamedBarrier:
    """Number and participants of a barrier; None is the barrier of the work-group."""

    number: ir.Operand | None
    participants: ir.Operand | None

    def flatten(self, em: Emitter) -> tuple[list[ir.Operand], Callable[[list[ir.Operand]], Any]]:
        return [], lambda parts: self


@lowers(AllocNbarrierOp)
def lower_alloc_nbarrier(em: Emitter, op: AllocNbarrierOp) -> None:
    """Check the limit; the number of barriers follows from the highest one that is used."""
    count = constant_of(op.count)
    if count is not None and not 1 <= count <= MAX_BARRIERS:
        raise LegalityError(f"{op.name}: 1 to {MAX_BARRIERS} barriers, not {count}")


@lowers(InitNbarrierOp)
def lower_init_nbarrier(em: Emitter, op: InitNbarrierOp) -> None:
    participants = constant_of(op.participants)
    subgroups = em.state.num_warps
    if participants is not None and not 1 <= participants <= subgroups:
        raise LegalityError(
            f"{op.name}: {participants} participants, but the work-group has {subgroups} subgroups"
        )
    if em.target.has_named_barrier:
        em.bind(op.nbarrier, NamedBarrier(
            _byte(em, op.nbarrier_id), _byte(em, op.participants)))
        return
    if participants != subgroups:
        count = "a number known only at run time" if participants is None else str(participants)
        raise LegalityError(
            f"{op.name}: {em.target.name} has no named barriers, and its one barrier is for all"
            f" {subgroups} subgroups, not for {count}"
        )
    em.bind(op.nbarrier, NamedBarrier(None, None))


def _byte(em: Emitter, value: SSAValue) -> ir.Operand:
    """A number as i8."""
    number = constant_of(value)
    if number is not None:
        return ir.constant(I8, number)
    held = em.scalar(value)
    return held if bits_of(held.type) == 8 else em.b.trunc(held, I8)


@lowers(NbarrierArriveOp)
def lower_nbarrier_arrive(em: Emitter, op: NbarrierArriveOp) -> None:
    held = em.get(op.nbarrier)
    if held.number is None:
        return
    em.call(genisa.NAMED_BARRIER_SIGNAL,
            [held.number, ir.constant(I16, BOTH), held.participants, held.participants])


@lowers(NbarrierWaitOp)
def lower_nbarrier_wait(em: Emitter, op: NbarrierWaitOp) -> None:
    held = em.get(op.nbarrier)
    if held.number is None:
        em.call(spirv.CONTROL_BARRIER, [number(WORK_GROUP), number(WORK_GROUP), number(0)])
        return
    em.call(genisa.NAMED_BARRIER_WAIT, [held.number])


@lowers(FenceOp)
def lower_fence(em: Emitter, op: FenceOp) -> None:
    shared = op.memory_kind.data == "shared"
    wide = op.scope.data == "gpu" and not shared
    em.call(spirv.MEMORY_BARRIER,
            [number(DEVICE if wide else WORK_GROUP), number(SLM_FENCE if shared else GLOBAL_FENCE)])


@lowers(BarrierOp)
def lower_barrier(em: Emitter, op: BarrierOp) -> None:
    """Synchronise all subgroups; shared local and global memory written before is visible after."""
    em.call(spirv.CONTROL_BARRIER,
            [number(WORK_GROUP), number(WORK_GROUP), number(SLM_FENCE | GLOBAL_FENCE)])
