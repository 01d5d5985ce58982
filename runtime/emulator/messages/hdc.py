"""Messages of the data port before LSC (`send.dc0`), for scratch and arguments of Xe-HPG and HPC.

Source: IGC, visa/iga/IGALibrary/Backend/Messages/MessageDecoderHDC.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator.channels import Running, execution_mask
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.memory import Place
from triton_xe.runtime.emulator.registers import Array, Bools, Threads

Step = Callable[[Threads, Running], Any]
_HALF_WORD_BLOCK = 32
_SCRATCH_BIT, _WRITE_BIT, _CHANNEL_MODE_BIT = 18, 17, 16
_XE_HPG_REGISTER = 32
"""Bytes of a register on devices before Xe-HPC."""
_ALIGNED_READ = 1
_BLOCK_BYTES = {0: 16, 1: 16, 2: 32, 3: 64, 4: 128}
_STATELESS = (253, 255)


def is_scratch_block(descriptor: int) -> bool:
    """True for a block of the thread's scratch memory."""
    return bool(descriptor >> _SCRATCH_BIT & 1)


def hdc(instruction: Instruction, descriptor: int, grf_bytes: int) -> Step:
    """The function that executes a `send.dc0`."""
    if is_scratch_block(descriptor):
        return _scratch(instruction, descriptor, grf_bytes)
    if descriptor >> 14 & 31 == _ALIGNED_READ and descriptor & 255 in _STATELESS:
        return _block_read(instruction, descriptor, grf_bytes)
    raise UnsupportedError(f"message send.dc0 {descriptor:#x} has no definition here")


def _scratch(instruction: Instruction, descriptor: int, grf_bytes: int) -> Step:
    """Blocks of 32 bytes of the thread's scratch memory, at an offset in the descriptor.

    They are moved whole if the thread runs, with one exception.  Before Xe-HPC, in mode 1, a
    channel that is not enabled keeps its dword in memory (IGC, visa/HWCaps.inc:
    `hasMaskForScratchMsg`).
    """
    size = _HALF_WORD_BLOCK << (descriptor >> 12 & 3)
    writes = bool(descriptor >> _WRITE_BIT & 1)
    if writes and grf_bytes == _XE_HPG_REGISTER and not instruction.no_mask:
        return _masked_write(instruction, descriptor, size, grf_bytes)
    offsets = np.arange(size // 8) * 8 + (descriptor & 0xFFF) * _HALF_WORD_BLOCK
    operand = instruction.sources[1] if writes else instruction.destination
    assert operand is not None
    first = operand.number * grf_bytes // 8
    part = slice(first, first + size // 8)

    def run(threads: Threads, running: Running) -> None:
        memories = threads.memories
        chosen: Bools | None = None if running.every_thread else np.broadcast_to(
            running.threads[:, None], (threads.count, len(offsets)))
        place = Place(memories.scratch, threads.numbers)
        at = np.broadcast_to(offsets, (threads.count, len(offsets)))
        registers = threads.views[np.uint64][:, part]
        if writes:
            memories.write(place, at, chosen, registers)
            return
        values = memories.read(place, at, chosen, np.uint64)
        np.copyto(registers, values, where=True if chosen is None else chosen)

    return run


def _masked_write(instruction: Instruction, descriptor: int, size: int, grf_bytes: int) -> Step:
    """Write a block to scratch memory, one dword for each enabled channel."""
    if not descriptor >> _CHANNEL_MODE_BIT & 1 or size != 4 * instruction.width:
        raise UnsupportedError(
            f"a masked write of scratch memory, send.dc0 {descriptor:#x} of {instruction.width} "
            f"channels, has no definition here")
    offsets = np.arange(0, size, 4) + (descriptor & 0xFFF) * _HALF_WORD_BLOCK
    first = instruction.sources[1].number * grf_bytes // 4
    mask = execution_mask(instruction)

    def run(threads: Threads, running: Running) -> None:
        threads.memories.write(
            Place(threads.memories.scratch, threads.numbers),
            np.broadcast_to(offsets, (threads.count, len(offsets))), mask(threads, running),
            threads.views[np.uint32][:, first : first + len(offsets)])

    return run


def _block_read(instruction: Instruction, descriptor: int, grf_bytes: int) -> Step:
    """Aligned block of 16 to 128 bytes, at general state base plus dword 2 of the header."""
    size = _BLOCK_BYTES[descriptor >> 8 & 7]
    header = instruction.sources[0].number * grf_bytes // 4 + 2
    target = instruction.destination
    assert target is not None
    first = target.number * grf_bytes // 4
    mask = execution_mask(instruction)

    def run(threads: Threads, running: Running) -> None:
        memories = threads.memories
        start = threads.views[np.uint32][:, header : header + 1].astype(np.int64)
        at: Array = start + memories.general_state_base + np.arange(0, size, 4)
        found = mask(threads, running)
        chosen = None if found is None else np.broadcast_to(
            found.any(1, keepdims=True), at.shape)
        values = memories.read(Place(), at, chosen, np.uint32)
        np.copyto(threads.views[np.uint32][:, first : first + size // 4], values,
                  where=True if chosen is None else chosen)

    return run
