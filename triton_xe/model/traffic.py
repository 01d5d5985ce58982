"""Bytes that a launch moves between L2 and memory, from where its blocks lie.

Work-groups run in waves of as many as the device holds.  A wave's first touch of a byte that no
wave before it touched comes from memory.  Every other touch finds it in L2 with the probability

    hit(distance) = min(1, capacity / distance) ** SHARPNESS

where the distance is what was touched in between: DRIFT of the wave for a byte that its work-groups
share, for they walk side by side; the wave for one that the wave before it used; all so far for an
older one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_xe.model.work import Work

SHARPNESS = 2.0
"""0 = L2 always hits, large = all or nothing."""
DRIFT = 0.1
"""How far work-groups of a wave are apart, in parts of their way."""
SAMPLES = 8
"""Waves that are looked at; they stand for the others."""
MOST_GROUPS = 4096
"""Of a launch of more, only the work-groups near sampled waves are looked at."""


@dataclass(frozen=True)
class Wave:
    """Bytes of one wave: from memory, and to memory."""

    read: float
    written: float


def groups_to_know(groups: int, resident: int) -> NDArray[np.int64]:
    """The work-groups whose blocks decide the traffic: sampled waves, and the ones before them."""
    if groups <= MOST_GROUPS:
        return np.arange(groups)
    starts, _ = _sampled(groups, resident)
    near = np.add.outer(starts, np.arange(-resident, resident)).ravel()
    return np.unique(near[(near >= 0) & (near < groups)])


def waves(work: Work, resident: int, capacity: float) -> list[tuple[int, Wave]]:
    """(how many waves it stands for, bytes) of sampled waves."""
    starts, step = _sampled(work.groups, resident)
    count = -(-work.groups // resident)
    return [(min(step, count - start // resident), _wave(work, start, resident, capacity))
            for start in starts]


def _sampled(groups: int, resident: int) -> tuple[list[int], int]:
    """First work-groups of the waves that are looked at, and how many each stands for."""
    step = max(1, -(-groups // resident) // SAMPLES)
    return list(range(0, groups, resident * step)), step


def _wave(work: Work, start: int, size: int, capacity: float) -> Wave:
    stop, before = start + size, max(0, start - size)
    own, written = work.read(start, stop), work.written(start, stop)
    past = work.read(0, start)
    recent = work.read(before, start)
    fresh = work.read(0, stop) - past
    again = own + recent - work.read(before, stop)
    older = max(0.0, own - fresh - again)
    beside = _hit(own * DRIFT, capacity)
    near = _hit(own + written, capacity)
    far = _hit(past + own + written, capacity)
    missed = fresh + again * (1 - near) + older * (1 - far) + (
        work.touched(start, stop) - own) * (1 - beside)
    return Wave(missed, written)


def _hit(distance: float, capacity: float) -> float:
    return 1.0 if distance <= capacity else float((capacity / distance) ** SHARPNESS)
