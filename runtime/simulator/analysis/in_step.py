"""Decide which kernels can run in step: up to a barrier one subgroup after another, in one
function.

Then no coroutines are needed, and values that are equal in all subgroups are computed once.  All
subgroups of such a kernel take the same path.  There are no atomics, so that their order is not
observable.  Short kernels are written once for each subgroup, others as loops
(`rewrites.loops_over_subgroups`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from triton_xe.intrinsics import Effect, Family, find, opencl
from triton_xe.llvm import Function, Instruction
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import BINARY, CASTS
from triton_xe.llvm.solver import reached
from triton_xe.runtime.simulator.analysis.calls import is_barrier

MOST = 5000
"""Largest number of operations on host vectors, of all subgroups.

More do not fit the instruction caches, and take LLVM long.
"""
MOST_OF_ONE = 8000
"""Largest number of operations of one subgroup in a loop; more take LLVM too long."""
MOST_KEPT = 4 << 20
"""Largest number of bytes that are live between loops: half of the usual stack of a thread."""
MOST_IN_LOOPS = 24
"""Largest number of vectors that a loop carries; more do not fit in registers."""
_FAMILIES = frozenset({
    Family.ID, Family.MATHS, Family.CONVERSION, Family.SHUFFLE, Family.REDUCTION, Family.VOTE,
    Family.MASKED, Family.BLOCK_1D, Family.BARRIER, Family.FENCE, Family.HINT})
_STORES = (Family.MASKED, Family.BLOCK_1D)
_OWN_IDS = frozenset({opencl.SUB_GROUP_ID, opencl.LOCAL_ID, opencl.GLOBAL_ID})
_OPCODES = frozenset({
    *BINARY, *CASTS, *"""icmp fcmp fneg select freeze phi getelementptr extractelement insertelement
    shufflevector extractvalue insertvalue br ret load store call unreachable cold""".split()})
_MEMORY = (1, 3)
_VECTOR = 64
"""Bytes of a host vector."""


@dataclass(frozen=True)
class InStep:
    """How a kernel runs in step: with code for each subgroup, or with loops over them."""

    shared: frozenset[str] | None = None
    """Values that are equal in all subgroups, if each has its own code; None for loops."""
    meetings: set[str] = field(default_factory=set)
    """Labels of host blocks after barriers, between which the loops are; widening adds them."""

    @property
    def in_loops(self) -> bool:
        return self.shared is None


def in_step(
    function: Function, functions: Mapping[str, Function], sub_groups: int, lanes: int
) -> InStep | None:
    """How a kernel runs in step; None if it cannot, or if it has no barriers and gains nothing."""
    own = _own_of_fit(Facts(function), functions, sub_groups)
    if own is None:
        return None
    instructions = list(function.instructions())
    written = [i for i in instructions if i.result is None or i.result in own]
    kept = [i for i in written if i.opcode == "phi"]
    if (sub_groups * sum(_vectors(i, lanes) for i in written) <= MOST
            and sub_groups * sum(_vectors(i, lanes) for i in kept) <= MOST_IN_LOOPS):
        return InStep(frozenset(i.result for i in instructions if i.result) - own)
    vectors = sum(_vectors(i, lanes) for i in instructions)
    is_short = vectors <= min(MOST_OF_ONE, MOST_KEPT // (_VECTOR * sub_groups))
    return InStep() if is_short else None


def _own_of_fit(
    facts: Facts, functions: Mapping[str, Function], sub_groups: int
) -> set[str] | None:
    """Values that may differ between subgroups, if a kernel can run in step; else None."""
    instructions = list(facts.function.instructions())
    if sub_groups < 2 or not any(map(is_barrier, instructions)):
        return None
    if not all(_is_fit(i, functions) for i in instructions):
        return None
    own = _subgroup_values(facts)
    conditions = (i.operands[0] for i in instructions if i.opcode == "br" and i.operands)
    return None if any(x.local in own for x in conditions) else own


def _vectors(i: Instruction, lanes: int) -> int:
    """Number of host vectors that the result of an instruction takes."""
    return 1 if i.result is None else max(1, i.type.size * lanes // _VECTOR)


def _is_fit(i: Instruction, functions: Mapping[str, Function]) -> bool:
    """True if an instruction may be executed by one subgroup after another."""
    if i.opcode not in _OPCODES or i.orderings or "volatile" in i.flags:
        return False
    if i.opcode in ("load", "store"):
        return i.operands[i.opcode == "store"].type.space in _MEMORY
    if i.opcode != "call":
        return True
    known = find(i.callee)
    return i.callee not in functions and known.known and known.family in _FAMILIES and not (
        known.effects & Effect.WRITES and known.family not in _STORES)


def _subgroup_values(facts: Facts) -> set[str]:
    """Values that may differ between subgroups: those computed from subgroup ids."""
    ids = (i.value.text for i in facts.function.instructions()
           if i.opcode == "call" and find(i.callee) in _OWN_IDS)
    return reached(ids, facts.results)
