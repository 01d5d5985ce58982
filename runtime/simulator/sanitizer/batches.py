"""Find accesses of one tensor that are checked together.

    %x = load %p                       %q = getelementptr %base, %step
    %q = getelementptr %base, %step    %x = load %p    ; checks both
    %y = load %q                  ->   %y = load %q

The addresses and masks of a batch are computed before its first access.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton_xe.intrinsics import Family, find
from triton_xe.llvm import Block, Function, Instruction, Operand
from triton_xe.runtime.simulator.rewrites.element_accesses import access_parts

MOST = 4
"""Largest number of accesses in a batch."""
Batches = dict[Instruction, tuple[Instruction, ...]]


def in_batches(function: Function) -> tuple[Function, Batches]:
    """A copy of the function whose batches have their operands early; the batches by first access.
    """
    batches: Batches = {}
    blocks = [Block(b.label, _reordered(b.instructions, batches)) for b in function.blocks]
    return replace(function, blocks=blocks), batches


def _reordered(instructions: Sequence[Instruction], batches: Batches) -> list[Instruction]:
    """The instructions of a block, with the operands of each batch before its first access."""
    makers = {i.result: (k, i) for k, i in enumerate(instructions) if i.result is not None}
    early: dict[Instruction, list[Instruction]] = {}
    batch: list[Instruction] = []
    first = 0
    for k, i in enumerate(instructions):
        if not _is_access(i):
            batch = batch if _may_be_between(i) else []
            continue
        needed = None
        if batch and len(batch) < MOST and _is_same_access(batch[0], i):
            needed = _made_after(first, i, makers)
        if needed is None:
            batch, first = [i], k
            continue
        batch.append(i)
        batches[batch[0]] = tuple(batch)
        known = early.setdefault(batch[0], [])
        known += (x for x in needed if x not in known)
    moved = {x for some in early.values() for x in some}
    return [x for i in instructions if i not in moved for x in (*early.get(i, ()), i)]


def _is_access(i: Instruction) -> bool:
    return not i.shadow and access_parts(i) is not None


def _may_be_between(i: Instruction) -> bool:
    """True if an instruction does not order the accesses before and after it."""
    return i.is_pure or i.shadow or find(i.callee).family is Family.SHADOW


def _is_same_access(one: Instruction, other: Instruction) -> bool:
    """True for accesses of one operation of the source, of the same type and alignment."""
    return _form(one) == _form(other)


def _form(i: Instruction) -> tuple[object, ...]:
    parts = access_parts(i)
    assert parts is not None
    _, t, mask, _ = parts
    aligns = [o.text for o in i.operands if o.is_constant and o.type.scalar.bits == 64]
    return i.opcode, i.callee, i.debug, t, mask is None, i.align, aligns


def _made_after(
    first: int, access: Instruction, makers: dict[str, tuple[int, Instruction]]
) -> list[Instruction] | None:
    """Instructions after position `first` that compute an access's address and mask, in order.

    None if memory or another call decides them.
    """
    found: dict[int, Instruction] = {}
    parts = access_parts(access)
    assert parts is not None
    waiting: list[Operand] = [o for o in (parts[0], parts[2]) if o is not None]
    while waiting:
        name = waiting.pop().local
        k, made = makers.get(name or "", (-1, access))
        if k <= first or k in found:
            continue
        if not made.is_pure or made.opcode == "phi":
            return None
        found[k] = made
        waiting += made.operands
    return [found[k] for k in sorted(found)]
