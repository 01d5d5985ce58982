"""Queries of the table of intrinsics about a call."""

from __future__ import annotations

from triton_xe.intrinsics import Effect, Family, find
from triton_xe.intrinsics.genisa import DPAS
from triton_xe.llvm import Instruction, Operand

SUBGROUP_SCOPE = 3


def argument(call: Instruction, name: str) -> Operand:
    """The operand of that name in the callee's signature."""
    return call.operands[find(call.callee).positions[name]]


def is_barrier(i: Instruction) -> bool:
    """True for barriers between the subgroups of a work-group.

    Functions of the module have none, and the simulator refuses unknown ones.
    """
    known = find(i.callee)
    if i.opcode != "call" or not known.known or Effect.BARRIER not in known.effects:
        return False
    return not known.has("execution") or (
        argument(i, "execution").integer_value() != SUBGROUP_SCOPE)


def is_dpas(i: Instruction) -> bool:
    return find(i.callee) is DPAS


def is_lane_helper(name: str) -> bool:
    """True if a function contains divergent code, called once per lane."""
    return find(name.lstrip("@")).family is Family.HELPER
