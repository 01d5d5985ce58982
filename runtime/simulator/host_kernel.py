"""What of a kernel is compiled for the host, and what came of it.

A kernel that was compiled before is launched with this alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation

ENTRY = "xe_kernel"
"""Symbol of a kernel in its host module."""


class Part(Enum):
    """What of a kernel is compiled."""

    WHOLE = "whole"
    COMMON = "common"
    """Without fallbacks; a subgroup that comes to one notes it and ends."""
    KNOWN = "known"
    """Without fallbacks whose guards depend on arguments and ids alone."""
    GUARDS = "guards"
    """Those guards alone; a subgroup that would come to a fallback notes it."""


@dataclass(frozen=True)
class HostKernel:
    """The text of a host module and what a launch needs to know of its kernel."""

    name: str
    text: str
    argument_types: tuple[str, ...]
    helpers: tuple[str, ...]
    lanes: int
    work_group: tuple[int, int, int]
    slm_bytes: int
    has_barrier: bool
    takes_turns: bool
    """Programs run together: they wait for each other, take items of a queue, or are shuffled."""
    most_eager: int
    """Of launches of up to so many, they begin as soon as there is room."""
    is_whole: bool
    """Nothing was left out."""
    locations: Mapping[int, str]
    """Where the instructions are that may trap, by line of the LLVM module."""
    sanitizer: Instrumentation | None = None
    in_step: bool = False
    """All subgroups of a program run at once (see `analysis.in_step`)."""
    tile_heads: int = 0
    """Bytes of the tables for prepared tiles, zero when a launch begins (see `tile_tables`)."""
    tile_bytes: int = 0
    in_pieces: bool = False
    """Its vector work is in functions of its own (see `pieces`)."""

    def is_eager(self, programs: int) -> bool:
        """True if programs begin as soon as there is room."""
        return programs <= self.most_eager

    @property
    def is_coroutine(self) -> bool:
        return self.has_barrier or self.takes_turns

    @cached_property
    def sub_groups(self) -> int:
        """How often the host's function runs for a program."""
        return 1 if self.in_step else -(-math.prod(self.work_group) // self.lanes)
