"""The work of a launch: a walk of sampled work-groups, scaled to the whole grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from triton_xe.hardware.residency import resident_groups
from triton_xe.model.traffic import groups_to_know
from triton_xe.model.work import Blocks, Issue, Work
from triton_xe.runtime.simulator.analysis.kernel_sizes import SharedMemory, sizes
from triton_xe.runtime.simulator.estimate.costs import issue_of
from triton_xe.runtime.simulator.estimate.footprints import Surface, flat, footprints_of
from triton_xe.runtime.simulator.estimate.numbers import Numbers
from triton_xe.runtime.simulator.estimate.program import Program
from triton_xe.runtime.simulator.estimate.walk import Walk
from triton_xe.runtime.simulator.run.kernel_source import KernelSource

FEWEST, MOST = 16, 64
"""Work-groups that are walked with all their lanes; for others nearby only the first lane is."""
SUBGROUPS = 128
"""Approximate number of subgroups that are walked."""
DEFAULT_REGISTERS = 128
PIPES = ("dpas", "fp", "integer", "maths", "messages", "barriers", "waits")


@dataclass(frozen=True)
class TimedKernel:
    """Properties of a compiled kernel that the estimate needs besides its code."""

    program: Program
    subgroups: int
    lanes: int
    registers: int
    slm_bytes: int
    resident: int = 1024
    """Work-groups that the device runs at once."""

    @classmethod
    def from_source(cls, source: KernelSource, registers: int | None = None) -> TimedKernel:
        """A kernel of a module, for a register file; None: the usual one."""
        registers = registers or DEFAULT_REGISTERS
        module, function = source.parsed.module, source.parsed.function
        lanes, group = sizes(module, function, source.target)
        slm_bytes = SharedMemory.place(module).nbytes
        subgroups = math.prod(group) // lanes
        resident = resident_groups(source.target, subgroups, registers, slm_bytes)
        return cls(Program(function), subgroups, lanes, registers, slm_bytes, resident)

    @cached_property
    def issues(self) -> dict[str, Issue]:
        """Instructions of one execution of each block by a subgroup."""
        return {b.label: issue_of(b, self.lanes) for b in self.program.function.blocks}

    def launch_work(
        self, arguments: Sequence[int | float], grid: tuple[int, int, int]
    ) -> tuple[Work, bool]:
        """The work of a launch, and True if all of it is known."""
        return self.work_of(self.sampled(arguments, grid))

    def sampled(self, arguments: Sequence[int | float], grid: tuple[int, int, int]) -> Walk:
        """Walk some work-groups of a launch."""
        known = groups_to_know(math.prod(grid), self.resident)
        count = min(MOST, max(FEWEST, SUBGROUPS // self.subgroups))
        groups = known[np.unique(np.linspace(0, len(known) - 1, count).astype(np.int64))]
        return Walk(self.program, arguments, grid, groups, self.subgroups, self.lanes).run()

    def work_of(self, walk: Walk) -> tuple[Work, bool]:
        """The work of sampled work-groups scaled to the grid, and True if all of it is known."""
        total = math.prod(walk.grid)
        numbers = groups_to_know(total, self.resident)
        found = footprints_of(walk)
        first, led = walk, found
        if len(numbers) > len(walk.groups):
            first = replace(walk, groups=numbers, leads=True).run()
            led = footprints_of(first, counted=0)
        at = np.searchsorted(numbers, walk.groups)
        reads, writes = (_whole(sampled, whole, at, len(numbers), found.counted) for sampled, whole
                         in ((found.reads, led.reads), (found.writes, led.writes)))
        each = 1 / len(walk.groups)
        work = Work(
            groups=total, subgroups=self.subgroups, registers=self.registers,
            issue=self._issue(_runs(walk, first, at)), l1_bytes=found.l1 * each,
            slm_bytes=found.slm * each,
            l2_bytes=sum(b.touched() for b in (*reads, *writes)) / len(numbers), reads=reads,
            writes=writes, slm_held=self.slm_bytes,
            numbers=None if len(numbers) == total else numbers,
        )
        return work, not walk.guessed and not found.unknown

    def _issue(self, runs: Mapping[str, float]) -> Issue:
        return Issue(**{
            pipe: sum(n * getattr(self.issues[label], pipe) for label, n in runs.items())
            for pipe in PIPES
        })


def _runs(walk: Walk, first: Walk, at: Numbers) -> dict[str, float]:
    """Mean number of executions of each block by a subgroup: as sampled, corrected by all first
    lanes.
    """
    runs = {label: float(count.mean()) for label, count in walk.counts.items()}
    for label, count in first.counts.items() if first is not walk else ():
        if count[at].any():
            runs[label] = runs.get(label, 0.0) * float(count.mean() / count[at].mean())
    return runs


def _whole(
    sampled: Mapping[int | str, Surface], led: Mapping[int | str, Surface], at: Numbers, count: int,
    counted: Numbers,
) -> tuple[Blocks, ...]:
    """Blocks of every work-group, interpolated from the sampled ones."""
    found = []
    unknown: dict[int, tuple[Numbers, int]] = {}
    for name, surface in sampled.items():
        lead = led.get(name)
        if isinstance(name, str):
            whole = surface if lead is None else lead
            _, size = unknown.get(id(whole.hulls), (None, 0))
            bounds = lead.bounds if lead is not None else _bounds(surface, lead, at, count)
            unknown[id(whole.hulls)] = bounds, size + max(1, round(surface.moved))
        else:
            found.append(Blocks(_bounds(surface, lead, at, count), surface.density(counted)))
    sizes = np.array([1, 1, 0, 0])
    found += [Blocks(bounds * (sizes * (size - 1) + 1)) for bounds, size in unknown.values()]
    return tuple(found)


def _bounds(surface: Surface, lead: Surface | None, at: Numbers, count: int) -> Numbers:
    """Bounds of the first lane of each work-group, widened by those of the other lanes in sampled
    ones.

    Work-groups without a first lane take the bounds of the next sampled one.
    """
    if lead is None:
        return surface.bounds[np.searchsorted(at, np.arange(count))]
    if lead is surface:
        return lead.bounds
    if surface.pitch != lead.pitch:
        surface, lead = (Surface(0, flat(s.hulls, s.pitch)) for s in (surface, lead))
    whole, first = surface.bounds, lead.bounds
    here = np.any(first, axis=1)
    both = np.any(whole, axis=1) & here[at]
    more = np.median((whole - first[at])[both], 0).astype(np.int64) if both.any() else 0
    bounds = np.where(here[:, None], first + more, 0)
    bounds[at] = whole
    return np.maximum(bounds, 0)
