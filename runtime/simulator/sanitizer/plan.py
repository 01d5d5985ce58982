"""What the checks, or the trace, of one kernel need to know, and what its launches must."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field

from triton_xe.runtime.simulator.analysis.provenance import NOWHERE, Roots, pointer_roots
from triton_xe.runtime.simulator.ir import Function, Operand
from triton_xe.runtime.simulator.sanitizer.definedness import Undefined
from triton_xe.runtime.simulator.trace.tracing import Site

SEARCHED, SAME = -1, -2
"""In place of the row of a block: where it is looked up; and of shared memory, by a store of what
is there already: warps that hold copies of a value may all write it."""


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
    """Whether any fence or atomic of the kernel releases; else its atomics order nothing."""
    synchronises: bool = False
    """Whether the kernel has atomics on global memory, and releases."""
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
