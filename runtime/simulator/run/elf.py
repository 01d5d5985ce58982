"""Read symbols and sizes of an object file (64-bit ELF, little-endian), without LLVM.

LLVM's own reader takes a call per section and query, each as expensive as all of this. Layout:
System V ABI, chapter 4 (`Elf64_Ehdr`, `Elf64_Shdr`, `Elf64_Sym`).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
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

    def content(self, data: bytes) -> bytes:
        """The section's bytes in a file."""
        return data[self.offset : self.offset + self.size]


def _sections(data: bytes) -> list[_Section]:
    """The section headers; empty for other formats."""
    if not data.startswith(_MAGIC):
        return []
    at, = _SECTIONS_AT.unpack_from(data, 40)
    count, = _SECTION_COUNT.unpack_from(data, 60)
    return [_Section(*_SECTION.unpack_from(data, at + k * _SECTION.size)) for k in range(count)]


def undefined_names(*objects: bytes) -> list[str]:
    """Names that objects refer to and none of them defines; [] for other formats."""
    names = [pair for data in objects for pair in _names(data)]
    defined = {name for name, is_defined in names if is_defined}
    return list(dict.fromkeys(name for name, _ in names if name not in defined))


def _names(data: bytes) -> Iterator[tuple[str, bool]]:
    """Names in the symbol table of an object; True for those that it defines."""
    sections = _sections(data)
    for section in sections:
        if section.type == _SYMBOLS:
            names = sections[section.link].content(data)
            for at, _, _, defined, _, _ in _SYMBOL.iter_unpack(section.content(data)):
                if at:
                    yield names[at : names.index(b"\0", at)].decode(), bool(defined)


def bytes_in_memory(data: bytes) -> int:
    """Upper bound of the bytes of a loaded object, with each section on pages of its own."""
    sizes = [section.size for section in _sections(data) if section.flags & _ALLOCATED]
    return sum(sizes or [len(data)]) + 2 * mmap.PAGESIZE * max(1, len(sizes))
