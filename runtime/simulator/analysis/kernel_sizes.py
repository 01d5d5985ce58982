"""Find a kernel in its module, and what it needs: lanes, work-items, shared local memory."""

from __future__ import annotations

import math
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.errors import DeviceError, LegalityError
from triton_xe.hardware.target import Target
from triton_xe.llvm.records import Function

_ARGUMENT_NAMES = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "i16"}


class Sizes(NamedTuple):
    """Lanes of a subgroup, and sizes of the work-group."""

    lanes: int
    work_group: tuple[int, int, int]

    @property
    def sub_groups(self) -> int:
        return -(-math.prod(self.work_group) // self.lanes)


class SharedMemory(NamedTuple):
    """Offsets of the variables in shared local memory, and the bytes of all."""

    offsets: dict[str, int]
    nbytes: int

    @classmethod
    def place(cls, module: ir.Module) -> SharedMemory:
        """Assign an offset, a multiple of 64 bytes, to each variable of a module."""
        offsets, end = {}, 0
        for variable in module.globals.values():
            if variable.space == 3:
                offsets[variable.name] = -(-end // 64) * 64
                end = offsets[variable.name] + variable.type.size
        return cls(offsets, end)


def find_kernel(module: ir.Module, name: str) -> Function:
    """The kernel of that name; `DeviceError` if the module has none."""
    found = next((k for k in module.kernels() if k.name == name), None)
    if found is None:
        names = ", ".join(k.name for k in module.kernels()) or "none"
        raise DeviceError(f"no kernel {name!r} in this module; it has: {names}")
    return found


def argument_types(kernel: Function) -> tuple[str, ...]:
    """Types of the kernel's parameters, named as in `runtime.device.Kernel`."""
    return tuple("ptr" if t.kind == "ptr" else _ARGUMENT_NAMES.get(t.name, t.name)
                 for _, t in kernel.parameters)


def sizes(module: ir.Module, kernel: Function, target: Target) -> Sizes:
    """Sizes of a kernel's work-groups; refuse those that the device does not have."""
    lanes, *_ = module.metadata_integers(kernel, "intel_reqd_sub_group_size") or (32,)
    name = kernel.name
    if lanes not in target.subgroup_sizes:
        raise LegalityError(
            f"kernel {name}: {target.name} has no subgroups of {lanes} lanes, only of "
            f"{', '.join(map(str, target.subgroup_sizes))}"
        )
    group = module.metadata_integers(kernel, "reqd_work_group_size")
    if len(group) != 3:
        raise DeviceError(f"kernel {name} has no reqd_work_group_size metadata")
    total = math.prod(group)
    if total > target.max_work_group_size:
        raise LegalityError(
            f"kernel {name}: a work-group of {total} work-items is over the limit of "
            f"{target.max_work_group_size} on {target.name}; use fewer warps"
        )
    if group[1:] != (1, 1) or total % lanes:
        raise LegalityError(
            f"kernel {name}: the simulator runs one-dimensional work-groups of whole subgroups"
        )
    return Sizes(lanes, (group[0], group[1], group[2]))


def check_slm(module: ir.Module, name: str, target: Target) -> None:
    """Refuse more shared local memory than a work-group can have."""
    nbytes = SharedMemory.place(module).nbytes
    if nbytes > target.max_slm_bytes:
        raise LegalityError(
            f"kernel {name}: {nbytes} bytes of shared local memory are over the limit of "
            f"{target.max_slm_bytes} on {target.name}"
        )
