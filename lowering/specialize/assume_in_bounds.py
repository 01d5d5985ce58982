"""Rule assume-in-bounds: drop masks that are true if a condition of the launch holds.

    scf.for ... { %m = cmpi slt, %k, splat %left ; tt.load %p, %m ; tt.dot }

 -> scf.for ... { tt.load %p, true ; tt.dot }                      condition: 32 divides %left

Intel's compiler gives each masked message separate 64-bit addresses, two registers each, and
initialises its result.  Unmasked messages share an address.  Launches that fail a condition use the
general version.  Two kinds of accesses gain from that:

- blocks of a product's operands, in a loop, on devices without 2D messages, whose hardware would
  check the edges;
- rows as long as their block, which fill the registers while they are reduced, and leave none for
  addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.dialects.tt.structure import FuncOp, ReduceOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.hardware.register_file import HALF_FILE, MOST_CARRIED
from triton_xe.hardware.target import Target
from triton_xe.lowering.facts.poly import Poly
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.dpas_choice import instruction_of
from triton_xe.lowering.rewriting import all_of
from triton_xe.lowering.specialize.launch_guards import assume_all
from triton_xe.lowering.specialize.split_inside import Masked, all_true, bounds_of
from triton_xe.lowering.surfaces.operand_loads import operand_loads

WORD_BYTES = 4


def assume_in_bounds(function: FuncOp, scope: Scope) -> None:
    """Drop masks that are true if a condition of the launch holds."""
    register = scope.warps * scope.target.grf_bytes
    if scope.native and not scope.target.has_block_2d:
        for load in _operand_blocks(function, scope.target, register):
            _drop_mask(load, bounds_of(load, scope.affine), "if its blocks are inside")
    for access in _accesses_of_rows(function, register):
        guards = bounds_of(access, scope.affine)
        if guards and _are_of_arguments(guards, function):
            _drop_mask(access, guards, "if rows are as long as their block")


def _operand_blocks(function: FuncOp, target: Target, register: int) -> Iterator[LoadOp]:
    """Loads, in a loop, of the operands of products that leave registers for loaded values."""
    for dot in all_of(function, DotOp):
        if not isinstance(instruction_of(dot, target), str) and _leaves_room(dot, register):
            for operand in (dot.a, dot.b):
                yield from (load for load in operand_loads(operand)
                            if isinstance(load.parent_op(), scf.ForOp))


def _leaves_room(dot: DotOp, register: int) -> bool:
    """True if a product leaves registers for loaded values; otherwise IGC 2.40 spills more.

    That happened in attention's loops, with two products.  `register` is the bytes of one register
    in all warps.
    """
    nbytes = prod(shape_of(dot.d)) * WORD_BYTES
    loop = dot.parent_op()
    alone = loop is not None and len(all_of(loop, DotOp)) == 1
    return alone and nbytes < MOST_CARRIED * register


def _accesses_of_rows(function: FuncOp, register: int) -> list[Masked]:
    """The accesses of a kernel whose loaded rows fill half of the registers; [] if it has products.

    With 192 registers as the limit, masks made layer norm's gradient spill up to 2,688 bytes.  With
    128 the softmax's gradient has 308 instructions in place of 487 (IGC 2.40).
    """
    reducing = {op.parent for op in all_of(function, ReduceOp)} - {None}
    held = max((_loaded(block) for block in reducing if block is not None), default=0)
    if all_of(function, DotOp) or held < HALF_FILE * register:
        return []
    return [*all_of(function, LoadOp), *all_of(function, StoreOp)]


def _loaded(block: Block) -> int:
    """Bytes of the values that a block loads, each element as a word."""
    loads = [op for op in block.ops if isinstance(op, LoadOp)]
    return sum(prod(shape_of(op.result)) * WORD_BYTES for op in loads if shape_of(op.result))


def _are_of_arguments(guards: Iterable[Guard], function: FuncOp) -> bool:
    """True if guards depend on arguments only, not on the program's position."""
    arguments = set(function.body.blocks[0].args)
    return all(isinstance(amount, Poly) and amount.symbols <= arguments
               for guard in guards for amount in (guard.amount, guard.bound))


def _drop_mask(access: Masked, guards: list[Guard] | None, what: str) -> None:
    """Replace an access's mask by true, for all of its users, if the guards can be assumed."""
    mask = access.mask
    if guards is None or mask is None:
        return
    if assume_all(guards, access, "without masks" + (f", {what}" if guards else "")):
        owner = mask.owner
        at = InsertPoint.at_start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
        mask.replace_all_uses_with(all_true(mask, at))
