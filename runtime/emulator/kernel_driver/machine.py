"""Answers of the emulated kernel driver to `XE_DEVICE_QUERY`, from the table of targets.

Sources: `xe_drm.h` for the structures; for the keys of the hardware configuration, Intel's compute
runtime, `shared/source/os_interface/linux/system_info.h`.  Without that table the driver takes
every device for one of 64 EUs.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator

from triton_xe.hardware.target import Target

CLOCK_HZ = 19_200_000
"""Frequency of timestamps."""
TIMESTAMP_BITS = 36
_RENDER, _COPY, _COMPUTE = 0, 1, 4
"""Classes of engines."""
_PAGE, _LARGE_PAGE = 1 << 12, 1 << 16
_L3_BANK_KIB = 1024
"""How a cache is split into banks is not published; only its size has a meaning here."""
_HBM_STACK_BITS, _CHANNEL_BITS, _HBM_CHANNEL_BITS = 1024, 32, 64
_MEMORY_TYPES = {"LPDDR5": 1, "HBM2e": 3, "GDDR6": 4}
_REVISIONS = {"pvc": 0x2F}
"""Revision of the PCI device, if it is not the stepping (`product_helper_pvc.cpp`)."""
_HAS_LOCAL_MEMORY, _LOW_LATENCY = 1, 2
_FIRMWARE = 1, 18, 0


def ticks() -> int:
    """Now, by the device's clock."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) * CLOCK_HZ // 10**9


def answers(target: Target) -> dict[int, bytes]:
    """Number of a query -> the answer; that of engine cycles depends on the time."""
    return {
        0: _engines(), 1: _memories(target), 2: _configuration(target), 3: _units(target),
        4: _hardware(target), 5: _topology(target), 7: struct.pack("<HHIIIIIQ", 0, 0, 0, *_FIRMWARE,
                                                                  0, 0),
    }


def _engines() -> bytes:
    rows = [struct.pack("<4H3Q", each, 0, 0, 0, 0, 0, 0) for each in (_RENDER, _COPY, _COMPUTE)]
    return struct.pack("<II", len(rows), 0) + b"".join(rows)


def _memories(target: Target) -> bytes:
    """Memory of the system, and that of the card."""
    system = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    sizes = [(0, _PAGE, system)]
    if not target.is_integrated:
        sizes.append((1, _LARGE_PAGE, target.memory_bytes))
    rows = [struct.pack("<HHI4Q6Q", kind, kind, page, size, 0, size, 0, *[0] * 6)
            for kind, page, size in sizes]
    return struct.pack("<II", len(rows), 0) + b"".join(rows)


def _configuration(target: Target) -> bytes:
    identity = target.device_id | _REVISIONS.get(target.name, target.stepping) << 16
    flags = _LOW_LATENCY | (0 if target.is_integrated else _HAS_LOCAL_MEMORY)
    return struct.pack("<II5Q", 5, 0, identity, flags, _LARGE_PAGE, target.address_bits, 2)


def _units(target: Target) -> bytes:
    """Answer about GTs (`drm_xe_query_gt_list`): one, with its clock and its version."""
    near = 1 if target.is_integrated else 2
    version = *target.ip_version[:2], target.stepping
    return struct.pack("<II", 1, 0) + struct.pack(
        "<6HIQQ4H7Q", 0, 0, 0, 0, 0, 0, CLOCK_HZ, near, 3 ^ near, *version, 0, *[0] * 7)


def _hardware(target: Target) -> bytes:
    """Key, length in words and value of each entry."""
    slm, threads = target.max_slm_bytes >> 10, max(target.threads_per_eu.values())
    entries = {
        1: target.slices, 2: target.xe_cores, 3: target.eus_per_core, 70: target.xe_cores,
        71: target.eus_per_core, 10: target.memory_bus_bits // _CHANNEL_BITS,
        11: _MEMORY_TYPES[target.memory], 15: threads, 23: 1, 24: 1, 64: _L3_BANK_KIB, 65: slm,
        73: slm,
    }
    if target.memory == "HBM2e":
        entries |= {74: target.memory_bus_bits // _HBM_STACK_BITS,
                    75: _HBM_STACK_BITS // _HBM_CHANNEL_BITS}
    return b"".join(struct.pack("<III", key, 1, value) for key, value in entries.items())


def _topology(target: Target) -> bytes:
    """Masks of the Xe-cores, of the banks of the last cache, and of a core's EUs."""
    banks = target.last_level_cache_bytes >> 10
    counts = {1: target.xe_cores, 2: target.xe_cores, 3: banks // _L3_BANK_KIB,
              5: target.eus_per_core}
    return b"".join(_masks(counts))


def _masks(counts: dict[int, int]) -> Iterator[bytes]:
    for kind, count in counts.items():
        mask = ((1 << count) - 1).to_bytes(-(-count // 64) * 8, "little")
        yield struct.pack("<HHI", 0, kind, len(mask)) + mask
