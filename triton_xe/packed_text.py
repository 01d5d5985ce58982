"""Compress texts to strings for SPIR-V modules: UTF-8 without zero bytes.

A text is compressed by zlib, and each character of the string has seven of the compressed bits.
Texts of a small kernel have few repetitions, so zlib gets a sample of such texts as its dictionary.
The sample is part of the format: a module that was packed with another sample is unreadable.

The names `%v1`, `%v2` ... of LLVM IR are first replaced by distances from the last definition, so
that equal instructions have equal texts.  This halves what zlib makes of LLVM IR.
"""

from __future__ import annotations

import base64
import re
import zlib
from functools import cache
from pathlib import Path

EFFORT = 6
"""Level of zlib: 2 takes a third of the time, half a millisecond less, for texts a fifth longer."""
SEVEN_BITS, DISTANCES = "\x01", "\x02"
"""First character of a string, without and with distances; older modules have base64 without it."""
USE, DEFINITION = "\x02", "\x03"
"""Marks of a distance back to a definition, and of one from the definition before."""
_NAME = re.compile("%v(0|[1-9][0-9]{0,8})(?![0-9])")
_DISTANCE = re.compile(f"([{USE}{DEFINITION}])(-?[0-9]*)")
_DEFINES = " = "
_DIGITS = [f"{number:07b}" for number in range(128)]
_CHARACTERS = dict(zip(_DIGITS, ["\x80", *map(chr, range(1, 128))], strict=True))
_DIGITS_OF = {ord(character): digits for digits, character in _CHARACTERS.items()}


def pack(text: str) -> str:
    """Compress a text to a string."""
    plain = USE in text or DEFINITION in text
    writer = zlib.compressobj(EFFORT, zdict=_sample(plain))
    whole = text if plain else with_distances(text)
    data = b"\1" + writer.compress(whole.encode()) + writer.flush()  # 1 preserves leading zeros
    digits = f"{int.from_bytes(data):b}"
    digits = "0" * (-len(digits) % 7) + digits
    return (SEVEN_BITS if plain else DISTANCES) + "".join(
        [_CHARACTERS[digits[i : i + 7]] for i in range(0, len(digits), 7)])


def unpack(packed: str) -> str:
    """Decompress the text of a string."""
    plain = not packed.startswith(DISTANCES)
    reader = zlib.decompressobj(zdict=_sample(plain))
    text = (reader.decompress(_compressed(packed)) + reader.flush()).decode()
    return text if plain else with_names(text)


def with_distances(text: str) -> str:
    """A text with distances in place of the names of values.

    >>> with_distances("%v4 = add i32 %v3, %a0").translate({2: "use ", 3: "definition "})
    'definition 4 = add i32 use 1, %a0'
    """
    first, *parts = _NAME.split(text)
    last, found = 0, [first]
    for name, after in zip(map(int, parts[::2]), parts[1::2], strict=True):
        if after.startswith(_DEFINES):
            step, last = name - last, name
            found += (DEFINITION if step == 1 else f"{DEFINITION}{step}", after)
        else:
            found += (f"{USE}{last - name}", after)
    return "".join(found)


def with_names(text: str) -> str:
    """A text with the names of values in place of distances."""
    first, *parts = _DISTANCE.split(text)
    last, found = 0, [first]
    for mark, distance, after in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if mark == USE:
            found += (f"%v{last - int(distance)}", after)
        else:
            last += int(distance or 1)
            found += (f"%v{last}", after)
    return "".join(found)


def _compressed(packed: str) -> bytes:
    if not packed.startswith((SEVEN_BITS, DISTANCES)):
        return base64.b64decode(packed, validate=True)
    number = int(packed[1:].translate(_DIGITS_OF), 2)
    return number.to_bytes(number.bit_length() // 8 + 1)[1:]


@cache
def _sample(plain: bool) -> bytes:
    """Source and LLVM IR of a kernel that sums rows."""
    text = Path(__file__).with_name("sample_texts.txt").read_text()
    return (text if plain else with_distances(text)).encode()
