"""Assign memory to values; values that are not live at the same time share it.

    store a       a at 0        A store begins the live range of a value, and the last
    load a                      load on each path ends it.
    store b       b at 0
    store c       c at 64
    load b, c
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

LINE = 64
"""Alignment of values in bytes."""


class Access(NamedTuple):
    """An access to the whole memory of a value."""

    name: str
    is_store: bool


def slot_places(
    accesses: Mapping[str, Sequence[Access]], successors: Mapping[str, Iterable[str]],
    sizes: Mapping[str, int],
) -> tuple[dict[str, int], int]:
    """Offset of each value, and total bytes; accesses and successors are given by block."""
    apart = _apart(accesses, successors, sizes)
    found: dict[str, tuple[int, int]] = {}
    for name, size in sizes.items():
        begin, room = 0, -(-size // LINE) * LINE
        for first, end in sorted(found[x] for x in apart[name] if x in found):
            if first >= begin + room:
                break
            begin = max(begin, end)
        found[name] = begin, begin + room
    return {name: begin for name, (begin, _) in found.items()}, max(
        (end for _, end in found.values()), default=0)


def _apart(
    accesses: Mapping[str, Sequence[Access]], successors: Mapping[str, Iterable[str]],
    names: Iterable[str],
) -> dict[str, set[str]]:
    """Interference: the values that are live at the stores of each value, symmetric."""
    needed = _needed(accesses, successors)
    found: dict[str, set[str]] = {name: set() for name in names}
    for label, those in accesses.items():
        later = set().union(*(needed.get(x, set()) for x in successors[label]))
        for name, is_store in reversed(those):
            later.discard(name)
            if not is_store:
                later.add(name)
                continue
            found[name] |= later
            for other in later:
                found[other].add(name)
    return found


def _needed(
    accesses: Mapping[str, Sequence[Access]], successors: Mapping[str, Iterable[str]]
) -> dict[str, set[str]]:
    """Values that are live at the beginning of a block."""
    loaded: dict[str, set[str]] = {}
    stored: dict[str, set[str]] = {}
    for label, those in accesses.items():
        loaded[label], stored[label] = set(), set()
        for name, is_store in those:
            if is_store:
                stored[label].add(name)
            elif name not in stored[label]:
                loaded[label].add(name)
    found = {label: set(names) for label, names in loaded.items()}
    changed = True
    while changed:
        changed = False
        for label in reversed(found):
            later = set().union(*(found.get(x, set()) for x in successors[label]))
            new = loaded[label] | later - stored[label]
            changed |= new != found[label]
            found[label] = new
    return found
