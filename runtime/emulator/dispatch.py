"""How a launch starts its threads: the values that hardware puts into their registers.

`Dispatch` is what a COMPUTE_WALKER command and its interface descriptor say.  `of_zebin` makes
one from `.ze_info` and arguments, as Intel's driver does.  Sources: Intel compute runtime,
`hw_cmds_generated_*.inl` (COMPUTE_WALKER, INTERFACE_DESCRIPTOR_DATA) and `zebin/`; Intel PRM,
"Thread Payload".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triton_xe.errors import DeviceError, UnsupportedError
from triton_xe.runtime.emulator.kernel_info import Argument, KernelInfo
from triton_xe.runtime.emulator.memory import SCRATCH_HANDLE, AddressSpace, Surfaces
from triton_xe.runtime.emulator.registers import CHANNELS, Array, Bools, Threads
from triton_xe.runtime.level_zero.zebin import sections

Triple = tuple[int, int, int]
_HEADER_GROUPS = (1, 6, 7)
"""Dwords of r0 with the work-group's x, y and z."""
_INDIRECT_ALIGNMENT = 64
_SURFACE = 0x1000
"""Numbers of the bindless surfaces that `of_zebin` describes are multiples of this."""


@dataclass(frozen=True)
class LocalIds:
    """Local ids that hardware computes: one register of 16-bit numbers for each dimension."""

    sizes: Triple
    emitted: tuple[int, ...]
    """Dimensions (0 x, 1 y, 2 z) that are put into registers, in this order."""
    order: tuple[int, int, int] = (0, 1, 2)
    """Dimensions from the one that changes fastest."""


