"""Ids and sizes of work-items, from the position of a subgroup in its grid."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Subgroup:
    """Subgroup `number` of work-group `group`; work-groups are lines of whole subgroups."""

    group: tuple[int, int, int]
    grid: tuple[int, int, int]
    number: int
    count: int
    lanes: int


def get_group_id(at: Subgroup, axis: int) -> int:
    return at.group[axis] if axis < 3 else 0


def get_num_groups(at: Subgroup, axis: int) -> int:
    return at.grid[axis] if axis < 3 else 1


def get_local_size(at: Subgroup, axis: int) -> int:
    return at.count * at.lanes if axis == 0 else 1


def get_global_size(at: Subgroup, axis: int) -> int:
    return get_num_groups(at, axis) * get_local_size(at, axis)


def get_work_dim(at: Subgroup) -> int:
    return 3


def get_sub_group_size(at: Subgroup) -> int:
    return at.lanes


get_max_sub_group_size = get_sub_group_size


def get_num_sub_groups(at: Subgroup) -> int:
    return at.count


def get_sub_group_id(at: Subgroup) -> int:
    return at.number


def get_sub_group_local_id(at: Subgroup) -> NDArray[np.int64]:
    return np.arange(at.lanes)


def get_local_id(at: Subgroup, axis: int) -> NDArray[np.int64]:
    return (at.number * at.lanes + np.arange(at.lanes)) * (axis == 0)


def get_global_id(at: Subgroup, axis: int) -> NDArray[np.int64]:
    return get_group_id(at, axis) * get_local_size(at, axis) + get_local_id(at, axis)


cycle_counter = time.perf_counter_ns
