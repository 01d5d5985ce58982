"""Liveness: the values that are needed at the ends of blocks, and where others are written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from operator import or_
from typing import NamedTuple

from triton_xe.llvm.solver import readers, solve


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


class Live(NamedTuple):
    """Values that are live at the beginnings and ends of blocks: bit k is that of `names[k]`."""

    names: Sequence[str]
    incoming: Mapping[str, int]
    outgoing: Mapping[str, int]

    def named(self, bits: int) -> Iterator[str]:
        """The values with these bits."""
        while bits:
            last = bits & -bits
            yield self.names[last.bit_length() - 1]
            bits ^= last


def live(paths: Sequence[Path]) -> Live:
    """Values that are live at the beginning and at the end of each block."""
    read: dict[str, list[str]] = {}
    written: dict[str, set[str]] = {}
    for path in paths:
        own, found = set[str](), dict[str, None]()
        for step in path.steps:
            found |= dict.fromkeys(x for x in step.read if x not in own)
            own.update(step.written)
        read[path.label], written[path.label] = list(found), own
    names = [*dict.fromkeys(x for each in read.values() for x in each)]
    bit = {name: 1 << k for k, name in enumerate(names)}
    uses = {label: sum(bit[x] for x in each) for label, each in read.items()}
    made = {label: sum(bit[x] for x in each if x in bit) for label, each in written.items()}
    after = {path.label: tuple(path.successors) for path in paths}
    incoming: dict[str, int] = {}

    def outgoing(label: str) -> int:
        return reduce(or_, (incoming.get(x, 0) for x in after[label]), 0)

    solve([path.label for path in reversed(paths)],
          lambda label: (label, uses[label] | outgoing(label) & ~made[label]),
          readers(after), incoming)
    return Live(names, incoming, {label: outgoing(label) for label in after})


def clashes(paths: Sequence[Path]) -> dict[str, set[str]]:
    """Pairs of values of which one is live where the other is written, in both directions."""
    found: dict[str, set[str]] = defaultdict(set)
    ends = live(paths)
    for path in paths:
        needed = {*ends.named(ends.outgoing[path.label])}
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
