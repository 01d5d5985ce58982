"""Bytes that a launch moves between L2 and memory, from the positions of its blocks.

Work-groups run in waves of as many as the device runs at once.  The first touch of a byte in the
launch comes from memory.  Every other touch hits L2 with the probability

      hit(distance) = min(1, capacity / distance) ** SHARPNESS

where `distance` is the number of bytes touched in between.  It depends on the previous touch:

- a work-group of the same wave: DRIFT of the wave's bytes, because its work-groups advance
  together;
- the previous wave: the bytes of a wave;
- an older wave: all bytes touched so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_xe.model.work import Work

SHARPNESS = 2.0
"""0 = L2 always hits, large = all or nothing."""
DRIFT = 0.1
"""Distance between the work-groups of a wave, as a fraction of the bytes of the wave."""
SAMPLES = 8
"""Waves that are computed; each represents its neighbours."""
MOST_GROUPS = 4096
"""Work-groups above which only those near the sampled waves are computed."""


@dataclass(frozen=True)
class Wave:
    """Bytes that one wave reads from memory and writes to memory."""

    read: float
    written: float


def groups_to_know(groups: int, resident: int) -> NDArray[np.int64]:
    """Work-groups whose blocks determine the traffic: those of sampled waves and of the waves
    before them.
    """
    if groups <= MOST_GROUPS:
        return np.arange(groups)
    starts, _ = _sample_waves(groups, resident)
    near = np.add.outer(starts, np.arange(-resident, resident)).ravel()
    return np.unique(near[(near >= 0) & (near < groups)])


def waves(work: Work, resident: int, capacity: float) -> list[tuple[int, Wave]]:
    """Return sampled waves, each with the number of waves that it represents."""
    starts, step = _sample_waves(work.groups, resident)
    count = -(-work.groups // resident)
    return [(min(step, count - start // resident), _wave(work, start, resident, capacity))
            for start in starts]


def _sample_waves(groups: int, resident: int) -> tuple[list[int], int]:
    """First work-groups of the sampled waves, and the number of waves that each represents."""
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
