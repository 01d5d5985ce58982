"""The target of a real GPU: instructions from our table, sizes and limits from its driver."""

from __future__ import annotations

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target, nearest
from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.objects import PhysicalDevice


def nearest_target(device: PhysicalDevice) -> tuple[Target, bool]:
    """The nearest row of our table for a device, and True if it is the device's own row.

    For a device without a row, features are those that the driver reports.
    """
    compute = device.compute_properties()
    has_fp64 = bool(device.module_properties().flags & raw.MODULE_FP64)
    return nearest(
        device.ip_version, tuple(compute.subGroupSizes[: compute.numSubGroupSizes]),
        dpas=device.has_dpas, block2d=device.has_block_2d, fp64=has_fp64,
    )


def device_target(device: PhysicalDevice) -> Target:
    """The target of a real device, with instructions from our table and the driver's sizes and
    limits.
    """
    base, _ = nearest_target(device)
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
    return base._replace(
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
