"""Private arrays of a function: the pointers into each, and the smallest access to each."""

from __future__ import annotations

from collections.abc import Mapping

from triton_xe.llvm import Function, Instruction
from triton_xe.runtime.simulator.analysis.shapes import gep_steps

Pointers = Mapping[str, tuple[str, int | None]]
"""Pointer into a private array -> the array, and the offset in bytes if it is constant."""


def accessed(i: Instruction, pointers: Pointers) -> str | None:
    """The private array that a load or store touches."""
    if i.opcode not in ("load", "store"):
        return None
    found = pointers.get(i.operands[-1].local or "")
    return found[0] if found else None


def private_pointers(function: Function) -> dict[str, tuple[str, int | None]]:
    """Every pointer into a private array: (array, byte offset), None when not constant."""
    found: dict[str, tuple[str, int | None]] = {}
    for i in function.instructions():
        if i.result is None:
            continue
        if i.opcode == "alloca":
            found[i.result] = (i.result, 0)
        elif i.opcode in ("getelementptr", "addrspacecast", "bitcast"):
            source = found.get(i.operands[0].local or "")
            if source is not None:
                found[i.result] = (source[0], _literal_offset(i, source[1]))
    return found


def _literal_offset(i: Instruction, start: int | None) -> int | None:
    """Constant byte offset of a pointer from its array; None if it is not constant."""
    if i.opcode != "getelementptr" or start is None:
        return start
    fields, scales = gep_steps(i)
    total = start + fields
    for k, scale in scales:
        index = i.operands[k].integer_value()
        if index is None:
            return None
        total += index * scale
    return total


def find_granules(
    function: Function, pointers: dict[str, tuple[str, int | None]]
) -> dict[str, int]:
    """Smallest element size, in bytes, with which each private array is accessed."""
    found: dict[str, int] = {}
    for i in function.instructions():
        if i.opcode in ("load", "store"):
            array = pointers.get(i.operands[-1].local or "")
            t = i.type if i.opcode == "load" else i.operands[0].type
            if array is not None:
                size = t.scalar.size
                found[array[0]] = min(size, found.get(array[0], size))
    return found
