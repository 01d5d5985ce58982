"""The functions and classes that `torch._C` has in an XPU build and lacks in a CPU build.

torch's own Python files below `torch/xpu` then run unchanged.  Nothing is asynchronous here: a
stream is a number, an event a time, and waiting is over before it starts.

torch is imported inside functions only: importing torch runs `autoload`, which imports this module.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_xe import knobs
from triton_xe.errors import DeviceError, UnsupportedError
from triton_xe.runtime.operator_traffic import SOURCES
from triton_xe.runtime.torch_xpu.graphs import Graphs, Launches
from triton_xe.runtime.torch_xpu.library import Library
from triton_xe.runtime.torch_xpu.properties import XpuDeviceProperties
from triton_xe.runtime.torch_xpu.tf32 import Tf32

if TYPE_CHECKING:
    from triton_xe.runtime.torch_xpu.cpp import Kernel

XPU_DEVICE_TYPE = 12  # c10::DeviceType::XPU


class Bindings:
    """Functions and classes for `torch._C`, listed by `names()`.

    Public methods become functions with the prefix `_xpu_`.
    """

    def __init__(self, library: Library, properties: tuple[XpuDeviceProperties, ...]) -> None:
        self.library = library
        self.functions = library.functions
        self.properties = properties
        self.count = len(properties)
        self.fractions = [1.0] * self.count
        self.launches = Launches(library)
        self._handles: dict[tuple[int, int], int] = {}
        """Handles of streams, by device and number."""
        SOURCES.update({k: partial(library.take_traffic, k) for k in range(self.count)})

    def names(self) -> dict[str, Any]:
        """Functions and classes that torch expects in `torch._C`."""
        functions = {f"_xpu_{name}": getattr(self, name) for name in vars(Bindings)
                     if not name.startswith("_") and name != "names"}
        missing = {name: _unsupported(name) for name in (
            "_xpu_XPUAllocator", "_xpu_customAllocator", "_xpu_changeCurrentAllocator",
            "_xpu_getAllocator")}
        classes = {
            "_StaticXpuLauncher": StaticLauncher,
            "_XpuDeviceProperties": XpuDeviceProperties,
            "_XpuStreamBase": _stream_class(self),
            "_XpuEventBase": _event_class(self)}
        return (functions | missing | classes | Graphs(self.library, self.launches).names()
                | Tf32(self.library, self.properties).names())

    # devices -------------------------------------------------------------------------------------

    def init(self) -> None:
        import torch

        self.library.check(self.library.functions.xe_register_operators())
        torch.xpu.default_generators = tuple(
            torch.ops.triton_xe._default_generator(index) for index in range(self.count))
        setattr(torch.xpu, "_get_device_properties", self._properties_of)  # noqa: B010
        setattr(torch.xpu, "synchronize", _return_if_current(torch.xpu.synchronize))  # noqa: B010
        for name, answer in self._compiled_functions().items():
            setattr(torch._C, name, answer)

    def _compiled_functions(self) -> dict[str, Any]:
        """Functions in C that are called around each launch.

        Python is slow there, because a launch's data evict its own from the caches.
        """
        from triton_xe.runtime import native

        if native.launch is None:
            return {}
        names = ("xe_get_device", "xe_get_stream", "xe_stream_handle")
        addresses = (ctypes.cast(getattr(self.functions, name), ctypes.c_void_p).value
                     for name in names)
        answers = native.launch.make_answers(
            *addresses, self.count, self.getCurrentRawStream, self.synchronize)
        asked = ("_xpu_getDevice", "_xpu_getCurrentRawStream", "_xpu_synchronize")
        return dict(zip(asked, answers, strict=True))

    def _properties_of(self, device: int) -> XpuDeviceProperties:
        return self.properties[self._check_device(device)]

    def isInBadFork(self) -> bool:
        return False

    def getDeviceCount(self) -> int:
        return self.count

    def getDevice(self) -> int:
        return int(self.functions.xe_get_device())

    def setDevice(self, device: int) -> None:
        self.functions.xe_set_device(self._check_device(device))

    def exchangeDevice(self, device: int) -> int:
        if device < 0:
            return -1
        previous = self.getDevice()
        self.setDevice(device)
        return previous

    maybeExchangeDevice = exchangeDevice

    def synchronize(self, device: int) -> None:
        self._check_device(device)

    def getArchFlags(self) -> str:
        return " ".join(sorted({each.target_name for each in self.properties}))

    def canDeviceAccessPeer(self, device: int, peer: int) -> bool:
        return self._check_device(device) == self._check_device(peer)

    def _check_device(self, device: int) -> int:
        if not 0 <= device < self.count:
            raise DeviceError(
                f"xpu:{device} does not exist: the simulated devices are xpu:0 to "
                f"xpu:{self.count - 1}; TRITON_XE_DEVICE=sim:<name>,<name> makes several")
        return device

    def timestamp(self) -> int:
        """Nanoseconds of the current device's clock, or of the host's."""
        if not knobs.device_clock():
            return int(self.functions.xe_timestamp())
        from triton_xe.hardware.target import target
        from triton_xe.runtime.simulator.interface import clock_of

        index = self.getDevice()
        return round(clock_of(target(self.properties[index].target_name), index).now_ms() * 1e6)

    # streams -------------------------------------------------------------------------------------

    def getCurrentStream(self, device: int) -> tuple[int, int, int]:
        stream = self.functions.xe_get_stream(self._check_device(device))
        return stream, device, XPU_DEVICE_TYPE

    def getCurrentRawStream(self, device: int) -> int:
        stream = self.functions.xe_get_stream(device if device == 0 else self._check_device(device))
        found = self._handles.get((device, stream))
        if found is None:
            found = int(self.functions.xe_stream_handle(device, stream))
            self._handles[device, stream] = found
        return found

    def setStream(self, stream_id: int, device_index: int, device_type: int) -> None:
        self.functions.xe_set_stream(self._check_device(device_index), stream_id)
        self.setDevice(device_index)

    def getStreamFromExternal(self, data_ptr: int, device: int) -> tuple[int, int, int]:
        default = self.functions.xe_stream_handle(self._check_device(device), 0)
        return 0 if data_ptr == default else data_ptr, device, XPU_DEVICE_TYPE

    # memory --------------------------------------------------------------------------------------

    def emptyCache(self) -> None:
        return None

    def memoryStats(self, device: int) -> dict[str, Any]:
        return self.library.memory_stats(self._check_device(device))

    def resetPeakMemoryStats(self, device: int) -> None:
        self.functions.xe_reset_peak_stats(self._check_device(device))

    def resetAccumulatedMemoryStats(self, device: int) -> None:
        self.functions.xe_reset_accumulated_stats(self._check_device(device))

    def getMemoryInfo(self, device: int) -> tuple[int, int]:
        total = self.properties[self._check_device(device)].total_memory
        used = self.library.memory_stats(device)["allocated_bytes"]["all"]["current"]
        return max(0, total - used), total

    def getMemoryFraction(self, device: int) -> float:
        return self.fractions[self._check_device(device)]

    def setMemoryFraction(self, fraction: float, device: int) -> None:
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"a memory fraction is between 0 and 1, not at {fraction}")
        self.fractions[self._check_device(device)] = fraction
        total = self.properties[device].total_memory
        self.functions.xe_set_capacity(device, int(total * fraction))

    def memorySnapshot(self, mempool_id: Any) -> dict[str, Any]:
        return {"segments": [], "device_traces": []}

    def recordMemoryHistory(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError("the simulated xpu device keeps no memory history")


def _return_if_current(stock: Callable[[Any], None]) -> Callable[..., None]:
    """`torch.xpu.synchronize` that returns at once for the current device.

    torch calls it for every kind of device, and launches have ended when they return.
    """

    @wraps(stock)
    def synchronize(device: Any = None) -> None:
        if device is not None:
            stock(device)

    return synchronize


def _unsupported(name: str) -> type:
    """A class that can be derived from, and raises an error that names it when it is used."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"the simulated xpu device has no {name.lstrip('_')}")

    return type(name, (), {"__new__": refuse})


