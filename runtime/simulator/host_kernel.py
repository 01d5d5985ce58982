"""Record of a kernel that is compiled for the host.

A kernel that was compiled in an earlier process is launched from this record alone.
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


class Purpose(Enum):
    """Purpose of a launch: to run its programs, to check them, or to trace them."""

    RUN = "run"
    CHECK = "check"
    TRACE = "trace"


class Part(Enum):
    """Part of a kernel that is compiled."""

    WHOLE = "whole"
    COMMON = "common"
    """Without fallbacks; a subgroup that reaches one notes that and ends."""
    KNOWN = "known"
    """Without fallbacks whose guards depend on arguments and ids alone."""
    GUARDS = "guards"
    """Only those guards; a subgroup that would reach a fallback notes that."""


@dataclass(frozen=True)
class Form:
    """Form in which a kernel is compiled, for one kind of launches."""

    part: Part = Part.WHOLE
    """If nothing can be left out, or other programs may wait for it, the whole is compiled."""
    plan: Instrumentation | None = None
    """Plan of the checks or the trace; None without them."""
    is_shuffled: bool = False
    """True for launches whose programs and subgroups take turns in another order."""
    in_step: bool = False
    """True to run the subgroups of a program in one function, if the kernel allows that."""
    arguments: tuple[int, ...] = ()
    """Arguments for which an in-step kernel has a version; 0 for those that are not integers."""

    @property
    def purpose(self) -> Purpose:
        if self.plan is None:
            return Purpose.RUN
        return Purpose.TRACE if self.plan.trace else Purpose.CHECK

    @property
    def key(self) -> tuple[object, ...]:
        """Key of the code: launches whose checks have equal keys share it."""
        plan = None if self.plan is None else self.plan.key
        return self.part, plan, self.is_shuffled, self.in_step, self.arguments


WHOLE = Form()
"""The whole kernel, without checks."""


@dataclass(frozen=True)
class HostKernel:
    """The text of a host module, and the facts that a launch needs of its kernel."""

    name: str
    text: str
    argument_types: tuple[str, ...]
    helpers: tuple[str, ...]
    lanes: int
    work_group: tuple[int, int, int]
    slm_bytes: int
    has_barrier: bool
    takes_turns: bool
    """True if programs are interleaved: they wait, take items of a queue, or are shuffled."""
    most_eager: int
    """Largest number of programs that begin as soon as the device has room."""
    is_whole: bool
    """True if no part was left out."""
    locations: Mapping[int, str]
    """Source locations of the instructions that may trap, by line of the LLVM module."""
    aligned: tuple[int, int]
    """Bytes that bases and pitches of surfaces are multiples of."""
    sanitizer: Instrumentation | None = None
    in_step: bool = False
    """All subgroups of a program run at once (see `analysis.in_step`)."""
    in_pieces: bool = False
    """True if its vector work is in functions of its own (see `pieces`)."""

    def is_eager(self, programs: int) -> bool:
        """True if programs begin as soon as there is room."""
        return programs <= self.most_eager

    @property
    def is_coroutine(self) -> bool:
        return self.has_barrier or self.takes_turns

    @cached_property
    def sub_groups(self) -> int:
        """Number of calls of the host's function per program."""
        return 1 if self.in_step else -(-math.prod(self.work_group) // self.lanes)
