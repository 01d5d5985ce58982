"""The cells of shadow memory: 64 bits that record an access, see `checks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from triton_xe.llvm.values import Value

Cells = TypeVar("Cells", Value, int)


@dataclass(frozen=True)
class Bits:
    """A field of a 64-bit cell."""

    first: int
    count: int

    @property
    def most(self) -> int:
        """Its largest value."""
        return (1 << self.count) - 1

    @property
    def full(self) -> int:
        """All of its bits."""
        return self.most << self.first

    def extract(self, cell: Cells) -> Cells:
        """The field's number in one or several cells."""
        return (cell >> self.first) & self.most


BYTES, ATOMIC, EPOCH, PHASE, WARP, GROUP = (
    Bits(*b) for b in ((0, 4), (4, 1), (5, 13), (18, 18), (36, 7), (43, 21)))
"""Fields of a cell; `GROUP` is the number + 1.

A cell of several work-groups has the index of a list of accesses, or 0, instead of epoch and phase.
"""
SEVERAL, SEVERAL_GROUPS = WARP.most, GROUP.most
SEVERAL_OWNERS = WARP.full | -1 << GROUP.first
LIST = Bits(EPOCH.first, EPOCH.count + PHASE.count)
