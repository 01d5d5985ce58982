"""Work-groups that a device runs at the same time.

Intel's driver gives the same numbers (`zeKernelSuggestMaxCooperativeGroupCount`), except that it
lets a work-group take shared memory of several cores.
"""

from __future__ import annotations

from triton_xe.hardware.target import Target

_FEWEST = 4
"""Threads per engine with the largest register file."""
SLM_SIZES = tuple(
    kib << 10 for kib in (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 320, 384))
"""Sizes in bytes in which shared memory is allocated to a work-group (NEO 26.27, on bmg and pvc;
above 128 KiB `release_helper_preferred_slm_xe3p_*.inl`).
"""
MAX_GROUPS = 64
"""Most work-groups on one core."""
BARRIERS = 32
"""Barrier registers of a core (NEO, `getMaxBarrierRegisterPerSlice`)."""


def groups_per_core(
    device: Target, subgroups: int, registers: int = 128, slm_bytes: int = 0, *,
    barriers: int = 0,
) -> int:
    """Work-groups that a core runs at once: at least 1.

    Threads, shared memory and barriers limit them.

    >>> from triton_xe.hardware.target import target
    >>> groups_per_core(target("bmg"), subgroups=4), groups_per_core(target("bmg"), 4, 256)
    (16, 8)
    """
    threads = device.threads_per_eu.get(registers, _FEWEST) * device.eus_per_core
    given = next((size for size in SLM_SIZES if size >= slm_bytes), device.max_slm_bytes)
    by_slm = device.max_slm_bytes // given if slm_bytes else MAX_GROUPS
    by_barriers = BARRIERS // barriers if barriers else MAX_GROUPS
    return max(1, min(threads // subgroups, by_slm, by_barriers, MAX_GROUPS))


def resident_groups(
    device: Target, subgroups: int, registers: int = 128, slm_bytes: int = 0, *,
    barriers: int = 0,
) -> int:
    """Work-groups that the whole device runs at once."""
    return device.xe_cores * groups_per_core(
        device, subgroups, registers, slm_bytes, barriers=barriers)
