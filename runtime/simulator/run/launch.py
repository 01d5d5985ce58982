"""Run the work-groups of a launch on the host's cores."""

from __future__ import annotations

import ctypes
import math
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from triton_xe import knobs
from triton_xe.errors import DeviceError, SimulatorTrap
from triton_xe.runtime import findings
from triton_xe.runtime.arguments import integer_bits
from triton_xe.runtime.device import Grid
from triton_xe.runtime.simulator.context import MOST_PARTS, Code, program
from triton_xe.runtime.simulator.context import Launch as Record
from triton_xe.runtime.simulator.host_kernel import HostKernel
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run import jit
from triton_xe.runtime.simulator.run.thread_pool import FAULT, Job, pool
from triton_xe.runtime.simulator.run.watchdog import unwatch, watch

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.sanitizer.reports import SanitizerReport
    from triton_xe.runtime.simulator.sanitizer.shadow import LaunchState

_HEAD = struct.Struct(f"<{Record.NEXT}q{8 * (Record.ARGUMENTS - Record.NEXT)}x")
_ERROR, _TIME = int(Record.ERROR_RECORD), int(Code.TIME)
"""Values that are read often, as integers, because looking up an enumeration's member is slow."""
CHUNKS_PER_THREAD = 32
"""Least number of chunks per thread, because work-groups may differ in cost."""

_LETTERS = {"ptr": "Q", "i8": "b7x", "i16": "h6x", "i32": "i4x", "i64": "q", "f16": "e6x",
            "f32": "f4x", "f64": "d"}
"""Format of `struct` for a value in a slot of 8 bytes."""


