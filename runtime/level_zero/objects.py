"""Level Zero objects.

Each owns one handle.  `close()` may be called twice, and errors name the call.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from triton_xe.errors import DeviceError
from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.errors import LevelZeroError, QueueRecordingError
from triton_xe.runtime.level_zero.raw import api

_UNINITIALIZED = 0x78000001
_UNSUPPORTED_FEATURE = 0x78000003
_AnyHandle = TypeVar("_AnyHandle", bound=raw.Handle)
_lock = threading.Lock()
opened_drivers: dict[str, list[Driver]] = {}
_owner = os.getpid()


def refuse_after_fork() -> None:
    """Raise `DeviceError` in a child that was forked after Level Zero was started.

    The driver would hang there.
    """
    if os.getpid() != _owner:
        raise DeviceError(
            "Level Zero was started before fork(), and its drivers do not work in the child; start "
            "worker processes with the 'spawn' or 'forkserver' method of multiprocessing"
        )


def _reset_in_unused_child() -> None:
    global _owner
    if not opened_drivers:
        _owner = os.getpid()


os.register_at_fork(after_in_child=_reset_in_unused_child)


class _Owner:
    """Owner of one handle, which is destroyed once: on `close()`, or when collected."""

    def __init__(self, handle: raw.Handle, destroy: str, *keep: Any) -> None:
        self._handle = handle
        self._keep = keep
        self._waits: list[Callable[[], None]] = []
        call = api().function(destroy) if destroy else lambda _: 0
        self._finalize = weakref.finalize(self, _destroy, call, handle, self._waits, keep)
        self._finalize.atexit = True

    @property
    def handle(self) -> raw.Handle:
        """The handle; `DeviceError` if it is closed, because drivers crash on destroyed handles."""
        if not self._finalize.alive:
            raise DeviceError(f"this {type(self).__name__} of Level Zero is closed")
        return self._handle

    @property
    def value(self) -> int:
        """The handle as an integer, for comparisons; also of a closed object."""
        return self._handle.value or 0

    def wait_before_close(self, wait: Callable[[], None]) -> None:
        """Call `wait` before the handle is destroyed: the device may still use the object."""
        self._waits[:] = [wait]

    @property
    def is_closed(self) -> bool:
        return not self._finalize.alive

    def close(self) -> None:
        self._finalize()


def _destroy(
    call: Any, handle: raw.Handle, waits: list[Callable[[], None]], keep: tuple[Any, ...]
) -> None:
    """Wait for work that may use a handle, and destroy it."""
    # errors are ignored, since no caller can handle them; a forked child must not call the driver
    if os.getpid() != _owner:
        return
    for wait in waits:
        try:
            wait()
        except QueueRecordingError:
            return  # a graph that is being recorded may use the object later
        except DeviceError:
            continue
    call(handle)


class Driver:
    """One installed driver; lives as long as the process."""

    def __init__(self, handle: raw.DriverHandle) -> None:
        self.handle = handle
        properties = raw.ze_driver_properties_t()
        version = ctypes.c_uint32()
        api().call("zeDriverGetProperties", handle, ctypes.byref(properties))
        api().call("zeDriverGetApiVersion", handle, ctypes.byref(version))
        self.version = int(properties.driverVersion)
        self.api_version = (version.value >> 16, version.value & 0xFFFF)
        self._context: Context | None = None

    @property
    def version_text(self) -> str:
        """The driver's version as Intel writes it: major.minor.build."""
        return f"{self.version >> 24}.{self.version >> 16 & 0xFF}.{self.version & 0xFFFF}"

    def devices(self) -> list[PhysicalDevice]:
        """The driver's devices that `ZE_AFFINITY_MASK` leaves visible."""
        handles = _list(raw.DeviceHandle, "zeDeviceGet", self.handle)
        return [PhysicalDevice(self, handle) for handle in handles]

    def context(self) -> Context:
        """The context on this driver that all users of this package share."""
        with _lock:
            if self._context is None or self._context.is_closed:
                self._context = Context(self)
            return self._context


