"""Accesses with a cache policy (`GenISA.LSCLoad`, `LSCStore`) as the plain accesses they perform.

    LSCLoad(pointer, 0, data size, elements, cache code)
    LSCStore(pointer, 0, value, data size, elements, cache code)

Data sizes 3 and 4 are words of 32 and 64 bits; 5 and 6 are 8 and 16 bits in a register of 32.
A cache policy changes no value; whether the device has it is checked.
"""

from __future__ import annotations

import re

from triton_xe.errors import SimulatorTrap
from triton_xe.hardware.block_2d import cache_codes
from triton_xe.hardware.target import Target

_TYPE = r"(?P<type>i32|i64|<[234] x i(?:32|64)>)"
_POINTER = r"\(ptr addrspace\(1\) (?P<pointer>[^,]+), i32 0"
_CODES = r"i32 (?P<size>\d+), i32 (?P<count>\d+), i32 (?P<cache>\d+)\)"
_LOAD = re.compile(
    rf"^  (?P<result>%\S+) = (?:tail )?call {_TYPE} @llvm\.genx\.GenISA\.LSCLoad\.[\w.]+"
    rf"{_POINTER}, {_CODES}", re.MULTILINE)
_STORE = re.compile(
    rf"^  (?:tail )?call void @llvm\.genx\.GenISA\.LSCStore\.[\w.]+"
    rf"{_POINTER}, {_TYPE} (?P<value>.+?), {_CODES}", re.MULTILINE)
_WORDS = {"3": "i32", "4": "i64"}
_NARROW = {"5": "i8", "6": "i16"}


def plain_accesses(text: str, target: Target) -> str:
    """The module with loads and stores in the place of these messages."""
    if "GenISA.LSC" not in text:
        return text
    text = _LOAD.sub(lambda m: _load(m, target), text)
    return _STORE.sub(lambda m: _store(m, target), text)


def _load(m: re.Match[str], target: Target) -> str:
    kind = _moved_type(m, target, write=False)
    pointer, result = f"ptr addrspace(1) {m['pointer']}", m["result"]
    align = _align(kind)
    if kind == m["type"]:
        return f"  {result} = load {kind}, {pointer}, align {align}"
    narrow = f"%lsc.{m.start()}"
    return (f"  {narrow} = load {kind}, {pointer}, align {align}\n"
            f"  {result} = zext {kind} {narrow} to i32")


def _store(m: re.Match[str], target: Target) -> str:
    kind = _moved_type(m, target, write=True)
    pointer, value, first = f"ptr addrspace(1) {m['pointer']}", m["value"], ""
    if kind != m["type"]:
        first = f"  %lsc.{m.start()} = trunc i32 {value} to {kind}\n"
        value = f"%lsc.{m.start()}"
    return f"{first}  store {kind} {value}, {pointer}, align {_align(kind)}"


def _moved_type(m: re.Match[str], target: Target, *, write: bool) -> str:
    """The type in memory; a trap where the message is not one of the device."""
    size, count, word = m["size"], int(m["count"]), m["type"]
    if size in _NARROW and count == 1 and word == "i32":
        kind = _NARROW[size]
    else:
        kind = _WORDS.get(size, "")
        kind = kind if count == 1 else f"<{count} x {kind}>"
    if size not in _NARROW and kind != word:
        raise SimulatorTrap(f"a message of {count} elements of data size {size} is no {word}")
    codes = cache_codes(target, write=write)
    if int(m["cache"]) not in codes.values():
        verb = "write" if write else "read"
        raise SimulatorTrap(f"{target.name} has no {verb} cache policy with code {m['cache']}")
    return kind


def _align(kind: str) -> int:
    """Bytes of one element, which is what these messages need."""
    return int(kind.rstrip(">").rsplit("i", 1)[1]) // 8


__all__ = ["plain_accesses"]