def _divided(total: int, threads: int) -> tuple[int, int]:
    """Number of parts of the work-groups, and number of work-groups that a thread takes at once."""
    if threads < 2:
        return 1, total
    return min(threads, MOST_PARTS), max(1, total // (threads * CHUNKS_PER_THREAD))


def runner_name(host: HostKernel) -> str:
    """Name of the library function that runs the programs of a kernel."""
    checked = () if host.sanitizer is None else ("checked",)
    if host.takes_turns:
        return symbol("together", *checked)
    return symbol("run", "barrier" if host.has_barrier else "plain", *checked)


def pack_arguments(
    kernel: str, types: tuple[str, ...], values: Sequence[int | float]
) -> bytes:
    """Pack the arguments into slots of 8 bytes."""
    packer = _packer(types)
    try:
        if packer is not None:
            return packer.pack(*values)
    except (struct.error, OverflowError, TypeError):
        pass
    return _pack_unusual(kernel, types, values)


@cache
def _packer(types: tuple[str, ...]) -> struct.Struct | None:
    """Packer for values that are plain numbers in range; None if a parameter is a single bit."""
    letters = [_LETTERS.get(kind) for kind in types]
    return None if None in letters else struct.Struct("<" + "".join(map(str, letters)))


@cache
def _record_of(nbytes: int) -> type[ctypes.Array[ctypes.c_int64]]:
    return ctypes.c_int64 * (nbytes // 8)


def _pack_unusual(kernel: str, types: Sequence[str], values: Sequence[int | float]) -> bytes:
    """Pack values that may be unsigned, infinite after rounding, or of a wrong type."""
    if len(types) != len(values):
        raise DeviceError(
            f"kernel {kernel} takes {len(types)} arguments, {len(values)} were given"
        )
    slots = [
        _rounded(kind, value) if kind[0] == "f"
        else integer_bits(kernel, k, kind, value)
        for k, (kind, value) in enumerate(zip(types, values, strict=True))
    ]
    return struct.pack(f"<{len(slots)}Q", *slots)


def _rounded(kind: str, value: float) -> int:
    """Bits of a number in a floating-point type; numbers beyond its range become infinite."""
    letters = f"<{_LETTERS[kind]}"
    try:
        return int.from_bytes(struct.pack(letters, value), "little")
    except OverflowError:
        return int.from_bytes(struct.pack(letters, math.copysign(math.inf, value)), "little")


@dataclass(eq=False)
class Prepared:
    """The loaded code of a kernel, and the common state of its launches."""

    kernel: str
    host: HostKernel
    address: int
    code: object
    """Reference that keeps the code at `address` loaded."""
    resident: int
    """Work-groups that the device holds at once, for a kernel with interleaved programs."""
    spent: int = 0
    """Nanoseconds of its launches, summed over all threads."""

    def __post_init__(self) -> None:
        runner = jit.helper_address(runner_name(self.host))
        self.job = Job(runner, self.address, self.host.slm_bytes, 0, 0, 8 * _ERROR, FAULT)

    def launch(self, grid: Grid, arguments: Sequence[int | float]) -> Launch:
        """A launch of the grid, with the arguments packed."""
        return Launch(self, pack_arguments(self.kernel, self.host.argument_types, arguments), grid)

    def trap(self, grid: Grid, error: list[int]) -> NoReturn:
        """Raise the error of a launch's error record."""
        _raise_trap(Launch(self, b"", grid), error)

    def native(self) -> tuple[bytes, bytes, int]:
        """State for compiled code.

        It is the job, the words before the arguments, and the flags for cold code.
        """
        flags = 0 if self.host.is_whole else self.host.sub_groups
        return bytes(self.job), self.head(), flags

    def head(
        self, parts: int = 0, grid: Grid = (0, 0, 0), total: int = 0, chunk: int = 0,
        cold: int = 0, groups: int = 0, state: int = 0, seed: int = 0, shadow_bytes: int = 0,
    ) -> bytes:
        """The words of a launch before its arguments; addresses are 0 if there is nothing."""
        host = self.host
        return _HEAD.pack(
            parts, *grid, total, chunk, host.sub_groups, host.slm_bytes, host.is_eager(total), cold,
            groups, state, self.resident, seed, shadow_bytes, 0)


class Launch(NamedTuple):
    """A grid of a loaded kernel.

    In shuffled order, a checked launch begins its programs in another order.  Without checks,
    programs and subgroups also take turns in another order.
    """

    prepared: Prepared
    arguments: bytes
    grid: Grid
    state: LaunchState | None = None
    """State of a sanitized launch; None for others."""
    seed: int = 0
    """Seed of a shuffled order of programs and subgroups."""
    programs: Sequence[int] | None = None
    """Numbers of the programs to run; None for all."""

    @property
    def kernel(self) -> str:
        return self.prepared.kernel

    @property
    def host(self) -> HostKernel:
        return self.prepared.host

    def program(self, group: int) -> tuple[int, int, int]:
        """The program id of a work-group number of an error record."""
        number = group if self.state is None else self.state.number(group)
        return program(number, self.grid)


def run(launch: Launch, cold: bytearray | None = None) -> None:
    """Run the grid, or its `programs`, and wait; raise `SimulatorTrap` if a subgroup trapped.

    `cold` (one byte per subgroup) receives 1 where a subgroup reached code that was left out.  A
    launch with `programs` must use the whole kernel.
    """
    total = math.prod(launch.grid)
    order = None
    if launch.programs is not None:
        order = np.array(launch.programs, np.int64)
        cold = bytearray(b"\1") * (total * launch.host.sub_groups)
    if launch.seed:
        order = np.random.default_rng(launch.seed).permutation(total if order is None else order)
    if launch.state is not None:
        launch.state.order = order
    _run_groups(launch, total if order is None else len(order), order, cold)


def run_again(launch: Launch, cold: bytearray) -> None:
    """Run the subgroups marked in `cold`, in the whole kernel."""
    rows = np.frombuffer(cold, np.uint8).reshape(-1, launch.host.sub_groups)
    groups = np.flatnonzero(rows.any(axis=1)).astype(np.int64)
    if launch.host.has_barrier and not rows[groups].all():
        raise SimulatorTrap(
            f"kernel {launch.kernel}: subgroups of work-group {groups[0]} part ways before a "
            "barrier; a real device hangs"
        )
    _run_groups(launch, len(groups), groups, cold)


def _run_groups(
    launch: Launch, total: int, groups: NDArray[np.int64] | None, cold: bytearray | None
) -> None:
    """Run these work-groups, or all, on the threads of the host; raise the trap of one."""
    if total == 0:
        return
    prepared, state = launch.prepared, launch.state
    alone = total == 1 or state is not None or launch.seed
    threads = 1 if alone else min(knobs.threads(), total)
    parts, chunk = _divided(total, threads)
    words = prepared.head(
        parts, launch.grid, total, chunk, 0 if cold is None else _address(cold),
        0 if groups is None else groups.ctypes.data, 0 if state is None else state.address,
        launch.seed, 0 if state is None else state.shadow_bytes) + launch.arguments
    record = _record_of(len(words)).from_buffer_copy(words)
    watch(record, _ERROR, knobs.time_limit(), _TIME)
    if state is not None:
        if knobs.findings():
            _go_on(launch, state)
        state.use(state)
    begin = time.perf_counter_ns()
    try:
        pool().run(threads, prepared.job, ctypes.addressof(record))
    finally:
        if state is not None:
            state.use(None)
        unwatch(record)
    prepared.spent += threads * (time.perf_counter_ns() - begin)
    if record[_ERROR]:
        _raise_trap(launch, record[_ERROR : Record.ARGUMENTS])


def _raise_trap(launch: Launch, error: list[int]) -> NoReturn:
    """Raise the error that an error record describes."""
    trap = _trap(launch, error)
    trap.what = trap.what or f"trap {error[0]}"
    raise trap


def _explained(launch: Launch, state: LaunchState) -> Callable[[list[int]], SanitizerReport]:
    """Function that converts the error record of a checked launch to its report."""
    from triton_xe.runtime.simulator.sanitizer.reports import explain

    return partial(explain, state, launch.kernel, launch.host.locations, launch.grid)


def _go_on(launch: Launch, state: LaunchState) -> None:
    """Let a checked launch continue after faults, and note each finding once per source location.
    """
    from triton_xe.runtime.simulator.sanitizer.state import Word

    seen: set[tuple[str, str]] = set()
    explained = _explained(launch, state)

    def noted(error: list[int]) -> None:
        finding = explained(error).finding
        if (finding.kind, finding.location) not in seen:
            seen.add((finding.kind, finding.location))
            findings.note(finding)

    state.noted = noted
    state.words[Word.GOES_ON] = 1


def _address(flags: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(flags))


def _trap(launch: Launch, error: list[int]) -> SimulatorTrap:
    """The error of a launch from its error record."""
    if error[0] == Code.TIME:
        return SimulatorTrap(
            f"kernel {launch.kernel}{_still_running(launch, error)}: still running after "
            f"{knobs.time_limit():g} s: an endless loop, or a wait for a program that comes later; "
            "TRITON_XE_TIME_LIMIT sets the limit"
        )
    if error[0] == Code.DEADLOCK:
        return SimulatorTrap(_deadlock(launch, error))
    if error[0] == FAULT:
        return SimulatorTrap(
            f"kernel {launch.kernel}: an access at {error[2] & (1 << 64) - 1:#x}, where there "
            "is no memory; TRITON_XE_SANITIZE=1 finds the line, the program and the tensor"
        )
    if launch.state is not None and error[0] >= Code.BOUNDS:
        return _explained(launch, launch.state)(error)
    return SimulatorTrap(_explain(launch, error))


def _deadlock(launch: Launch, error: list[int]) -> str:
    """Message about a deadlock: one program that waits, and a hint."""
    line, group, warp, live, resident, begun = error[1:7]
    total = math.prod(launch.grid)
    later = ("all others have ended" if live < total else "all programs of the launch wait")
    if begun < total:
        later = (f"{total - begun} of {total} programs have not begun, for the device holds "
                 f"{resident} at once, with the warps, registers, shared memory and barriers of "
                 "this kernel; launch no more programs than that, or let none wait for later ones")
    return (f"kernel {launch.kernel}, {launch.host.locations.get(line, f'line {line}')}, program "
            f"{launch.program(group)}, warp {warp}: a deadlock: programs that wait for "
            f"others: {live}, and {later}; a real device hangs")


def _still_running(launch: Launch, error: list[int]) -> str:
    """Position of the first subgroup that noticed the timeout, or ""."""
    if not error[4]:
        return ""
    place = launch.host.locations.get(error[1])
    who = f"program {launch.program(error[2])}, warp {error[3]}"
    return f", {place}, {who}" if place is not None else f", {who}"


def _explain(launch: Launch, error: list[int]) -> str:
    """The sentence about a trap."""
    code, line, n = error[0], error[1], error[2:]

    def place(site: int) -> str:
        return launch.host.locations.get(site, f"line {site} of its LLVM module")

    where = f"kernel {launch.kernel}, {place(line)}"
    if launch.state is not None and code == Code.SURFACE:
        from triton_xe.runtime.simulator.sanitizer.state import Word

        words = launch.state.words
        group, warp = int(words[Word.GROUP]), int(words[Word.SUBGROUP])
        where += f", program {launch.program(group)}, warp {warp}"
    if code == Code.SURFACE:
        from triton_xe.hardware import block_2d

        reason = block_2d.check_surface(
            base=n[0], width_bytes=n[1] + 1, height=n[2] + 1, pitch_bytes=n[3] + 1, x=n[4],
            element_bits=n[5], needed=block_2d.Alignment(*launch.host.aligned),
        )
        return f"{where}: illegal 2D block surface: {reason}"
    if code == Code.BARRIER:

        def state(done: int, site: int) -> str:
            return "has ended" if done else f"waits at {place(site)}"

        return (
            f"kernel {launch.kernel}: divergent barrier in work-group {n[0]}: subgroup 0 "
            f"{state(n[4], n[2])}, subgroup {n[1]} {state(n[5], n[3])}; a real device hangs"
        )
    return f"{where}: trap {code}"