@dataclass(frozen=True)
class Dispatch:
    """The threads of a launch; sizes are in bytes."""

    groups: Triple
    threads: int
    """Threads of each work-group."""
    simd: int
    first_group: Triple = (0, 0, 0)
    indirect_offset: int = 0
    """r0.0: the arguments in memory, counted from `general_state_base`."""
    general_state_base: int = 0
    inline_data: bytes = b""
    """Arguments in registers, after r0 and the local ids."""
    local_ids: LocalIds | None = None
    slm_bytes: int = 0
    scratch_bytes: int = 0
    """Scratch memory of each thread."""
    scratch_pointer: int = SCRATCH_HANDLE
    """Handle of it in messages of Xe3P; an argument."""
    last_thread_mask: int = 0xFFFFFFFF
    """Channels of the last thread of each work-group that are enabled."""
    surfaces: Surfaces | None = None

    def __post_init__(self) -> None:
        if min(*self.groups, self.threads, self.simd) < 1:
            raise DeviceError(f"a launch of {self.groups} work-groups of {self.threads} threads "
                              f"of {self.simd} channels has no thread; launch at least one")
        if self.simd not in (8, 16, 32):
            raise DeviceError(f"threads have 8, 16 or 32 channels, not {self.simd}")
        if self.indirect_offset % _INDIRECT_ALIGNMENT:
            raise DeviceError(f"arguments in memory are aligned to {_INDIRECT_ALIGNMENT} bytes, "
                              f"not at offset {self.indirect_offset:#x}")

    @property
    def group_count(self) -> int:
        x, y, z = self.groups
        return x * y * z

    def inputs(self, grf_bytes: int) -> int:
        """The bytes of the registers that `fill` writes, one bit for each."""
        registers = 1 + self._id_registers(grf_bytes)
        return (1 << registers * grf_bytes + len(self.inline_data)) - 1

    def fill(self, threads: Threads, grf_bytes: int) -> None:
        """Write the payload of every thread."""
        words = threads.views[np.uint32]
        number = threads.numbers % self.threads
        words[:, 0] = self.indirect_offset
        for word, coordinate in zip(_HEADER_GROUPS, self._group_ids(threads), strict=True):
            words[:, word] = coordinate
        words[:, 2] = number | self.threads << 24
        words[:, 5] = SCRATCH_HANDLE
        self._fill_local_ids(threads, number, grf_bytes)
        first = (1 + self._id_registers(grf_bytes)) * grf_bytes
        threads.bytes[:, first : first + len(self.inline_data)] = np.frombuffer(
            self.inline_data, np.uint8)
        self._enable(threads, number)

    def _group_ids(self, threads: Threads) -> tuple[Array, Array, Array]:
        x, y, _ = self.groups
        group, (first_x, first_y, first_z) = threads.groups, self.first_group
        return group % x + first_x, group // x % y + first_y, group // (x * y) + first_z

    def _id_registers(self, grf_bytes: int) -> int:
        """Registers that local ids take."""
        emitted = self.local_ids.emitted if self.local_ids else ()
        return len(emitted) * max(1, self.simd * 2 // grf_bytes)

    def _fill_local_ids(self, threads: Threads, number: Array, grf_bytes: int) -> None:
        """Write the local ids of each thread's lanes to its first registers."""
        if self.local_ids is None or not self.local_ids.emitted:
            return
        ids = local_ids(self.local_ids, number[:, None] * self.simd + np.arange(self.simd))
        size = max(1, self.simd * 2 // grf_bytes)
        words = threads.views[np.uint16]
        for i, dimension in enumerate(self.local_ids.emitted):
            first = (1 + i * size) * grf_bytes // 2
            words[:, first : first + self.simd] = ids[dimension]

    def _enable(self, threads: Threads, number: Array) -> None:
        bits = (self.last_thread_mask >> np.arange(CHANNELS) & 1).astype(bool)
        last: Bools = number == self.threads - 1
        threads.enabled[last] &= bits


def local_ids(ids: LocalIds, item: Array) -> tuple[Array, Array, Array]:
    """Local x, y and z of the work-items with these linear numbers."""
    found, rest = {}, item
    for dimension in ids.order:
        found[dimension] = rest % ids.sizes[dimension]
        rest = rest // ids.sizes[dimension]
    return found[0], found[1], found[2]


def of_zebin(
    info: KernelInfo, binary: bytes, space: AddressSpace, groups: Triple,
    arguments: Sequence[Any], work_group: Triple | None = None,
) -> Dispatch:
    """The dispatch of a kernel with arguments: addresses, numbers (int, float) or raw bytes."""
    size = info.work_group or work_group
    if size is None:
        raise DeviceError(f"kernel {info.name} has no required work-group size; give one")
    threads = -(-size[0] * size[1] * size[2] // info.simd)
    values = _pointers(info, binary, space, arguments)
    rest = _payload(info, values, groups, size)[info.inline_bytes :]
    surfaces = {_surface_number(a): int(values[a.offset])
                for a in info.arguments if a.is_bindless}
    per_thread = _per_thread_ids(info, size, threads)
    address = space.put(rest + per_thread + bytes(256))
    inline = _payload(info, values, groups, size, address)[: info.inline_bytes]
    base = address & ~((1 << 32) - 1)
    items = size[0] * size[1] * size[2] % info.simd
    return Dispatch(
        groups, threads, info.simd, indirect_offset=address - base, general_state_base=base,
        inline_data=inline, slm_bytes=info.slm_bytes, scratch_bytes=info.scratch_bytes,
        last_thread_mask=(1 << items) - 1 if items else 0xFFFFFFFF,
        surfaces=lambda kind, number: (surfaces[number], space.bytes_from(surfaces[number])))


def _per_thread_ids(info: KernelInfo, size: Triple, threads: int) -> bytes:
    if info.per_thread:
        raise UnsupportedError(f"kernel {info.name} takes local ids as part of each thread's "
                               "payload, which this dispatch does not fill in")
    return b""


_SECTIONS: Mapping[str, str] = {"const_base": ".data.const", "global_base": ".data.global"}


def _pointers(
    info: KernelInfo, binary: bytes, space: AddressSpace, arguments: Sequence[Any]
) -> dict[int, Any]:
    """Offset in the payload -> value of each argument, the kernel's own data included."""
    data = {kind: space.put(sections(binary)[name]) for kind, name in _SECTIONS.items()
            if any(a.kind == kind for a in info.arguments)}
    return {a.offset: data[a.kind] if a.kind in data else arguments[a.index]
            for a in info.arguments if a.kind in data or a.kind.startswith("arg_by")}


def _surface_number(argument: Argument) -> int:
    return _SURFACE * (argument.offset + 1)


def _payload(
    info: KernelInfo, values: Mapping[int, Any], groups: Triple, size: Triple, rest: int = 0
) -> bytes:
    """The arguments as the kernel expects them, from their descriptions.

    `rest` is the address of those that are not in registers, which Xe3P gets as an argument.
    """
    counts: Mapping[str, bytes] = {
        "local_size": struct.pack("<3I", *size),
        "enqueued_local_size": struct.pack("<3I", *size),
        "group_count": struct.pack("<3I", *groups),
        "global_size": struct.pack("<3I", *(g * s for g, s in zip(groups, size, strict=True))),
        "global_id_offset": bytes(12), "buffer_offset": bytes(4),
        "work_dimensions": struct.pack("<I", 3),
        "indirect_data_pointer": struct.pack("<Q", rest),
        "scratch_pointer": struct.pack("<Q", SCRATCH_HANDLE),
    }
    end = max((a.offset + a.size for a in info.arguments), default=0)
    payload = bytearray(max(end, info.inline_bytes))
    for argument in info.arguments:
        if argument.offset in values:
            raw = _bytes_of(argument, values[argument.offset])
        elif argument.kind in counts:
            raw = counts[argument.kind]
        else:
            raise UnsupportedError(f"kernel {info.name} takes a {argument.kind}, which this "
                                   "dispatch does not fill in")
        payload[argument.offset : argument.offset + argument.size] = raw[
            : argument.size].ljust(argument.size, b"\0")
    return bytes(payload)


def _bytes_of(argument: Argument, value: Any) -> bytes:
    if argument.is_bindless:
        return struct.pack("<I", _surface_number(argument))
    return argument_bytes(value)[argument.source_offset :]


def argument_bytes(value: Any) -> bytes:
    """An argument as it is passed: float as fp32, integers and addresses as 64 bits."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        return struct.pack("<f", value)
    return struct.pack("<Q", int(value) & (1 << 64) - 1)
