"""`torch.xpu.get_device_properties` of a simulated device."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import NoReturn

import triton_xe
from triton_xe.hardware.target import Target


class XpuUuid(SimpleNamespace):
    """Sixteen bytes with their usual text form."""

    bytes: list[int]

    def __str__(self) -> str:
        return str(uuid.UUID(bytes=bytes(self.bytes)))


CUDA_NAMES = {"multi_processor_count": "gpu_subslice_count", "L2_cache_size":
              "last_level_cache_size", "shared_memory_per_block": "local_mem_size"}
"""Names of properties that libraries written for CUDA use -> names here."""


class XpuDeviceProperties(SimpleNamespace):
    """Device properties with the names and units of torch's class (bytes, MHz, bits).

    `architecture` packs the IP version as the compute runtime does.  As in torch's XPU build, names
    of CUDA's properties are missing.  The only addition is `target_name`, the simulated device.
    """

    def __getattr__(self, name: str) -> NoReturn:
        hint = CUDA_NAMES.get(name)
        raise AttributeError(
            f"'torch._C._XpuDeviceProperties' object has no attribute '{name}'" + (
                f": torch has it for CUDA only; on xpu it is '{hint}'" if hint else ""))

    def __repr__(self) -> str:
        return (
            f"_XpuDeviceProperties(name='{self.name}', platform_name='{self.platform_name}', "
            f"type='{self.type}', driver_version='{self.driver_version}', "
            f"total_memory={self.total_memory >> 20}MB, "
            f"gpu_subslice_count={self.gpu_subslice_count}, gpu_eu_count={self.gpu_eu_count})")


def properties_of(target: Target, index: int) -> XpuDeviceProperties:
    """The properties of device `index`, which simulates `target`."""
    eus = target.xe_cores * target.eus_per_core
    return XpuDeviceProperties(
        name=f"Simulated Intel {target.product} ({target.name})",
        platform_name="triton-xe simulator",
        vendor="Intel(R) Corporation",
        device_id=0,
        driver_version=triton_xe.__version__,
        version=triton_xe.__version__,
        max_compute_units=eus,
        gpu_eu_count=eus,
        gpu_subslice_count=target.xe_cores,
        max_work_group_size=target.max_work_group_size,
        max_num_sub_groups=target.max_work_group_size // min(target.subgroup_sizes),
        memory_clock_rate=target.memory_clock_mhz,
        memory_bus_width=target.memory_bus_bits,
        sub_group_sizes=list(target.subgroup_sizes),
        local_mem_size=target.max_slm_bytes,
        last_level_cache_size=target.last_level_cache_bytes,
        has_fp16=True,
        has_fp64=target.has_fp64,
        has_atomic64=True,
        has_bfloat16_conversions=target.has_bf16_conversion,
        has_subgroup_matrix_multiply_accumulate=target.has_dpas,
        has_subgroup_matrix_multiply_accumulate_tensor_float32=target.has_tf32_dpas,
        has_subgroup_2d_block_io=target.has_block_2d,
        is_integrated_gpu=target.is_integrated,
        total_memory=target.memory_bytes,
        architecture=_packed_version(target.ip_version),
        target_name=target.name,
        type="gpu",
        uuid=_uuid(f"triton-xe {target.name} {index}"),
    )


def without_uuid(properties: XpuDeviceProperties) -> XpuDeviceProperties:
    """Copy without the UUID, for torch 2.8: its Inductor writes all properties into source code."""
    return XpuDeviceProperties(**{k: v for k, v in vars(properties).items() if k != "uuid"})


def _uuid(name: str) -> XpuUuid:
    return XpuUuid(bytes=list(uuid.uuid5(uuid.NAMESPACE_OID, name).bytes))


def _packed_version(version: tuple[int, ...]) -> int:
    """Major version from bit 22, minor from bit 14, as in the graphics IP version."""
    major, minor, *_ = version
    return major << 22 | minor << 14
