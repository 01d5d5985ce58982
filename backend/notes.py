"""Short texts that travel inside a SPIR-V module.

Triton hands `load_binary` the module and nothing else of the metadata, so what the runtime must
know to build it, the build flags, is written into the module: an `OpModuleProcessed` string right
before the annotations (SPIR-V specification 1.6, section 2.4), which consumers ignore.
"""

from __future__ import annotations

import struct

from triton_xe.spirv import OP_MODULE_PROCESSED, instructions

BUILD_FLAGS = "triton-xe build-flags "


def attach(binary: bytes, mark: str, text: str) -> bytes:
    """The same module with `text` inside; unchanged when `text` is empty.

    >>> attach(b"", BUILD_FLAGS, "")
    b''
    """
    if not text:
        return binary
    at = next(start for opcode, start, _ in instructions(binary) if opcode == OP_MODULE_PROCESSED)
    data = (mark + text).encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    word = ((1 + len(data) // 4) << 16) | OP_MODULE_PROCESSED
    return binary[:at] + struct.pack("<I", word) + data + binary[at:]


def attached(binary: bytes, mark: str) -> str:
    """The text attached under `mark`; empty when there is none."""
    if mark.encode() not in binary:
        return ""
    for opcode, start, length in instructions(binary):
        if opcode == OP_MODULE_PROCESSED:
            text = binary[start + 4 : start + length].rstrip(b"\0").decode()
            if text.startswith(mark):
                return text.removeprefix(mark)
    return ""
