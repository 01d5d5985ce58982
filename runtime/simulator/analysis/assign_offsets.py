"""Assign frame memory to values, shared by values that are live at different times.

A value is live from its first to its last use in the order of blocks.  It is also live in all
blocks at whose end it is live.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from triton_xe.llvm.liveness import Path, live

LINE = 64


def assign_offsets(
    paths: Sequence[Path], sizes: Mapping[str, int]
) -> tuple[dict[str, int], int]:
    """Place each value on its own cache lines; return the offsets and the bytes of the frame."""
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
    ends, first, last, stops = live(paths), dict[str, int](), dict[str, int](), dict[str, int]()
    known = at = 0
    for path in paths:
        incoming = ends.incoming[path.label]
        for name in ends.named(incoming & ~known):
            first.setdefault(name, at)
        known |= incoming
        for step in path.steps:
            at += 1
            for name in (*step.read, *step.written):
                first.setdefault(name, at)
                last[name] = at
        stops[path.label] = at + 1
        at += 2
    known = 0
    for label, stop in reversed(stops.items()):
        outgoing = ends.outgoing[label]
        last |= {name: max(last[name], stop) for name in ends.named(outgoing & ~known)}
        known |= outgoing
    return {name: (at, last[name]) for name, at in first.items()}