class PhysicalDevice:
    """One device as a driver reports it."""

    def __init__(self, driver: Driver, handle: raw.DeviceHandle) -> None:
        self.driver, self.handle = driver, handle
        ip = raw.ze_device_ip_version_ext_t()
        self.properties = raw.ze_device_properties_t(pNext=ctypes.addressof(ip))
        api().call("zeDeviceGetProperties", handle, ctypes.byref(self.properties))
        self.properties.pNext = None
        number = int(ip.ipVersion)
        self.ip_version = (number >> 22, number >> 14 & 0xFF, number & 0x3F)
        self.name = self.properties.name.decode(errors="replace")
        self.device_id = int(self.properties.deviceId)

    @property
    def is_intel_gpu(self) -> bool:
        made_by_intel = self.properties.vendorId == raw.INTEL_VENDOR
        return bool(made_by_intel and self.properties.type == raw.GPU_TYPE)

    @property
    def is_integrated(self) -> bool:
        return bool(self.properties.flags & raw.INTEGRATED)

    def compute_properties(self) -> raw.ze_device_compute_properties_t:
        found = raw.ze_device_compute_properties_t()
        api().call("zeDeviceGetComputeProperties", self.handle, ctypes.byref(found))
        return found

    def module_properties(self) -> raw.ze_device_module_properties_t:
        found = raw.ze_device_module_properties_t()
        api().call("zeDeviceGetModuleProperties", self.handle, ctypes.byref(found))
        return found

    @property
    def has_dpas(self) -> bool:
        flags = raw.IntelFlags(raw.IntelFlags.DOT_PRODUCTS)
        found = raw.ze_device_module_properties_t(pNext=ctypes.addressof(flags))
        api().call("zeDeviceGetModuleProperties", self.handle, ctypes.byref(found))
        return bool(flags.flags & raw.IntelFlags.DPAS)

    @property
    def has_block_2d(self) -> bool:
        flags = raw.IntelFlags(raw.IntelFlags.BLOCK_2D)
        found = raw.ze_device_properties_t(pNext=ctypes.addressof(flags))
        api().call("zeDeviceGetProperties", self.handle, ctypes.byref(found))
        wanted = raw.IntelFlags.STORES_AND_LOADS
        return bool(flags.flags & wanted == wanted)

    def memories(self) -> list[raw.ze_device_memory_properties_t]:
        return _list(
            raw.ze_device_memory_properties_t, "zeDeviceGetMemoryProperties", self.handle
        )

    def sub_devices(self) -> list[PhysicalDevice]:
        """The tiles of a device with several tiles; otherwise empty."""
        handles = _list(raw.DeviceHandle, "zeDeviceGetSubDevices", self.handle)
        return [PhysicalDevice(self.driver, handle) for handle in handles]

    def compute_ordinal(self) -> int:
        """The queue group that runs kernels."""
        groups = _list(
            raw.ze_command_queue_group_properties_t,
            "zeDeviceGetCommandQueueGroupProperties",
            self.handle,
        )
        for ordinal, group in enumerate(groups):
            if group.flags & raw.COMPUTE_QUEUE:
                return ordinal
        raise DeviceError(f"{self.name} has no queue that runs kernels")


def _created(handle: _AnyHandle, create: str, *arguments: Any) -> _AnyHandle:
    """Call a function that writes a new handle to its last argument, and return the handle."""
    refuse_after_fork()
    api().call(create, *arguments, ctypes.byref(handle))
    return handle


_WAIT_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64)
_STATUS_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


def wait(call: str, handle: raw.Handle, device: raw.DeviceHandle | None = None) -> None:
    """Wait without a time limit, until done, interrupted by a signal, or the device is lost.

    The polled functions are called with plain addresses.  If ctypes converted arguments in Python,
    it would turn an exception of a signal handler into an error of that argument.
    """
    poll = ctypes.cast(api().function(call), _WAIT_FUNCTION)
    while code := poll(handle, raw.LOOK_AFTER_NS) & 0xFFFFFFFF:
        if code != raw.NOT_READY:
            raise LevelZeroError(call, code)
        if device is None or not api().has("zeDeviceGetStatus"):
            continue
        status_of = ctypes.cast(api().function("zeDeviceGetStatus"), _STATUS_FUNCTION)
        status = status_of(device) & 0xFFFFFFFF
        if status in (raw.DEVICE_LOST, raw.REQUIRES_RESET):
            raise LevelZeroError("zeDeviceGetStatus", status, what=f"{call} would never end")


