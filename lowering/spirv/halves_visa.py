"""vISA for the functions that turn bytes into fp16 (`triton_xe.lowering.emit.maths.halves`).

Elements lie one behind the other, 16 lanes each; a register of 64 bytes has 32 halves, those of two
elements: `rows` keeps them like that, in `pairs` they share a dword, and of `dwords` each has four
bytes of its lane.  `$0` is the result, `$1` the bytes.

| from | first | then |
|---|---|---|
| s8 | integer 0x6480 + x, the bits of 1024 + 128 + x | less 1152 |
| u8 | integer 0x6400 + x | less 1024 |
| f8E5M2 | moved by 8 bits | |
| f8E4M3FN | moved by 7 bits, the sign in bits 15 and 14 | (see below) times 256 |

Bit 14 belongs to fp16's exponent and must be 0, but 1 for NaN, the largest size.  The next greater
integer has the sign there, but the opposite after NaN; xor with it leaves what is wanted.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from triton_xe.spirv import HALVES

_DECLARED = """.decl W v_type=G type=W num_elts=128 alias=<$0,0>
.decl U v_type=G type=UW num_elts=128 alias=<$0,0>
.decl H v_type=G type=HF num_elts=128 alias=<$0,0>
.decl B v_type=G type=B num_elts=256 alias=<$1,0>
.decl Z v_type=G type=UB num_elts=256 alias=<$1,0>
.decl T v_type=G type=UW num_elts=128 align=GRF
"""


class _Conversion(NamedTuple):
    """What a byte of type `source` becomes as an integer of type `into`, and then each register."""

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
_DEFINED = re.compile(
    rf'^(define [^@]*@"{re.escape(HALVES)}(\w+)\.(\w+)\.(\d+)"\(([^%]*)(%[^)]*)\)[^{{]*)\{{.*?^\}}',
    re.MULTILINE | re.DOTALL)


def with_visa(text: str) -> str:
    """An LLVM module whose functions of this kind have bodies in vISA."""
    return _DEFINED.sub(_defined, text) if HALVES in text else text


def _defined(found: re.Match[str]) -> str:
    head, name, form, first, argument, value = found.groups()
    result = re.search(r"<\d+ x \w+>", head)
    assert result is not None
    body = body_of(name, form, int(first)).replace("\n", "\\0A")
    return (f'{head}{{\n  %r = call {result[0]} asm "{{\\0A{body}}}", "=rw,rw"({argument}{value})\n'
            f"  ret {result[0]} %r\n}}")


def body_of(name: str, form: str, first: int) -> str:
    """The vISA of a function, of eight elements from `first`."""
    how, lines = _CONVERSIONS[name], []
    for r in range(4):
        for lanes, into, place in _reads(form, r, first + 2 * r):
            lines.append(f"{how.first} (M1_NM, {lanes}) {how.into}{into} {how.source}{place} "
                         f"{how.constant}")
        lines += [line.format(r=r) for line in how.then]
    return _DECLARED + "\n".join(lines) + "\n"


def _reads(form: str, r: int, element: int) -> list[tuple[int, str, str]]:
    """(lanes, where to, where from) of the bytes for register r, those of two elements."""
    if form == "rows":
        return [(32, f"({r},0)<1>", f"({element // 4},{16 * (element % 4)})<1;1,0>")]
    return [(16, f"({r},{k})<2>", _place(form, element + k)) for k in range(2)]


def _place(form: str, element: int) -> str:
    if form == "dwords":
        return f"({element // 4},{element % 4})<4;1,0>"
    return f"({element // 4},{16 * (element % 4)})<1;1,0>"
