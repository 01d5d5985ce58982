"""Data that the checks, or the trace, of one kernel need, and that its launches must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import NamedTuple

from triton_xe.llvm import Function, Instruction, Operand
from triton_xe.runtime.simulator.analysis.provenance import NOWHERE, Roots, pointer_roots
from triton_xe.runtime.simulator.trace.tracing import Site

SEARCHED = -1
"""Row of a block that is found by a search."""


Origins = frozenset[int]
NONE: Origins = frozenset()
BROKEN = "what the kernel says (tl.assume, tl.multiple_of) does not hold"


class Cause(Enum):
    """Reason why a result is undefined: the kind of finding, and words about the instruction."""

    MASKED = "undefined", "is masked off and has no `other`"
    ATOMIC = "undefined", "is masked off, and returns nothing"
    UNWRITTEN = "unwritten", "reads what was never written"
    DIVISION = "arithmetic", "divides an integer by 0"
    PROMISE = "promise", (
        "relies on what the kernel says (tl.multiple_of, tl.max_contiguous), which does not hold")
    SHIFT = "arithmetic", "shifts by the number of bits, or more"
    GATHER = "out-of-bounds", "takes an element (tl.gather) whose index is out of range"
    CAST = "arithmetic", "makes an integer of a number that is out of its range"
    NAN = "not-finite", "makes a NaN of infinities"
    PART = "wrong-type", "reads the upper part of a wider integer"
    LOST = "wrong-type", "makes a narrower integer of one that does not fit"

    @property
    def is_load(self) -> bool:
        """True if memory gave no defined value, so that the operands do not matter."""
        return self in (Cause.MASKED, Cause.ATOMIC, Cause.UNWRITTEN, Cause.PART)


class Origin(NamedTuple):
    """An instruction whose result can be undefined."""

    line: int
    why: Cause
    entry: int
    """Kernel argument that a load reads, or that was read for an operation; or -1."""
    debug: int | None
    """Its source location, as a number in the metadata of the module."""
    source: int = -1
    """Kernel argument that its source elements were read from; or -1."""
    indices: int = -1
    """Kernel argument that its indices were read from; or -1."""


class Use(NamedTuple):
    """A check of a value: words for the use, possible origins, and the accessed argument or -1."""

    what: str
    origins: Origins
    entry: int = -1

    @property
    def kind(self) -> str:
        """Kind of finding, if no origin is known."""
        return "promise" if self.what == BROKEN else "arithmetic"


@dataclass
class Undefined:
    """Data for reports of one kernel's undefined values."""

    suspects: frozenset[int] = frozenset()
    """Arguments whose blocks have unwritten bytes."""
    integers: dict[int, int] = field(default_factory=dict)
    """Bytes of an element, for arguments that are tensors of integers."""
    finite: bool = False
    """True if a NaN from operands that are not NaN is reported."""
    origins: list[Origin] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)


@dataclass
class Instrumentation:
    """Data that the checks of one kernel need, and that its launches must have."""

    finite: bool = False
    """True to report the first infinity or NaN, too."""
    strict: bool = False
    """True to ignore barriers that the compiler inserted."""
    trace: bool = False
    """True to record messages instead of checking them; see `tracing`."""
    sites: dict[int, Site] = field(default_factory=dict)
    """Recorded sites, by line of the LLVM module."""
    through: dict[int, int] = field(default_factory=dict)
    """Line of an access to memory of no argument -> argument that the address was read from."""
    through_argument: dict[int, int] = field(default_factory=dict)
    """Line of an access -> the one argument that its address is computed from."""
    lines: dict[int, int] = field(default_factory=dict)
    """Source location -> its first line in the LLVM module."""
    roots: dict[str, dict[str, Roots]] = field(default_factory=dict)
    batches: dict[Instruction, tuple[Instruction, ...]] = field(default_factory=dict)
    """First access -> accesses that are checked with it, see `batches`."""
    observers: dict[str, dict[str, int]] = field(default_factory=dict)
    """Function and value -> subgroups, see `analysis.observers`."""
    written: set[int] = field(default_factory=set)
    """Arguments whose blocks the kernel may write."""
    writes_anywhere: bool = False
    read: set[int] = field(default_factory=set)
    """Arguments whose blocks the kernel may read."""
    reads_anywhere: bool = False
    releases: bool = True
    """True if any fence or atomic of the kernel releases; otherwise its atomics order nothing."""
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
        """Key of the code: launches with equal keys share it."""
        sizes = frozenset(self.undefined.integers.items())
        return self.trace, self.finite, self.strict, self.undefined.suspects, sizes

    def entry(
        self, function: Function, pointer: Operand, *, writes: bool = False, reads: bool = False
    ) -> int:
        """The one argument that an address is computed from, or `SEARCHED`; notes the access."""
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
