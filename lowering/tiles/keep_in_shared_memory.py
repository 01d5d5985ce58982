"""Pass keep-in-shared-memory: decide until when conversions leave tensors in shared memory.

    %y = ttg.convert_layout %x     ->  %y = ttg.convert_layout %x {xe.shared}
    use %y ; scf.for { use %y }    ->  use %y ; xe.read_shared %y ; scf.for { use %y }

A use reads the elements that it computes with, so that few are in registers at a time.
Conversions next to each other share a barrier.  What uses have not read is read before a loop or
branch, and before another conversion for which the memory would not suffice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe
from triton_xe.dialects.tt.structure import CallOp
from triton_xe.dialects.ttg import ConvertLayoutOp, LocalAllocOp
from triton_xe.hardware.target import Target
from triton_xe.lowering.allocate_buffers import bytes_of
from triton_xe.lowering.layouts.rematerialize import conversion_of
from triton_xe.lowering.rewriting import all_of
from triton_xe.lowering.targeted_pass import TargetedPass
from triton_xe.plan.conversion import plan_conversion

OPEN_BYTES = 64 * 1024
"""Shared memory for values that are still to be read.

If the device has less than twice as much, the limit is half of what it has, because separate
regions leave gaps.
"""
_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp, CallOp)


@dataclass(frozen=True)
class KeepInSharedMemoryPass(TargetedPass):
    """Leave converted tensors in shared memory until their uses, if it suffices."""

    name: ClassVar = "keep-in-shared-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        buffers = sum(map(bytes_of, all_of(op, LocalAllocOp)))
        room = min(OPEN_BYTES, (target.max_slm_bytes - buffers) // 2)
        sizes: dict[Operation, int] = {
            o: size for o in all_of(op, ConvertLayoutOp) if (size := _shared_bytes(o, target))}
        for conversion in sizes:
            conversion.properties["xe.shared"] = UnitAttr()
        for block in dict.fromkeys(conversion.parent for conversion in sizes):
            assert block is not None
            _finish_reads(block, sizes, room)


def _shared_bytes(op: ConvertLayoutOp, target: Target) -> int:
    """Bytes that a conversion takes in shared memory; 0 if it takes none, or several turns."""
    old, new, bits = conversion_of(op)
    plan = plan_conversion(old, new, bits, target)
    return 0 if old == new or plan.turns else plan.slm_bytes


def _finish_reads(block: Block, sizes: dict[Operation, int], room: int) -> None:
    """Read tensors before a loop, branch or call, or if another one and they take too much memory.

    Small tensors come first, because they fill the fewest registers.
    """
    held: list[Operation] = []
    for op in block.ops:
        leaves = bool(op.successors) or isinstance(op, _CONTROL)
        size = sizes.get(op, room if leaves else 0)
        while held and size and sum(map(sizes.__getitem__, held)) + size > room:
            smallest = min(held, key=sizes.__getitem__)
            held.remove(smallest)
            read = xe.ReadSharedOp(tensor=smallest.results[0])
            read.location = op.location
            Rewriter.insert_op(read, InsertPoint.before(op))
        held += [op] * (op in sizes)
