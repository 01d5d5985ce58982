"""Pass assume-blocks-in-bounds: assume that operand blocks are in bounds, with a launch guard.

    scf.for ... { %m = cmpi slt, %k, splat %left ; tt.load %p, %m ; tt.dot }

 -> scf.for ... { tt.load %p, true ; tt.dot }                      condition: 32 divides %left

It applies to devices without 2D messages, whose hardware would check the edges.  A masked load
needs its registers initialised, and the mask.  Launches that fail the guard use the general
version.  The pass does not apply if products fill the register file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.hardware.register_file import MOST_CARRIED
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.layouts.dpas_choice import instruction_of
from triton_xe.lowering.module_facts import module_warps, options_of, remark
from triton_xe.lowering.rewriting import all_of, functions
from triton_xe.lowering.surfaces.launch_guards import assume, tested_in_kernel
from triton_xe.lowering.surfaces.operand_loads import operand_loads
from triton_xe.lowering.surfaces.split_inside import bounds_of, unmask
from triton_xe.lowering.targeted_pass import TargetedPass

ACCUMULATOR_BYTES = 4


@dataclass(frozen=True)
class AssumeBlocksInBoundsPass(TargetedPass):
    """Without 2D messages: assume operand blocks in bounds, checked by a launch guard."""

    name: ClassVar = "assume-blocks-in-bounds"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.native_device(op)
        if target is None or target.has_block_2d or options_of(op).guards == "kernel":
            return
        for function in functions(op):
            if function.is_kernel:
                affine = Affine()
                for dot in all_of(function, DotOp):
                    if not isinstance(instruction_of(dot, target), str) and _leaves_room(
                            dot, module_warps(op) * target.grf_bytes):
                        _assume(dot, affine)


def _leaves_room(dot: DotOp, register: int) -> bool:
    """True if a product leaves registers for loaded values; otherwise IGC 2.40 spills more.

    That happened in attention's loops, with two products.  `register` is the bytes of one register
    in all warps.
    """
    nbytes = prod(shape_of(dot.d)) * ACCUMULATOR_BYTES
    loop = dot.parent_op()
    alone = loop is not None and len(all_of(loop, DotOp)) == 1
    return alone and nbytes < MOST_CARRIED * register


def _assume(dot: DotOp, affine: Affine) -> None:
    """Add guards that make the masks of a product's operands true."""
    for load in [x for operand in (dot.a, dot.b) for x in operand_loads(operand)]:
        guards = bounds_of(load, affine) if _is_in_loop(load) else None
        if guards is None or tested_in_kernel(guards, load):
            continue
        assume(guards, load)
        remark(load, "without masks" + (", if its blocks lie inside" if guards else ""))
        unmask(load)


def _is_in_loop(load: LoadOp) -> bool:
    parent: Operation | None = load.parent_op()
    return isinstance(parent, scf.ForOp)
