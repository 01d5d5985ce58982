"""Which channels an instruction runs in: branches, predicates, and the flags that it sets.

Source: Intel PRM, volume "3D and GPGPU Programs", "Predication" and "Conditional Modifiers".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.registers import CHANNELS, FLAGS, Array, Bools, Threads


class Running:
    """The channels (threads, 32) that have reached an instruction."""

    __slots__ = ("channels", "every_thread", "threads", "whole")

    def __init__(self, channels: Bools, enabled: Bools) -> None:
        self.channels = channels
        self.threads: Bools = np.asarray(channels.any(1))
        self.every_thread = bool(self.threads.all())
        self.whole = bool((channels == enabled).all())
        """True if every enabled channel of every thread runs, and no other one."""


Mask = Callable[[Threads, Running], "Bools | None"]
Predicate = Callable[[Threads], Bools]


def execution_mask(instruction: Instruction, *, predicated: bool = True) -> Mask:
    """The channels that an instruction writes, (threads, channels or 1); None means all."""
    first, width = instruction.first_channel, instruction.width
    chosen = predicate(instruction) if predicated and instruction.predicate is not None else None
    no_mask = instruction.no_mask

    def reached(running: Running) -> Bools | None:
        if no_mask:
            return None if running.every_thread else running.threads[:, None]
        return running.channels[:, first : first + width]

    def mask(threads: Threads, running: Running) -> Bools | None:
        channels = reached(running)
        if chosen is None:
            return None if channels is None or channels.all() else channels
        bits = chosen(threads)
        return bits if channels is None else bits & channels

    return mask


def _flag_word(instruction: Instruction) -> int:
    return FLAGS + instruction.flag[0]


def predicate(instruction: Instruction) -> Predicate:
    """The predicate's value in each channel, inverted if the instruction says so."""
    word, width = _flag_word(instruction), instruction.width
    bit = instruction.flag[1] * 16 + instruction.first_channel
    shifts = (bit + np.arange(width)).astype(np.uint32)
    combine = _combination(instruction, bit)
    inverted = instruction.inverted

    def value(threads: Threads) -> Bools:
        bits = threads.views[np.uint32][:, word : word + 1]
        found: Bools = (bits >> shifts & np.uint32(1)).astype(bool)
        if combine is not None:
            found = combine(found, bits)
        return ~found if inverted else found

    return value


def _combination(
    instruction: Instruction, bit: int
) -> Callable[[Bools, Array], Bools] | None:
    """How a horizontal predicate combines the bits of its group of channels."""
    form, width = instruction.predicate or "", instruction.width
    if not form:
        return None
    if form in ("any", "all"):
        reduce = np.any if form == "any" else np.all
        return lambda found, _: np.broadcast_to(
            reduce(found, axis=1, keepdims=True), found.shape)
    match = re.fullmatch(r"(any|all)(\d+)h", form)
    if match is None:
        raise UnsupportedError(f"predicate form .{form} has no definition here")
    reduce, group = (np.any if match[1] == "any" else np.all), min(int(match[2]), CHANNELS)

    def grouped(_: Bools, word: Array) -> Bools:
        every = (word >> np.arange(CHANNELS, dtype=np.uint32) & np.uint32(1)).astype(bool)
        parts = reduce(every.reshape(len(word), -1, group), axis=2)
        return np.repeat(parts, group, axis=1)[:, bit : bit + width]

    return grouped


CONDITIONS: Mapping[str, Callable[[Array, Array], Bools]] = {
    "eq": lambda a, b: a == b, "ze": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "nz": lambda a, b: a != b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "un": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip


def condition(name: str) -> Callable[[Array, Array], Bools]:
    """The comparison of a condition modifier."""
    if name not in CONDITIONS:
        raise UnsupportedError(f"condition .{name} has no definition here")
    return CONDITIONS[name]


def set_flags(instruction: Instruction) -> Callable[[Threads, Bools, Bools | None], None]:
    """A function that stores one bit for each channel; bits of channels that are off remain."""
    word, width = _flag_word(instruction), instruction.width
    bit = instruction.flag[1] * 16 + instruction.first_channel
    weights = (1 << (bit + np.arange(width, dtype=np.uint64))).astype(np.uint32)
    everything = np.uint32(((1 << width) - 1) << bit & 0xFFFFFFFF)

    def packed(bits: Bools, count: int) -> Array:
        return np.broadcast_to(bits, (count, width)) @ weights

    def store(threads: Threads, bits: Bools, mask: Bools | None) -> None:
        flags = threads.views[np.uint32][:, word]
        chosen = everything if mask is None else packed(mask, threads.count)
        flags[:] = flags & ~chosen | packed(bits, threads.count) & chosen

    return store
