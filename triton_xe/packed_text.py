"""Compress texts to strings for SPIR-V modules: UTF-8 without zero bytes.

A text is compressed by zlib, and each character of the string has seven of the compressed bits.
Texts of a small kernel have few repetitions, so zlib gets a sample of such texts as its dictionary.
The sample is part of the format: a module that was packed with another sample is unreadable.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache
from pathlib import Path

EFFORT = 6
"""Level of zlib: 2 takes a third of the time, half a millisecond less, for texts a fifth longer."""
SEVEN_BITS = "\x01"
"""First character of a string; older modules have base64 without it."""
_DIGITS = [f"{number:07b}" for number in range(128)]
_CHARACTERS = dict(zip(_DIGITS, ["\x80", *map(chr, range(1, 128))], strict=True))
_DIGITS_OF = {ord(character): digits for digits, character in _CHARACTERS.items()}


def pack(text: str) -> str:
    """Compress a text to a string."""
    writer = zlib.compressobj(EFFORT, zdict=_sample())
    data = b"\1" + writer.compress(text.encode()) + writer.flush()  # 1 preserves leading zeros
    digits = f"{int.from_bytes(data):b}"
    digits = "0" * (-len(digits) % 7) + digits
    return SEVEN_BITS + "".join(
        [_CHARACTERS[digits[i : i + 7]] for i in range(0, len(digits), 7)])


def unpack(packed: str) -> str:
    """Decompress the text of a string."""
    reader = zlib.decompressobj(zdict=_sample())
    return (reader.decompress(_compressed(packed)) + reader.flush()).decode()


def _compressed(packed: str) -> bytes:
    if not packed.startswith(SEVEN_BITS):
        return base64.b64decode(packed, validate=True)
    number = int(packed[1:].translate(_DIGITS_OF), 2)
    return number.to_bytes(number.bit_length() // 8 + 1)[1:]


@cache
def _sample() -> bytes:
    """Source and LLVM IR of a kernel that sums rows."""
    return Path(__file__).with_name("sample_texts.txt").read_bytes()
