"""Leave fallback code out of the first compilation of a kernel.

The compiler emits guarded versions: `if (facts hold) 2D blocks else gathers`.  The fallback is
most of the code and seldom runs, so it is compiled only when a subgroup takes it: the edge to it
becomes an exit that notes the subgroup, which later runs again, from its start, in the whole
kernel.  That is exact only when nothing was written before the guard, no barrier was passed, and
none comes later unless the guard is the same for the whole work-group.
"""

from __future__ import annotations

from dataclasses import replace

from triton_xe.runtime.simulator.calls import is_barrier
from triton_xe.runtime.simulator.ir import VOID, Block, Function, Instruction, Operand

COLD = "%xe.cold"
SMALLEST = 100
"""Fewest instructions that are worth leaving out."""

_HARMLESS = (
    "_Z12get_", "_Z14get_", "_Z15get_", "_Z16get_", "_Z18get_", "_Z22get_", "llvm.genx.GenISA.",
    "llvm.",
)
_OF_THE_GROUP = ("_Z12get_group_id", "_Z14get_num_groups", "_Z14get_local_size")
_WRITES = ("PredicatedStore", "LSC2DBlockWrite", "simdBlockWrite", "threadgroup")


def without_fallbacks(function: Function) -> Function | None:
    """The kernel with its fallbacks cut off; None when there is nothing to gain."""
    cut = _cold_edges(function)
    kept = _without(function, cut)
    if cut and any(is_barrier(i) for b in kept for i in b.instructions):
        made = {i.result: i for i in function.instructions() if i.result}
        branches = {b.label: b.instructions[-1] for b in function.blocks}
        cut = {(x, y) for x, y in cut if _same_for_all(branches[x].operands[0], made, function)}
        kept = _without(function, cut)
    if not cut:
        return None
    return replace(function, blocks=[*kept, Block(COLD, [Instruction("cold", VOID, [])])])


def _without(function: Function, cut: set[tuple[str, str]]) -> list[Block]:
    blocks = [_cut_block(b, cut) for b in function.blocks]
    reachable = _reachable(function.blocks[0].label, {b.label: b for b in blocks})
    return [_pruned(b, reachable, cut) for b in blocks if b.label in reachable]


def _same_for_all(
    condition: Operand, made: dict[str, Instruction], function: Function
) -> bool:
    """Whether a value is computed from arguments and the work-group's ids alone."""
    parameters = {name for name, _ in function.parameters}
    seen: set[str] = set()
    todo = [condition.local]
    while todo:
        name = todo.pop()
        if name is None or name in parameters or name in seen:
            continue
        seen.add(name)
        i = made.get(name)
        if i is None or i.opcode in ("phi", "load", "alloca", "atomicrmw", "cmpxchg"):
            return False
        arithmetic = i.callee.startswith("llvm.") and not i.callee.startswith("llvm.genx.")
        if i.opcode == "call" and not (arithmetic or i.callee.startswith(_OF_THE_GROUP)):
            return False
        todo += [operand.local for operand in i.operands]
    return True


def _cut_block(block: Block, cut: set[tuple[str, str]]) -> Block:
    last = block.instructions[-1]
    labels = [COLD if (block.label, x) in cut else x for x in last.labels]
    if labels == last.labels or last.opcode != "br":
        return block
    return Block(block.label, [*block.instructions[:-1], replace(last, labels=labels)])


def _pruned(block: Block, reachable: set[str], cut: set[tuple[str, str]]) -> Block:
    """Drop what phis receive over edges that no longer exist."""
    found = []
    for i in block.instructions:
        if i.opcode == "phi":
            kept = [
                (o, x) for o, x in zip(i.operands, i.labels, strict=True)
                if x in reachable and (x, block.label) not in cut
            ]
            i = replace(i, operands=[o for o, _ in kept], labels=[x for _, x in kept])
        found.append(i)
    return Block(block.label, found)


def _cold_edges(function: Function) -> set[tuple[str, str]]:
    by_label = {b.label: b for b in function.blocks}
    found: set[tuple[str, str]] = set()
    for block in function.blocks:
        last = block.instructions[-1]
        if last.opcode != "br" or len(last.labels) != 2 or last.labels[0] == last.labels[1]:
            continue
        if not _nothing_written_before(function, block):
            continue
        a, b = last.labels
        from_a, from_b = _reachable(a, by_label), _reachable(b, by_label)
        if block.label in from_a or block.label in from_b:
            continue
        only_a = [by_label[x] for x in from_a - from_b]
        only_b = [by_label[x] for x in from_b - from_a]
        if _is_fallback(only_b, only_a):
            found.add((block.label, b))
        elif _is_fallback(only_a, only_b):
            found.add((block.label, a))
    return found


def _is_fallback(cold: list[Block], hot: list[Block]) -> bool:
    size = sum(len(b.instructions) for b in cold)
    return size >= SMALLEST and not _has_blocks(cold) and _has_blocks(hot)


def _has_blocks(blocks: list[Block]) -> bool:
    return any(
        i.opcode == "call" and ("LSC2DBlockRead" in i.callee or "LSC2DBlockWrite" in i.callee)
        for b in blocks for i in b.instructions
    )


def _reachable(label: str, by_label: dict[str, Block]) -> set[str]:
    found, todo = set(), [label]
    while todo:
        x = todo.pop()
        if x not in found and x in by_label:
            found.add(x)
            todo += by_label[x].successors
    return found


def _nothing_written_before(function: Function, block: Block) -> bool:
    before, todo = set(), [block.label]
    while todo:
        x = todo.pop()
        if x not in before:
            before.add(x)
            todo += function.predecessors[x]
    return not any(
        _writes(i) for b in function.blocks if b.label in before for i in b.instructions
    )


def _writes(i: Instruction) -> bool:
    if i.opcode == "store":
        return i.operands[1].type.space != 0
    if i.opcode in ("atomicrmw", "cmpxchg"):
        return True
    if i.opcode != "call":
        return False
    return not i.callee.startswith(_HARMLESS) or any(w in i.callee for w in _WRITES)