class Context(_Owner):
    """Owner of memory, modules and command lists on one driver."""

    def __init__(self, driver: Driver) -> None:
        description = raw.ze_context_desc_t()
        handle = _created(raw.ContextHandle(), "zeContextCreate", driver.handle, description)
        super().__init__(handle, "zeContextDestroy")


class BorrowedContext(Context):
    """A context that another library owns, such as torch; `close()` does nothing."""

    def __init__(self, handle: int) -> None:
        _Owner.__init__(self, raw.ContextHandle(handle), "")


class Memory:
    """A block of device (or shared, or host) memory; freed by `free()` or when collected."""

    dtype = ""

    def __init__(
        self,
        context: Context,
        device: PhysicalDevice,
        nbytes: int,
        align: int = 64,
        kind: str = "device",
        before_free: Callable[[int], None] | None = None,
    ) -> None:
        if nbytes < 0 or align <= 0 or align & (align - 1):
            raise ValueError(
                f"cannot allocate {nbytes} bytes aligned to {align}: the size must not be "
                "negative and the alignment must be a power of two"
            )
        refuse_after_fork()
        pointer = ctypes.c_void_p()
        arguments = _allocation_arguments(kind, context, device)
        size = ctypes.c_size_t(max(nbytes, 1))
        tail = (device.handle,) if kind != "host" else ()
        call = f"zeMemAlloc{kind.capitalize()}"
        code = api().function(call)(*arguments, size, align, *tail, ctypes.byref(pointer))
        if code:
            what = f"cannot allocate {nbytes} bytes on {device.name}"
            raise LevelZeroError(call, code, what=what)
        self.pointer = pointer.value or 0
        self.nbytes = nbytes
        free = api().function("zeMemFree")
        self._finalize = weakref.finalize(self, _free, free, context, self.pointer, before_free)

    def free(self) -> None:
        self._finalize()

    close = free


def _allocation_arguments(
    kind: str, context: Context, device: PhysicalDevice
) -> tuple[Any, ...]:
    on_device = ctypes.byref(raw.ze_device_mem_alloc_desc_t())
    on_host = ctypes.byref(raw.ze_host_mem_alloc_desc_t())
    descriptions = {"device": (on_device,), "shared": (on_device, on_host), "host": (on_host,)}
    if kind not in descriptions:
        raise ValueError(f"unknown kind of memory {kind!r}; known: {', '.join(descriptions)}")
    return (context.handle, *descriptions[kind])


def _free(
    free: Any, context: Context, pointer: int, before_free: Callable[[int], None] | None
) -> None:
    """Free memory after `before_free`; never in a forked child."""
    if os.getpid() != _owner or context.is_closed:
        return
    if before_free is not None:
        try:
            before_free(pointer)
        except QueueRecordingError:
            return
        except DeviceError:
            pass  # memory of a lost device is freed, too
    free(context.handle, pointer)


class Module(_Owner):
    """A SPIR-V or native module built for one device; `build_log` holds warnings."""

    def __init__(
        self, context: Context, device: PhysicalDevice, binary: bytes, flags: str, native: bool
    ) -> None:
        refuse_after_fork()
        handle, log = raw.ModuleHandle(), raw.BuildLogHandle()
        description = raw.ze_module_desc_t(
            format=raw.FORMAT_NATIVE if native else raw.FORMAT_SPIRV,
            inputSize=len(binary),
            pInputModule=ctypes.cast(ctypes.c_char_p(binary), ctypes.c_void_p),
            pBuildFlags=flags.encode(),
        )
        code = api().function("zeModuleCreate")(
            context.handle, device.handle, ctypes.byref(description), ctypes.byref(handle),
            ctypes.byref(log),
        )
        self.build_log = _take_log(log)
        if code:
            raise LevelZeroError(
                "zeModuleCreate", code, self.build_log, f"cannot build a module for {device.name}"
            )
        super().__init__(handle, "zeModuleDestroy", context)

    def native_binary(self) -> bytes:
        size = ctypes.c_size_t()
        call = "zeModuleGetNativeBinary"
        api().call(call, self.handle, ctypes.byref(size), None)
        data = ctypes.create_string_buffer(size.value)
        api().call(call, self.handle, ctypes.byref(size), data)
        return data.raw[: size.value]

    def kernel_names(self) -> list[str]:
        names = _list(ctypes.c_char_p, "zeModuleGetKernelNames", self.handle)
        return [(name.value or b"").decode() for name in names]


