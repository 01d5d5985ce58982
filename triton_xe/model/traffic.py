"""Bytes that a launch moves between L2 and memory, from where its blocks lie.

Work-groups run in waves of as many as the device holds.  A wave's first touch of a byte that no
wave before it touched comes from memory.  Every other touch finds it in L2 with the probability

    hit(distance) = min(1, capacity / distance) ** SHARPNESS

where the distance is what was touched in between: DRIFT of the wave for a byte that its work-groups
share, for they walk side by side; the wave for one that the wave before it used; all so far for an
older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triton_xe.model.work import Blocks, Work

SHARPNESS = 2.0
"""0 = L2 always hits, large = all or nothing."""
DRIFT = 0.1
"""How far work-groups of a wave are apart, in parts of their way."""
SAMPLES = 8
"""Waves that are looked at; they stand for the others."""


@dataclass(frozen=True)
class Wave:
    """Bytes of one wave: from memory, and to memory."""

    read: float
    written: float


def waves(work: Work, resident: int, capacity: float) -> list[tuple[int, Wave]]:
    """(how many waves it stands for, bytes) of sampled waves."""
    starts = list(range(0, work.groups, resident))
    step = max(1, len(starts) // SAMPLES)
    found = []
    for k in range(0, len(starts), step):
        stands_for = min(step, len(starts) - k)
        found.append((stands_for, _wave(work, starts[k], resident, capacity)))
    return found


def _wave(work: Work, start: int, size: int, capacity: float) -> Wave:
    stop, before = start + size, max(0, start - size)
    own = _union(work.reads, start, stop)
    touched = sum(b.touched(start, stop) for b in work.reads)
    written = _union(work.writes, start, stop)
    past = _union(work.reads, 0, start) if start else 0.0
    recent = _union(work.reads, before, start) if start else 0.0
    fresh = (_union(work.reads, 0, stop) - past) if start else own
    again = own + recent - _union(work.reads, before, stop) if start else 0.0
    older = max(0.0, own - fresh - again)
    beside = _hit(own * DRIFT, capacity)
    near = _hit(own + written, capacity)
    far = _hit(past + own + written, capacity)
    missed = fresh + again * (1 - near) + older * (1 - far) + (touched - own) * (1 - beside)
    return Wave(missed, written)


def _hit(distance: float, capacity: float) -> float:
    return 1.0 if distance <= capacity else float((capacity / distance) ** SHARPNESS)


def _union(surfaces: Sequence[Blocks], first: int, last: int) -> float:
    return sum(blocks.union(first, last) for blocks in surfaces)
