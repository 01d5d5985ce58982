"""What the checks, or the trace, of one kernel need to know, and what its launches must."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import NamedTuple

from triton_xe.runtime.simulator.analysis.provenance import NOWHERE, Roots, pointer_roots
from triton_xe.runtime.simulator.ir import Function, Operand
from triton_xe.runtime.simulator.trace.tracing import Site

SEARCHED = -1
"""In place of the row of a block, where it is looked up."""


Origins = frozenset[int]
NONE: Origins = frozenset()
BROKEN = "what the kernel says (tl.assume, tl.multiple_of) does not hold"


class Why(Enum):
    """Why a result is undefined: the kind of finding, and words about the instruction."""

    MASKED = "undefined", "is masked off and has no `other`"
    UNWRITTEN = "unwritten", "reads what was never written"
    DIVISION = "arithmetic", "divides an integer by 0"
    PROMISE = "promise", (
        "relies on what the kernel says (tl.max_contiguous and its kin), which does not hold")
    SHIFT = "arithmetic", "shifts by the number of bits, or more"
    GATHER = "out-of-bounds", "takes an element (tl.gather) whose index is out of range"
    CAST = "arithmetic", "makes an integer of a number that is out of its range"
    NAN = "not-finite", "makes a NaN of infinities"
    PART = "wrong-type", "reads the upper part of a wider integer"
    LOST = "wrong-type", "makes a narrower integer of one that does not fit"

    @property
    def is_load(self) -> bool:
        return self in (Why.MASKED, Why.UNWRITTEN, Why.PART)


class Origin(NamedTuple):
    """An instruction whose result can be undefined."""

    line: int
    why: Why
    entry: int
    """The kernel argument that a load reads, or that was read for an operation; or -1."""
    debug: int | None
    """Where its source location is in the metadata of the module."""
    source: int = -1
    """The kernel argument that the elements were read from of which it takes one; or -1."""
    indices: int = -1
    """Likewise of what tells which one."""


class Use(NamedTuple):
    """What a check is about: words for the use, where its value may come from, and the kernel
    argument that it accesses, or -1."""

    what: str
    origins: Origins
    entry: int = -1

    @property
    def kind(self) -> str:
        """The kind of finding that it is by itself."""
        return "promise" if self.what == BROKEN else "arithmetic"


@dataclass
class Undefined:
    """What the reports of one kernel's undefined values need."""

    suspects: frozenset[int] = frozenset()
    """Arguments whose blocks hold bytes that nothing has written."""
    integers: dict[int, int] = field(default_factory=dict)
    """The bytes of an element of the arguments that are tensors of integers."""
    finite: bool = False
    """True if a NaN counts that no operand was."""
    origins: list[Origin] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)


@dataclass
class Instrumentation:
    """What the checks of one kernel need to know, and what its launches must."""

    finite: bool = False
    """Also report the first infinity or NaN."""
    strict: bool = False
    """Barriers that the compiler added order nothing."""
    trace: bool = False
    """Note the messages instead of checking them; see `tracing`."""
    sites: dict[int, Site] = field(default_factory=dict)
    """What was recorded, by line of the LLVM module."""
    through: dict[int, int] = field(default_factory=dict)
    """By line of an access to memory that no argument gives, the one that it read the address from.
    """
    through_argument: dict[int, int] = field(default_factory=dict)
    """By line of an access, the one argument that its address comes from."""
    lines: dict[int, int] = field(default_factory=dict)
    """The first line of the LLVM module of each place in the kernel's source."""
    roots: dict[str, dict[str, Roots]] = field(default_factory=dict)
    observers: dict[str, dict[str, int]] = field(default_factory=dict)
    """By function and value, see `analysis.observers`."""
    written: set[int] = field(default_factory=set)
    """Arguments whose blocks the kernel may write."""
    writes_anywhere: bool = False
    read: set[int] = field(default_factory=set)
    """Arguments whose blocks the kernel may read."""
    reads_anywhere: bool = False
    releases: bool = True
    """True if any fence or atomic of the kernel releases; else its atomics order nothing."""
    synchronises: bool = False
    """True if the kernel has atomics on global memory, and releases."""
    suspects: InitVar[frozenset[int]] = frozenset()
    integers: InitVar[Mapping[int, int] | None] = None
    undefined: Undefined = field(default_factory=Undefined)

    def __post_init__(
        self, suspects: frozenset[int], integers: Mapping[int, int] | None
    ) -> None:
        self.undefined.suspects, self.undefined.finite = suspects, self.finite
        self.undefined.integers = dict(integers or {})

    @property
    def key(self) -> object:
        """Launches with the same share the code."""
        sizes = frozenset(self.undefined.integers.items())
        return self.trace, self.finite, self.strict, self.undefined.suspects, sizes

    def entry(
        self, function: Function, pointer: Operand, *, writes: bool = False, reads: bool = False
    ) -> int:
        """The one argument an address comes from, or `SEARCHED`; records what is done there."""
        if function.name not in self.roots:
            self.roots[function.name] = pointer_roots(function)
        roots = self.roots[function.name].get(pointer.local or "", NOWHERE)
        if writes:
            self.written |= roots
            self.writes_anywhere |= not roots
        if reads:
            self.read |= roots
            self.reads_anywhere |= not roots
        return next(iter(roots)) if len(roots) == 1 else SEARCHED
