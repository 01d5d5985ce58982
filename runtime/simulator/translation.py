"""A kernel on its way to host code: what was asked for, found, decided and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from triton_xe import llvm as ir
from triton_xe.hardware.target import Target
from triton_xe.llvm.records import Function, Instruction
from triton_xe.runtime.simulator.analysis.calls import is_lane_helper
from triton_xe.runtime.simulator.analysis.in_step import InStep
from triton_xe.runtime.simulator.analysis.kernel_sizes import SharedMemory, Sizes, sizes
from triton_xe.runtime.simulator.analysis.shapes import ShapeAnalysis, without_wraps
from triton_xe.runtime.simulator.host_kernel import Form
from triton_xe.runtime.simulator.pieces.costs import HostCosts
from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation

MOST, MOST_WAITING = 1 << 62, 256
"""Programs that begin at once if there is room: if they take items; if they wait in rounds."""


@dataclass(frozen=True)
class Turns:
    """Points where a program yields to others (`analysis.waits`); true if there may be any.
    """

    anywhere: bool = False
    """True if subgroups may yield before every access, in shuffled order."""
    waits: Mapping[Instruction, Instruction] = field(default_factory=dict)
    """Back edges of loops that wait for other programs, with the access that polls."""
    takes: frozenset[Instruction] = frozenset()
    """Atomics that take items of a queue."""
    after_waits: frozenset[Instruction] = frozenset()
    """Instructions after waits; a program does not yield there if its turn is a long one."""

    def __bool__(self) -> bool:
        return self.anywhere or bool(self.waits or self.takes)


@dataclass(frozen=True)
class Schedule:
    """How the subgroups of a program run."""

    turns: Turns = Turns()
    in_step: InStep | None = None
    """How they run in one function; None if each runs on its own."""
    has_barrier: bool = False
    """True if the kernel suspends its subgroups at barriers."""

    @property
    def is_coroutine(self) -> bool:
        """True if subgroups suspend, at barriers or for other programs."""
        return self.has_barrier or bool(self.turns)

    @property
    def most_eager(self) -> int:
        """Number of programs that may begin at once, if there is room."""
        return MOST if self.turns.takes else MOST_WAITING if self.turns.after_waits else 0


@dataclass
class HostModule:
    """The host functions of a kernel, as far as they are written."""

    functions: list[Function] = field(default_factory=list)
    definitions: dict[str, Function] = field(default_factory=dict)
    """Functions that are not in the kernel's module, by name."""
    constants: list[ir.Global] = field(default_factory=list)
    locations: dict[int, str] = field(default_factory=dict)
    """Line of the LLVM module -> source location, of instructions that may trap."""
    integers: Mapping[str, int] = field(default_factory=dict)
    """Integers for which an in-step kernel has a version, by the name of their loads."""
    slm_bytes: int = 0
    """Shared memory that some code loads from."""
    costs: HostCosts = field(init=False)
    large: frozenset[str] = frozenset()
    """Functions that are split into pieces."""

    def rewrite(self, rule: Callable[[Function], Sequence[Function]]) -> None:
        """Replace each function by those that a rule returns."""
        self.functions = [made for f in self.functions for made in rule(f)]


@dataclass
class Kernel:
    """A kernel and the functions that it calls; passes change it in place."""

    module: ir.Module
    name: str
    target: Target
    form: Form
    is_whole: bool = True
    """True if no part was left out."""
    takes_items: bool = False
    """True if checked programs may take items of a queue in any order."""
    is_interleaved: bool = False
    """True if programs wait for others, take items, or are shuffled."""
    schedule: Schedule = Schedule()
    host: HostModule = field(default_factory=HostModule)

    @property
    def plan(self) -> Instrumentation | None:
        """Plan of the checks or the trace; None without them."""
        return self.form.plan

    @property
    def functions(self) -> dict[str, Function]:
        return self.module.functions

    @property
    def entry(self) -> Function:
        return self.functions[self.name]

    @property
    def bodies(self) -> dict[str, Function]:
        """The functions that are widened; others run lane by lane."""
        return {name: f for name, f in self.functions.items() if not is_lane_helper(name)}

    @cached_property
    def sizes(self) -> Sizes:
        return sizes(self.module, self.entry, self.target)

    @cached_property
    def slm(self) -> SharedMemory:
        return SharedMemory.place(self.module)

    @cached_property
    def shapes(self) -> ShapeAnalysis:
        """Shapes of the values that are widened, in any subgroup."""
        return ShapeAnalysis(self.module, self.sizes.lanes)

    @cached_property
    def shapes_without_wraps(self) -> ShapeAnalysis:
        """The shapes that values have if no sum wraps around before it is extended."""
        return ShapeAnalysis(without_wraps(self.module), self.sizes.lanes)
