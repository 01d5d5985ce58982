"""Assign memory slots to matrix accumulators: one per chain of DPAS results and loop phis.

DPAS runs on memory images, in place.  Therefore the accumulator and the result of each instruction,
and the loop phi between them, should share a slot.  Two values may share one if neither is live at
the other's definition.
"""

from __future__ import annotations

from collections.abc import Iterable

from triton_xe.llvm import Block, Function
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.liveness import Path, Step, clashes, live
from triton_xe.llvm.solver import reached
from triton_xe.runtime.simulator.analysis.calls import is_dpas


def accumulator_slots(facts: Facts) -> dict[str, int]:
    """Slot number of every DPAS result and of every phi that feeds an accumulator."""
    function, candidates = facts.function, _candidates(facts)
    if not candidates:
        return {}
    candidates -= _overwritten(facts, _paths(facts, candidates))
    apart = clashes(_paths(facts, candidates))
    slots = {name: {name} for name in candidates}
    for a, b in _pairs(function, candidates):
        if slots[a] is not slots[b] and not any(apart[x] & slots[b] for x in slots[a]):
            slots[a] |= slots[b]
            slots |= dict.fromkeys(slots[b], slots[a])
    numbers: dict[int, int] = {}
    ordered = [i.result for i in function.instructions() if i.result in candidates and i.result]
    return {name: numbers.setdefault(id(slots[name]), len(numbers)) for name in ordered}


def _candidates(facts: Facts) -> set[str]:
    """Results of DPAS, and phis of them that feed accumulators."""
    products = [i for i in facts.function.instructions() if is_dpas(i) and i.result]
    accumulators = {i.operands[0].local for i in products}

    def fed(name: str) -> list[str]:
        return [i.result for i in facts.users.get(name, ())
                if i.opcode == "phi" and i.result in accumulators and i.result]

    return reached((i.value.text for i in products), fed)


def _pairs(function: Function, candidates: set[str]) -> Iterable[tuple[str, str]]:
    """Coalescing candidates: values that an instruction or a branch would otherwise copy."""
    for i in function.instructions():
        if i.result not in candidates or i.result is None:
            continue
        sources = i.operands[:1] if is_dpas(i) else i.operands
        for operand in sources:
            if operand.local in candidates and operand.local is not None:
                yield i.result, operand.local


def _overwritten(facts: Facts, paths: list[Path]) -> set[str]:
    """Phis that a branch writes although another of its targets needs their old value."""
    ends = live(paths)
    incoming = {label: {*ends.named(bits)} for label, bits in ends.incoming.items()}
    return {i.value.text for b in facts.function.blocks for label in b.successors
            for i in facts.blocks[label].phis
            if any(i.result in incoming[x] for x in b.successors if x != label)}


def _paths(facts: Facts, candidates: set[str]) -> list[Path]:
    """Reads and writes of candidates; a branch writes the phis of its targets."""

    def step(read: Iterable[str], written: Iterable[str | None]) -> Step:
        return Step(tuple(candidates.intersection(read)),
                    tuple(x for x in written if x in candidates and x))

    def path(block: Block) -> Path:
        body = [step(i.locals(), [i.result]) for i in block.instructions[len(block.phis):]]
        copies = {i.value.text: i.operands[i.labels.index(block.label)].text
                  for label in block.successors for i in facts.blocks[label].phis
                  if i.result in candidates}
        copy = step(copies.values(), copies)._replace(copied=tuple(copies.values()))
        return Path(block.label, [*body, copy], block.successors)

    return [path(b) for b in facts.function.blocks]
