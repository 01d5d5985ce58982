"""Pass split-barriers: on request, keep the subgroups of a work-group in the same iteration of a K
loop.

    scf.for ... { load, load, tile_mma }

 -> scf.for ... { xe.barrier_arrive ; load, load, tile_mma ; xe.barrier_wait }

Data that one subgroup loads is then still in the L1 cache when its neighbours load it.  The barrier
orders no memory accesses, and a subgroup waits for the others only after its own products are
issued.  A loop gets barriers if it only loads and multiplies tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe, xetile
from triton_xe.lowering.module_facts import module_warps, remark
from triton_xe.lowering.rewriting import all_of, last_of
from triton_xe.lowering.targeted_pass import TargetedPass

FEWEST_SUBGROUPS = 8
"""Minimum size of a work-group; in smaller ones few subgroups load the same data."""
_TILES = (xetile.LoadTileOp, xetile.TileMmaOp, xetile.UpdateTileOffsetOp, xetile.PrefetchTileOp,
          scf.YieldOp)


@dataclass(frozen=True)
class SplitBarriersPass(TargetedPass):
    """With `split_barriers`: synchronise the subgroups in each iteration of a K loop."""

    name: ClassVar = "split-barriers"
    split_barriers: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.split_barriers:
            return
        subgroups = module_warps(op)
        for loop in all_of(op, scf.ForOp):
            if not any(isinstance(inner, xetile.TileMmaOp) for inner in loop.body.block.ops):
                continue
            reason = _reason_against(loop, subgroups)
            if reason:
                remark(loop, f"no split barrier: {reason}")
                continue
            _insert_barrier(loop)
            remark(loop, f"a split barrier of {subgroups} subgroups in each pass: a message and a"
                         " wait more")


def _reason_against(loop: scf.ForOp, subgroups: int) -> str | None:
    """Reason why the subgroups should not, or cannot, be synchronised in a loop."""
    if subgroups < FEWEST_SUBGROUPS:
        return f"{subgroups} subgroups are fewer than {FEWEST_SUBGROUPS}"
    other = next((op.name for op in loop.body.block.ops if not _is_plain(op)), None)
    return other and f"the loop does more than load tiles and multiply: {other}"


def _is_plain(op: Operation) -> bool:
    """True if an operation moves, loads or multiplies tiles, or computes scalars."""
    scalars = op.dialect_name() == "arith" and not any(
        isinstance(value.type, TensorType) for value in op.results)
    return scalars or isinstance(op, _TILES)


def _insert_barrier(loop: scf.ForOp) -> None:
    """Arrive at the start of each iteration, and wait at its end; no memory is ordered."""
    body, alone = loop.body.block, {"xe.unordered": UnitAttr()}
    Rewriter.insert_op(xe.BarrierArriveOp.create(properties=alone), InsertPoint.at_start(body))
    Rewriter.insert_op(
        xe.BarrierWaitOp.create(properties=alone), InsertPoint.before(last_of(body)))
