"""The order in which threads run: in lockstep, or one after another between barriers.

Channels are stored as groups: program counter -> channels of all threads.  A thread runs the lowest
program counter of its channels, as hardware does for structured code.  In lockstep all threads at
one program counter run at once, the lowest one first, so that they converge.  A thread that is many
instructions late goes first.  Therefore a thread that spins on memory does not starve the one that
will write it.  An atomic message with the result of the one before counts as many instructions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import SimulatorTrap, XeError
from triton_xe.runtime.emulator.channels import Running
from triton_xe.runtime.emulator.memory import fault
from triton_xe.runtime.emulator.messages.gateway import END
from triton_xe.runtime.emulator.program import Program, Wait
from triton_xe.runtime.emulator.registers import Bools, Threads
from triton_xe.runtime.emulator.scoreboard import Scoreboard

LAG = 2000
"""Instructions that a thread may run ahead of another one that could run too."""
_NO_PC = 1 << 62


@dataclass
class BlockedChannels:
    """Channels that wait at a barrier, each thread at its own."""

    pc: int
    channels: Bools
    barriers: NDArray[np.int64]


@dataclass
class Counters:
    """Counts of the instructions that a launch executed, and their limit."""

    executed: NDArray[np.int64]
    """Instructions of one thread, by position in the program."""
    limit: int
    """Most instructions of the launch, counted by thread."""
    seconds: float = math.inf
    """Most time that the launch may take."""
    begin: float = field(default_factory=time.monotonic)
    total: int = 0
    scoreboard: Scoreboard | None = None
    """Checks the waits between instructions, if it is there."""

    def add(self, position: int, threads: int) -> None:
        self.executed[position] += threads
        self.total += threads


class Front:
    """Threads that run in lockstep; `steps` yields when they can only wait, or after a turn."""

    def __init__(self, program: Program, threads: Threads, counters: Counters) -> None:
        self.program, self.threads, self.counters = program, threads, counters
        self.groups: dict[int, Bools] = {
            program.instructions[0].pc: threads.enabled.copy()}
        self.blocked: list[BlockedChannels] = []
        self._pcs = [*(i.pc for i in program.instructions), _NO_PC]
        self._progress = np.zeros(threads.count, np.int64)
        self._waits = np.zeros(threads.count, np.int64)
        """State of each thread in the scoreboard."""
        self.moves = 0
        """Runs of instructions so far; it grows while the threads make progress."""

    def steps(self, quantum: int | None = None) -> Iterator[None]:
        """Run until all threads have ended."""
        since = 0
        while self.groups or self.blocked:
            if self.groups:
                since += self._run(self._choose())
            self._unblock()
            if (not self.groups and self.blocked) or (quantum is not None and since > quantum):
                since = 0
                yield

    # -- which threads run ------------------------------------------------------------------------

    def _choose(self) -> int:
        """The lowest program counter, unless other threads lag by more than `LAG` instructions."""
        lowest = min(self.groups)
        if len(self.groups) == 1:
            return lowest
        fronts = self._fronts()
        ahead = self._progress[fronts[lowest]].min()
        behind = {pc: int(self._progress[rows].min()) for pc, rows in fronts.items()
                  if pc != lowest and rows.any()}
        slowest = min(behind, key=behind.__getitem__, default=lowest)
        return slowest if behind.get(slowest, ahead) + LAG < ahead else lowest

    def _fronts(self) -> dict[int, Bools]:
        """Program counter -> threads whose lowest one it is."""
        taken = np.zeros(self.threads.count, bool)
        fronts: dict[int, Bools] = {}
        for pc in sorted(self.groups):
            here = self.groups[pc].any(1)
            fronts[pc] = here & ~taken
            taken |= here
        return fronts

    def _take(self, pc: int) -> Bools:
        """Remove the channels that run at a program counter from the groups."""
        channels = self.groups.pop(pc)
        if pc == min(self.groups, default=_NO_PC) or all(other > pc for other in self.groups):
            return channels
        rows = ~np.logical_or.reduce(
            [other.any(1) for at, other in self.groups.items() if at < pc])
        waiting = channels & ~rows[:, None]
        if waiting.any():
            self.groups[pc] = waiting
        return channels & rows[:, None]

    def _run(self, pc: int) -> int:
        """Run from a program counter to a branch, or to where other channels are."""
        channels = self._take(pc)
        running = Running(channels, self.threads.enabled)
        following = min((other for other in self.groups if other > pc), default=_NO_PC)
        first = position = self._position(pc)
        count = int(np.count_nonzero(running.threads))
        while True:
            outcome = self._execute(position, running, count)
            position += 1
            if outcome is not None or self._pcs[position] >= following:
                break
        self._progress[running.threads] += position - first
        if self.threads.spins.any():
            self._progress[self.threads.spins] += LAG
            self.threads.spins[:] = False
        if self.counters.scoreboard is not None:
            self.counters.scoreboard.advance(self._waits, running.threads, first, position)
        self.moves += 1
        self._continue(outcome, position, channels)
        return position - first

    def _position(self, pc: int) -> int:
        position = self.program.index.get(pc)
        if position is None:
            raise fault("branch", f"kernel {self.program.name} jumps to {pc:#x}, where it has no "
                                  "instruction")
        return position

    def _execute(self, position: int, running: Running, count: int) -> Any:
        """Count and execute an instruction for some threads; errors get its location."""
        counters, threads = self.counters, self.threads
        counters.add(position, count)
        threads.memories.pc = self._pcs[position]
        try:
            return self.program.steps[position](threads, running)
        except XeError as error:
            raise _located(error, self.program, position) from error

    def _continue(self, outcome: Any, position: int, channels: Bools) -> None:
        """Put channels where the last instruction sends them."""
        if outcome is None:
            self._send(self._pcs[position], channels)
        elif isinstance(outcome, Wait):
            self.blocked.append(
                BlockedChannels(self._pcs[position], channels, outcome.barriers))
        elif outcome != END:
            for pc, part in outcome:
                self._send(pc, part)
        if self.counters.total > self.counters.limit:
            raise fault("hang", (
                f"kernel {self.program.name} has run {self.counters.total} instructions, more "
                f"than the limit of {self.counters.limit}; {self.describe_positions()}"))
        if time.monotonic() - self.counters.begin > self.counters.seconds:
            raise fault("hang", (
                f"kernel {self.program.name} is still running after {self.counters.seconds:g} s: "
                "an endless loop, a wait for another thread, or much work; "
                f"{self.describe_positions()}; "
                "TRITON_XE_TIME_LIMIT sets the limit"))

    def _send(self, pc: int, channels: Bools) -> None:
        if channels.any():
            self.groups[pc] = self.groups[pc] | channels if pc in self.groups else channels

    # -- barriers ---------------------------------------------------------------------------------

    def _unblock(self) -> None:
        """Let threads pass their barriers that are complete."""
        remaining = []
        for each in self.blocked:
            is_open = self.threads.memories.barriers.is_open(self.threads, each.barriers)
            passing = each.channels & is_open[:, None]
            if passing.any():
                self._progress[passing.any(1)] = self._progress.max()
                self.moves += 1
                self._send(each.pc, passing)
                each = BlockedChannels(each.pc, each.channels & ~is_open[:, None], each.barriers)
            if each.channels.any():
                remaining.append(each)
        self.blocked = remaining

    # -- reports ----------------------------------------------------------------------------------

    def describe_positions(self) -> str:
        """Positions of the threads, for a message about a hang."""
        places = [(pc, channels, "") for pc, channels in sorted(self.groups.items())]
        places += [(each.pc, each.channels, self._barrier_text(each)) for each in self.blocked]
        return "; ".join(self._place_text(*place) for place in places) or "all threads have ended"

    def _place_text(self, pc: int, channels: Bools, why: str) -> str:
        rows = np.flatnonzero(channels.any(1))
        position = self.program.index.get(pc, 0)
        name, line = self.program.instructions[position].name, self.program.line_of(pc)
        numbers = self.threads.numbers[rows]
        return f"{_numbers(numbers)} at {pc:#x} ({name}{f', {line}' if line else ''}){why}"

    def _barrier_text(self, each: BlockedChannels) -> str:
        row = int(np.flatnonzero(each.channels.any(1))[0])
        number = int(each.barriers[row])
        group = int(self.threads.groups[row])
        arrived, needed = self.threads.memories.barriers.missing(group, number)
        return (f" after barrier {number}, at which {arrived} of {needed} threads of work-group "
                f"{group} have arrived")


def _numbers(numbers: Sequence[int] | NDArray[Any]) -> str:
    first = ", ".join(str(int(n)) for n in numbers[:8])
    rest = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return f"thread{'s' if len(numbers) > 1 else ''} {first}{rest}"


def _located(error: XeError, program: Program, position: int) -> XeError:
    """The error with the instruction that it is about."""
    if getattr(error, "pc", None) is not None:
        return error
    instruction = program.instructions[position]
    line = program.line_of(instruction.pc)
    where = f"kernel {program.name}, {instruction.name} at {instruction.pc:#x}"
    located = type(error)(f"{error} ({where}{f', {line}' if line else ''})")
    located.__dict__.update(error.__dict__)
    located.location = line
    located.pc = instruction.pc  # type: ignore[attr-defined]
    return located


def run_lockstep(program: Program, threads: Threads, counters: Counters) -> None:
    front = Front(program, threads, counters)
    for _ in front.steps():
        raise _hang(program, [front])


def run_in_order(
    program: Program, threads: Threads, counters: Counters, order: Sequence[int], quantum: int
) -> None:
    """Run one thread after another, each up to a barrier or for `quantum` instructions.

    Repeat until all have ended; raise an error if none can continue.
    """
    fronts = [Front(program, threads.thread(int(number)), counters) for number in order]
    runs = [(front, front.steps(quantum)) for front in fronts]
    while runs:
        before = sum(front.moves for front, _ in runs)
        left = [(front, run) for front, run in runs if next(run, END) is None]
        moved = sum(front.moves for front, _ in runs)
        if len(left) == len(runs) and moved == before:
            raise _hang(program, [front for front, _ in runs])
        runs = left


def _hang(program: Program, fronts: Sequence[Front]) -> SimulatorTrap:
    positions = "; ".join(front.describe_positions() for front in fronts[:8])
    return fault("hang", f"kernel {program.name} never ends: every thread waits at a barrier: "
                         f"{positions}")
