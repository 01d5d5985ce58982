"""Instructions of a block, counted by the pipe that runs them."""

from __future__ import annotations

from triton_xe.intrinsics import Family, find
from triton_xe.llvm import Block, Instruction
from triton_xe.model.work import Issue
from triton_xe.runtime.simulator.estimate.sites import ACCESSES, MESSAGES

_FLOAT = frozenset(
    "fadd fsub fmul fneg fcmp fptrunc fpext sitofp uitofp fptosi fptoui".split())
_INTEGER = frozenset("add sub mul and or xor shl lshr ashr icmp select udiv urem sdiv srem".split())
_SLOW_INTEGER = {"udiv": 30.0, "urem": 30.0, "sdiv": 36.0, "srem": 36.0}
"""Number of instructions that a division compiles to."""
_MOVES = frozenset({Family.SHUFFLE, Family.VOTE, Family.CONVERSION})
_SIMPLE = ("fma", "fabs", "max", "min", "copysign", "floor", "ceil", "rint", "trunc", "mad")
REDUCTION_STEPS = 4


def issue_of(block: Block, lanes: int) -> Issue:
    """Instructions of one execution of the block by a subgroup."""
    found = dict.fromkeys(("dpas", "fp", "integer", "maths", "messages", "barriers"), 0.0)
    loads = prefetches = 0
    for i in block.instructions:
        name, count = cost_of(i, lanes)
        if name:
            found[name] += count
        if name == "messages":
            loads += bool(i.result)
            prefetches += "refetch" in i.callee
    return Issue(**found, waits=float(bool(loads and not prefetches)))


def cost_of(i: Instruction, lanes: int) -> tuple[str, float]:
    """The pipe of an instruction (empty for none), and its count for one execution by a
    subgroup.
    """
    name, count = _instruction(i)
    return name, count if name in ("dpas", "barriers", "messages") else count * lanes / 16


def _instruction(i: Instruction) -> tuple[str, float]:
    """The pipe of an instruction, and the number of operations of one lane's width in it."""
    parts = i.type.lanes if i.type.kind == "vec" else 1
    if i.opcode in _FLOAT:
        return "fp", parts
    if i.opcode in ("fdiv", "frem"):
        return "maths", 3.0 * parts
    if i.opcode in _INTEGER:
        width = 2 if i.type.scalar.bits == 64 else 1
        return "integer", parts * width * _SLOW_INTEGER.get(i.opcode, 1.0)
    if i.opcode in ACCESSES:
        return ("messages", 1.0) if space_of(i) else ("", 0.0)
    return _call(i, parts) if i.opcode == "call" else ("", 0.0)


def space_of(i: Instruction) -> int:
    """The address space of an access; 0 is an array in registers."""
    return i.operands[1 if i.opcode == "store" else 0].type.space


def _call(i: Instruction, parts: int) -> tuple[str, float]:
    """The pipe of a call, and its number of operations."""
    family = find(i.callee).family
    if family is Family.DPAS:
        return "dpas", max(1, parts) / 8
    if family in MESSAGES or "refetch" in i.callee:
        return "messages", 1.0
    if family is Family.BARRIER:
        return "barriers", 1.0
    if family is Family.REDUCTION:
        return "fp", REDUCTION_STEPS * parts
    if family is Family.MATHS:
        simple = any(word in i.callee for word in _SIMPLE)
        return ("fp" if simple else "maths"), float(parts)
    return ("integer", float(parts)) if family in _MOVES else ("", 0.0)