def _stream_class(bindings: Bindings) -> type:
    """Create the class of streams; it needs torch."""
    import torch

    class XpuStreamBase(torch.Stream):
        """`torch.Stream` on an XPU, with the number that kernels are launched with."""

        def __new__(cls, priority: int = 0, **kwargs: Any) -> Any:
            if "stream_id" in kwargs:
                return super().__new__(cls, **kwargs)
            return super().__new__(cls, device=f"xpu:{bindings.getDevice()}", priority=priority)

        @property
        def sycl_queue(self) -> int:
            return int(bindings.functions.xe_stream_handle(self.device_index, self.stream_id))

        @property
        def priority(self) -> int:
            return 0

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, 0

    XpuStreamBase.__name__ = "_XpuStreamBase"
    return XpuStreamBase


def _event_class(bindings: Bindings) -> type:
    """Create the class of events; it needs torch."""
    import torch

    class XpuEventBase(torch.Event):
        """The time at which an event was recorded; no two events share one."""

        timestamp: int
        enable_timing: bool

        def __new__(cls, enable_timing: bool = False, interprocess: bool = False) -> Any:
            if interprocess:
                raise NotImplementedError("events of the simulated xpu device stay in one process")
            made = super().__new__(cls, "xpu", enable_timing=enable_timing)
            made.timestamp = 0
            made.enable_timing = enable_timing
            return made

        def record(self, stream: Any = None) -> None:
            self.timestamp = bindings.timestamp()

        def wait(self, stream: Any = None) -> None:
            return None

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            return None

        def elapsed_time(self, other: Any) -> float:
            if not (self.enable_timing and other.enable_timing):
                raise ValueError(
                    "elapsed_time needs two events that were made with enable_timing=True")
            if not (self.timestamp and other.timestamp):
                raise ValueError("elapsed_time needs two events that have been recorded")
            return float(other.timestamp - self.timestamp) * 1e-6

        @property
        def sycl_event(self) -> int:
            return self.timestamp

    XpuEventBase.__name__ = "_XpuEventBase"
    return XpuEventBase


class StaticLauncher:
    """`torch._C._StaticXpuLauncher`."""

    @staticmethod
    def _load_kernel(path: str, name: str, shared: int, device: int) -> tuple[Kernel, int, int]:
        from triton_xe.runtime.torch_xpu.cpp import Kernel

        kernel = Kernel(Path(path).read_bytes(), name, device)
        registers, spills, _ = kernel.facts
        return kernel, registers, spills

    @staticmethod
    def _launch_kernel(kernel: Kernel, x: int, y: int, z: int, *arguments: Any) -> None:
        """Launch; `arguments`: warps, shared memory, letters of types, values, and the stream."""
        *_, values, stream = arguments
        taken = [each.data_ptr() if hasattr(each, "data_ptr") else each or 0
                 for each in values[:len(kernel.types)]]
        kernel.launch((x, y, z), taken, stream)
