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

from triton_xe.llvm.liveness import Path, Step, clashes

LINE = 64
"""Alignment of values in bytes."""


class Access(NamedTuple):
    """An access to the whole memory of a value."""

    name: str
    is_store: bool


def assign_offsets(
    accesses: Mapping[str, Sequence[Access]], successors: Mapping[str, Iterable[str]],
    sizes: Mapping[str, int],
) -> tuple[dict[str, int], int]:
    """Assign an offset to each value; return offsets and total bytes.

    Accesses and successors are given by the label of their block.
    """
    conflicts = clashes([
        Path(label, [Step((), (name,)) if is_store else Step((name,)) for name, is_store in those],
             successors[label]) for label, those in accesses.items()])
    found: dict[str, tuple[int, int]] = {}
    for name, size in sizes.items():
        begin, room = 0, -(-size // LINE) * LINE
        for first, end in sorted(found[x] for x in conflicts[name] if x in found):
            if first >= begin + room:
                break
            begin = max(begin, end)
        found[name] = begin, begin + room
    return {name: begin for name, (begin, _) in found.items()}, max(
        (end for _, end in found.values()), default=0)
