"""Assign memory slots to matrix accumulators: one per chain of DPAS results and loop phis.

DPAS runs on memory images, in place.  So the accumulator and the result of each instruction, and
the loop phi between them, should share a slot.  Two values may share one if neither is live at the
other's definition (SSA liveness, solved backwards over the blocks).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from triton_xe.llvm import Block, Function, Instruction
from triton_xe.runtime.simulator.analysis.calls import is_dpas


def accumulator_slots(function: Function) -> dict[str, int]:
    """Slot number of every DPAS result and of every phi that feeds an accumulator."""
    candidates = _candidates(function)
    if not candidates:
        return {}
    clashes = _clashes(function, candidates)
    slots = {name: {name} for name in candidates}
    for a, b in _pairs(function, candidates):
        if slots[a] is not slots[b] and not any(clashes[x] & slots[b] for x in slots[a]):
            slots[a] |= slots[b]
            slots |= dict.fromkeys(slots[b], slots[a])
    numbers: dict[int, int] = {}
    ordered = [i.result for i in function.instructions() if i.result in candidates and i.result]
    return {name: numbers.setdefault(id(slots[name]), len(numbers)) for name in ordered}


def _candidates(function: Function) -> set[str]:
    """Results of DPAS, and phis of them that feed accumulators."""
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


def _pairs(function: Function, candidates: set[str]) -> Iterable[tuple[str, str]]:
    """Coalescing candidates: values that an instruction or a branch would otherwise copy."""
    for i in function.instructions():
        if i.result not in candidates or i.result is None:
            continue
        sources = i.operands[:1] if is_dpas(i) else i.operands
        for operand in sources:
            if operand.local in candidates and operand.local is not None:
                yield i.result, operand.local


def _steps(block: Block, candidates: set[str]) -> Iterator[tuple[str | None, set[str]]]:
    """Result and used candidates of each instruction that has any, from the last one on."""
    for i in reversed(block.instructions[len(block.phis) :]):
        used = candidates.intersection(i.locals())
        if used or i.result in candidates:
            yield i.result, used


def _clashes(function: Function, candidates: set[str]) -> dict[str, set[str]]:
    """Values that are live where each value is written; a phi is written by each branch."""
    found: dict[str, set[str]] = {name: set() for name in candidates}
    by_label = {b.label: b for b in function.blocks}
    live_in: dict[str, set[str]] = {b.label: set() for b in function.blocks}

    def write(name: str | None, live: set[str]) -> None:
        for other in live - {name} if name in candidates else ():
            found[name or ""].add(other)
            found[other].add(name or "")

    def incoming(phi: Instruction, block: Block) -> set[str]:
        pairs = zip(phi.operands, phi.labels, strict=True)
        return {o.local for o, source in pairs if source == block.label and o.local in candidates}

    def live_out(block: Block) -> set[str]:
        live: set[str] = set()
        for label in block.successors:
            phis = by_label[label].phis
            live |= live_in[label] - {p.result for p in phis}
            live = live.union(*(incoming(p, block) for p in phis))
        return live

    backwards = {b.label: list(_steps(b, candidates)) for b in function.blocks}

    def live_before(block: Block, note: bool) -> set[str]:
        """Values live after the phis of a block; with `note`, record the clashes in it."""
        live = live_out(block)
        for result, used in backwards[block.label]:
            if note:
                write(result, live)
            live.discard(result or "")
            live |= used
        return live

    changed = True
    while changed:
        changed = False
        for block in reversed(function.blocks):
            live = live_before(block, False)
            changed |= live != live_in[block.label]
            live_in[block.label] = live
    for block in function.blocks:
        live = live_out(block)
        for phi in (p for label in block.successors for p in by_label[label].phis):
            write(phi.result, live - incoming(phi, block))
        live = live_before(block, True)
        phis = candidates.intersection(p.result for p in block.phis if p.result)
        for name in phis:
            write(name, live | phis)
    return found
