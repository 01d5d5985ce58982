"""Find addresses with a constant step between lanes inside groups of lanes.

Several rows of a narrow block fit a subgroup, and their pitch is known only at launch:

    address = x + (row + lane / 8) * pitch + lane % 8 * 16      lanes 0 to 7, and 8 to 15

Over all lanes such values do not vary by constants (see `shapes`), but inside a group they do.
Differences hold modulo 2^bits.  An extended value keeps them only if none of its sums wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from triton_xe.llvm import Instruction, Operand
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import BINARY, CASTS
from triton_xe.runtime.simulator.analysis.shapes import (
    Shape,
    Table,
    gep_steps,
    has_room,
    never_wraps,
    normalise,
)

_DEEPEST = 150
"""Longest chain of operands that is followed."""
_SAME = frozenset("sext zext trunc ptrtoint inttoptr addrspacecast freeze".split())
_MOVES = frozenset("extractelement insertelement shufflevector phi freeze".split())
_WRAPS = frozenset("add sub mul shl".split())
_EACH = BINARY | CASTS | {"icmp", "select"}
_PRIVATE = 0
"""Address space of memory that is private to a lane."""
_SHARED = 3
"""Address space of shared memory; its offsets, which the compiler computes, have few bits."""


class LaneGroups:
    """Steps of a function's values inside groups of lanes."""

    def __init__(
        self, facts: Facts, shape: Callable[[Operand], Shape], lanes: int
    ) -> None:
        self._facts = facts
        self._shape = shape
        self._lanes = lanes
        self._known: dict[tuple[str, int], Table | None] = {}
        self._varying: set[tuple[str, int]] = set()
        """Loop values whose steps were found to differ between iterations."""

    def count(self, address: Operand, nbytes: int) -> int:
        """Largest group of neighbouring lanes with a step of `nbytes` between lanes; at least 1."""
        size = self._lanes // 2
        while size > 1:
            steps = self._solved(address, size)
            if steps is not None and (steps[0] == np.arange(self._lanes) % size * nbytes).all():
                return size
            size //= 2
        return 1

    def _solved(self, x: Operand, size: int) -> Table | None:
        """The steps of a value, once the steps assumed of loop values are confirmed."""
        while True:
            before = len(self._varying)
            steps = self._steps(x, size, 0)
            if len(self._varying) == before:
                return steps
            self._known.clear()

    def _steps(self, x: Operand, size: int, depth: int) -> Table | None:
        """Difference of each element from that in the first lane of its group; None if unknown."""
        if x.is_undefined:
            return np.zeros((x.type.lanes, self._lanes), np.int64)
        shape = self._shape(x)
        if not shape.wide:
            return self._of_shape(shape, x, size)
        i, key = self._facts.maker(x), (x.text, size)
        if i is None or depth > _DEEPEST or x.type.scalar.kind not in ("int", "ptr"):
            return None
        if key not in self._known:
            self._known[key] = None
            find = self._phi if i.opcode == "phi" else self._steps_of
            self._known[key] = find(i, size, depth + 1)
        return self._known[key]

    def _of_shape(self, shape: Shape, x: Operand, size: int) -> Table:
        """Steps of a value whose shape has known differences between lanes."""
        table = shape.table if shape.table is not None else np.zeros((1, 1), np.int64)
        whole = np.broadcast_to(table, (x.type.lanes, self._lanes))
        return whole - np.repeat(whole[:, ::size], size, axis=1)

    def _phi(self, i: Instruction, size: int, depth: int) -> Table | None:
        """Steps of a phi, if those of all its operands are equal."""
        key = f"{i.result}", size
        if key in self._varying:
            return None
        first = self._known[key] = self._steps(i.operands[0], size, depth)
        for other in i.operands[1:]:
            steps = self._steps(other, size, depth)
            if first is None or steps is None or (first != steps).any():
                self._varying.add(key)
                return None
        return first

    def _steps_of(self, i: Instruction, size: int, depth: int) -> Table | None:
        """Steps of an instruction's result.

        An unknown operation gives equal results where its operands are equal.
        """
        steps = [self._steps(o, size, depth) for o in i.operands]
        found = [s for s in steps if s is not None]
        if len(found) < len(steps) or not self._keeps_steps(i, size):
            return None
        made = self._by_opcode(i, found)
        if made is not None:
            return normalise(made, i.type)
        same = _is_same(i) and not any(s.any() for s in found)
        return np.zeros((i.type.lanes, self._lanes), np.int64) if same else None

    def _keeps_steps(self, i: Instruction, size: int) -> bool:
        """True unless an instruction extends sums that may wrap around."""
        if i.opcode == "getelementptr":
            narrow = [o for o in i.operands[1:] if o.type.scalar.bits < i.type.scalar.bits]
            return i.type.space == _SHARED or all(
                self._is_exact(o, size, set()) for o in narrow)
        if i.opcode not in ("sext", "zext"):
            return True
        (source,) = i.operands
        steps = self._known_steps(source, size)
        return not steps.any() or (
            (i.opcode == "sext" or "nneg" in i.flags) and self._is_exact(source, size, set()))

    def _known_steps(self, x: Operand, size: int) -> Table:
        """Steps of a value that were found before."""
        steps = self._steps(x, size, 0)
        return np.ones((1, 1), np.int64) if steps is None else steps

    def _is_exact(self, x: Operand, size: int, seen: set[str]) -> bool:
        """True if the steps of a value are those of signed numbers that do not wrap around."""
        if x.text in seen or not self._known_steps(x, size).any():
            return True
        shape, i = self._shape(x), self._facts.maker(x)
        if not shape.wide:
            assert shape.table is not None
            return never_wraps([shape]) or has_room(shape.table, shape.bits, x.type, signed=True)
        if i is None or (i.opcode not in _MOVES and not (
                i.opcode in _WRAPS and "nsw" in i.flags)):
            return False
        seen.add(x.text)
        return all(self._is_exact(o, size, seen) for o in i.operands)

    def _by_opcode(self, i: Instruction, steps: Sequence[Table]) -> Table | None:
        """Steps of a result by its opcode; None if they are unknown."""
        if i.opcode in ("add", "sub"):
            return steps[0] + steps[1] if i.opcode == "add" else steps[0] - steps[1]
        if i.opcode in ("mul", "shl"):
            return self._product(i, steps)
        if i.opcode in _SAME and min(o.type.scalar.bits for o in (i.value, *i.operands)) >= 32:
            return steps[0]
        if i.opcode == "getelementptr" and all(o.type.lanes == 1 for o in i.operands):
            return steps[0] + sum((steps[k] * scale for k, scale in gep_steps(i)[1]), 0)
        if i.opcode == "shufflevector":
            return np.concatenate(steps)[[max(0, k) for k in i.indices]]
        index = i.operands[-1].integer_value()
        if i.opcode == "extractelement" and index is not None:
            return steps[0][index : index + 1]
        if i.opcode == "insertelement" and index is not None:
            made = np.array(steps[0])
            made[index] = steps[1][0]
            return made
        return None

    def _product(self, i: Instruction, steps: Sequence[Table]) -> Table | None:
        """Steps of a product with a constant."""
        shape = self._shape(i.operands[1])
        if steps[1].any() or not shape.pure or shape.table is None:
            return None
        factor = shape.table[:, :1]
        return steps[0] * (factor if i.opcode == "mul" else 1 << factor)


def _is_same(i: Instruction) -> bool:
    """True if equal operands give equal results in all lanes."""
    if i.opcode == "load":
        return "volatile" not in i.flags and i.operands[0].type.space != _PRIVATE
    return i.opcode in _EACH
