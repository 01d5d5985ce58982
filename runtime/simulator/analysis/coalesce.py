"""Where matrix accumulators live: one memory slot per chain of DPAS results and loop phis.

DPAS runs on memory images, in place, so the accumulator and the result of each instruction,
and the loop phi between them, should share a slot.  Two values may when neither is live where
the other is defined (SSA liveness, solved backwards over the blocks).
"""

from __future__ import annotations

from collections.abc import Iterable

from triton_xe.runtime.simulator.analysis.calls import is_dpas
from triton_xe.runtime.simulator.ir import Block, Function, Instruction


def accumulator_slots(function: Function) -> dict[str, int]:
    """Slot number of every DPAS result and of every phi that feeds an accumulator."""
    candidates = _candidates(function)
    if not candidates:
        return {}
    interference = _Interference(function, candidates)
    parent = {name: name for name in candidates}
    members = {name: {name} for name in candidates}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for a, b in _wishes(function, candidates):
        a, b = root(a), root(b)
        if a == b or interference.between(members[a], members[b]):
            continue
        parent[b] = a
        members[a] |= members.pop(b)
    numbers: dict[str, int] = {}
    return {name: numbers.setdefault(root(name), len(numbers)) for name in candidates}


def _candidates(function: Function) -> set[str]:
    found = {i.result for i in function.instructions() if is_dpas(i) and i.result}
    phis = [i for i in function.instructions() if i.opcode == "phi" and i.result]
    accumulators = {
        i.operands[0].local for i in function.instructions() if is_dpas(i)
    }
    changed = True
    while changed:
        changed = False
        for phi in phis:
            if phi.result in found or phi.result is None:
                continue
            fed = phi.result in accumulators
            if fed and any(o.local in found for o in phi.operands):
                found.add(phi.result)
                changed = True
    return found


def _wishes(function: Function, candidates: set[str]) -> Iterable[tuple[str, str]]:
    for i in function.instructions():
        if i.result not in candidates or i.result is None:
            continue
        sources = i.operands[:1] if is_dpas(i) else i.operands
        for operand in sources:
            if operand.local in candidates and operand.local is not None:
                yield i.result, operand.local


class _Interference:
    def __init__(self, function: Function, candidates: set[str]) -> None:
        self.function = function
        self.candidates = candidates
        self.clash: dict[str, set[str]] = {name: set() for name in candidates}
        self.by_label = {b.label: b for b in function.blocks}
        self.live_in: dict[str, set[str]] = {b.label: set() for b in function.blocks}
        self._solve()
        for block in function.blocks:
            self._note(block)

    def between(self, a: set[str], b: set[str]) -> bool:
        return any(self.clash[x] & b for x in a)

    def live_out(self, block: Block) -> set[str]:
        live: set[str] = set()
        for label in block.successors:
            successor = self.by_label[label]
            phis = successor.phis
            live |= self.live_in[label] - {p.result for p in phis if p.result}
            for phi in phis:
                for operand, source in zip(phi.operands, phi.labels, strict=True):
                    if source == block.label and operand.local in self.candidates:
                        live.add(operand.local or "")
        return live

    def _step(self, live: set[str], i: Instruction) -> None:
        live.discard(i.result or "")
        live.update(n for n in i.locals() if n in self.candidates)

    def _solve(self) -> None:
        changed = True
        while changed:
            changed = False
            for block in reversed(self.function.blocks):
                live = self.live_out(block)
                for i in reversed(block.instructions):
                    if i.opcode != "phi":
                        self._step(live, i)
                if live != self.live_in[block.label]:
                    self.live_in[block.label] = live
                    changed = True

    def _note(self, block: Block) -> None:
        live = self.live_out(block)
        self._note_copies(block, live)
        for i in reversed(block.instructions):
            if i.opcode == "phi":
                break
            self._define(i.result, live)
            self._step(live, i)
        phis = {p.result for p in block.phis if p.result in self.candidates and p.result}
        for name in phis:
            self._define(name, live | phis)

    def _note_copies(self, block: Block, live: set[str]) -> None:
        """A phi's slot is written at the end of each predecessor."""
        for label in block.successors:
            for phi in self.by_label[label].phis:
                if phi.result not in self.candidates:
                    continue
                sources = {
                    o.local
                    for o, source in zip(phi.operands, phi.labels, strict=True)
                    if source == block.label
                }
                self._define(phi.result, {n for n in live if n not in sources})

    def _define(self, name: str | None, live: set[str]) -> None:
        if name is None or name not in self.candidates:
            return
        for other in live:
            if other != name:
                self.clash[name].add(other)
                self.clash[other].add(name)
