"""Fixtures: Intel's own driver with its simulated command stream, and a driver made of Python."""

from __future__ import annotations

import ctypes
import json
import struct
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from triton_xe.runtime.level_zero import device as device_module
from triton_xe.runtime.level_zero import objects, raw
from triton_xe.tools import intel

Outcome = dict[str, Any]
START = """
import json, os, sys, threading, time
import numpy as np
from triton_xe.errors import DeviceError
from triton_xe.runtime.level_zero.device import open_devices
from triton_xe.runtime.level_zero.errors import LevelZeroError
from triton_xe.tools import sample_kernel
from triton_xe.tools.sample_kernel import to_spirv
device = open_devices()[0]
lanes = device.target.subgroup_size
out = {}
def refusal(action):
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"
"""
END = "\nprint('OUT' + json.dumps(out))\n"
@pytest.fixture
def on_driver(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    """Run code with `device`, `lanes` and `out` on the driver of a device; gives what is in `out`.

    The keys `stdout` and `stderr` hold what the process printed.
    """
    reason = intel.driver_available()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("cache")

    def run(
        code: str, device: str = "bmg", extra: Mapping[str, str] | None = None, start: str = START
    ) -> Outcome:
        session = intel.level_zero_environment(device)
        environment = {"TRITON_XE_CACHE": str(folder), **(extra or {})}
        text = start + textwrap.dedent(code) + END
        done = session.run("-c", text, extra=environment, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        (line,) = (each for each in done.stdout.splitlines() if each.startswith("OUT"))
        return {"stdout": done.stdout, "stderr": done.stderr, **json.loads(line[3:])}

    return run


def native_binary(kernel: str, grf: int, spills: int, code: bytes = b"") -> bytes:
    """The smallest ELF file with the `.ze_info` and code of one kernel."""
    info = (
        f"kernels:\n  - name: {kernel}\n    execution_env:\n"
        f"      grf_count: {grf}\n      spill_size: {spills}\n"
    ).encode()
    names = f"\0.ze_info\0.shstrtab\0.text.{kernel}\0".encode()
    at_info, at_names = 64, 64 + len(info)
    table = at_names + len(names)
    at_code = table + 4 * 64
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 1, 205, 1) + bytes(16)
    header += struct.pack("<QIHHHHHH", table, 0, 64, 0, 0, 64, 4, 2)
    sections = [(0, 0, 0, 0), (1, 1, at_info, len(info)), (10, 3, at_names, len(names)),
                (20, 1, at_code, len(code))]
    rows = (
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, start, size, 0, 0, 1, 0)
        for name, kind, start, size in sections
    )
    return header[:64] + info + names + b"".join(rows) + code


