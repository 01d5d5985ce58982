"""Describe messages in the code: meaning of their operands, and constant properties."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from triton_xe.intrinsics import Family, find
from triton_xe.llvm import Instruction, Operand

MESSAGES = (Family.BLOCK_2D, Family.BLOCK_1D, Family.MASKED, Family.ATOMIC, Family.HELPER)
SLM_SPACE = 3
ADDRESS_OPERANDS = ("pointer", "address", "payload", "base", "pitch", "x", "y")
ACCESSES = frozenset(("load", "store", "atomicrmw", "cmpxchg"))


@dataclass(frozen=True, eq=False)
class Site:
    """One message of a kernel."""

    instruction: Instruction

    @cached_property
    def family(self) -> Family:
        return find(self.instruction.callee).family

    @cached_property
    def names(self) -> list[str]:
        """Name of each operand."""
        i = self.instruction
        if i.opcode != "call":
            return ["value", "pointer"] if i.opcode == "store" else ["pointer", "value"]
        if self.family is Family.HELPER:
            return ["pointer", *["value"] * (len(i.operands) - 2), "mask"]
        return [p.name for p in find(i.callee).parameters]

    def operand(self, name: str) -> Operand:
        return self.instruction.operands[self.names.index(name)]

    @cached_property
    def at(self) -> int:
        """Index of the address operand."""
        return self.names.index("pointer")

    @cached_property
    def masked(self) -> int | None:
        """Index of the mask operand; None without a mask."""
        return self.names.index("mask") if "mask" in self.names else None

    @cached_property
    def other_index(self) -> int:
        """Index of the operand for inactive lanes; -1 if there is none."""
        return self.names.index("other") if "other" in self.names else -1

    @cached_property
    def placed(self) -> list[int]:
        """Indices of the operands that determine the address."""
        if self.family is Family.HELPER or self.instruction.opcode in ACCESSES:
            return [self.at]
        return [k for k, name in enumerate(self.names) if name in ADDRESS_OPERANDS]

    @cached_property
    def space(self) -> int:
        """The address space; 0 is an array in registers."""
        if self.family is Family.BLOCK_2D:
            return 1
        return self.instruction.operands[self.at].type.space

    @cached_property
    def is_shared(self) -> bool:
        """True if it accesses shared local memory."""
        return self.space == SLM_SPACE

    @cached_property
    def reads(self) -> bool:
        return bool(self.instruction.result) or self.is_prefetch

    @cached_property
    def is_prefetch(self) -> bool:
        """True if it is a prefetch, for which no instruction waits."""
        return "refetch" in self.instruction.callee

    @cached_property
    def updates(self) -> bool:
        """True if it reads and writes."""
        return self.family is Family.HELPER or self.instruction.opcode in ("atomicrmw", "cmpxchg")

    def size(self, lanes: int) -> int:
        """Bytes that each lane accesses."""
        return self._size * (lanes if self.family is Family.BLOCK_1D else 1)

    @cached_property
    def _size(self) -> int:
        i = self.instruction
        return (i.type if i.result else self.operand("value").type).size

    @cached_property
    def block(self) -> tuple[int, int, int]:
        """Shape of a 2D message: bytes of an element, bytes of a row, rows."""
        bits, blocks, width, height = (
            self.operand(name).integer_value() or 1
            for name in ("bits", "blocks", "tile_width", "tile_height"))
        return bits // 8, bits // 8 * blocks * width, height


def is_message(call: Instruction) -> bool:
    """True if a call is a message; among the module's own functions, if it takes an address."""
    known = find(call.callee)
    return known.family in MESSAGES and (known.family is not Family.HELPER or known.has("address"))
