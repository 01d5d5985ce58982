"""Leave fallback code out of the first compilation of a kernel.

The compiler emits guarded versions, `if (guards hold) 2D blocks else gathers`, and marks the branch
(`xe.fallback`).  The fallback is most of the code and seldom runs, so that it is compiled only when
a subgroup takes it.  The edge to it becomes an exit that notes the subgroup, which later runs
again, from its start, in the whole kernel.  That is exact only if nothing is written and no barrier
is passed before the guard.  A later barrier is allowed if the guard is the same for the whole
work-group.

A checked launch cannot run subgroups again, but checks multiply the size of the code.  Therefore
the conditions of the guards are computed first, alone, for the whole grid.  That needs guards which
depend on arguments and ids only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from triton_xe.intrinsics import Effect, Uniformity, find
from triton_xe.llvm import I1, VOID, Block, Function, Instruction, Operand
from triton_xe.llvm.builder import Builder
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import reached
from triton_xe.runtime.simulator.analysis.calls import is_barrier
from triton_xe.runtime.simulator.host_kernel import Part

COLD = "%xe.cold"
SMALLEST = 100
"""Instructions from which on a fallback is left out."""

_ONCE = Effect.WRITES | Effect.ORDERS | Effect.ARRIVES | Effect.BARRIER
"""Effects that calls must not have twice."""
_UNIFORM_IN_GROUP = (Uniformity.ELEMENTWISE, Uniformity.GROUP)


def part_of(function: Function, part: Part) -> Function | None:
    """Reduce a kernel to one part; None if nothing can be left out."""
    if part is Part.WHOLE:
        return None
    cut = _cold_edges(function)
    kept = _remove_branches(function, cut)
    if part is not Part.COMMON or any(is_barrier(i) for b in kept for i in b.instructions):
        slices = _slices(function, cut)
        cut = {edge for edge in cut if edge in slices}
        kept = _guards_only(function, cut, slices) if part is Part.GUARDS else _remove_branches(
            function, cut)
    if not cut:
        return None
    return replace(function, blocks=[*kept, cold_block()])


def cold_block() -> Block:
    """The exit of a subgroup that needs what was left out."""
    return Block(COLD, [Instruction("cold", VOID, [])])


def _guards_only(function: Function, cut: set[tuple[str, str]], slices: _Slices) -> list[Block]:
    """Blocks of a kernel that computes only the conditions of some guards, one after the other.

    The kernel might not reach a division, so one that would trap counts as taking the fallback.
    """
    branches = {b.label: b.instructions[-1] for b in function.blocks}
    found = [Block("%xe.guard0")]
    done: set[int] = set()

    def end(branch: Instruction, labels: list[str]) -> None:
        found[-1].instructions.append(replace(branch, labels=labels))
        found.append(Block(f"%xe.guard{len(found)}"))

    for label, cold in sorted(cut):
        for i in slices[label, cold]:
            if id(i) in done:
                continue
            done.add(id(i))
            if may_trap(i):
                *tests, branch = _test_of_divisor(i.operands[1], len(found))
                found[-1].instructions += tests
                end(branch, [f"%xe.guard{len(found)}", COLD])
            found[-1].instructions.append(i if i.opcode == "call" else replace(i, flags=()))
        following = f"%xe.guard{len(found)}"
        end(branches[label], [COLD if x == cold else following for x in branches[label].labels])
    found[-1].instructions.append(Instruction("ret", VOID, []))
    return found


def _test_of_divisor(divisor: Operand, number: int) -> list[Instruction]:
    """A branch with its operands; its first label is for divisors other than 0 and -1."""
    sum_name, test_name = f"%xe.sum{number}", f"%xe.test{number}"
    one = Operand(divisor.type, "1")
    summed = Operand(divisor.type, sum_name)
    return [
        Instruction("add", divisor.type, [divisor, one], sum_name),
        Instruction("icmp", I1, [summed, one], test_name, extra="ugt"),
        Instruction("br", VOID, [Operand(I1, test_name)]),
    ]


def _remove_branches(function: Function, cut: set[tuple[str, str]]) -> list[Block]:
    """Blocks that remain reachable if the edges of `cut` lead to the cold exit."""
    blocks = [_cut_block(b, cut) for b in function.blocks]
    reachable = replace(function, blocks=blocks).reachable([blocks[0].label])
    return [_pruned(b, reachable, cut) for b in blocks if b.label in reachable]


_Slices = dict[tuple[str, str], list[Instruction]]


def _slices(function: Function, cut: set[tuple[str, str]]) -> _Slices:
    """Backward slices of the conditions of guards that are uniform in a work-group."""
    made = Facts(function).makers
    branches = {b.label: b.instructions[-1] for b in function.blocks}
    found = {edge: group_uniform_slice(branches[edge[0]].operands[0], made, function)
             for edge in cut}
    return {edge: instructions for edge, instructions in found.items() if instructions is not None}


def group_uniform_slice(
    condition: Operand, definitions: dict[str, Instruction], function: Function
) -> list[Instruction] | None:
    """Instructions that compute a value from arguments and work-group ids alone, or None."""
    return slice_of(condition, definitions, function, is_group_uniform)


def slice_of(
    condition: Operand, definitions: dict[str, Instruction], function: Function,
    is_known: Callable[[Instruction], bool],
) -> list[Instruction] | None:
    """Instructions that compute a value from arguments and known calls alone, or None."""
    parameters = {name for name, _ in function.parameters}
    found: dict[str, Instruction] = {}

    def add(name: str | None) -> bool:
        if name is None or name in parameters or name in found:
            return True
        i = definitions.get(name)
        if i is None or i.opcode in ("phi", "load", "alloca", "atomicrmw", "cmpxchg"):
            return False
        if i.opcode == "call" and not is_known(i):
            return False
        if may_trap(i) and i.type.lanes > 1:
            return False
        if not all(add(operand.local) for operand in i.operands):
            return False
        found[name] = i
        return True

    return list(found.values()) if add(condition.local) else None


def copies(b: Builder, instructions: Iterable[Instruction]) -> dict[str, Operand]:
    """Copy instructions, each once and without promises; return the results by their names."""
    made: dict[str, Operand] = {}
    for i in instructions:
        if i.value.text not in made:
            operands = [made.get(o.text, o) for o in i.operands]
            flags = i.flags if i.opcode == "call" else ()
            made[i.value.text] = b.emit(replace(i, operands=operands, flags=flags))
    return made


def is_group_uniform(call: Instruction) -> bool:
    """True if a result depends on the arguments and the work-group alone."""
    known = find(call.callee)
    return not known.effects and known.uniformity in _UNIFORM_IN_GROUP


def may_trap(i: Instruction) -> bool:
    """True if an instruction may trap when it is executed speculatively."""
    division = i.opcode in ("udiv", "sdiv", "urem", "srem")
    return division and i.operands[1].integer_value() in (None, 0, -1)


def _cut_block(block: Block, cut: set[tuple[str, str]]) -> Block:
    """Branch to the cold exit instead of along edges of `cut`."""
    last = block.instructions[-1]
    labels = [COLD if (block.label, x) in cut else x for x in last.labels]
    if labels == last.labels or last.opcode != "br":
        return block
    return Block(block.label, [*block.instructions[:-1], replace(last, labels=labels)])


def _pruned(block: Block, reachable: set[str], cut: set[tuple[str, str]]) -> Block:
    """Drop incoming values of phis over edges that no longer exist."""
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
    """Edges to fallbacks that are large, come before any store, and are in no loop."""
    by_label = {b.label: b for b in function.blocks}
    found: set[tuple[str, str]] = set()
    for block in function.blocks:
        last = block.instructions[-1]
        if last.fallback is None or not _nothing_written_before(function, block):
            continue
        (fast,) = (label for label in last.labels if label != last.fallback)
        from_fast, from_slow = (function.reachable([x]) for x in (fast, last.fallback))
        if block.label in from_fast or block.label in from_slow:
            continue
        if sum(len(by_label[x].instructions) for x in from_slow - from_fast) >= SMALLEST:
            found.add((block.label, last.fallback))
    return found


def _nothing_written_before(function: Function, block: Block) -> bool:
    """True if no path to the end of a block writes memory."""
    before = reached([block.label], function.predecessors.__getitem__)
    return not any(
        writes(i) for b in function.blocks if b.label in before for i in b.instructions
    )


def writes(i: Instruction) -> bool:
    """True if an instruction has effects that must not happen twice."""
    if i.opcode == "store":
        return i.operands[1].type.space != 0
    if i.opcode in ("atomicrmw", "cmpxchg"):
        return True
    return i.opcode == "call" and bool(find(i.callee).effects & _ONCE)
