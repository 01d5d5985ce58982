"""vISA for the functions that convert bytes to fp16 (`triton_xe.lowering.emit.maths.halves`).

Elements are consecutive, with 16 lanes each.  A register of 64 bytes has 32 fp16 values, those of
two elements: consecutive in `rows`, sharing dwords in `pairs`.  The operand is `bytes`, with
consecutive elements, or the four `dwords`, or two `words`, of a lane.

| from | first | then |
|---|---|---|
| s8 | integer 0x6480 + x, the bits of 1024 + 128 + x | minus 1152 |
| u8 | integer 0x6400 + x | minus 1024 |
| f8E5M2 | shifted by 8 bits | |
| f8E4M3FN | shifted by 7 bits, the sign in bits 15 and 14 | (see below) times 256 |
| e2m1 | shifted to the upper 4 bits | back by 3 with copies of the sign, then by one, times 2^14 |

Bit 14 of f8E4M3FN is in fp16's exponent and must be 0, but 1 for NaN, the largest magnitude.  The
next larger integer has the sign in that bit, but its inverse after NaN; xor with it gives the
desired bit.
"""

from __future__ import annotations

from typing import NamedTuple

from triton_xe.lowering.spirv import pairs_visa
from triton_xe.lowering.spirv.visa import function
from triton_xe.spirv import HALVES

_DECLARED = """.decl W v_type=G type=W num_elts=128 alias=<$0,0>
.decl U v_type=G type=UW num_elts=128 alias=<$0,0>
.decl H v_type=G type=HF num_elts=128 alias=<$0,0>
.decl T v_type=G type=UW num_elts=128 align=GRF
"""
_GIVEN = """.decl B{i} v_type=G type=B num_elts={size} alias=<${n},0>
.decl Z{i} v_type=G type=UB num_elts={size} alias=<${n},0>
"""


class _Conversion(NamedTuple):
    """Integer of type `into` for a byte of type `source`, and the instructions for each
    register.
    """

    first: str
    into: str
    source: str
    constant: str
    then: tuple[str, ...] = ()


_CONVERSIONS = {
    "s8": _Conversion("add", "W", "B", "0x6480:w", (
        "add (M1_NM, 32) H({r},0)<1> H({r},0)<1;1,0> 0xe480:hf",)),
    "u8": _Conversion("add", "U", "Z", "0x6400:uw", (
        "add (M1_NM, 32) H({r},0)<1> H({r},0)<1;1,0> 0xe400:hf",)),
    "f8E5M2": _Conversion("shl", "U", "Z", "0x8:uw"),
    "f8E4M3FN": _Conversion("shl", "W", "B", "0x7:w", (
        "add (M1_NM, 32) T({r},0)<1> U({r},0)<1;1,0> 0x80:uw",
        "bfn.x78 (M1_NM, 32) U({r},0)<1> 0x4000:uw T({r},0)<1;1,0> U({r},0)<1;1,0>",
        "mul (M1_NM, 32) H({r},0)<1> H({r},0)<1;1,0> 0x5c00:hf")),
}
_NIBBLE = ("asr (M1_NM, 32) W({r},0)<1> W({r},0)<1;1,0> 0x3:w",
           "and (M1_NM, 32) U({r},0)<1> U({r},0)<1;1,0> 0x8e00:uw",
           "mul (M1_NM, 32) H({r},0)<1> H({r},0)<1;1,0> 0x7400:hf")
_CONVERSIONS |= {
    "e2m1_low": _Conversion("shl", "W", "B", "0xc:w", _NIBBLE),
    "e2m1_high": _Conversion("shl", "W", "B", "0x8:w", _NIBBLE),
}
_RESULTS = {"rows": "<8 x half>", "pairs": "<4 x i32>"}
_ARGUMENTS = {"bytes": ("<16 x i8>",), "dwords": ("<4 x i32>",), "words": ("i32", "i32")}


def definition(symbol: str) -> str:
    """The definition of a function; its name says which it is."""
    return function(symbol, *_signature_and_body(symbol.removeprefix(HALVES)))


def _signature_and_body(name: str) -> tuple[str, tuple[str, ...], str]:
    """The types of a function's result and arguments, and its vISA."""
    kind, _, how = name.partition(".")
    if kind not in _CONVERSIONS:
        return (pairs_visa.result_of(name), pairs_visa.arguments_of(name),
                pairs_visa.body_of(name))
    form, _, rest = how.partition("_of_")
    source, _, first = rest.partition(".")
    return _RESULTS[form], _ARGUMENTS[source], body_of(kind, form, source, int(first))


def body_of(name: str, form: str, source: str, first: int) -> str:
    """The vISA of a function, of eight elements from `first`."""
    how = _CONVERSIONS[name]
    lines = [_DECLARED.rstrip()]
    lines += [_GIVEN.format(i=n, n=n + 1, size=64 if source == "words" else 256).rstrip()
              for n in range(2 if source == "words" else 1)]
    for r in range(4):
        for lanes, into, place in _reads(form, source, r, first + 2 * r):
            lines.append(f"{how.first} (M1_NM, {lanes}) {how.into}{into} {how.source}{place} "
                         f"{how.constant}")
        lines += [line.format(r=r) for line in how.then]
    return "\n".join(lines) + "\n"


def _reads(form: str, source: str, r: int, element: int) -> list[tuple[int, str, str]]:
    """(lanes, where to, where from) of the bytes for register r, those of two elements."""
    if (form, source) == ("rows", "bytes"):
        return [(32, f"({r},0)<1>", _place(source, element))]
    into = ["({r},0)<2>", "({r},1)<2>"] if form == "pairs" else ["({r},0)<1>", "({r},16)<1>"]
    return [(16, place.format(r=r), _place(source, element + k)) for k, place in enumerate(into)]


def _place(source: str, element: int) -> str:
    """vISA operand of one byte or half of all lanes."""
    word, byte = divmod(element, 4)
    if source == "bytes":
        return f"0({word},{16 * byte})<1;1,0>"
    return f"0({word},{byte})<4;1,0>" if source == "dwords" else f"{word}(0,{byte})<4;1,0>"
