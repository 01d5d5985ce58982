"""Rule copy-at-once: make asynchronous copies to shared local memory synchronous at their start.

    %t = ttg.async_copy_global_to_local %p, %b mask %m  ->  %x = tt.load %p, %m
                                                            ttg.local_store %x, %b
    ttg.async_commit_group, ttg.async_wait              ->  nothing

Xe GPUs have no such copies.  A reader of the buffer waits for the copy in the source program.
Therefore there is a point between store and read for the barrier that other warps need.
"""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.arith_ext import splat_attr
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.types import pointee_type
from triton_xe.dialects.ttg import (
    AsyncCommitGroupOp,
    AsyncCopyGlobalToLocalOp,
    AsyncWaitOp,
    LocalLoadOp,
    LocalStoreOp,
)
from triton_xe.lowering.family import Scope
from triton_xe.lowering.rewriting import locate


def copy_at_once(op: Operation, scope: Scope) -> None:
    """Asynchronous copies to shared local memory -> synchronous copies at their start."""
    if isinstance(op, LocalLoadOp):
        op.operands = [op.src]  # not the token
        return
    if isinstance(op, AsyncCopyGlobalToLocalOp):
        _copy(op)
    Rewriter.erase_op(op, safe_erase=False)


COPIES = (LocalLoadOp, AsyncCopyGlobalToLocalOp, AsyncCommitGroupOp, AsyncWaitOp)


def _copy(op: AsyncCopyGlobalToLocalOp) -> None:
    """Rewrite one copy; masked elements become zero unless the program gives another value."""
    other, fill = op.other, list[Operation]()
    if op.mask is not None and other is None:
        fill = [ConstantOp(splat_attr(pointee_type(op.src.type), 0))]
        other = fill[0].results[0]
    load = LoadOp(ptr=op.src, mask=op.mask, other=other, cache_policy=op.cache_policy,
                  is_volatile=op.is_volatile, result_type=pointee_type(op.src.type))
    store = LocalStoreOp(src=load.result, dst=op.dst)
    locate(op, *fill, load, store)
    Rewriter.insert_op([*fill, load, store], InsertPoint.before(op))
