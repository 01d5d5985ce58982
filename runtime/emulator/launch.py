"""A launch: the threads of a dispatch run a program."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from triton_xe.runtime.emulator.dispatch import Dispatch, Triple, of_zebin
from triton_xe.runtime.emulator.kernel_info import kernel_info
from triton_xe.runtime.emulator.memory import (
    AddressSpace,
    BankedMemory,
    Lines,
    Memories,
    Undefined,
    fault,
)
from triton_xe.runtime.emulator.messages.gateway import Barriers
from triton_xe.runtime.emulator.program import Program
from triton_xe.runtime.emulator.registers import Threads
from triton_xe.runtime.emulator.scheduler import Counters, run_in_order, run_lockstep

QUANTUM = 2000
"""Instructions after which the next thread takes its turn, in orders other than lockstep."""
LIMIT = 1 << 36
_ROUNDED_REGISTERS = 3
"""Most registers by which IGC rounds up one message that loads several spilled ones: 3 to 4, 5 to 8
(visa, SpillCleanup.cpp: `coalesceFills`).  It may reach past the end of scratch memory."""
Order = None | str | Sequence[int]


class Launch:
    """The threads of one launch; `run` executes them to their end, once.

    Registers, shared local memory and scratch memory begin with random bytes of the seed
    `undefined`.  Hardware does not define them, and a result that depends on the seed is wrong.
    """

    def __init__(
        self, program: Program, space: AddressSpace, dispatch: Dispatch, undefined: int = 0
    ) -> None:
        self.program, self.space, self.dispatch = program, space, dispatch
        contents = Undefined(undefined)
        groups, threads = dispatch.group_count, dispatch.threads
        count = groups * threads
        memories = Memories(
            space, BankedMemory("shared local memory", dispatch.slm_bytes, groups, contents),
            _scratch(dispatch.scratch_bytes, count, contents, program.grf_bytes),
            Barriers(groups, count), contents, dispatch.general_state_base, dispatch.surfaces,
            dispatch.scratch_pointer)
        self.threads = Threads(np.arange(count) // threads, dispatch.simd, memories,
                               program.target.grf_modes[-1] * program.grf_bytes)
        dispatch.fill(self.threads, program.grf_bytes)
        self.counters = Counters(np.zeros(len(program.instructions), np.int64), LIMIT)

    @classmethod
    def from_zebin(
        cls, program: Program, binary: bytes, space: AddressSpace, groups: Triple,
        arguments: Sequence[Any], work_group: Triple | None = None, undefined: int = 0,
    ) -> Launch:
        """A launch of a kernel of a native binary with arguments (addresses, numbers, bytes)."""
        info = kernel_info(binary, program.name)
        return cls(program, space, of_zebin(info, binary, space, groups, arguments, work_group),
                   undefined)

    def run(
        self, order: Order = None, limit: int = LIMIT, quantum: int = QUANTUM, seconds: float = 0,
    ) -> Launch:
        """Execute all threads; a fault or a hang raises `Fault`.

        `order` is None (lockstep), a sequence of thread numbers, "reversed" or "shuffled:SEED":
        one thread after another, each up to a barrier.  `limit` bounds the instructions of the
        launch, counted by thread, and `seconds` its time, unless they are 0.
        """
        self.counters.limit, self.counters.seconds = limit, seconds or math.inf
        with np.errstate(all="ignore"):
            if order is None:
                run_lockstep(self.program, self.threads, self.counters)
            else:
                run_in_order(self.program, self.threads, self.counters,
                             self._numbers(order), quantum)
        self.threads.memories.barriers.check_ended()
        return self

    def _numbers(self, order: str | Sequence[int]) -> Sequence[int]:
        """Numbers of threads in the order: a list, "reversed", "shuffled:seed", or ascending."""
        if not isinstance(order, str):
            return order
        numbers = np.arange(self.threads.count)
        name, _, seed = order.partition(":")
        if name == "shuffled":
            return [int(n) for n in np.random.default_rng(int(seed or 0)).permutation(numbers)]
        return [int(n) for n in (numbers[::-1] if name == "reversed" else numbers)]

    @property
    def instructions(self) -> int:
        """Instructions executed, counted once for each thread."""
        return self.counters.total

    def executed(self) -> Counter[str]:
        """Executed instructions by name."""
        found: Counter[str] = Counter()
        for instruction, count in zip(
                self.program.instructions, self.counters.executed.tolist(), strict=True):
            found[instruction.name] += count
        return +found

    @property
    def bytes_moved(self) -> Counter[int]:
        """Bytes that messages asked for, by program counter."""
        return self.threads.memories.bytes_moved

    def check_waits(self) -> Launch:
        """Look for instructions that do not wait for what they need, for `missing_waits`."""
        self.counters.scoreboard = self.program.scoreboard
        return self

    @property
    def missing_waits(self) -> tuple[str, ...]:
        """Each missing wait of the program's checked launches, with its source location."""
        return self.program.missing_waits

    def watch_prefetches(self) -> Launch:
        """Note which cache lines are prefetched and loaded, for `unused_prefetches`."""
        self.threads.memories.lines = Lines()
        return self

    def prefetched_lines(self) -> dict[int, np.ndarray]:
        """Program counter of each prefetch -> numbers of its cache lines."""
        lines = self.threads.memories.lines
        return {} if lines is None else lines.prefetched()

    def unused_prefetches(self) -> dict[int, float]:
        """Program counter of each prefetch -> share of its cache lines that nothing loads."""
        lines = self.threads.memories.lines
        return {} if lines is None else lines.unused()

    @property
    def findings(self) -> Counter[tuple[int, str]]:
        """Program counter and what a 2D block message does that no hardware table allows."""
        return self.threads.memories.findings

    def refuse_findings(self) -> None:
        """Raise an error that names the first 2D block message in `findings`."""
        for pc, sentence in sorted(self.findings):
            raise fault("block 2D", (
                f"{self.program.place_of(pc)} breaks a rule of 2D block messages: {sentence}.  "
                "Hardware may ignore that or return other elements; report it with the kernel"))

    @property
    def misaligned(self) -> Counter[str]:
        """Misaligned accesses of global memory by kind, of this launch and earlier ones."""
        return self.space.misaligned


def _scratch(size: int, threads: int, contents: Undefined, grf_bytes: int) -> BankedMemory:
    overrun = _ROUNDED_REGISTERS * grf_bytes if size else 0
    return BankedMemory("scratch memory", size, threads, contents, overrun)
