"""Parse the common arguments of `layout`, `plan` and `convert`: a layout and a tensor type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

from triton_xe.errors import LayoutError
from triton_xe.layout import Encoding, parse_encoding, read_aliases

_SIZE = re.compile(r"(\d+)x")
_ELEMENT = re.compile(r"!tt\.ptr<[^<>]*>|[A-Za-z]\w*")
_NUMBER = re.compile(r"[su]?i(\d+)|b?f(16)|f(32|64)|f([468])E\d+M\d+\w*")
_INDEX_BITS = _POINTER_BITS = 64
_TF32_BITS = 32


def read_encoding(text: str, file: Path | None) -> Encoding:
    """Parse the attribute `text`, with the aliases of `file`; `LayoutError` has the column."""
    return parse_encoding(text, read_aliases(file.read_text()) if file else {})


def parse_tensor_type(text: str) -> tuple[tuple[int, ...], int]:
    """Parse the shape and the bits per element; an encoding after the element type is ignored.

    >>> parse_tensor_type("tensor<256x32xf16>"), parse_tensor_type("tensor<8x!tt.ptr<f32>>")
    (((256, 32), 16), ((8,), 64))
    >>> parse_tensor_type("tensor<256x?xf16>")
    Traceback (most recent call last):
        ...
    triton_xe.errors.LayoutError: column 12: expected a size or an element type such as f16, bf16, \
i8 or f8E5M2, found '?xf16>'
    """
    start = len(text) - len(text.lstrip())
    if not text.startswith("tensor<", start):
        _fail(text, start, "a tensor type such as tensor<256x32xf16>")
    at = start + len("tensor<")
    shape: list[int] = []
    while size := _SIZE.match(text, at):
        shape.append(int(size[1]))
        at = size.end()
    if not shape:
        _fail(text, at, "a size such as 256x")
    element = _ELEMENT.match(text, at)
    bits = _element_bits(element[0]) if element else None
    if element is None or bits is None:
        _fail(text, at, "a size or an element type such as f16, bf16, i8 or f8E5M2")
    rest = text[element.end() :]
    if not re.fullmatch(r"\s*(?:,.*)?>\s*", rest, re.DOTALL):
        _fail(text, element.end(), "', encoding' or '>'")
    return tuple(shape), bits


def _element_bits(name: str) -> int | None:
    if name.startswith("!tt.ptr"):
        return _POINTER_BITS
    if name == "index":
        return _INDEX_BITS
    if name == "tf32":
        return _TF32_BITS
    number = _NUMBER.fullmatch(name)
    return int(number[number.lastindex or 0]) if number else None


def _fail(text: str, at: int, expected: str) -> NoReturn:
    found = repr(text[at:]) if text[at:].strip() else "the end"
    raise LayoutError(f"column {at + 1}: expected {expected}, found {found}")
