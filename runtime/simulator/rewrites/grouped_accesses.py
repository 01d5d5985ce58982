"""Move operands of a tensor operation's accesses before the first of these accesses.

    %x = load half, %p                       %q = getelementptr i8, %p, 128
    %q = getelementptr i8, %p, 128    ->     %x = load half, %p
    %y = load half, %q                       %y = load half, %q

The checks test all accesses of the operation at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from triton_xe.intrinsics import Family, find
from triton_xe.llvm import I64, Block, Function, Instruction
from triton_xe.runtime.simulator.rewrites.element_accesses import access_parts

Groups = dict[Instruction, tuple[Instruction, ...]]


def grouped_accesses(function: Function) -> tuple[Function, Groups]:
    """The function with moved operands, and the groups of accesses by their first access."""
    groups: Groups = {}
    blocks = []
    for block in function.blocks:
        before: dict[Instruction, list[Instruction]] = {}
        for accesses, needed in _groups(block):
            groups[accesses[0]] = tuple(accesses)
            before[accesses[0]] = needed
        moved = {i for needed in before.values() for i in needed}
        blocks.append(Block(block.label, [
            x for i in block.instructions if i not in moved for x in (*before.get(i, ()), i)]))
    return replace(function, blocks=blocks), groups


def _groups(block: Block) -> Iterator[tuple[list[Instruction], list[Instruction]]]:
    """Accesses without memory operations in between, and operands computed in between."""
    accesses: list[Instruction] = []
    between: dict[str, Instruction] = {}
    needed: dict[Instruction, None] = {}
    for i in block.instructions:
        key = _key(i)
        used = _used(i, between) if accesses and key and key == _key(accesses[0]) else None
        if used is not None:
            accesses.append(i)
            needed |= dict.fromkeys(used)
        elif key or not (i.is_pure or i.shadow or find(i.callee).family is Family.SHADOW):
            if len(accesses) > 1:
                yield accesses, [x for x in between.values() if x in needed]
            accesses, between, needed = [i] if key else [], {}, {}
        if i.result is not None:
            between[i.result] = i


def _key(i: Instruction) -> tuple[object, ...] | None:
    """Key that is equal for accesses of one operation; None for others."""
    parts = None if i.shadow or i.debug is None else access_parts(i)
    if parts is None:
        return None
    _, t, mask, _ = parts
    align = next((o.text for o in i.operands[1:3] if o.type is I64 and o.is_constant), "")
    return i.debug, i.opcode, i.callee, t.text, i.align, align, mask and mask.type.text


def _used(i: Instruction, between: dict[str, Instruction]) -> list[Instruction] | None:
    """Operands of an address and mask that are computed in `between`; None if one cannot move."""
    parts = access_parts(i)
    assert parts is not None
    todo = [o.text for o in (parts[0], parts[2]) if o is not None]
    found: list[Instruction] = []
    while todo:
        made = between.get(todo.pop())
        if made is not None and made not in found:
            if not made.is_pure:
                return None
            found.append(made)
            todo += made.locals()
    return found
