"""Estimate the bytes of registers that a kernel needs at once, from the emitted code.

A value is live from its instruction to its last use; if a loop carries it, to the end of the loop.
Private memory counts like the values stored in it.  The need of a called function counts at the
call.  A value that all lanes share takes the space of one lane.  Intel's compiler reorders
instructions, so this is an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from llvmlite import ir

from triton_xe.lowering.emit.types import bits_of


def pressure(function: ir.Function, lanes: int) -> int:
    """Most bytes of values that live at the same time."""
    return _pressure(function, lanes, {})


def _pressure(function: ir.Function, lanes: int, inside: dict[ir.Function, int]) -> int:
    """Most bytes of a subgroup that are live at once, with those of called functions.

    `inside` has the results for functions that were visited before.
    """
    order = [i for block in function.blocks for i in block.instructions]
    place = {id(i): n for n, i in enumerate(order)}  # constants are compared by their texts
    first, last = _lives(order, place)
    for start, end in sorted(_loops(order, place), reverse=True):
        for made, until in last.items():
            if first[made] < start <= until < end:
                last[made] = end
    change = [0] * (len(order) + 1)
    varying, known = _varying(function, order), dict[int, int]()
    for made, until in last.items():
        value = order[made]
        size = _size(value, known) * (lanes if id(value) in varying else 1)
        change[first[made]] += size
        change[until] -= size
    for n, call, callee in _calls(order):
        if callee not in inside:
            inside[callee] = _pressure(callee, lanes, inside)
        more = max(0, inside[callee] - _size(call, known) * lanes)
        change[n] += more
        change[n + 1] -= more
    return max(accumulate(change[:-1]), default=0)


def _lives(order: list[Any], place: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Index of the first and last instruction of each value's lifetime, ignoring loops."""
    first = {n: n for n, i in enumerate(order) if i.opname != "alloca"}
    last = dict(first)
    for n, user in enumerate(order):
        if user.opname == "phi":
            for value, block in user.incomings:
                _use(place.get(id(value)), place[id(block.terminator)], first, last)
            continue
        for value in user.operands:
            made = place.get(id(value))
            _use(made, n, first, last)
            if made is not None and value.opname == "getelementptr":  # stands for its memory too
                _use(place.get(id(value.operands[0])), n, first, last)
    return first, last


def _use(definition: int | None, at: int, first: dict[int, int], last: dict[int, int]) -> None:
    """Extend the life of instruction number `definition` to position `at`, unless it is None."""
    if definition is None:
        return
    if definition not in first:
        first[definition] = at
    if last.get(definition, -1) < at:
        last[definition] = at


def _loops(order: list[Any], place: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The first and last instruction of each loop."""
    for n, instruction in enumerate(order):
        for target in instruction.operands if instruction.opname == "br" else ():
            if isinstance(target, ir.Block) and place[id(target.instructions[0])] <= n:
                yield place[id(target.instructions[0])], n


def _calls(order: list[Any]) -> Iterator[tuple[int, Any, ir.Function]]:
    """Calls, with their numbers, of functions of the module that become part of their callers."""
    for n, i in enumerate(order):
        if i.opname == "call" and "alwaysinline" in getattr(i.callee, "attributes", ()):
            yield n, i, i.callee


def _varying(function: ir.Function, order: list[Any]) -> set[int]:
    """Values that may differ between lanes; arguments of called functions are assumed to."""
    given = function.args if "alwaysinline" in function.attributes else ()
    found = {id(value) for value in given}
    for i in order:
        if i.opname in _MAY_VARY and _varies(i):
            found.add(id(i))
            continue
        for value in i.operands:
            if id(value) in found:
                found.add(id(i))
                break
    return found


_MAY_VARY = frozenset(("load", "call", "alloca"))


def _varies(i: Any) -> bool:
    """True if the result of a load or a call may differ between lanes even for equal operands."""
    if i.opname == "alloca" or isinstance(i.type, ir.VectorType):
        return True
    return i.opname == "call" and (  # assembly may ask for the lane, too
        isinstance(i.callee, ir.InlineAsm) or "sub_group_local_id" in i.callee.name)


def _size(value: Any, known: dict[int, int]) -> int:
    """Bytes of one lane; `known` are those of types by their ids."""
    if value.opname == "getelementptr":
        return 0
    if value.opname == "load" and isinstance(value.type, ir.IntType):
        return max(4, _bytes(value.type))  # a gather brings each element in a word of its own
    kind = value.allocated_type if value.opname == "alloca" else value.type
    size = known.get(id(kind))
    if size is None:
        size = known[id(kind)] = _bytes(kind)
    return size


def _bytes(kind: ir.Type) -> int:
    if isinstance(kind, ir.VoidType | ir.PointerType):
        return 0
    if isinstance(kind, ir.LiteralStructType):
        return sum(map(_bytes, kind.elements))
    vector = isinstance(kind, ir.VectorType)
    return int(kind.count * bits_of(kind.element) // 8 if vector else bits_of(kind) // 8)
