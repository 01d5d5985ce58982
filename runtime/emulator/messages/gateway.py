"""The message gateway: barriers between the threads of a work-group, and the end of a thread.

Payload: IGC, documentation/visa/instructions/NBARRIER.md, and the Intel PRM, "Message Gateway".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator.channels import Running
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.memory import fault
from triton_xe.runtime.emulator.registers import Array, Bools, Threads, byte_offset

Step = Callable[[Threads, Running], Any]
END = "end"
"""Result of the last instruction's step: its threads have ended."""
BARRIERS = 32
_SIGNAL, _SIGNAL_NAMED = 4, 5
"""Operations; before Xe3P the payload has a barrier's number in any case."""
_CONSUMER = 2
"""Role of a thread that only waits; 0 and 1 arrive."""


class Barriers:
    """Barriers of all work-groups: arrivals, and phases that threads wait to change."""

    def __init__(self, groups: int, threads: int) -> None:
        self._arrived = np.zeros((groups, BARRIERS), np.int64)
        self._needed = np.zeros((groups, BARRIERS), np.int64)
        self._phase = np.zeros((groups, BARRIERS), np.int64)
        self._seen: NDArray[np.int64] = np.full((threads, BARRIERS), -1)

    def signal(self, threads: Threads, rows: Array, number: Array, kind: Array,
               needed: Array) -> None:
        """Let threads `rows` arrive at barriers; a barrier with all arrivals begins a new phase."""
        groups = threads.groups[rows]
        self._seen[threads.numbers[rows], number] = self._phase[groups, number]
        arrives = kind != _CONSUMER
        np.add.at(self._arrived, (groups[arrives], number[arrives]), 1)
        self._needed[groups, number] = needed
        done = (self._arrived >= self._needed) & (self._arrived > 0)
        self._phase[done] += 1
        self._arrived[done] = 0

    def is_open(self, threads: Threads, number: Array) -> Bools:
        """True for threads that may pass: the phase that they signalled is over."""
        return np.asarray(self._phase[threads.groups, number]
                          > self._seen[threads.numbers, number])

    def check_ended(self) -> None:
        """Raise a fault if a work-group has ended while some of its threads waited at a barrier."""
        open_barriers = np.argwhere(self._arrived > 0)
        if len(open_barriers):
            group, number = (int(value) for value in open_barriers[0])
            arrived, needed = self.missing(group, number)
            raise fault("barrier", (
                f"work-group {group} has ended inside barrier {number}: {arrived} of {needed} "
                "threads have signalled, and none of them waits for the others"))

    def missing(self, group: int, number: int) -> tuple[int, int]:
        """Arrivals at a barrier and how many it needs."""
        return int(self._arrived[group, number]), int(self._needed[group, number])


def gateway(instruction: Instruction, descriptor: int, grf_bytes: int) -> Step:
    """The function that executes a `send.gtwy`."""
    if instruction.is_end:
        return lambda threads, running: END
    if descriptor & 7 not in (_SIGNAL, _SIGNAL_NAMED):
        raise UnsupportedError(f"message send.gtwy {descriptor:#x} has no definition here")
    word = instruction.sources[0].number * grf_bytes // 4 + 2
    counts_alone = instruction.op == "sendg" and descriptor & 7 == _SIGNAL

    def signal(threads: Threads, running: Running) -> None:
        """Signal; dword 2 has [7:0] barrier, [15:14] role, [23:16] producers, [31:24] consumers."""
        rows = np.flatnonzero(running.threads)
        header = threads.views[np.uint32][rows, word].astype(np.int64)
        if counts_alone:  # the dword is r0.2 of the thread
            header = header >> 24 << 16
        threads.memories.barriers.signal(
            threads, rows, header % BARRIERS, header >> 14 & 3, header >> 16 & 255)

    return signal


def barrier_of(instruction: Instruction, grf_bytes: int) -> Callable[[Threads], Array]:
    """The number of the barrier that a `sync.bar` waits at, for each thread."""
    operand = instruction.sources[0] if instruction.sources else None
    if operand is None or operand.kind == "immediate" or operand.is_null:
        fixed = int(operand.value, 0) % BARRIERS if operand and operand.value else 0
        return lambda threads: np.full(threads.count, fixed)
    at = byte_offset(operand, grf_bytes)
    return lambda threads: threads.bytes[:, at].astype(np.int64) % BARRIERS