class KernelObject(_Owner):
    """One kernel of a module, with the properties that the driver reports."""

    def __init__(self, module: Module, name: str) -> None:
        handle = raw.KernelHandle()
        description = raw.ze_kernel_desc_t(pKernelName=name.encode())
        code = api().function("zeKernelCreate")(
            module.handle, ctypes.byref(description), ctypes.byref(handle)
        )
        if code:
            raise LevelZeroError(
                "zeKernelCreate", code, what=f"no kernel {name!r} in {module.kernel_names()}"
            )
        super().__init__(handle, "zeKernelDestroy", module)
        self.name = name
        largest = raw.ze_kernel_max_group_size_properties_ext_t()
        self.properties = raw.ze_kernel_properties_t(pNext=ctypes.addressof(largest))
        api().call("zeKernelGetProperties", handle, ctypes.byref(self.properties))
        self.properties.pNext = None
        self.max_group_size = int(largest.maxGroupSize)

    def set_group_size(self, x: int, y: int, z: int) -> None:
        api().call("zeKernelSetGroupSize", self.handle, x, y, z)


class CommandList(_Owner):
    """An immediate, in-order, asynchronous command list."""

    def __init__(self, context: Context, device: PhysicalDevice) -> None:
        description = raw.ze_command_queue_desc_t(
            ordinal=device.compute_ordinal(), flags=raw.QUEUE_IN_ORDER, mode=raw.QUEUE_ASYNCHRONOUS
        )
        handle = _created(
            raw.CommandListHandle(), "zeCommandListCreateImmediate", context.handle, device.handle,
            description,
        )
        self._device = device.handle
        super().__init__(handle, "zeCommandListDestroy", context)

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Append a copy; both ends must stay alive until it is done."""
        api().call("zeCommandListAppendMemoryCopy", self.handle, to, source, nbytes, None, 0, None)

    def fill(self, pointer: int, pattern: bytes, nbytes: int) -> None:
        """Append a fill with a pattern of 1, 2, 4, 8 or 16 bytes."""
        api().call(
            "zeCommandListAppendMemoryFill", self.handle, pointer, pattern, len(pattern), nbytes,
            None, 0, None,
        )

    def barrier(self, signal: Event | None = None, wait_for: tuple[Event, ...] = ()) -> None:
        """Append a barrier that signals an event when all work before it is done."""
        handles: list[Any] = [event.handle for event in wait_for]
        events = (raw.EventHandle * len(handles))(*handles)
        api().call(
            "zeCommandListAppendBarrier", self.handle, signal.handle if signal else None,
            len(wait_for), events if wait_for else None,
        )

    def wait_on(self, event: int) -> None:
        """Append a wait for an event of another library, by its handle."""
        events = (raw.EventHandle * 1)(event)
        api().call("zeCommandListAppendBarrier", self.handle, None, 1, events)

    def synchronize(self) -> None:
        """Wait until everything appended so far is done."""
        refuse_after_fork()
        wait("zeCommandListHostSynchronize", self.handle, self._device)


class EventPool(_Owner):
    """Room for `count` timestamp events, visible to the host."""

    def __init__(self, context: Context, count: int) -> None:
        description = raw.ze_event_pool_desc_t(
            flags=raw.EVENT_HOST_VISIBLE | raw.EVENT_TIMESTAMP, count=count
        )
        handle = _created(
            raw.EventPoolHandle(), "zeEventPoolCreate", context.handle, description, 0, None
        )
        super().__init__(handle, "zeEventPoolDestroy", context)
        self.count = count


class Event(_Owner):
    """A point in a command list, with the device's time when it was reached."""

    def __init__(self, pool: EventPool, index: int) -> None:
        description = raw.ze_event_desc_t(index=index, signal=raw.SCOPE_HOST, wait=raw.SCOPE_HOST)
        handle = _created(raw.EventHandle(), "zeEventCreate", pool.handle, description)
        super().__init__(handle, "zeEventDestroy", pool)

    def is_done(self) -> bool:
        code = api().function("zeEventQueryStatus")(self.handle)
        if code not in (0, raw.NOT_READY):
            raise LevelZeroError("zeEventQueryStatus", code)
        return bool(code == 0)

    def synchronize(self) -> None:
        wait("zeEventHostSynchronize", self.handle)

    def reset(self) -> None:
        api().call("zeEventHostReset", self.handle)

    def ticks(self) -> int:
        """The device's clock when the event was signalled, in `timerResolution` units."""
        found = raw.ze_kernel_timestamp_result_t()
        api().call("zeEventQueryKernelTimestamp", self.handle, ctypes.byref(found))
        return int(getattr(found, "global").kernelEnd)


