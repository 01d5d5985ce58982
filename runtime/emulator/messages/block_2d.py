"""2D block messages: rectangles of a surface between memory and registers.

Payload and layout: IGC, documentation/visa/instructions/LSC_UNTYPED.md, "2d block"; the rules of
surfaces are those of `triton_xe.hardware.block_2d`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from triton_xe.hardware.block_2d import (
    MIN_SURFACE_BYTES,
    OFFSET_BYTES,
    BlockShape,
    alignment,
    check_load,
    check_prefetch,
    check_store,
)
from triton_xe.runtime.emulator.channels import Running, execution_mask
from triton_xe.runtime.emulator.memory import Place, fault
from triton_xe.runtime.emulator.messages.lsc import Lsc, field
from triton_xe.runtime.emulator.registers import (
    STAGING,
    UNSIGNED,
    Array,
    Bools,
    Threads,
)

Step = Callable[[Threads, Running], Any]
_XE2 = (20,)
_PITCH_MULTIPLE_XE_HPC = 8
"""oneDNN's kernels for Xe-HPC use pitches of any multiple of 8 bytes."""
_GLOBAL = Place()


_MOST_REGISTERS = 31
"""Largest number in the field of response lengths; it also means 32."""
_PREFETCH_PITCH_MULTIPLE = 4
"""oneDNN's kernels for Xe-HPC prefetch from surfaces of any multiple of 4 bytes."""


def _power_of_2(value: int) -> int:
    return 1 << (value - 1).bit_length()


