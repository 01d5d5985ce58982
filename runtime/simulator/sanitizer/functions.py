"""Generate the sanitizer's functions by name, for the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from triton_xe.llvm import I64, Function
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Value
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer import (
    acquired,
    checks,
    clocks,
    lanes,
    parts,
    phases,
    records,
    state,
    steps,
    sync,
)
from triton_xe.runtime.simulator.sanitizer.records import Checks

Body = Callable[..., Value | None]
_BODIES: dict[Routine, Body] = {
    state.ACQUIRE: acquired.acquire,
    state.BARRIER: checks.barrier,
    state.CHANGE: checks.change,
    state.CLASH: checks.clash,
    state.COLLISION: checks.collision,
    state.FENCE: sync.fence,
    state.FIND: checks.find,
    state.FRESH: checks.fresh,
    state.FULL: records.full,
    state.JOIN: records.join,
    state.JOIN_CLOCKS: clocks.join,
    state.KNOWS: clocks.knows,
    state.MARK: checks.mark,
    state.MERGE: checks.merge,
    state.NEW_GROUP: checks.group,
    state.NON_FINITE: checks.non_finite,
    state.NOTE_LANES: checks.note_lanes,
    state.NOTE_READS: phases.note_reads,
    state.PUBLISH: sync.publish,
    state.REPLAY: lanes.replay,
    state.REPLAY_ONE: lanes.replay,
    state.REPORT: checks.report,
    state.REPLAY_LOG: phases.replay_log,
    state.STAMP: clocks.stamp,
    state.SURFACE_Y: checks.surface_y,
    state.SYNC: sync.sync,
    state.SYNC_ROW: sync.sync_row,
    state.TOUCH: checks.touch,
    state.TRACK: checks.track,
    state.UNDEFINED: checks.undefined,
    state.VISIT: acquired.visit,
}
_BY_NAME = {routine.symbol.rpartition(".")[2]: routine for routine in _BODIES}
_LANE_FUNCTIONS: dict[str, tuple[Callable[..., Routine], Body]] = {
    "lanes": (state.check_lanes, lanes.check_lanes),
    "try": (state.try_lanes, lanes.try_lanes),
}
_STEP_FUNCTIONS: dict[str, tuple[Callable[..., Routine], Body]] = {
    "steps": (state.check_steps, steps.check_steps),
    "batch": (state.check_batch, steps.check_batch),
}


def function(host: HostCpu, name: str, *numbers: int | str) -> list[Function]:
    """Generate the sanitizer's function `name`.

    `numbers` are the numbers in its symbol: for example lanes, and size and kind of accesses that
    are constant for its callers.
    """
    if name in _STEP_FUNCTIONS:
        return _at_steps(name, *map(int, numbers[:-1]), strides=state.numbers(str(numbers[-1])))
    return _function(name, *map(int, numbers))


def _at_steps(name: str, *numbers: int, strides: tuple[int, ...]) -> list[Function]:
    """Generate a check of accesses at known offsets from one or several bases."""
    *shape, count, size, kind, masked = numbers
    declare, body = _STEP_FUNCTIONS[name]
    return write(declare(*shape, count, size, kind, strides, masked=bool(masked)),
                 partial(body, steps=steps.Steps(strides, count, size)), (size, kind))


def _function(name: str, *numbers: int) -> list[Function]:
    """Generate a function whose symbol has no strides."""
    if name == "syncs":
        return write(state.sync_lanes(*numbers), sync.syncs)
    if name == "one":
        return write(state.check_one(*numbers) if numbers else state.CHECK_ONE, checks.one, numbers)
    if name == "elements":
        width, count, *known = numbers
        return write(state.check_elements(width, count, *(known or (state.ANY, state.ANY))),
                     partial(lanes.check_elements, count=count), known)
    if name == "parts":
        (count, number), (writes, asks) = numbers[:2], map(bool, numbers[2:])
        return write(state.record_parts(count, number, writes, asks),
                     partial(parts.record, writes=writes, asks=asks))
    if name == "block":
        return write(state.check_block(*(numbers[1:] or (state.ANY,))), checks.block, numbers)
    if name in _LANE_FUNCTIONS:
        (declare, body), (width, *known) = _LANE_FUNCTIONS[name], numbers
        return write(declare(width, *(known or (state.ANY, state.ANY))), body, known)
    return write(_BY_NAME[name], _BODIES[_BY_NAME[name]])


def write(routine: Routine, body: Body, known: Sequence[int] = ()) -> list[Function]:
    """Generate a function whose body emits the code and returns the result.

    `known` are the size and kind of accesses, if constant; a size of 0 is unknown.
    """
    w = Checks(routine)
    w.arguments.update((name, w.term(k, I64)) for name, k in zip(
        ("size", "kind"), known, strict=False) if k or name == "kind")
    result = body(w, *w.arguments.values())
    return w.finish(result)
