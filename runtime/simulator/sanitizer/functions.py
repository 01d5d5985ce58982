"""The functions of the sanitizer by name, for the library."""

from __future__ import annotations

from collections.abc import Callable

from triton_xe.runtime.simulator.ir import Function
from triton_xe.runtime.simulator.ir.builder import Routine
from triton_xe.runtime.simulator.ir.values import Value
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer import (
    acquired,
    checks,
    lanes,
    records,
    state,
    sync,
    written,
)
from triton_xe.runtime.simulator.sanitizer.records import Checks

Body = Callable[..., Value | None]
_BODIES: dict[Routine, Body] = {
    state.ACQUIRE: acquired.acquire,
    state.BARRIER: checks.barrier,
    state.CHECK_BLOCK: checks.block,
    state.CHECK_ONE: checks.one,
    state.CLASH: checks.clash,
    state.COLLISION: checks.collision,
    state.FENCE: sync.fence,
    state.FIND: checks.find,
    state.FRESH: written.fresh,
    state.FULL: records.full,
    state.JOIN: records.join,
    state.MARK: written.mark,
    state.MERGE: checks.merge,
    state.NEW_GROUP: checks.group,
    state.NON_FINITE: checks.non_finite,
    state.NOTE_LANES: written.note_lanes,
    state.PUBLISH: sync.publish,
    state.REPORT: checks.report,
    state.SURFACE_Y: written.surface_y,
    state.SYNC: sync.sync,
    state.SYNC_ROW: sync.sync_row,
    state.TRACK: checks.track,
    state.UNDEFINED: checks.undefined,
    state.VISIT: acquired.visit,
}
_BY_NAME = {routine.symbol.rpartition(".")[2]: routine for routine in _BODIES}
_OF_LANES: dict[str, tuple[Callable[[int], Routine], Body]] = {
    "lanes": (state.check_lanes, lanes.check_lanes),
    "try": (state.try_lanes, lanes.try_lanes),
    "syncs": (state.sync_lanes, sync.syncs),
}


def function(host: HostCpu, name: str, width: int = 0) -> list[Function]:
    """The function `name` of the sanitizer; for that many lanes, where it is one of lanes."""
    if width:
        declare, body = _OF_LANES[name]
        return write(declare(width), body)
    return write(_BY_NAME[name], _BODIES[_BY_NAME[name]])


def write(routine: Routine, body: Body) -> list[Function]:
    """The function that does, and returns, what `body` says."""
    w = Checks(routine)
    result = body(w, *w.arguments.values())
    return w.finish(result)
