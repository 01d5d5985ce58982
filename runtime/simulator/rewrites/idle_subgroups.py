"""End subgroups that store nothing before their loops.

    entry:                            entry:
      br label %body                    %m = icmp slt i32 %at, %n
    body:                               %any = sub_group_any(%m)
      loop with masked loads     ->     br i1 %any, label %body, label %idle
      predicated store if %m          body: ...
                                      idle:
                                        ret void

The last programs of a grid often have such subgroups.  A kernel has no other effects than its
stores if it has no barriers, atomics and unknown calls.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from triton_xe.intrinsics import find, genisa, opencl
from triton_xe.llvm import Block, Function, Instruction
from triton_xe.llvm.builder import Builder
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.types import I32, VOID
from triton_xe.runtime.simulator.analysis.guards import copies, is_group_uniform, slice_of, writes

_IDS = (opencl.LANE_ID, opencl.SUB_GROUP_ID)
_IDLE = "%xe.idle"


def without_idle_subgroups(function: Function) -> Function:
    """A kernel whose subgroups end at once if the masks of all stores are false in all lanes.

    A kernel with loops gets that test, if its masks depend on arguments and ids alone.
    """
    first, *rest = function.blocks
    stores = [i for i in function.instructions() if writes(i) or i.opcode == "cold"]
    masks = [i.operands[3] for i in stores if find(i.callee) is genisa.PREDICATED_STORE]
    if not masks or len(masks) < len(stores) or not function.loops() or len(first.successors) != 1:
        return function
    makers = Facts(function).makers
    slices = [slice_of(x, makers, function, _is_known) for x in masks]
    if not all(slices):
        return function
    entry, (body,) = Block(first.label, first.instructions[:-1]), first.successors
    b = Builder(replace(function, blocks=[entry]), "xe.active")
    made = copies(b, (i for each in slices for i in each or ()))
    active = reduce(b.or_, [made[x.text] for x in masks])
    found = b.call(opencl.SUB_GROUP_ANY.symbol(I32, [I32]), I32, [b.zext(active, I32)])
    b.cond_br(b.icmp("ne", found, 0), body, _IDLE)
    return replace(function, blocks=[entry, *rest, Block(_IDLE, [Instruction("ret", VOID, [])])])


def _is_known(call: Instruction) -> bool:
    """True if a result depends on the arguments and ids alone."""
    return is_group_uniform(call) or find(call.callee) in _IDS
