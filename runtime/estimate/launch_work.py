"""The work of a launch: a walk of sampled work-groups, stretched over the whole grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from triton_xe.model.work import Blocks, Issue, Work
from triton_xe.runtime.estimate.costs import issue_of
from triton_xe.runtime.estimate.footprints import Surface, blocks_of, footprints_of
from triton_xe.runtime.estimate.program import Program
from triton_xe.runtime.estimate.walk import Walk
from triton_xe.runtime.simulator.run.kernel_source import KernelSource
from triton_xe.runtime.simulator.widen.host import find_kernel, sizes, slm_places

SAMPLE = 64
"""Work-groups that are walked: whole waves in the order of launch, as far as they go."""
DEFAULT_REGISTERS = 128
PIPES = ("dpas", "fp", "integer", "maths", "messages", "barriers", "waits")


@dataclass(frozen=True)
class Kernel:
    """What the estimate must know of a compiled kernel besides its code."""

    program: Program
    subgroups: int
    lanes: int
    registers: int
    slm_bytes: int

    @classmethod
    def of(cls, source: KernelSource, registers: int = DEFAULT_REGISTERS) -> Kernel:
        """A kernel of a module, for an access mode."""
        function = find_kernel(source.module, source.name)
        lanes, group = sizes(source.module, function, source.target)
        _, slm_bytes = slm_places(source.module)
        return cls(Program(function), math.prod(group) // lanes, lanes, registers, slm_bytes)


def launch_work(
    kernel: Kernel, arguments: Sequence[int | float], grid: tuple[int, int, int]
) -> tuple[Work, bool]:
    """The work of a launch, and whether all of it is known."""
    return work_of(kernel, sampled(kernel, arguments, grid))


def sampled(
    kernel: Kernel, arguments: Sequence[int | float], grid: tuple[int, int, int]
) -> Walk:
    """The walk of some work-groups of a launch."""
    total = math.prod(grid)
    groups = np.unique(np.linspace(0, total - 1, min(total, SAMPLE)).astype(np.int64))
    return Walk(kernel.program, arguments, grid, groups, kernel.subgroups, kernel.lanes).run()


def work_of(kernel: Kernel, walk: Walk) -> tuple[Work, bool]:
    """What the sampled work-groups do, stretched over the grid; and whether all of it is known."""
    groups, total = walk.groups, math.prod(walk.grid)
    pointers = [
        int(value)
        for (_, t), value in zip(kernel.program.function.parameters, walk.arguments, strict=True)
        if t.kind == "ptr"
    ]
    found = footprints_of(walk.messages, pointers, len(groups))
    each = 1 / len(groups)
    reads, writes = _whole(found.reads, groups, total), _whole(found.writes, groups, total)
    moved = sum(b.touched() for b in (*reads, *writes)) / total
    work = Work(
        groups=total, subgroups=kernel.subgroups, registers=kernel.registers,
        issue=_issue(kernel, walk), l1_bytes=found.l1 * each, slm_bytes=found.slm * each,
        l2_bytes=moved + found.unknown * each, reads=reads, writes=writes,
        slm_held=kernel.slm_bytes,
    )
    return work, not walk.guessed and not found.unknown


def _issue(kernel: Kernel, walk: Walk) -> Issue:
    blocks = {b.label: issue_of(b, kernel.lanes) for b in kernel.program.function.blocks}
    runs = {label: float(count.mean()) for label, count in walk.counts.items()}
    return Issue(**{
        pipe: sum(n * getattr(blocks[label], pipe) for label, n in runs.items()) for pipe in PIPES
    })


def _whole(surfaces: dict[int, Surface], groups: np.ndarray, total: int) -> tuple[Blocks, ...]:
    """Blocks of every work-group: those between two sampled ones lie between theirs."""
    found = []
    every = np.arange(total)
    for surface in surfaces.values():
        blocks = blocks_of(surface)
        bounds = blocks.bounds
        if len(groups) < total:
            bounds = np.stack([
                np.interp(every, groups, bounds[:, k]).astype(np.int64) for k in range(4)], 1)
        found.append(Blocks(bounds, blocks.density))
    return tuple(found)