@dataclass(frozen=True)
class Allocation:
    """Driver's description of an address: `kind` is host, device, shared, imported or unknown."""

    kind: str
    device: int


def allocation_range(context: Context, pointer: int) -> tuple[int, int] | None:
    """Start and end of the allocation that contains an address; None if it is unknown."""
    base, size = ctypes.c_void_p(), ctypes.c_size_t()
    code = api().function("zeMemGetAddressRange")(
        context.handle, pointer, ctypes.byref(base), ctypes.byref(size)
    )
    low = base.value or 0
    return (low, low + size.value) if code == 0 else None


def describe_pointer(context: raw.Handle, pointer: int) -> Allocation:
    """The kind of memory at an address; `unknown` is plain host memory."""
    properties = raw.ze_memory_allocation_properties_t()
    device = raw.DeviceHandle()
    api().call(
        "zeMemGetAllocProperties", context, pointer, ctypes.byref(properties),
        ctypes.byref(device),
    )
    kinds = ("unknown", "host", "device", "shared", "imported")
    kind = kinds[properties.type] if properties.type < len(kinds) else "unknown"
    return Allocation(kind, device.value or 0)


def drivers() -> list[Driver]:
    """All Level Zero GPU drivers; empty when none is installed; `DeviceError` without a loader."""
    refuse_after_fork()
    path = api().path
    with _lock:
        if path not in opened_drivers:
            opened_drivers[path] = [Driver(handle) for handle in _driver_handles()]
        return opened_drivers[path]


def _driver_handles() -> list[raw.DriverHandle]:
    """Handles of the GPU drivers; empty if there is none."""
    if api().has("zeInitDrivers"):
        wanted = raw.ze_init_driver_type_desc_t(flags=raw.INIT_GPU_ONLY)
        try:
            return _list(raw.DriverHandle, "zeInitDrivers", after=(ctypes.byref(wanted),))
        except LevelZeroError as error:
            if error.code == _UNINITIALIZED:
                return []
            if error.code != _UNSUPPORTED_FEATURE:
                raise
    try:
        api().call("zeInit", raw.INIT_GPU_ONLY)
        return _list(raw.DriverHandle, "zeDriverGet")
    except LevelZeroError as error:
        if error.code == _UNINITIALIZED:
            return []
        raise


def physical_devices() -> list[PhysicalDevice]:
    """Intel GPUs of all drivers, in the drivers' order."""
    return [
        device for driver in drivers() for device in driver.devices() if device.is_intel_gpu
    ]


def _list(kind: Any, call: str, *before: Any, after: tuple[Any, ...] = ()) -> list[Any]:
    """Query a list: the function is called for the number of elements, then for the elements."""
    count = ctypes.c_uint32()
    api().call(call, *before, ctypes.byref(count), None, *after)
    elements = (kind * count.value)()
    if issubclass(kind, ctypes.Structure):
        for element in elements:
            element.stype = kind.STYPE
    if count.value:
        api().call(call, *before, ctypes.byref(count), elements, *after)
    if issubclass(kind, (raw.Handle, ctypes.c_char_p)):
        return [kind.from_buffer_copy(elements, i * 8) for i in range(count.value)]
    return list(elements)[: count.value]


def _take_log(log: raw.BuildLogHandle) -> str:
    """Read the text of a build log, and destroy the log."""
    if not log.value:
        return ""
    size = ctypes.c_size_t()
    call = "zeModuleBuildLogGetString"
    text = ""
    if api().function(call)(log, ctypes.byref(size), None) == 0 and size.value:
        data = ctypes.create_string_buffer(size.value)
        if api().function(call)(log, ctypes.byref(size), data) == 0:
            text = data.value.decode(errors="replace")
    api().function("zeModuleBuildLogDestroy")(log)
    return text
