"""Liveness: the values that are needed at the ends of blocks, and where others are written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple


class Step(NamedTuple):
    """Values that one step in a block reads, and those that it then writes."""

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    copied: tuple[str | None, ...] = ()
    """The value of which each of those is a copy, so that the two may share memory."""


class Path(NamedTuple):
    """The steps of a block, and the labels of its successors."""

    label: str
    steps: Sequence[Step]
    successors: Iterable[str]


def live(paths: Sequence[Path]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
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


def clashes(paths: Sequence[Path]) -> dict[str, set[str]]:
    """Pairs of values of which one is live where the other is written, in both directions."""
    found: dict[str, set[str]] = defaultdict(set)
    _, outgoing = live(paths)
    for path in paths:
        needed = outgoing[path.label]
        for step in reversed(path.steps):
            needed.update(step.written)
            for name, source in zip_longest(step.written, step.copied):
                others = needed - {name, source}
                found[name] |= others
                for other in others:
                    found[other].add(name)
            needed.difference_update(step.written)
            needed.update(step.read)
    return found
