"""Find arithmetic to move before a store, because fewer values are then live across the store.

    %w = load                          Loads stay before the store, because it may alias them.
    %b = load                          Instead of two values in registers, or on the stack, one is
    store                         ->   live across the store: the sum is moved before it.
    %y = fadd %w, %b
    store %y
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

from triton_xe.llvm import Instruction
from triton_xe.runtime.simulator.rewrites.neighbours import is_elementwise

_ARITHMETIC = frozenset("""fadd fsub fmul fneg select fpext fptrunc bitcast zext trunc shl lshr
    and or xor add sub""".split())
_MOVES = frozenset("insertelement extractelement shufflevector".split())


def early_results(
    instructions: Sequence[Instruction], uses: Counter[str],
    is_load: Callable[[Instruction], bool], writes: Callable[[Instruction], bool],
) -> dict[str, int]:
    """Results of a block to move, with the number of the instruction before which to compute each.

    `uses`: the number of instructions that use each value anywhere.
    """
    return _Block(instructions, uses, is_load, writes).early


class _Block:
    def __init__(
        self, instructions: Sequence[Instruction], uses: Counter[str],
        is_load: Callable[[Instruction], bool], writes: Callable[[Instruction], bool],
    ) -> None:
        self.instructions, self.uses = instructions, uses
        self.early: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        """Positions of instructions that can move together with their users."""
        self.behind: dict[str, int] = {}
        """The store that a load, or a value computed from it, must not pass."""
        self.since: dict[str, int] = {}
        """Number of the first instruction before which a value can be computed."""
        self.waiting: dict[str, int] = {}
        """Bytes per lane that are not live across a store if a value is computed before it."""
        writers = [k for k, i in enumerate(instructions) if writes(i)]
        for k, i in enumerate(instructions):
            if i.result is None:
                continue
            following = bisect_right(writers, k)
            if i.opcode in _MOVES or i.opcode in _ARITHMETIC or is_elementwise(i):
                self._compute(i, i.result, k)
                continue
            self.since[i.result] = k + 1
            if is_load(i) and following < len(writers):
                self.behind[i.result] = writers[following]
                self.waiting[i.result] = i.type.size

    def _compute(self, i: Instruction, name: str, k: int) -> None:
        """Record a result, and decide whether to compute it early."""
        names = set(i.locals())
        place = max((self.behind[x] for x in names if x in self.behind), default=k)
        self.numbers[name] = k
        self.behind |= {name: place} if place != k else {}
        self.since[name] = max((self.since.get(x, 0) for x in names), default=0)
        self.waiting[name] = sum(self.waiting.get(x, 0) for x in names if self.uses[x] == 1)
        if i.opcode in _MOVES or place == k:
            return
        gains = self.waiting[name] > i.type.size
        if place > k:
            self.waiting[name] = i.type.size
        elif gains and self.since[name] <= place:
            self._move(name, place)
            self.waiting[name] = i.type.size

    def _move(self, name: str, place: int) -> None:
        """Compute a result, and what it is computed from, before instruction `place`."""
        todo = [name]
        while todo:
            name = todo.pop()
            if self.numbers.get(name, -1) > place and name not in self.early:
                self.early[name] = self.since[name] = place
                todo += self.instructions[self.numbers[name]].locals()
