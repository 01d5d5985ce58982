"""Assign frame memory to values, shared by values that are live at different times.

A value is live from its first to its last use in the order of blocks, and through all blocks at
whose end it is live.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

LINE = 64


@dataclass(frozen=True)
class Step:
    """Values that one step in a block reads and writes."""

    read: tuple[str, ...]
    written: tuple[str, ...] = ()


@dataclass(frozen=True)
class Path:
    """The steps of a block, and the labels of its successors."""

    label: str
    steps: Sequence[Step]
    successors: Sequence[str]


def frame_places(paths: Sequence[Path], sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """The offset of each value, in whole cache lines, and the bytes of all."""
    lives = _lives(paths)
    places: dict[str, int] = {}
    free: dict[int, list[int]] = defaultdict(list)
    ending: dict[int, list[str]] = defaultdict(list)
    for name, (_, last) in lives.items():
        ending[last].append(name)
    ends = sorted(ending)
    end = next_end = 0
    for name, (first, _) in sorted(lives.items(), key=lambda x: x[1]):
        while next_end < len(ends) and ends[next_end] < first:
            for old in ending[ends[next_end]]:
                free[_lines(sizes[old])].append(places[old])
            next_end += 1
        lines = _lines(sizes[name])
        if free[lines]:
            places[name] = free[lines].pop()
        else:
            places[name] = end
            end += lines * LINE
    return places, end


def _lines(size: int) -> int:
    """Cache lines of a value, rounded up to a power of two, so that freed memory is reusable."""
    return 1 << max(0, -(-size // LINE) - 1).bit_length()


def _lives(paths: Sequence[Path]) -> dict[str, tuple[int, int]]:
    """First and last step of each value, numbered over all blocks."""
    first, last = dict[str, int](), dict[str, int]()

    def lengthen(names: Iterable[str], at: int) -> None:
        first.update({name: at for name in names if name not in first})
        last.update(dict.fromkeys(names, at))

    incoming, outgoing = _needed(paths)
    at = 0
    for path in paths:
        lengthen(incoming[path.label], at)
        for step in path.steps:
            at += 1
            lengthen((*step.read, *step.written), at)
        at += 1
        lengthen(outgoing[path.label], at)
        at += 1
    return {name: (at, last[name]) for name, at in first.items()}


def _needed(paths: Sequence[Path]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Values that are live at the beginning and at the end of each block."""
    uses: dict[str, set[str]] = {}
    made: dict[str, set[str]] = {}
    for path in paths:
        own, read = set[str](), set[str]()
        for step in path.steps:
            read.update(x for x in step.read if x not in own)
            own.update(step.written)
        uses[path.label], made[path.label] = read, own
    before: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for label in path.successors:
            before[label].append(path.label)
    incoming = {label: set(read) for label, read in uses.items()}
    outgoing: dict[str, set[str]] = {path.label: set() for path in paths}
    todo = [(path.label, set(incoming[path.label])) for path in paths]
    while todo:
        label, new = todo.pop()
        for other in before[label]:
            added = new - outgoing[other]
            outgoing[other] |= added
            added = added - made[other] - incoming[other]
            if added:
                incoming[other] |= added
                todo.append((other, added))
    return incoming, outgoing
