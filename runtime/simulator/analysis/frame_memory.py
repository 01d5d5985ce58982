"""Find the frame memory that host instructions between DPAS access."""

from __future__ import annotations

from collections.abc import Iterable, Set

from triton_xe.llvm import Block, Instruction, Operand
from triton_xe.runtime.simulator.library.symbols import is_symbol, parts

_Accesses = tuple[list[Operand], list[Operand]]
"""Addresses that are read and written, without reads of the kernel's own memory."""


class FrameMemory:
    """Arrays of a frame, disjoint arrays `others`, and the pointers into all of them."""

    def __init__(
        self, frame: Iterable[Instruction], blocks: Iterable[Block], others: Iterable[Operand]
    ) -> None:
        self.arrays = {i.result for i in frame if i.opcode == "alloca"} | {x.local for x in others}
        self.sources: dict[str | None, Operand] = {
            i.result: i.operands[0] for block in blocks for i in block.instructions
            if i.opcode == "getelementptr"}
        """Base of a pointer."""

    def array(self, pointer: Operand) -> str | None:
        """The array that a pointer points into; None if unknown."""
        while pointer.local in self.sources:
            pointer = self.sources[pointer.local]
        return pointer.local if pointer.local in self.arrays else None

    def is_independent(
        self, i: Instruction, written: Set[str | None], read: Set[str | None]
    ) -> bool:
        """True if an instruction may be reordered with calls that write and read those arrays.

        An array of None is unknown memory.
        """
        accesses = _accesses(i)
        if accesses is None:
            return False
        its_reads, its_writes = ({self.array(x) for x in some} for some in accesses)
        known = (None not in its_reads | its_writes and None not in written
                 and not (its_writes and None in read))
        return known and written.isdisjoint(its_reads | its_writes) and read.isdisjoint(its_writes)


def _family(i: Instruction) -> str:
    return parts(i.callee)[0] if i.opcode == "call" and is_symbol(i.callee) else ""


def _accesses(i: Instruction) -> _Accesses | None:
    """The accesses of an instruction; None if it has other effects."""
    if i.opcode in ("load", "store"):
        if "volatile" in i.flags or i.orderings:
            return None
        return ([i.operands[0]], []) if i.opcode == "load" else ([], [i.operands[1]])
    if i.callee.startswith("llvm.memcpy.") or _family(i) in ("prepare_a", "prepare_b"):
        return [i.operands[1]], [i.operands[0]]
    if _family(i) == "block_read":
        return [], [i.operands[0]]
    return ([], []) if i.callee.startswith("llvm.prefetch.") else None
