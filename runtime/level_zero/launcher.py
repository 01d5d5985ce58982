"""Launch functions of kernels: compiled code for common launches, Python for the others.

`make_launcher` returns `launch(list, x, y, z, *values)`: `list` is a command list handle or 0 for
the device's own.  A pointer is an int, None (null), or any object with `data_ptr()`.
`native.arguments.make_direct_launcher` returns the same in the form in which Triton calls a
launcher.

The compiled code is `runtime/native/launch.c`.  It either does a launch or passes it, with all of
its arguments, to `PlainLaunch`, which does it or raises the error.  Without the compiled code,
`PlainLaunch` does every launch.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from triton_xe.errors import DeviceError
from triton_xe.hardware.rounding import bf16_bits
from triton_xe.runtime import native
from triton_xe.runtime.arguments import check_grid, check_resident, integer_bits
from triton_xe.runtime.arrays import address_of
from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.errors import LevelZeroError
from triton_xe.runtime.level_zero.objects import describe_pointer
from triton_xe.runtime.level_zero.raw import api
from triton_xe.runtime.native.arguments import Launch, format_of
from triton_xe.runtime.versions import Versions

_CALLS = ("zeKernelSetArgumentValue", "zeCommandListAppendLaunchKernel", "zeMemGetAllocProperties",
          "zeMemGetAddressRange")
_FLOATS = {"f32": ctypes.c_float, "f64": ctypes.c_double}
_lock = threading.Lock()


@dataclass
class DeviceState:
    """State shared by launches on one device, as integers: `list` is 0 if the device is closed.

    Launches on the queue `stream` are appended to the command list `stream_list`.  An exception
    is a queue that is recorded into a graph, as the function at `queue_state` says (0: there are no
    graphs).  Tensors on the device that DLPack calls `dlpack_type` and `dlpack_id` are in this
    device's memory.

    Compiled code asks the driver about an allocation once, not at every launch.  How long an answer
    is valid depends on what can happen when memory is freed.  This runtime only sees that for its
    own memory:

    - Memory of this runtime is cached from its allocation until just before it is freed.
    - Device memory from 2**47 on is cached for good.  Plain memory of a process has lower
      addresses, so an address there never becomes one that a kernel must not use.  Discrete GPUs
      have all device memory there.
    - All other memory (host and shared memory of others, an integrated GPU's device memory) is
      queried at each launch.  After it is freed, its address may be that of plain memory.

    Tensors of torch's XPU device need no query: torch keeps their memory as long as they live.
    """

    list: int = 0
    context: int = 0
    device: int = 0
    stream: int = 0
    stream_list: int = 0
    queue_state: int = 0
    dlpack_type: int = 0
    dlpack_id: int = 0

    def remember(self, begin: int, end: int) -> None:
        """Allow kernels to use this memory without a query; it replaces cached ranges that it
        overlaps.
        """

    def forget(self, begin: int, end: int) -> None:
        """Drop cached ranges that overlap this memory, so that they are queried again."""


@dataclass
class KernelState:
    """State shared by launches of one kernel; `handle` is 0 if it is closed."""

    device: DeviceState
    handle: int
    format: bytes
    is_busy: int = 0
    """Nonzero while compiled code must not set arguments."""
    has_last: int = 0
    """Nonzero if compiled code knows the arguments that the driver has."""
    is_cooperative: int = 0
    """Nonzero if the device must run all work-groups at once; then Python does the launch."""
    versions: Versions | None = None
    """Conditions that the kernel assumes of launches, and the version for other launches."""
    general: Any = None
    """State of the general version, once it was needed."""

    def assume(self, conditions: bytes) -> None:
        """Send launches that do not satisfy a packed table of conditions to `general`."""


def device_state(*, in_python: bool = False) -> DeviceState:
    """The state of a device that is not open yet; without compiled code, Python launches."""
    if in_python or native.launch is None:
        return DeviceState()
    state: DeviceState = native.launch.Device(*map(api().address, _CALLS))
    return state


def kernel_state(device: DeviceState, handle: int, types: Sequence[str]) -> KernelState:
    kind = KernelState if _is_plain(device) else native.launch.Kernel
    state: KernelState = kind(device, handle, format_of(types))
    return state


def assume(kernel: KernelState, versions: Versions | None) -> None:
    """Launch the kernel only if its conditions hold, otherwise its general version."""
    if versions is not None:
        kernel.versions = versions
        kernel.assume(versions.conditions.packed())


def make_launcher(
    device: DeviceState, kernel: KernelState, name: str, types: Sequence[str]
) -> Launch:
    """Create the launch function of a kernel.

    `types` has the type of each value; bf16 is passed as i16, and constexpr is no argument at all.
    """
    general = PlainLaunch(device, kernel, name, tuple(types))
    letters = format_of(types)
    if _is_plain(device) or len(letters) > native.launch.MOST_ARGUMENTS:
        return general
    made: Launch = native.launch.make_launcher(kernel, letters, general)
    return made


def trust_device_of(state: DeviceState, tensor: Any) -> None:
    """Stop querying the driver about the memory of tensors on this tensor's device."""
    if native.launch is not None:
        state.dlpack_type, state.dlpack_id = native.launch.device_of(tensor)


def _is_plain(device: DeviceState) -> bool:
    """True if there is no compiled code, so that Python does all launches."""
    return isinstance(device, DeviceState)


@dataclass(frozen=True)
class PlainLaunch:
    """Any launch, in Python; `DeviceError` describes an invalid one."""

    device: DeviceState
    kernel: KernelState
    name: str
    types: tuple[str, ...]

    def __call__(self, queue: int, x: int, y: int, z: int, *values: Any) -> None:
        """Launch on a queue, or on the device's own list for 0; grid and arguments follow."""
        if len(values) != len(self.types):
            self._refuse(f"it takes {len(self.types)} arguments, got {len(values)}")
        self._check_open()
        check_grid(self.name, (x, y, z))
        grid = [operator.index(each) for each in (x, y, z)]
        arguments = [
            self._argument(index, kind, value)
            for index, (kind, value) in enumerate(zip(self.types, values, strict=True))
            if kind != "constexpr"
        ]
        other = self._general(arguments, grid)
        if other is not None:
            replace(self, kernel=other)(queue, x, y, z, *values)
            return
        with _lock:
            self._check_open()
            self.kernel.is_busy, self.kernel.has_last = 1, 0
            try:
                self._start(queue or self.device.list, grid, arguments)
            finally:
                self.kernel.is_busy = 0

    def _general(
        self, arguments: list[tuple[int, bytes | None]], grid: list[int]
    ) -> KernelState | None:
        """The general version of the kernel if the launch needs it, otherwise None."""
        versions = self.kernel.versions
        if versions is None:
            return None
        numbers = [int.from_bytes(data or b"", "little") for _, data in arguments]
        failing = versions.failing(numbers, grid)
        if not failing:
            return None
        other: KernelState = versions.general(failing).launch_state
        self.kernel.general = other
        other.is_cooperative = self.kernel.is_cooperative
        return other

    def _start(
        self, queue: int, grid: list[int], arguments: list[tuple[int, bytes | None]]
    ) -> None:
        """Set the arguments, and append the kernel to a command list."""
        kernel = raw.KernelHandle(self.kernel.handle)
        for index, (size, data) in enumerate(arguments):
            self._call("zeKernelSetArgumentValue", kernel, index, size, data)
        how = ""
        if self.kernel.is_cooperative:
            how, most = "Cooperative", ctypes.c_uint32()
            self._call("zeKernelSuggestMaxCooperativeGroupCount", kernel, ctypes.byref(most))
            check_resident(self.name, grid, most.value)
        if all(grid):
            groups = ctypes.byref(raw.ze_group_count_t(*grid))
            to = raw.CommandListHandle(queue)
            self._call(f"zeCommandListAppendLaunch{how}Kernel", to, kernel, groups, None, 0, None)

    def _call(self, call: str, *arguments: Any) -> None:
        """Call the driver; raise `LevelZeroError` if it fails."""
        code = api().function(call)(*arguments)
        if code:
            raise LevelZeroError(call, code, what=f"cannot launch kernel {self.name!r}")

    def _check_open(self) -> None:
        if not (self.device.list and self.kernel.handle):
            self._refuse(
                "it or its device is closed, or this process was made by fork() after the device "
                "was used; use the 'spawn' method of multiprocessing"
            )

    def _argument(self, index: int, kind: str, value: Any) -> tuple[int, bytes | None]:
        """Size and bytes of an argument; shared local memory has only a size."""
        if kind == "ptr":
            return 8, struct.pack("<Q", self._address(index, value))
        if kind == "slm":
            return operator.index(value), None
        if kind in _FLOATS:
            data = bytes(_FLOATS[kind](value))
        elif kind == "f16":
            data = struct.pack("<e", ctypes.c_double(value).value)
        elif kind == "bf16":
            data = struct.pack("<H", bf16_bits(ctypes.c_double(value).value))
        else:
            bits = integer_bits(self.name, index, kind, _of_64_bits(value))
            data = bits.to_bytes((int(kind[1:]) + 7) // 8, "little")
        return len(data), data

    def _address(self, index: int, value: Any) -> int:
        """The address of a pointer argument, in memory that the kernel may use."""
        number = _of_64_bits(address_of(value))
        address = number & ((1 << 64) - 1)
        if address:
            self._check_memory(index, value, address)
        return address

    def _check_memory(self, index: int, value: Any, address: int) -> None:
        """Refuse an address that the GPU cannot access."""
        where = f"argument {index}"
        found = describe_pointer(raw.ContextHandle(self.device.context), address)
        if found.kind == "unknown":
            shown = hex(value) if isinstance(value, int) else type(value).__name__
            self._refuse(
                f"{where} ({shown}) points to plain host memory, which the GPU cannot read, or "
                "to freed memory; pass a tensor on device 'xpu', or memory allocated for the device"
            )
        if found.kind == "device" and found.device != self.device.device:
            self._refuse(
                f"{where} points to the memory of another GPU; copy the tensor to this device first"
            )

    def _refuse(self, why: str) -> NoReturn:
        raise DeviceError(f"cannot launch kernel {self.name!r}: {why}")


def _of_64_bits(value: Any) -> int:
    number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 64:
        raise OverflowError(f"{number} does not fit into 64 bits")
    return number
