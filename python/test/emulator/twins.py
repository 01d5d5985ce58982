"""A mutant beside its original, instruction by instruction: where its change ends without effect.

Both run in lockstep on memory of their own.  The registers of all threads are compared after each
instruction, so that a difference is followed from the changed instruction to where it ends.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np

from triton_xe.hardware.target import Target
from triton_xe.runtime.emulator import Launch
from triton_xe.runtime.emulator.channels import Running
from triton_xe.runtime.emulator.footprints import footprint
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.registers import FLAGS, Threads

SAME = "the same result in each channel"
UNREAD = "nothing reads the result"
ELSEWHERE = "a branch goes elsewhere, to the same results"


class _Elsewhere(Exception):
    """A branch of the mutant goes elsewhere."""


def reason(original: Launch, mutant: Launch, changed: int) -> str:
    """Why a change of the instruction at a position shows in no result; neither has run yet."""
    pair = _Pair(original, mutant, changed)
    program = copy.copy(original.program)
    program.steps = [partial(pair.step, n) for n in range(len(program.instructions))]
    original.program = program
    try:
        original.run()
    except _Elsewhere:
        return ELSEWHERE
    if not pair.differ:
        return SAME
    return f"no effect in {', '.join(pair.ends)}" if pair.ends else UNREAD


class _Pair:
    """The state of two launches whose programs differ in one instruction."""

    def __init__(self, original: Launch, mutant: Launch, changed: int) -> None:
        self.threads, self.twin, self.changed = original.threads, mutant.threads, changed
        self.differ = False
        self.ends: dict[str, None] = {}
        """Instructions that read a difference and made none of it."""
        self._instructions = original.program.instructions
        self._steps = original.program.steps, mutant.program.steps
        self._touched = [_bytes(each, original.program.target) for each in self._instructions]

    def step(self, number: int, threads: Threads, running: Running) -> Any:
        rows = running.threads
        before = self._difference(rows)
        self.twin.memories.pc = self._instructions[number].pc
        outcome, other = (step[number](each, running) for step, each in zip(
            self._steps, (threads, self.twin), strict=True))
        if not _is_same(outcome, other):
            raise _Elsewhere
        after, (reads, writes) = self._difference(rows), self._touched[number]
        self.differ = self.differ or bool(after.any())
        makes_one = after[:, writes].any() or (after & ~before).any()
        if number != self.changed and before[:, reads].any() and not makes_one:
            self.ends[_name(self._instructions[number])] = None
        return outcome

    def _difference(self, rows: np.ndarray) -> np.ndarray:
        return self.threads.bytes[rows] != self.twin.bytes[rows]


def _bytes(instruction: Instruction, device: Target) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the bytes that an instruction reads and writes, those of flags too."""
    touched = footprint(instruction, device)
    flags = 4 * (FLAGS + instruction.flag[0]) + np.arange(4)
    return (_positions(touched.reads, flags, instruction.predicate is not None),
            _positions(touched.writes, flags, bool(instruction.condition)))


def _positions(mask: int, flags: np.ndarray, with_flags: bool) -> np.ndarray:
    raw = mask.to_bytes(-(-mask.bit_length() // 8), "little")
    found = np.flatnonzero(np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little"))
    return np.append(found, flags) if with_flags else found


def _is_same(one: Any, two: Any) -> bool:
    """True if two steps send the channels to the same places."""
    if not isinstance(one, list) or not isinstance(two, list):
        return type(one) is type(two)
    places = [{pc: channels for pc, channels in each if channels.any()} for each in (one, two)]
    return places[0].keys() == places[1].keys() and all(
        np.array_equal(channels, places[1][pc]) for pc, channels in places[0].items())


def _name(instruction: Instruction) -> str:
    """The name of an instruction; a message without data and result is a prefetch or a signal."""
    target, data = instruction.destination, instruction.sources[1:2]
    is_silent = instruction.op.startswith("send") and target is not None and target.is_null and (
        data[0].is_null)
    return f"{instruction.name} without data or result" if is_silent else instruction.name
