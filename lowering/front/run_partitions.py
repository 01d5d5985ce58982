"""Rule run-partitions: run the partitions of a warp-specialized kernel in sequence.

    ttg.warp_specialize(%p) default { A; ttg.warp_yield %r } partition0(%q) num_warps(4) { B }
                                    ->  A; B, with %p for %q and %r for the result

The same warps run them all.  A device may choose that order too, if no partition waits for another.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation, Region
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, LoadOp
from triton_xe.dialects.ttg import WarpSpecializeOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.family import Scope
from triton_xe.lowering.rewriting import detach, last_of


def run_partitions(op: WarpSpecializeOp, scope: Scope) -> None:
    """Run the partitions of specialized warps in sequence, on all warps."""
    _check(op, scope.warps)
    _run_in_order(op)


def _check(op: WarpSpecializeOp, warps: int) -> None:
    """Refuse partitions that have other warps than the kernel, or that wait for each other."""
    other = next((count for count in op.warps if count != warps), None)
    if other is not None:
        raise UnsupportedError(
            f"warp_specialize: a partition of {other} warps in a kernel of {warps}; here the same"
            f" warps run all partitions: give each {warps}")
    if any(isinstance(inner, scf.WhileOp) and _polls(inner) for inner in op.walk()):
        raise UnsupportedError(
            "warp_specialize: a partition waits in a loop for memory that another one may write;"
            " here partitions run one after another: let one function do the work of both")


def _polls(loop: scf.WhileOp) -> bool:
    """True if a loop accesses memory that others may write: by atomics or volatile loads."""
    return any(
        isinstance(op, AtomicCASOp | AtomicRMWOp) or (isinstance(op, LoadOp) and bool(
            op.is_volatile and op.is_volatile.value.data))
        for op in loop.walk())


def _run_in_order(op: WarpSpecializeOp) -> None:
    """Inline the default region, then each partition."""
    results = list(last_of(op.default.block).operands)
    _inline(op.default, op)
    for region in op.partitions:
        for argument, value in zip(region.block.args, op.captures, strict=True):
            argument.replace_all_uses_with(value)
        _inline(region, op)
    for result, value in zip(op.res, results, strict=True):
        result.replace_all_uses_with(value)
    Rewriter.erase_op(op)


def _inline(region: Region, before: Operation) -> None:
    block = region.block
    Rewriter.erase_op(last_of(block))
    for op in list(block.ops):
        detach(op)
        Rewriter.insert_op(op, InsertPoint.before(before))
