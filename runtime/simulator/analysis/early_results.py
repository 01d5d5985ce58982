"""Arithmetic that is better done before a store than what it is made of kept until after it.

    %w = load                          Loads stay before the store, for it may be to their memory.
    %b = load                          Of two values that wait in registers, or on the stack, one
    store                         ->   is left: the sum is to stand before the store.
    %y = fadd %w, %b
    store %y
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

from triton_xe.runtime.simulator.ir import Instruction
from triton_xe.runtime.simulator.rewrites.neighbours import is_elementwise

_ARITHMETIC = frozenset("""fadd fsub fmul fneg select fpext fptrunc bitcast zext trunc shl lshr
    and or xor add sub""".split())
_MOVES = frozenset("insertelement extractelement shufflevector".split())


def early_results(
    instructions: Sequence[Instruction], uses: Counter[str],
    is_load: Callable[[Instruction], bool], writes: Callable[[Instruction], bool],
) -> dict[str, int]:
    """Of a block, such results, and the number of the instruction before which each is to stand.

    `uses`: of each value, how many instructions use it anywhere.
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
        """Of what can move along with what is made of it."""
        self.behind: dict[str, int] = {}
        """The store that a load may not pass, or what is made of it is then held back by."""
        self.since: dict[str, int] = {}
        """The number of the first instruction before which a value can be."""
        self.waiting: dict[str, int] = {}
        """Bytes of a lane that need not wait for a store any more once a value is made before."""
        writers = [k for k, i in enumerate(instructions) if writes(i)]
        for k, i in enumerate(instructions):
            if i.result is None:
                continue
            following = bisect_right(writers, k)
            if i.opcode in _MOVES or _computes(i):
                self._compute(i, i.result, k)
                continue
            self.since[i.result] = k + 1
            if is_load(i) and following < len(writers):
                self.behind[i.result] = writers[following]
                self.waiting[i.result] = i.type.size

    def _compute(self, i: Instruction, name: str, k: int) -> None:
        """Note what is known of a result, and whether it is to be early."""
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
        todo = [name]
        while todo:
            name = todo.pop()
            if self.numbers.get(name, -1) > place and name not in self.early:
                self.early[name] = self.since[name] = place
                todo += self.instructions[self.numbers[name]].locals()


def _computes(i: Instruction) -> bool:
    return i.opcode in _ARITHMETIC or is_elementwise(i)
