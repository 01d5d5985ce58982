"""Pass sink-loads: where a block reads more than registers can hold, each read moves to its use.

The reads of a tile stand together where the tile is loaded.  That hides their latency best, as
long as all of them fit; operands of attention, K and V of a step, do not.
"""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.hardware.target import Target
from triton_xe.lowering.emit.types import bits_of, scalar_type
from triton_xe.lowering.rewriting import detach, functions

HELD = 128
"""Registers that the reads of one block may fill, half of the larger register file."""
_STAY_BEFORE = ("store", "atomic", "fence", "barrier", "nbarrier", "call")


def sink_loads(module: Operation, target: Target) -> None:
    """Rewrite every block of the module that reads too much at once."""
    for function in functions(module):
        blocks = [b for op in function.walk() for region in op.regions for b in region.blocks]
        for block in blocks:
            loads = [op for op in block.ops if op.name == "xegpu.load_nd"]
            if sum(_bytes(op, target) for op in loads) > HELD * target.grf_bytes:
                _sink(block)


def _bytes(load: Operation, target: Target) -> int:
    kind: Any = load.results[0].type
    assert isinstance(kind, VectorType)
    lanes = target.subgroup_size
    return prod(kind.get_shape()) * bits_of(scalar_type(kind.element_type)) // 8 * lanes


def _sink(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if op.name not in ("xegpu.load_nd", "xe.fragment"):
            continue
        users = {use.operation for result in op.results for use in result.uses}
        if any(user.parent is not block for user in users) or not users:
            continue
        following = op.next_op
        while following is not None and following not in users and not _orders(following):
            following = following.next_op
        if following is not None:
            detach(op)
            Rewriter.insert_op(op, InsertPoint.before(following))


def _orders(op: Operation) -> bool:
    """Whether a read must not move past an operation."""
    return bool(op.regions) or any(word in op.name for word in _STAY_BEFORE)
