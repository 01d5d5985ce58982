"""Pass sink-loads: where a block reads more than registers can hold, each read moves to its use.

The reads of a tile stand together where the tile is loaded.  That hides their latency best, as
long as all of them fit; operands of attention, K and V of a step, do not.  Such reads of tiles are
marked too, to be written where their first value is used: an operand that is converted on its way
to the matrix unit is then read piece by piece.  A tensor that changes its layout is read right
before it does.  Products that fill the registers are computed where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr, VectorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects import xe, xegpu
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.target import Target
from triton_xe.lowering.emit.tensors.view import view_of, without_copies
from triton_xe.lowering.emit.types import bits_of, scalar_type
from triton_xe.lowering.layouts.rematerialize import is_volatile, layout_of
from triton_xe.lowering.rewriting import detach, functions, orders_memory
from triton_xe.lowering.targeted_pass import TargetedPass
from triton_xe.plan.conversion import plan_conversion

HELD = 128
"""Registers that the reads of one block may fill, half of the larger register file."""
LONGEST_CHAIN = 96
"""Products that one accumulator may go through to be computed at its use."""


@dataclass(frozen=True)
class SinkLoadsPass(TargetedPass):
    """Reads, and products, that do not fit into the registers at once move to their use."""

    name: ClassVar = "sink-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        for function in functions(op):
            blocks = [b for o in function.walk() for region in o.regions for b in region.blocks]
            for block in blocks:
                loads = [o for o in block.ops if type(o) in (xegpu.LoadNdOp, LoadOp)]
                if sum(_bytes(o.results[0], target) for o in loads) > HELD * target.grf_bytes:
                    _sink(block, target)
                _multiply_at_use(block, target)


def _bytes(value: SSAValue, target: Target) -> int:
    """What one subgroup holds of a value."""
    kind: Any = value.type
    if isinstance(kind, TensorType):
        count = len(view_of(layout_of(kind)).registers)
    elif isinstance(kind, VectorType):
        count = prod(kind.get_shape())
    else:
        return 0
    return count * max(bits_of(scalar_type(kind.element_type)), 8) // 8 * target.subgroup_size


def _sink(block: Block, target: Target) -> None:
    for op in reversed(list(block.ops)):
        if isinstance(op, xegpu.LoadNdOp):
            op.at_use = UnitAttr()
        elif isinstance(op, LoadOp):
            _sink_to_conversion(op, target)
            continue
        elif not isinstance(op, xe.FragmentOp):
            continue
        _move(op, {use.operation for result in op.results for use in result.uses})


def _sink_to_conversion(load: LoadOp, target: Target) -> None:
    """Move a tensor's read to where it changes its layout, if that is all that happens to it.

    Where the layout changes through shared local memory there is a barrier behind the read, so
    what other subgroups write later is still written later.
    """
    users = {use.operation for use in load.result.uses}
    if is_volatile(load) or not isinstance(load.result.type, TensorType):
        return
    if all(_changes_in_shared_memory(user, target) for user in users):
        _move(load, users)


def _multiply_at_use(block: Block, target: Target) -> None:
    """Mark products that fill the registers, where their operands leave room.

    Each of their fragments is computed when it is stored or converted, unless a loop carries it.
    """
    products = [op for op in block.ops if type(op) is xegpu.DpasOp]
    chains = {op: _chain(op) for op in products if not _continues(op)}
    factors = {value for op in products for value in (op.a, op.b)}
    room = HELD * target.grf_bytes
    made = sum(_bytes(op.results[0], target) for op in chains)
    if made <= room or sum(_bytes(value, target) for value in factors) > room:
        return
    ends = {op for op in chains if all(use.operation is not block.last_op
                                       for use in op.results[0].uses)}
    for op in ends:
        if len(chains[op]) <= LONGEST_CHAIN:
            for part in chains[op]:
                part.at_use = UnitAttr()


def _continues(op: xegpu.DpasOp) -> bool:
    """Whether a product is the accumulator of another one in its block, and nothing else."""
    if op.results[0].uses.get_length() != 1:
        return False
    (use,) = op.results[0].uses
    other = use.operation
    return isinstance(other, xegpu.DpasOp) and use.index == 2 and other.parent is op.parent


def _chain(op: xegpu.DpasOp) -> list[xegpu.DpasOp]:
    """The products that one accumulator goes through, the last one first."""
    chain = [op]
    while (acc := chain[-1].acc) is not None:
        before = acc.owner
        if not isinstance(before, xegpu.DpasOp) or before.parent is not op.parent:
            break
        if not _continues(before):
            break
        chain.append(before)
    return chain


def _changes_in_shared_memory(op: Operation, target: Target) -> bool:
    """Whether an operation changes a layout through shared local memory."""
    if not isinstance(op, ConvertLayoutOp):
        return False
    old, new = (without_copies(layout_of(v.type)) for v in (op.src, op.result))
    if old == new:
        return False
    bits = bits_of(scalar_type(get_element_type_or_self(op.src.type)))
    return plan_conversion(old, new, bits, target).shared is not None


def _move(op: Operation, users: set[Operation]) -> None:
    if any(user.parent is not op.parent for user in users) or not users:
        return
    following = op.next_op
    while following is not None and following not in users and not orders_memory(following):
        following = following.next_op
    if following is not None:
        detach(op)
        Rewriter.insert_op(op, InsertPoint.before(following))
