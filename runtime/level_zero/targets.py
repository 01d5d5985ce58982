"""Which of our targets a GPU is: by the IP version its driver reports, else by capability."""

from __future__ import annotations

from dataclasses import replace

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import TARGETS, Target
from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.objects import PhysicalDevice

_FIRST_XE = (12, 55)
_BY_RELEASE = {
    (12, 55): "dg2", (12, 56): "dg2", (12, 57): "dg2", (12, 60): "pvc", (12, 61): "pvc",
    (12, 70): "mtl", (12, 71): "mtl", (12, 74): "arl-h",
    (20, 1): "bmg", (20, 2): "bmg", (20, 4): "lnl",
}
_WITHOUT_MATRIX_UNIT = ((12, 61),)
_BY_GENERATION = {20: "lnl", 30: "ptl"}
"""For a release that is not listed: the device whose instructions its generation has."""


def base_target(ip_version: tuple[int, ...]) -> tuple[Target, bool]:
    """The target for an IP version, and whether this very device is known.

    A newer device gets the newest target, whose instructions it has too; `UnsupportedError` for
    one older than Xe-HPG.
    """
    release = (ip_version[0], ip_version[1])
    if release < _FIRST_XE:
        raise UnsupportedError(
            f"IP version {'.'.join(map(str, ip_version))} is older than Xe-HPG (12.55): its "
            "kernels cannot be compiled; use an Arc, Data Center GPU Max or newer Core Ultra GPU"
        )
    name = _BY_RELEASE.get(release)
    if name is not None:
        found = TARGETS[name]
        if release in _WITHOUT_MATRIX_UNIT:
            found = replace(found, dpas_execution_size=0, has_tf32_dpas=False)
        return found, True
    generation = max((g for g in _BY_GENERATION if g <= release[0]), default=0)
    exact = TARGETS[_BY_GENERATION.get(generation, "mtl")]
    return exact, exact.ip_version[:2] == release


def device_target(device: PhysicalDevice) -> Target:
    """The target of a real device: our table's instructions, the driver's sizes and limits."""
    base, _ = base_target(device.ip_version)
    p, compute = device.properties, device.compute_properties()
    memories = device.memories()
    sizes = tuple(compute.subGroupSizes[: compute.numSubGroupSizes])
    shared = int(compute.maxSharedLocalMemory) or base.max_slm_bytes
    has_fp64 = bool(device.module_properties().flags & raw.MODULE_FP64)
    if base.subgroup_size not in sizes:
        raise UnsupportedError(
            f"{device.name} offers subgroup sizes {sizes}, but kernels for {base.name} need "
            f"{base.subgroup_size}; update the driver"
        )
    return replace(
        base,
        ip_version=device.ip_version,
        product=device.name,
        subgroup_sizes=sizes,
        has_fp64=base.has_fp64 and has_fp64,
        max_slm_bytes=shared,
        max_work_group_size=int(compute.maxTotalGroupSize),
        eus_per_core=int(p.numEUsPerSubslice) or base.eus_per_core,
        slices=int(p.numSlices) or base.slices,
        xe_cores=int(p.numSlices * p.numSubslicesPerSlice) or base.xe_cores,
        clock_mhz=int(p.coreClockRate) or base.clock_mhz,
        memory_bytes=max((int(m.totalSize) for m in memories), default=base.memory_bytes),
        memory_clock_mhz=max((int(m.maxClockRate) for m in memories), default=0)
        or base.memory_clock_mhz,
        memory_bus_bits=max((int(m.maxBusWidth) for m in memories), default=0)
        or base.memory_bus_bits,
    )
