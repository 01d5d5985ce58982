"""Read symbols and sizes of an object file (64-bit ELF, little-endian), without LLVM.

LLVM's own reader takes a call per section and query, each as expensive as all of this. Layout:
System V ABI, chapter 4 (`Elf64_Ehdr`, `Elf64_Shdr`, `Elf64_Sym`).
"""

from __future__ import annotations

import mmap
import struct
from typing import NamedTuple

_MAGIC = b"\x7fELF\x02\x01"
_SECTIONS_AT = struct.Struct("<Q")
_SECTION_COUNT = struct.Struct("<H")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOLS, _ALLOCATED = 2, 2
"""`SHT_SYMTAB` and `SHF_ALLOC`."""


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int

    def of(self, data: bytes) -> bytes:
        return data[self.offset : self.offset + self.size]


def _sections(data: bytes) -> list[_Section]:
    """The section headers; None for other formats."""
    if not data.startswith(_MAGIC):
        return []
    at, = _SECTIONS_AT.unpack_from(data, 40)
    count, = _SECTION_COUNT.unpack_from(data, 60)
    return [_Section(*_SECTION.unpack_from(data, at + k * _SECTION.size)) for k in range(count)]


def undefined_names(data: bytes) -> list[str]:
    """Names that an object refers to and does not define; [] for other formats."""
    sections = _sections(data)
    for section in sections:
        if section.type == _SYMBOLS:
            names = sections[section.link].of(data)
            found = [at for at, _, _, defined, _, _ in _SYMBOL.iter_unpack(section.of(data))
                     if at and not defined]
            return [names[at : names.index(b"\0", at)].decode() for at in found]
    return []


def bytes_in_memory(data: bytes) -> int:
    """Upper bound of the bytes of a loaded object, with each section on pages of its own."""
    sizes = [section.size for section in _sections(data) if section.flags & _ALLOCATED]
    return sum(sizes or [len(data)]) + 2 * mmap.PAGESIZE * max(1, len(sizes))
