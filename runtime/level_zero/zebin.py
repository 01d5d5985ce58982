"""Native Intel GPU binaries ("zebin"): an ELF file whose `.ze_info` section describes its kernels.

Format: ELF64 little endian, machine 205 (Intel GT).  `.ze_info` is YAML written by Intel's graphics
compiler in a fixed block style, and only the keys of `KernelFacts` are read from it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from triton_xe.errors import DeviceError

MACHINE_INTEL_GT = 205
_SENDGX = (0x35, 0x36)
"""Opcodes of the messages of Xe3P whose registers have numbers of nine bits."""
SOURCE = 9
"""Byte of such a message with the lower eight bits of the number of its address register."""
_ADDRESS, _NOTHING = 510, 511
_UNDEFINED_SECTION = 0
_PATCHED_BY_THE_DRIVER = "__INTEL_"


@dataclass(frozen=True)
class KernelFacts:
    """Intel's compiler's facts about one kernel; sizes in bytes, spill and private per thread."""

    name: str
    grf_count: int = 128
    simd_size: int = 0
    spill_size: int = 0
    private_size: int = 0
    slm_size: int = 0
    barrier_count: int = 0
    eu_thread_count: int = 0
    has_dpas: bool = False
    has_stack_calls: bool = False


_KEYS = {f.name: f.type for f in fields(KernelFacts) if f.name != "name"}


def sections(binary: bytes) -> dict[str, bytes]:
    """The sections by name; `DeviceError` if the bytes are no complete ELF64 file."""
    if len(binary) < 64 or binary[:6] != b"\x7fELF\x02\x01":
        raise DeviceError("not a native Intel GPU binary: no 64-bit ELF header")
    (table,) = struct.unpack_from("<Q", binary, 40)
    entry_size, count, names_index = struct.unpack_from("<HHH", binary, 58)
    try:
        headers = [
            struct.unpack_from("<IIQQQQ", binary, table + i * entry_size) for i in range(count)
        ]
        names = _content(binary, headers[names_index])
        return {_text_at(names, h[0]): _content(binary, h) for h in headers}
    except (struct.error, IndexError) as error:
        raise DeviceError(f"damaged native Intel GPU binary: {error}") from error


def is_zebin(binary: bytes) -> bool:
    """True if the bytes begin like a native binary for an Intel GPU."""
    if len(binary) < 64 or binary[:4] != b"\x7fELF":
        return False
    (machine,) = struct.unpack_from("<H", binary, 18)
    return bool(machine == MACHINE_INTEL_GT)


def ze_info(binary: bytes) -> str:
    """The `.ze_info` text of a native binary."""
    text = sections(binary).get(".ze_info")
    if text is None:
        raise DeviceError("damaged native Intel GPU binary: it has no .ze_info section")
    return text.decode()


def kernel_facts(binary: bytes) -> dict[str, KernelFacts]:
    """Facts of every kernel in a native binary, by kernel name."""
    return parse_ze_info(ze_info(binary))


def parse_ze_info(text: str) -> dict[str, KernelFacts]:
    """`KernelFacts` of each kernel described by `.ze_info` text, by kernel name."""
    found: dict[str, KernelFacts] = {}
    for block in re.split(r"^  - name:", _kernels_part(text), flags=re.MULTILINE)[1:]:
        name = block.split("\n", 1)[0].strip().strip("'\"")
        values = re.findall(r"^\s+(\w+):[ \t]*(\d+|true|false)[ \t]*$", block, re.MULTILINE)
        known: dict[str, Any] = {k: _number(value) for k, value in values if k in _KEYS}
        if name != "Intel_Symbol_Table_Void_Program":
            found[name] = KernelFacts(name, **known)
    return found


def undefined_symbols(binary: bytes) -> tuple[str, ...]:
    """Names that code of the binary refers to but no symbol defines.

    Intel's compiler accepts a call to an unknown function; running it is undefined.  Names starting
    with `__INTEL_` are relocations that the driver fills in, and are left out.
    """
    parts = sections(binary)
    symbols, names = parts.get(".symtab", b""), parts.get(".strtab", b"")
    found = []
    for offset in range(0, len(symbols) - 23, 24):
        name_at, _, _, section = struct.unpack_from("<IBBH", symbols, offset)
        name = _text_at(names, name_at)
        if section == _UNDEFINED_SECTION and name and not name.startswith(_PATCHED_BY_THE_DRIVER):
            found.append(name)
    return tuple(sorted(found))


def loses_stores(binary: bytes) -> bool:
    """True if a message with addresses in r510 names data, and says that they have no registers.

    Intel's compiler 2.40 writes such stores (docs/reports/intel-compiler.md).
    """
    texts = [code for name, code in sections(binary).items() if name.startswith(".text.")]
    return any(code[at + 12] >> 3 == 0 and (code[at + 12] & 4) << 6 | code[at + 13] != _NOTHING
               for code in texts for at in sends_from_r510(code))


def sends_from_r510(code: bytes) -> Iterator[int]:
    """Positions of the messages of Xe3P with addresses in r510."""
    at = 0
    while at + 8 <= len(code):
        is_short = bool(code[at + 3] & 0x20)
        if not is_short and code[at] & 0x7F in _SENDGX and at + 16 <= len(code) and (
                (code[at + 8] & 4) << 6 | code[at + SOURCE]) == _ADDRESS:
            yield at
        at += 8 if is_short else 16


def _kernels_part(text: str) -> str:
    match = re.search(r"^kernels:\s*$(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


def _number(text: str) -> int | bool:
    return text == "true" if text in ("true", "false") else int(text)


def _content(binary: bytes, header: tuple[int, ...]) -> bytes:
    no_bits = 8
    _, kind, _, _, offset, size = header
    if kind in (0, no_bits):
        return b""
    if offset + size > len(binary):
        raise DeviceError("damaged native Intel GPU binary: a section ends beyond the file")
    return binary[offset : offset + size]


def _text_at(names: bytes, offset: int) -> str:
    end = names.find(b"\0", offset)
    return names[offset : end if end >= 0 else None].decode(errors="replace")
