"""The copy engine's commands: copies and fills of memory, and of linear surfaces.

Source: Intel's compute runtime, `hw_cmds_generated_*_core.inl`.  MEM_COPY and MEM_SET exist since
Xe-HPC; the surface commands are those of Xe-HPG, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from triton_xe.runtime.emulator.kernel_driver.memory import AddressSpace, EmulatorFault

Words = Sequence[int]
Command = Callable[[AddressSpace, Words], None]
_PAGE_UNITS = 256
_PIXEL_BYTES = (1, 2, 4, 8, 12, 16)
"""By the code of a colour's depth."""


def _refuse(name: str, words: Words) -> EmulatorFault:
    return EmulatorFault(f"the emulated copy engine does not know this kind of {name} "
                         f"({words[0]:#010x}); please report it with the program that sent it")


def mem_copy(space: AddressSpace, words: Words) -> None:
    """Copy bytes, rows of bytes, or units of 256 bytes."""
    is_matrix, in_units = words[0] >> 17 & 3, words[0] >> 19 & 1
    if is_matrix > 1 or (in_units and is_matrix):
        raise _refuse("MEM_COPY", words)
    width = ((words[1] & 0xFFFFFF) + 1) * (_PAGE_UNITS if in_units else 1)
    source, target = _address(words, 5), _address(words, 7)
    source_pitch, target_pitch = ((word & 0x3FFFF) + 1 for word in words[3:5])
    for row in range((words[2] & 0x3FFFF) + 1 if is_matrix else 1):
        data = space.load(source + row * source_pitch, width)
        space.store(target + row * target_pitch, data)


def mem_set(space: AddressSpace, words: Words) -> None:
    """Fill bytes, or rows of bytes, with one byte."""
    is_matrix = words[0] >> 17 & 3
    if is_matrix > 1 or words[0] >> 19 & 3:
        raise _refuse("MEM_SET", words)
    width, pitch = (words[1] & 0xFFFFFF) + 1, (words[3] & 0x3FFFF) + 1
    for row in range((words[2] & 0x3FFFF) + 1 if is_matrix else 1):
        space.store(_address(words, 4) + row * pitch, bytes([words[6] >> 24]) * width)


@dataclass(frozen=True)
class _Surface:
    """A linear surface, by the words of a command that describe it."""

    address: int
    pitch: int
    pixel: int

    def row(self, x: int, y: int) -> int:
        return self.address + y * self.pitch + x * self.pixel


def _surface(name: str, words: Words, pitch: int, base: int) -> _Surface:
    """The surface with its pitch in one word and its address in others; tiled ones are refused."""
    if words[pitch] >> 30 or words[0] >> 9 & 31 or words[base + 2] & 0x3FFF3FFF:
        raise _refuse(name, words)
    depth = words[0] >> 19 & 7
    return _Surface(_address(words, base), (words[pitch] & 0x3FFFF) + 1, _PIXEL_BYTES[depth])


def block_copy(space: AddressSpace, words: Words) -> None:
    """Copy a rectangle from one surface to another."""
    name = "XY_BLOCK_COPY_BLT"
    target, source = _surface(name, words, 1, 4), _surface(name, words, 8, 9)
    left, top, right, bottom = _corners(words)
    x, y = words[7] & 0xFFFF, words[7] >> 16
    for row in range(bottom - top):
        data = space.load(source.row(x, y + row), (right - left) * source.pixel)
        space.store(target.row(left, top + row), data)


def color_fill(space: AddressSpace, words: Words) -> None:
    """Fill a rectangle with a pixel."""
    target = _surface("XY_FAST_COLOR_BLT", words, 1, 4)
    left, top, right, bottom = _corners(words)
    pixel = b"".join(word.to_bytes(4, "little") for word in words[7:11])[: target.pixel]
    for row in range(top, bottom):
        space.store(target.row(left, row), pixel * (right - left))


def _corners(words: Words) -> tuple[int, int, int, int]:
    return words[2] & 0xFFFF, words[2] >> 16, words[3] & 0xFFFF, words[3] >> 16


def _address(words: Words, first: int) -> int:
    return words[first] | words[first + 1] << 32


COMMANDS: Mapping[int, tuple[str, Command]] = {
    0x41: ("XY_BLOCK_COPY_BLT", block_copy), 0x44: ("XY_FAST_COLOR_BLT", color_fill),
    0x5A: ("MEM_COPY", mem_copy), 0x5B: ("MEM_SET", mem_set),
}
"""Code of a command -> its name and what it does."""