class FakeApi(raw.Api):
    """A Level Zero driver in Python: one B580 that builds any module and executes nothing.

    `codes`: what a call answers instead of success.  `missing`: functions it does not have.
    `calls`: names of all calls.  `spills`: bytes per thread by build flags; `code`: native code by
    them.  `ip_version`: as the driver gives it.
    """

    CREATES: Mapping[str, int] = {
        "zeContextCreate": 2, "zeModuleCreate": 3, "zeKernelCreate": 2, "zeEventCreate": 2,
        "zeMemAllocHost": 4,
        "zeCommandListCreateImmediate": 3, "zeEventPoolCreate": 4, "zeMemAllocDevice": 5,
    }

    def __init__(self, path: str) -> None:
        self.path = path
        self.codes: dict[str, int] = {}
        self.missing: set[str] = set()
        self.ip_version = 20 << 22 | 1 << 14
        self.calls: list[str] = []
        self.arguments: dict[int, bytes | None] = {}
        self.sets: list[int] = []
        self.launches: list[tuple[int, int, int]] = []
        self.lists: list[int] = []
        self.kernels: list[int] = []
        self.ticks: dict[int, int] = {}
        self.memory_type: Callable[[int], int] = lambda pointer: raw.DEVICE_MEMORY
        self.memory_owner = 2
        self.memory_range: Callable[[int], tuple[int, int]] = lambda pointer: (pointer, 1 << 40)
        self.spills: Callable[[str], int] = lambda flags: 0
        self.code: Callable[[str], bytes] = lambda flags: b""
        self.parameters = 4
        self.flags = ""
        self.callbacks: dict[str, Any] = {}
        self._next = 1000

    def has(self, name: str) -> bool:
        return name not in self.missing

    def function(self, name: str) -> Any:
        if name in self.missing:
            raise raw.DeviceError(f"the Level Zero loader {self.path} has no {name}: too old")
        if name not in self.callbacks:
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *raw.PROTOTYPES[name])
            self.callbacks[name] = kind(lambda *args: self.answer(name, args))
        return self.callbacks[name]

    def answer(self, name: str, args: tuple[Any, ...]) -> int:
        self.calls.append(name)
        if name in self.codes:
            return ctypes.c_int(self.codes[name]).value
        if name in self.CREATES:
            self._next += 4096
            args[self.CREATES[name]][0] = args[self.CREATES[name]]._type_(self._next)
        handler = getattr(self, name, None)
        if handler is not None:
            handler(*args)
        return 0

    def _one(self, count: Any, elements: Any, value: Any) -> None:
        count[0] = 1
        if elements:
            elements[0] = value

    def zeInitDrivers(self, count: Any, elements: Any, _: Any) -> None:
        self._one(count, elements, raw.DriverHandle(1))

    def zeDriverGet(self, count: Any, elements: Any) -> None:
        self._one(count, elements, raw.DriverHandle(1))

    def zeDriverGetProperties(self, _: Any, properties: Any) -> None:
        properties[0].driverVersion = 1 << 24 | 3 << 16 | 7

    def zeDeviceGet(self, _: Any, count: Any, elements: Any) -> None:
        self._one(count, elements, raw.DeviceHandle(2))

    def zeDeviceGetProperties(self, _: Any, properties: Any) -> None:
        p = properties[0]
        p.type, p.vendorId, p.deviceId, p.name = 1, raw.INTEL_VENDOR, 0xE20B, b"Fake B580"
        p.timerResolution, p.kernelTimestampValidBits = 1000, 32
        p.numSlices, p.numSubslicesPerSlice, p.numEUsPerSubslice = 5, 4, 8
        ip = ctypes.cast(p.pNext, ctypes.POINTER(raw.ze_device_ip_version_ext_t))
        ip[0].ipVersion = self.ip_version

    def zeDeviceGetComputeProperties(self, _: Any, properties: Any) -> None:
        p = properties[0]
        p.maxTotalGroupSize, p.maxSharedLocalMemory, p.numSubGroupSizes = 1024, 128 << 10, 2
        p.subGroupSizes[0], p.subGroupSizes[1] = 16, 32

    def zeDeviceGetCommandQueueGroupProperties(self, _: Any, count: Any, elements: Any) -> None:
        count[0] = 1
        if elements:
            elements[0].flags = raw.COMPUTE_QUEUE

    def zeModuleCreate(self, _: Any, __: Any, description: Any, *___: Any) -> None:
        if description[0].format == raw.FORMAT_SPIRV:
            self.flags = description[0].pBuildFlags.decode()

    def zeModuleGetNativeBinary(self, _: Any, size: Any, data: Any) -> None:
        grf = 256 if "large-register-file" in self.flags else 128
        binary = native_binary("vector_add", grf, self.spills(self.flags), self.code(self.flags))
        size[0] = len(binary)
        if data:
            ctypes.memmove(data, binary, len(binary))

    def zeKernelGetProperties(self, _: Any, properties: Any) -> None:
        p = properties[0]
        p.numKernelArgs, p.spillMemSize = self.parameters, self.spills(self.flags)
        p.requiredGroupSizeX, p.requiredGroupSizeY, p.requiredGroupSizeZ = 64, 1, 1
        extension = raw.ze_kernel_max_group_size_properties_ext_t
        largest = ctypes.cast(p.pNext, ctypes.POINTER(extension))
        largest[0].maxGroupSize = 512 if "large-register-file" in self.flags else 1024

    def zeMemGetAllocProperties(self, _: Any, pointer: int, properties: Any, owner: Any) -> None:
        assert properties[0].stype == raw.ze_memory_allocation_properties_t.STYPE
        properties[0].type = self.memory_type(pointer)
        owner[0] = raw.DeviceHandle(self.memory_owner)

    def zeMemGetAddressRange(self, _: Any, pointer: int, base: Any, size: Any) -> None:
        base[0], size[0] = self.memory_range(pointer)

    def zeCommandListAppendBarrier(self, _: Any, signal: Any, *__: Any) -> None:
        self.ticks[signal.value] = 1000 * (len(self.ticks) + 1)

    def zeEventQueryKernelTimestamp(self, event: Any, found: Any) -> None:
        getattr(found[0], "global").kernelEnd = self.ticks[event.value]

    def zeKernelSetArgumentValue(self, _: Any, index: int, size: int, value: Any) -> None:
        self.sets.append(index)
        self.arguments[index] = ctypes.string_at(value, size) if value else None

    def zeKernelSuggestMaxCooperativeGroupCount(self, _: Any, count: Any) -> None:
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint32))[0] = 40

    def zeCommandListAppendLaunchCooperativeKernel(self, *given: Any) -> None:
        self.zeCommandListAppendLaunchKernel(*given)

    def zeCommandListAppendLaunchKernel(self, to: Any, kernel: Any, count: Any, *_: Any) -> None:
        c = count[0]
        self.kernels.append(kernel.value)
        self.lists.append(to.value)
        self.launches.append((c.groupCountX, c.groupCountY, c.groupCountZ))


@pytest.fixture
def fake(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FakeApi]:
    """A fake driver in place of Level Zero, with a cache folder of its own."""
    folder = tmp_path_factory.mktemp("fake")
    path = str(folder / "libze_fake.so")
    driver = FakeApi(path)
    monkeypatch.setenv("TRITON_XE_LEVEL_ZERO", path)
    monkeypatch.setenv("TRITON_XE_CACHE", str(Path(folder) / "cache"))
    raw.loaded_apis[path] = driver
    yield driver
    for opened in device_module.opened_devices.pop(path, []):
        opened.close()
    objects.opened_drivers.pop(path, None)
    del raw.loaded_apis[path]
