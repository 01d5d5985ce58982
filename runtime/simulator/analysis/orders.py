"""Choose the element order of vector phis; see `widen.values`.

A loop that accumulates loaded values uses the order of the loads.  Other values take their order
from their operands during widening, so that a wrong choice here only costs moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from triton_xe.intrinsics import find
from triton_xe.intrinsics.definitions import memory
from triton_xe.llvm import Instruction, Operand
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import solve
from triton_xe.runtime.simulator.analysis.lane_groups import LaneGroups
from triton_xe.runtime.simulator.analysis.shapes import Shape

_MOVES = frozenset("extractelement insertelement extractvalue insertvalue".split())


def memory_orders(
    facts: Facts, shape: Callable[[Operand], Shape], groups: LaneGroups
) -> Mapping[str, int]:
    """Phi -> number of neighbouring elements of a lane that are stored together, if above 1."""
    instructions = list(facts.function.instructions())
    phis = [i for i in instructions if i.opcode == "phi" and i.type.lanes > 1]
    if not phis:
        return {}
    found: dict[str, int] = {}

    def order(i: Instruction) -> tuple[str, int] | None:
        group = _group(i, shape, groups, found) if i.result not in found else 1
        fits = group > 1 and i.result is not None and i.type.lanes % group == 0
        return (i.value.text, group) if fits else None

    solve(instructions, order, facts.users, found)
    return {phi.result: found[phi.result] for phi in phis if phi.result in found}


def _group(
    i: Instruction, shape: Callable[[Operand], Shape], groups: LaneGroups,
    found: Mapping[str, int],
) -> int:
    """Number of elements of a lane that are stored together, for the result of an instruction.

    It is all for a contiguous load; otherwise that of an operand, if elements keep their positions.
    """
    if i.type.lanes == 1 or i.opcode in _MOVES:
        return 1
    if i.opcode == "load" or find(i.callee).definition is memory.masked_load:
        address, nbytes = i.operands[0], i.type.size
        together = _is_contiguous(shape(address), nbytes) or groups.count(address, nbytes) > 1
        return i.type.lanes if together else 1
    orders = (found.get(o.local or "", 1) for o in i.operands)
    return next((order for order in orders if order > 1), 1)


def _is_contiguous(address: Shape, nbytes: int) -> bool:
    table = address.table
    return table is not None and bool((np.diff(table[0]) == nbytes).all())
