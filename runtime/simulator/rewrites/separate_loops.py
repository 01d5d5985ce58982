"""Write a loop once for each part of its accumulators that fits into the host's registers.

      loop:                                     loop.part0:
        %i = phi i32 ...                          %i.part0 = phi i32 ...
        %a = phi <8 x float> ...                  %a = phi <8 x float> ...
        %b = phi <8 x float> ...                  add x[%i.part0] to %a
        add x[%i] to %a                  ->       br ..., label %loop.part0, label %loop.part0.end
        add y[%i] to %b                         loop.part0.end:
        br ..., label %loop, label %end           br label %loop
                                                loop:
                                                  the same with %i, %b and y, then to %end

Otherwise the host loads and stores the accumulators that do not fit in each iteration.  The order
of the additions to an accumulator does not change.  Loops are left alone if they write memory, if
memory decides how often they run, or if two parts need the same loaded value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from triton_xe.intrinsics import Effect, find
from triton_xe.llvm import Block, Function, Instruction, Operand
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import substitute
from triton_xe.llvm.solver import reached
from triton_xe.llvm.types import VOID


def separate_loops(function: Function, most_bytes: int) -> Function:
    """A copy of the function, in which loops carry fewer accumulators.

    `most_bytes` is the limit of a loop in one lane; a larger accumulator has a loop of its own.
    """
    facts = Facts(function)
    parts = {b.label: _parts(facts, b, most_bytes) for b in function.blocks}
    first = {label: _name_in(label, 0) for label, each in parts.items() if len(each) > 1}
    blocks: list[Block] = []
    for block in function.blocks:
        made = _loops(block, function, parts[block.label])
        for one in made:
            last = one.instructions[-1]
            labels = [x if x == block.label else first.get(x, x) for x in last.labels]
            one.instructions[-1] = replace(last, labels=labels)
        blocks += made
    return replace(function, blocks=blocks)


def _parts(facts: Facts, block: Block, most_bytes: int) -> list[set[str]]:
    """Values that each loop computes in place of a loop of one block; [] for other blocks."""
    before = {*facts.function.predecessors[block.label]} - {block.label}
    if block.label not in block.successors or len(before) != 1 or not all(
            map(_only_computes, block.instructions[:-1])):
        return []
    own = {str(i.result): i for i in block.instructions[:-1]}

    def needed(names: Iterable[str]) -> set[str]:
        return own.keys() & reached(names, lambda x: own[x].locals() if x in own else ())

    control = needed(block.instructions[-1].locals())
    found: list[tuple[int, set[str]]] = []
    for phi in block.phis:
        if phi.result not in control:
            size, values = phi.type.size, needed([phi.value.text])
            if found and found[-1][0] + size <= most_bytes:
                before_size, others = found.pop()
                size, values = size + before_size, values | others
            found.append((size, values))
    parts = [values | control for _, values in found]
    loaded = [x for part in parts for x in part if not own[x].is_pure]
    rest = own.keys() - control.union(*parts)
    is_used = any(facts.users.get(x) for x in rest)
    return [] if len(loaded) > len({*loaded}) or is_used else parts


def _only_computes(i: Instruction) -> bool:
    """True if an instruction only computes or loads a value."""
    if i.opcode == "call":
        return i.result is not None and not find(i.callee).effects & ~Effect.READS
    return i.is_pure or (i.opcode == "load" and not i.orderings and "volatile" not in i.flags)


def _loops(block: Block, function: Function, parts: list[set[str]]) -> list[Block]:
    """The loops of these parts, the last one with the label of the whole loop."""
    if len(parts) < 2:
        return [Block(block.label, [*block.instructions])]
    (came,) = {*function.predecessors[block.label]} - {block.label}
    made: list[Block] = []
    for k, part in enumerate(parts[:-1]):
        label, again = _name_in(block.label, k), set[str]().union(*parts[k + 1:])
        loop = _part(block, part, {block.label: label}, came)
        names = {str(i.result): Operand(i.type, _name_in(str(i.result), k))
                 for i in loop.instructions if i.result in again}
        for i in loop.instructions:
            i.result = names[i.result].text if i.result in names else i.result
        substitute([loop], names)
        came = f"{label}.end"
        last = loop.instructions[-1]
        last.labels = [x if x == label else came for x in last.labels]
        following = block.label if k == len(parts) - 2 else _name_in(block.label, k + 1)
        made += [loop, Block(came, [Instruction("br", VOID, [], labels=[following])])]
    return [*made, _part(block, parts[-1], {}, came)]


def _name_in(name: str, part: int) -> str:
    """The name of a value or block in one part; `name.0` may be that of another."""
    return f"{name}.part{part}"


def _part(block: Block, part: set[str], labels: dict[str, str], came: str) -> Block:
    """A copy of the loop with these values, which is entered from the block `came`."""
    kept = [i for i in block.instructions if i.result is None or i.result in part]
    return Block(labels.get(block.label, block.label), [replace(
        i, operands=list(i.operands), labels=[
            labels.get(x, x) if x == block.label or i.opcode != "phi" else came for x in i.labels])
        for i in kept])
