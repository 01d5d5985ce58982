"""Count the instructions of a launch in native code, for the time model.

The hot loop of the native code corresponds to that of the LLVM IR.  The walk counts its iterations.
If the compiler unrolled it, the products (or messages) of both loops show how often.  All other
instructions are assumed to run as often, on average, as the LLVM IR outside of its hot loop.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from triton_xe.model.work import Issue
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.program import Program
from triton_xe.runtime.simulator.interface import ModuleKernel, TimedKernel, Walk
from triton_xe.tools import intel
from triton_xe.tools.native_figures import hot_and_rest, pipe

if TYPE_CHECKING:
    from numpy.typing import NDArray


ISSUED = ("fp", "integer", "maths", "messages")


def native_issue(
    loaded: ModuleKernel, kernel: TimedKernel, walk: Walk, estimated: Issue
) -> Issue:
    """Count the instructions of a subgroup in native code.

    If an emulated device has run this launch, these are the executed instructions.  If Intel's
    compiler refuses the kernel, warn, and return `estimated`.
    """
    executed = loaded.executed(walk.grid, walk.arguments)
    if executed is not None:
        program, counts = executed
        threads = math.prod(walk.grid) * kernel.subgroups
        return executed_issue(program, counts / threads, kernel.lanes, estimated)
    try:
        program = native(loaded.module, loaded.source.target.name, loaded.build_flags).program
    except intel.IntelCompilerError as error:
        warnings.warn(f"{loaded.name}: its native code cannot be counted ({error})",
                      RuntimeWarning, stacklevel=2)
        return estimated
    return exact_issue(program, kernel, walk, estimated)


def executed_issue(program: Program, counts: NDArray[Any], lanes: int, estimated: Issue) -> Issue:
    """Instructions of a subgroup from the executions of each instruction, `counts`.

    Waits are those of `estimated`.
    """
    return replace(estimated, **_costs(zip(program.instructions, counts.tolist(), strict=True),
                                       lanes))


@cache
def native(module: bytes, device: str, flags: str) -> intel.CompiledKernel:
    """Compile a module with one kernel; `DeviceError` without Intel's compiler."""
    return intel.compile_spirv(module, device, flags)


def exact_issue(program: Program, kernel: TimedKernel, walk: Walk, estimated: Issue) -> Issue:
    """Instructions of a subgroup in native code; products, barriers and waits as `estimated`."""
    inside, outside = (_counted(part, kernel.lanes) for part in hot_and_rest(program))
    issues = kernel.issues
    runs = {label: float(count.mean()) for label, count in walk.counts.items()}
    hot = _hot_loop(kernel, issues)
    rest = issues.keys() - hot
    static = sum(_total(issues[b]) for b in rest)
    ran = sum(_total(issues[b]) * runs.get(b, 0.0) for b in rest)
    once = ran / static if static else 1.0
    most = max((runs.get(b, 0.0) for b in hot), default=0.0)
    rounds = _rounds(inside, [issues[b] for b in hot], most)
    return replace(estimated, **{
        name: getattr(inside, name) * rounds + getattr(outside, name) * once for name in ISSUED})


def _rounds(inside: Issue, body: Iterable[Issue], runs: float) -> float:
    """Iterations of the native code's loop, whose body may be unrolled."""
    body = list(body)
    for name in ("dpas", "messages"):
        here, there = sum(getattr(issue, name) for issue in body), getattr(inside, name)
        if here and there:
            return runs * here / there
    return runs if body else 1.0


def _hot_loop(kernel: TimedKernel, issues: dict[str, Issue]) -> frozenset[str]:
    """Blocks of the innermost loop with most products, or with most messages; empty without loops.

    The native code's hot loop is chosen by the same rule.
    """
    loops = [frozenset(body) for body in kernel.program.loops.values()]
    inner = [one for one in loops if not any(two < one for two in loops)]
    return max(inner, default=frozenset(), key=lambda body: (
        sum(issues[b].dpas for b in body), sum(issues[b].messages for b in body)))


def _total(issue: Issue) -> float:
    return float(sum(getattr(issue, f.name) for f in fields(issue)))


def _counted(instructions: Iterable[Instruction], lanes: int) -> Issue:
    return Issue(**_costs(((each, 1.0) for each in instructions), lanes))


def _costs(executed: Iterable[tuple[Instruction, float]], lanes: int) -> dict[str, float]:
    """Pipe -> issues of instructions that run so often."""
    counts = dict.fromkeys((*ISSUED, "dpas"), 0.0)
    for each, times in executed:
        if name := pipe(each):
            counts[name] += times * _cost(each, name, lanes)
    return counts


def _cost(instruction: Instruction, pipe: str, lanes: int) -> float:
    """Issues of 16 lanes, or of 8 rows."""
    if pipe == "dpas":
        return int(instruction.subop.partition("x")[2]) / 8
    return 1.0 if pipe == "messages" else max(instruction.width, min(lanes, 16)) / 16
