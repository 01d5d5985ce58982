"""Private arrays of a function: the pointers into each, and the smallest access to each."""

from __future__ import annotations

from typing import NamedTuple

from triton_xe.llvm import Function


class Pointer(NamedTuple):
    """A pointer into a private array."""

    array: str


def private_pointers(function: Function) -> dict[str, Pointer]:
    """The pointers into private arrays, by name."""
    found: dict[str, Pointer] = {}
    for i in function.instructions():
        if i.opcode == "alloca":
            found[i.value.text] = Pointer(i.value.text)
        elif i.opcode in ("getelementptr", "addrspacecast", "bitcast") and (
                i.operands[0].text in found):
            found[i.value.text] = found[i.operands[0].text]
    return found


def find_granules(function: Function) -> dict[str, int]:
    """Smallest element size, in bytes, with which each private array is accessed."""
    pointers, found = private_pointers(function), dict[str, int]()
    for i in function.instructions():
        if i.opcode in ("load", "store") and i.operands[-1].text in pointers:
            array = pointers[i.operands[-1].text].array
            size = (i.type if i.opcode == "load" else i.operands[0].type).scalar.size
            found[array] = min(size, found.get(array, size))
    return found
