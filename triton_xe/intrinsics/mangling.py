"""Spell a function's symbol from its types, and read its name back.

Types are LLVM's text (`<8 x float>`), or anything whose `str` is that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_VECTOR = re.compile(r"<(\d+) x (.+)>$")
_SCALARS = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "void": "isVoid"}
_LETTERS = {"i1": "b", "i8": "c", "i16": "s", "i32": "i", "i64": "l",
            "half": "Dh", "float": "f", "double": "d"}
_UNSIGNED = {"c": "h", "s": "t", "i": "j", "l": "m"}
_BUILTIN = re.compile(r"_Z([1-9]\d*)")


@cache
def suffix(text: str) -> str:
    """Mangle a type as LLVM does in the names of intrinsics.

    >>> suffix("<8 x float>"), suffix("ptr addrspace(1)"), suffix("i32")
    ('v8f32', 'p1', 'i32')
    """
    vector = _VECTOR.match(text)
    if vector is not None:
        return f"v{vector[1]}{suffix(vector[2])}"
    if text.startswith("ptr"):
        return "p" + (re.findall(r"\d+", text) or ["0"])[0]
    return _SCALARS.get(text, text)


@cache
def itanium(name: str, arguments: tuple[str, ...], unsigned: tuple[bool, ...] = ()) -> str:
    """Mangle the symbol of an OpenCL or SPIR-V builtin by the Itanium C++ ABI.

    `unsigned` has a flag per argument, because LLVM's integers have no sign.  Pointers are not
    supported.

    >>> itanium("fmod", ("<4 x float>", "<4 x float>")), itanium("get_sub_group_id", ())
    ('_Z4fmodDv4_fS_', '_Z16get_sub_group_idv')
    """
    found, seen = f"_Z{len(name)}{name}", ""
    for position, text in enumerate(arguments):
        vector = _VECTOR.match(text)
        letter = _LETTERS[vector[2] if vector is not None else text]
        if position < len(unsigned) and unsigned[position]:
            letter = _UNSIGNED.get(letter, letter)
        spelled = letter if vector is None else f"Dv{vector[1]}_{letter}"
        found += "S_" if vector is not None and spelled == seen else spelled
        seen = seen or (spelled if vector is not None else "")
    return found if arguments else found + "v"


def builtin_name(symbol: str) -> tuple[str, str] | None:
    """Split an Itanium symbol into name and mangled arguments; None if it is no such symbol.

    >>> builtin_name("_Z4fmodDv4_fS_")
    ('fmod', 'Dv4_fS_')
    """
    found = _BUILTIN.match(symbol)
    if found is None or len(symbol) < found.end() + int(found[1]):
        return None
    end = found.end() + int(found[1])
    return symbol[found.end() : end], symbol[end:]


def is_unsigned(symbol: str) -> bool:
    """True if the first argument of a builtin, or its elements, are unsigned integers.

    >>> is_unsigned("_Z6mul_hiDv8_jS_"), is_unsigned("_Z3maxll")
    (True, False)
    """
    found = builtin_name(symbol)
    return found is not None and re.sub(r"^Dv\d+_", "", found[1])[:1] in tuple("htjm")


def prefixes(symbol: str) -> Iterable[str]:
    """Yield the symbol and its prefixes at dots, in the order in which LLVM looks intrinsics up.

    >>> list(prefixes("llvm.fma.v4f32"))
    ['llvm.fma.v4f32', 'llvm.fma', 'llvm']
    """
    while symbol:
        yield symbol
        symbol = symbol.rpartition(".")[0]
