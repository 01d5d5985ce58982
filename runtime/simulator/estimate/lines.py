"""The predicted time of a launch, distributed over the source lines of the kernel.

The busy time of each pipe and level is distributed in proportion to the work of the lines.  Pipes
are weighted as in the time of a wave, in which the busiest dominates.
"""

from __future__ import annotations

from collections import defaultdict

from triton_xe.llvm import Module
from triton_xe.model.time import OVERLAP, Cost, Prediction
from triton_xe.runtime.simulator.estimate.costs import cost_of
from triton_xe.runtime.simulator.estimate.footprints import moved
from triton_xe.runtime.simulator.estimate.launch_work import TimedKernel
from triton_xe.runtime.simulator.estimate.walk import Walk

Line = tuple[str, int]
PIPES = {"dpas": "xmx", "fp": "fp", "integer": "int", "maths": "math", "messages": "send",
         "barriers": "wait"}
LEVELS = {"l1": ("l1", "l2", "dram"), "l2": ("l2", "dram"), "slm": ("slm",)}


def line_costs(
    module: Module, kernel: TimedKernel, walk: Walk, prediction: Prediction
) -> dict[Line, Cost]:
    """Costs of a launch by source line; lines without cost are left out."""
    found: dict[Line, Cost] = defaultdict(Cost)
    stretch = walk.grid[0] * walk.grid[1] * walk.grid[2] / len(walk.groups)
    for block in kernel.program.function.blocks:
        runs = walk.counts.get(block.label)
        for i in block.instructions if runs is not None else ():
            pipe, count = cost_of(i, kernel.lanes)
            place = module.source_line(i.line, i.debug)
            if pipe and place is not None and runs is not None:
                total = count * float(runs.sum()) * stretch
                found[place].work[PIPES[pipe]] += total
                found[place].messages += total if pipe == "messages" else 0
                shared = kernel.program.plain_bytes(i) * kernel.lanes * float(runs.sum()) * stretch
                found[place].bytes += shared
                found[place].work["slm"] += shared
    for message in walk.messages:
        level, nbytes = moved(message, kernel.lanes)
        i = message.site.instruction
        place = module.source_line(i.line, i.debug)
        if place is not None:
            found[place].bytes += nbytes * stretch
            for name in LEVELS.get(level, ()):
                found[place].work[name] += nbytes * stretch
    _divide(found, prediction)
    return dict(found)


def _divide(found: dict[Line, Cost], prediction: Prediction) -> None:
    """Assign each line its part of the time of the work-groups."""
    total: dict[str, float] = defaultdict(float)
    for cost in found.values():
        for pipe, amount in cost.work.items():
            total[pipe] += amount
    weights = {pipe: prediction.busy[pipe] ** OVERLAP for pipe, sum_ in total.items() if sum_}
    each = prediction.parts["groups"] / (sum(weights.values()) or 1.0)
    for cost in found.values():
        cost.us = each * sum(weights[pipe] * amount / total[pipe]
                             for pipe, amount in cost.work.items() if total[pipe])