@dataclass(frozen=True)
class Block:
    """The shape of a message: `count` rectangles side by side of `width` elements by `height`."""

    element_bytes: int
    width: int
    height: int
    count: int

    def stored_bytes(self, rows: int, columns: int, grf_bytes: int) -> int:
        """Bytes of one rectangle in registers: rows padded to powers of 2, in whole registers."""
        size = rows * _power_of_2(columns) * self.element_bytes
        return -(-size // grf_bytes) * grf_bytes


@dataclass(frozen=True)
class Surface:
    """The surface and position of each thread's message; widths and pitches in bytes."""

    base: Array
    width: Array
    height: Array
    pitch: Array
    x: Array
    y: Array
    shape: Array

    def rows(self, chosen: Array) -> Surface:
        """The entries of some threads."""
        return Surface(*(value[chosen] for value in vars(self).values()))


def block_2d(message: Lsc) -> Step:
    """The function that executes a 2D block load, store or prefetch."""
    mask = execution_mask(message.instruction)
    move = _move(message)
    needed = alignment(message.device)
    multiple = needed.pitch if message.device.ip_version >= _XE2 else _PITCH_MULTIPLE_XE_HPC
    multiple = _PREFETCH_PITCH_MULTIPLE if move is _prefetch else multiple

    def run(threads: Threads, running: Running) -> None:
        chosen = mask(threads, running)
        active = np.ones(threads.count, bool) if chosen is None else chosen[:, 0]
        surface = _surface(message, threads)
        for shape in np.unique(surface.shape[active]):
            rows = np.flatnonzero(active & (surface.shape == shape))
            part = surface.rows(rows)
            _check(part, needed.base, multiple)
            block = _block(message, int(shape))
            _check_registers(message, block)
            for sentence in _findings(message, part, block):
                threads.memories.findings[threads.memories.pc, sentence] += 1
            move(threads, rows, part, block)

    return run


def _block(message: Lsc, shape: int) -> Block:
    return Block(message.memory_bytes, (shape & 255) + 1, (shape >> 8 & 255) + 1,
                 (shape >> 16 & 255) + 1)


def _surface(message: Lsc, threads: Threads) -> Surface:
    """One register: u64 base, width - 1, height - 1, pitch - 1, x, y and the shape."""
    first = message.address_at // 4
    words = threads.views[np.uint32][:, first : first + 8].astype(np.int64)
    signed = threads.views[np.int32][:, first + 5 : first + 7].astype(np.int64)
    offsets = message.instruction.sources[0].offset
    x, y = offsets if len(offsets) == 2 else (0, 0)
    return Surface(words[:, 0] | words[:, 1] << 32, words[:, 2] + 1, words[:, 3] + 1,
                   words[:, 4] + 1, signed[:, 0] + x, signed[:, 1] + y, words[:, 7])


def _check(surface: Surface, alignment: int, pitch_multiple: int) -> None:
    """Raise a fault for surfaces that no device takes; `_findings` has the narrower rules."""
    broken = {
        f"the base is not aligned to {alignment} bytes": surface.base % alignment != 0,
        f"the pitch is no multiple of {pitch_multiple} bytes": surface.pitch % pitch_multiple != 0,
        "the pitch is less than the width": surface.pitch < surface.width,
    }
    for sentence, wrong in broken.items():
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise fault("block 2D", (
                f"a 2D block message breaks a rule: {sentence} (base {int(surface.base[at]):#x}, "
                f"width {surface.width[at]}, height {surface.height[at]}, pitch "
                f"{surface.pitch[at]} bytes)"))


def _check_registers(message: Lsc, block: Block) -> None:
    """Raise a fault if a block does not fit the registers, or the descriptor has another length."""
    position = message.result_at if message.data_at is None else message.data_at
    if position is None:
        return
    rows, columns = block.height, block.width
    rows, columns = (columns, rows) if message.is_transposed else (rows, columns)
    size = block.count * block.stored_bytes(rows, columns, message.grf_bytes)
    gathered = position >= STAGING  # already together, see `messages.send`
    if not gathered and position + size > message.registers * message.grf_bytes:
        raise fault("payload", f"a 2D block of {size} bytes does not fit into the registers from "
                               f"r{position // message.grf_bytes} on")
    if message.data_at is None and not message.names_results:
        return
    data = message.instruction.sources[1].registers
    given = field(message.descriptor, "response") if message.data_at is None else data
    if min(given, _MOST_REGISTERS) != min(size // message.grf_bytes, _MOST_REGISTERS):
        raise fault("payload", f"{message.operation} has {given} registers, but its block takes "
                               f"{size // message.grf_bytes}")


def _findings(message: Lsc, surface: Surface, block: Block) -> Iterator[str]:
    """List the hardware rules that a message breaks but other software relies on."""
    reason = _shape_reason(message, block)
    if reason is not None:
        yield reason
    if (surface.width < MIN_SURFACE_BYTES).any():
        yield f"the width is less than {MIN_SURFACE_BYTES} bytes"
    if (surface.width % OFFSET_BYTES).any():
        yield f"the width is no multiple of {OFFSET_BYTES} bytes"
    if (surface.x * block.element_bytes % OFFSET_BYTES).any():
        yield f"x is no multiple of {OFFSET_BYTES} bytes"


_CHECKS = {"load": check_load, "store": check_store, "prefetch": check_prefetch}


@cache
def _shape_reason(message: Lsc, block: Block) -> str | None:
    """Reason why the device takes no block of this shape; None if it takes it."""
    kind = "store" if message.operation == "store_block2d" else (
        "prefetch" if message.result_at is None else "load")
    is_load = kind == "load"
    shape = BlockShape(
        8 * block.element_bytes, block.width, block.height, block.count,
        is_load and message.is_transposed,
        is_load and bool(field(message.descriptor, "vnni")))
    return _CHECKS[kind](shape, message.device)


Move = Callable[[Threads, Array, Surface, Block], None]


def _move(message: Lsc) -> Move:
    if message.operation == "store_block2d":
        return _store(message)
    if message.result_at is None:
        return _prefetch
    return _load(message)


def _prefetch(threads: Threads, rows: Array, surface: Surface, block: Block) -> None:
    memories, inside = threads.memories, _inside(surface, block)
    memories.bytes_moved[memories.pc] += int(np.count_nonzero(inside)) * block.element_bytes
    if memories.lines is not None:
        memories.lines.prefetch(memories.pc, _addresses(surface, block)[inside])


def _elements(surface: Surface, block: Block) -> tuple[Array, Array]:
    """Columns (threads, blocks, 1, width) and rows (threads, 1, height, 1) of the elements."""
    across = np.arange(block.count)[:, None] * block.width + np.arange(block.width)
    columns = surface.x[:, None, None] + across
    rows = surface.y[:, None] + np.arange(block.height)
    return columns[:, :, None, :], rows[:, None, :, None]


def _inside(surface: Surface, block: Block) -> Bools:
    """True for elements in the surface."""
    columns, rows = _elements(surface, block)
    width, height = (v[:, None, None, None] for v in (surface.width, surface.height))
    return ((columns >= 0) & ((columns + 1) * block.element_bytes <= width)
            & (rows >= 0) & (rows < height))


def _addresses(surface: Surface, block: Block) -> Array:
    columns, rows = _elements(surface, block)
    pitch, base = (v[:, None, None, None] for v in (surface.pitch, surface.base))
    return base + rows * pitch + columns * block.element_bytes


def _is_all_inside(surface: Surface, block: Block) -> bool:
    right = (surface.x + block.count * block.width) * block.element_bytes
    return bool(((surface.x >= 0) & (right <= surface.width) & (surface.y >= 0)
                 & (surface.y + block.height <= surface.height)).all())


def _read(threads: Threads, surface: Surface, block: Block) -> Array:
    """Elements (threads, blocks, height, width); zeros outside of the surface."""
    dtype = UNSIGNED[block.element_bytes]
    if not _is_all_inside(surface, block):
        return threads.memories.read(
            _GLOBAL, _addresses(surface, block), _inside(surface, block), dtype)
    return _read_words(threads, surface, block).view(dtype)


def _read_words(threads: Threads, surface: Surface, block: Block) -> Array:
    """Whole rows, in the widest words that divide a row and its address."""
    row_bytes = block.width * block.element_bytes
    first = surface.x * block.element_bytes
    unit = next(u for u in (8, 4, 2, 1) if row_bytes % u == 0 and not (first % u).any())
    unit = max(unit, block.element_bytes)
    steps = np.arange(0, row_bytes, unit)
    starts = ((surface.base + first)[:, None, None]
              + np.arange(block.count)[:, None] * row_bytes
              + (surface.y[:, None] + np.arange(block.height))[:, None, :]
              * surface.pitch[:, None, None])
    return threads.memories.read(_GLOBAL, starts[..., None] + steps, None, UNSIGNED[unit])


def _packed(values: Array, block: Block) -> Array:
    """VNNI: elements of 32 bits / size consecutive rows side by side."""
    together = 4 // block.element_bytes
    count, blocks, height, width = values.shape
    rows = -(-height // together)
    padded = np.zeros((count, blocks, rows * together, width), values.dtype)
    padded[:, :, :height] = values
    parts = padded.reshape(count, blocks, rows, together, width)
    return parts.swapaxes(3, 4).reshape(count, blocks, rows, width * together)


def _load(message: Lsc) -> Move:
    """Compile the move of blocks from memory to registers."""
    position, grf_bytes = message.result_at or 0, message.grf_bytes
    transposes, packs = message.is_transposed, bool(field(message.descriptor, "vnni"))

    def load(threads: Threads, rows: Array, surface: Surface, block: Block) -> None:
        values = _read(threads, surface, block)
        if transposes:
            values = values.swapaxes(2, 3)
        elif packs:
            values = _packed(values, block)
        image = _image(values, block, grf_bytes)
        size = block.element_bytes
        part = slice(position // size, position // size + image.shape[1])
        view = threads.views[UNSIGNED[size]]
        if len(rows) == threads.count:
            view[:, part] = image
        else:
            view[rows, part] = image

    return load


def _image(values: Array, block: Block, grf_bytes: int) -> Array:
    """Rectangles as they are in registers, (threads, elements)."""
    count, blocks, rows, columns = values.shape
    padded = _power_of_2(columns)
    stored = block.stored_bytes(rows, columns, grf_bytes) // block.element_bytes
    if rows * columns == stored:
        return values.reshape(count, blocks * stored)
    image = np.zeros((count, blocks, stored), values.dtype)
    image[:, :, : rows * padded].reshape(count, blocks, rows, padded)[..., :columns] = values
    return image.reshape(count, blocks * stored)


def _store(message: Lsc) -> Move:
    """Compile the move of blocks from registers to memory."""
    position, grf_bytes = message.data_at or 0, message.grf_bytes

    def store(threads: Threads, rows: Array, surface: Surface, block: Block) -> None:
        size, padded = block.element_bytes, _power_of_2(block.width)
        stored = block.stored_bytes(block.height, block.width, grf_bytes) // size
        first = position // size
        image = threads.views[UNSIGNED[size]][rows, first : first + block.count * stored]
        parts = image.reshape(len(rows), block.count, stored)[:, :, : block.height * padded]
        values = parts.reshape(len(rows), block.count, block.height, padded)[..., : block.width]
        threads.memories.write(
            _GLOBAL, _addresses(surface, block), _inside(surface, block), values)

    return store
