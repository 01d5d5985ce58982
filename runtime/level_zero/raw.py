"""Level Zero as it is: handle types, structures, prototypes, and the loader bound on first use.

Importing needs no driver.  Names, field order and types are those of the specification 1.17
(`third_party/level_zero/include/ze_api.h`), and the tests compare every one with that header.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.runtime.level_zero.errors import LevelZeroError

LOADER = "libze_loader.so.1"
INTEL_VENDOR = 0x8086
GPU_TYPE = 1
FOREVER = 2**64 - 1
INIT_GPU_ONLY = 1
QUEUE_IN_ORDER, QUEUE_ASYNCHRONOUS = 2, 2
FORMAT_SPIRV, FORMAT_NATIVE = 0, 1
EVENT_HOST_VISIBLE, EVENT_TIMESTAMP = 1, 4
SCOPE_HOST = 4
COMPUTE_QUEUE = 1
INTEGRATED, SUB_DEVICE = 1, 2
MODULE_FP64 = 2
UNKNOWN_MEMORY, HOST_MEMORY, DEVICE_MEMORY, SHARED_MEMORY, IMPORTED_MEMORY = range(5)


class Handle(c_void_p):
    """Base of the handle types; a call takes only the handle type of its prototype."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, cls):
            raise TypeError(f"expected {cls.__name__}, got {type(value).__name__}")
        return value


class DriverHandle(Handle):
    """ze_driver_handle_t"""


class DeviceHandle(Handle):
    """ze_device_handle_t"""


class ContextHandle(Handle):
    """ze_context_handle_t"""


class ModuleHandle(Handle):
    """ze_module_handle_t"""


class BuildLogHandle(Handle):
    """ze_module_build_log_handle_t"""


class KernelHandle(Handle):
    """ze_kernel_handle_t"""


class CommandListHandle(Handle):
    """ze_command_list_handle_t"""


class EventPoolHandle(Handle):
    """ze_event_pool_handle_t"""


class EventHandle(Handle):
    """ze_event_handle_t"""


class _Described(ctypes.Structure):
    """A structure that starts with `stype` and `pNext`; `stype` is set on construction."""

    STYPE = 0
    stype: int
    pNext: Any

    def __init__(self, **values: Any) -> None:
        super().__init__(stype=self.STYPE, **values)


_HEAD: list[tuple[str, Any]] = [("stype", c_uint32), ("pNext", c_void_p)]


class ze_init_driver_type_desc_t(_Described):
    STYPE = 0x00020021
    _fields_ = [*_HEAD, ("flags", c_uint32)]


class ze_driver_properties_t(_Described):
    STYPE = 0x1
    _fields_ = [*_HEAD, ("uuid", c_uint8 * 16), ("driverVersion", c_uint32)]


class ze_device_ip_version_ext_t(_Described):
    STYPE = 0x1000F
    _fields_ = [*_HEAD, ("ipVersion", c_uint32)]


class ze_device_properties_t(_Described):
    STYPE = 0x3
    _fields_ = [
        *_HEAD, ("type", c_uint32), ("vendorId", c_uint32), ("deviceId", c_uint32),
        ("flags", c_uint32), ("subdeviceId", c_uint32), ("coreClockRate", c_uint32),
        ("maxMemAllocSize", c_uint64), ("maxHardwareContexts", c_uint32),
        ("maxCommandQueuePriority", c_uint32), ("numThreadsPerEU", c_uint32),
        ("physicalEUSimdWidth", c_uint32), ("numEUsPerSubslice", c_uint32),
        ("numSubslicesPerSlice", c_uint32), ("numSlices", c_uint32),
        ("timerResolution", c_uint64), ("timestampValidBits", c_uint32),
        ("kernelTimestampValidBits", c_uint32), ("uuid", c_uint8 * 16), ("name", c_char * 256),
    ]


class ze_device_compute_properties_t(_Described):
    STYPE = 0x4
    _fields_ = [
        *_HEAD, ("maxTotalGroupSize", c_uint32), ("maxGroupSizeX", c_uint32),
        ("maxGroupSizeY", c_uint32), ("maxGroupSizeZ", c_uint32), ("maxGroupCountX", c_uint32),
        ("maxGroupCountY", c_uint32), ("maxGroupCountZ", c_uint32),
        ("maxSharedLocalMemory", c_uint32), ("numSubGroupSizes", c_uint32),
        ("subGroupSizes", c_uint32 * 8),
    ]


class ze_device_module_properties_t(_Described):
    STYPE = 0x5
    _fields_ = [
        *_HEAD, ("spirvVersionSupported", c_uint32), ("flags", c_uint32), ("fp16flags", c_uint32),
        ("fp32flags", c_uint32), ("fp64flags", c_uint32), ("maxArgumentsSize", c_uint32),
        ("printfBufferSize", c_uint32), ("nativeKernelSupported", c_uint8 * 16),
    ]


class ze_device_memory_properties_t(_Described):
    STYPE = 0x7
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("maxClockRate", c_uint32), ("maxBusWidth", c_uint32),
        ("totalSize", c_uint64), ("name", c_char * 256),
    ]


class ze_command_queue_group_properties_t(_Described):
    STYPE = 0x6
    _fields_ = [
        *_HEAD, ("flags", c_uint32), ("maxMemoryFillPatternSize", c_size_t),
        ("numQueues", c_uint32),
    ]


class ze_context_desc_t(_Described):
    STYPE = 0xD
    _fields_ = [*_HEAD, ("flags", c_uint32)]


class ze_command_queue_desc_t(_Described):
    STYPE = 0xE
    _fields_ = [
        *_HEAD, ("ordinal", c_uint32), ("index", c_uint32), ("flags", c_uint32),
        ("mode", c_uint32), ("priority", c_uint32),
    ]


class ze_event_pool_desc_t(_Described):
    STYPE = 0x10
    _fields_ = [*_HEAD, ("flags", c_uint32), ("count", c_uint32)]


class ze_event_desc_t(_Described):
    STYPE = 0x11
    _fields_ = [*_HEAD, ("index", c_uint32), ("signal", c_uint32), ("wait", c_uint32)]


class ze_kernel_timestamp_data_t(ctypes.Structure):
    _fields_ = [("kernelStart", c_uint64), ("kernelEnd", c_uint64)]


class ze_kernel_timestamp_result_t(ctypes.Structure):
    _fields_ = [("global", ze_kernel_timestamp_data_t), ("context", ze_kernel_timestamp_data_t)]


class ze_device_mem_alloc_desc_t(_Described):
    STYPE = 0x15
    _fields_ = [*_HEAD, ("flags", c_uint32), ("ordinal", c_uint32)]


class ze_host_mem_alloc_desc_t(_Described):
    STYPE = 0x16
    _fields_ = [*_HEAD, ("flags", c_uint32)]


class ze_memory_allocation_properties_t(_Described):
    STYPE = 0x17
    _fields_ = [*_HEAD, ("type", c_uint32), ("id", c_uint64), ("pageSize", c_uint64)]


class ze_module_desc_t(_Described):
    STYPE = 0x1B
    _fields_ = [
        *_HEAD, ("format", c_uint32), ("inputSize", c_size_t), ("pInputModule", c_void_p),
        ("pBuildFlags", c_char_p), ("pConstants", c_void_p),
    ]


class ze_kernel_desc_t(_Described):
    STYPE = 0x1D
    _fields_ = [*_HEAD, ("flags", c_uint32), ("pKernelName", c_char_p)]


class ze_kernel_max_group_size_properties_ext_t(_Described):
    STYPE = 0x10013
    _fields_ = [*_HEAD, ("maxGroupSize", c_uint32)]


class ze_kernel_properties_t(_Described):
    STYPE = 0x1E
    _fields_ = [
        *_HEAD, ("numKernelArgs", c_uint32), ("requiredGroupSizeX", c_uint32),
        ("requiredGroupSizeY", c_uint32), ("requiredGroupSizeZ", c_uint32),
        ("requiredNumSubGroups", c_uint32), ("requiredSubgroupSize", c_uint32),
        ("maxSubgroupSize", c_uint32), ("maxNumSubgroups", c_uint32), ("localMemSize", c_uint32),
        ("privateMemSize", c_uint32), ("spillMemSize", c_uint32), ("uuid", c_uint8 * 32),
    ]


class ze_group_count_t(ctypes.Structure):
    _fields_ = [("groupCountX", c_uint32), ("groupCountY", c_uint32), ("groupCountZ", c_uint32)]


_COUNT, _SIZE, _BYTES = POINTER(c_uint32), POINTER(c_size_t), c_void_p
_SIGNAL = (EventHandle, c_uint32, POINTER(EventHandle))

PROTOTYPES: Mapping[str, tuple[Any, ...]] = {
    # zeInit(flags)
    "zeInit": (c_uint32,),
    # zeInitDrivers(pCount, phDrivers, desc)
    "zeInitDrivers": (_COUNT, POINTER(DriverHandle), POINTER(ze_init_driver_type_desc_t)),
    # zeDriverGet(pCount, phDrivers)
    "zeDriverGet": (_COUNT, POINTER(DriverHandle)),
    # zeDriverGetProperties(hDriver, pDriverProperties)
    "zeDriverGetProperties": (DriverHandle, POINTER(ze_driver_properties_t)),
    # zeDriverGetApiVersion(hDriver, version)
    "zeDriverGetApiVersion": (DriverHandle, POINTER(c_uint32)),
    # zeDriverGetLastErrorDescription(hDriver, ppString)
    "zeDriverGetLastErrorDescription": (DriverHandle, POINTER(c_char_p)),
    # zeDeviceGet(hDriver, pCount, phDevices)
    "zeDeviceGet": (DriverHandle, _COUNT, POINTER(DeviceHandle)),
    # zeDeviceGetSubDevices(hDevice, pCount, phSubdevices)
    "zeDeviceGetSubDevices": (DeviceHandle, _COUNT, POINTER(DeviceHandle)),
    # zeDeviceGetProperties(hDevice, pDeviceProperties)
    "zeDeviceGetProperties": (DeviceHandle, POINTER(ze_device_properties_t)),
    # zeDeviceGetComputeProperties(hDevice, pComputeProperties)
    "zeDeviceGetComputeProperties": (DeviceHandle, POINTER(ze_device_compute_properties_t)),
    # zeDeviceGetModuleProperties(hDevice, pModuleProperties)
    "zeDeviceGetModuleProperties": (DeviceHandle, POINTER(ze_device_module_properties_t)),
    # zeDeviceGetMemoryProperties(hDevice, pCount, pMemProperties)
    "zeDeviceGetMemoryProperties": (DeviceHandle, _COUNT, POINTER(ze_device_memory_properties_t)),
    # zeDeviceGetCommandQueueGroupProperties(hDevice, pCount, pCommandQueueGroupProperties)
    "zeDeviceGetCommandQueueGroupProperties": (
        DeviceHandle, _COUNT, POINTER(ze_command_queue_group_properties_t),
    ),
    # zeDeviceGetGlobalTimestamps(hDevice, hostTimestamp, deviceTimestamp)
    "zeDeviceGetGlobalTimestamps": (DeviceHandle, POINTER(c_uint64), POINTER(c_uint64)),
    # zeContextCreate(hDriver, desc, phContext)
    "zeContextCreate": (DriverHandle, POINTER(ze_context_desc_t), POINTER(ContextHandle)),
    # zeContextDestroy(hContext)
    "zeContextDestroy": (ContextHandle,),
    # zeModuleCreate(hContext, hDevice, desc, phModule, phBuildLog)
    "zeModuleCreate": (
        ContextHandle, DeviceHandle, POINTER(ze_module_desc_t), POINTER(ModuleHandle),
        POINTER(BuildLogHandle),
    ),
    # zeModuleDestroy(hModule)
    "zeModuleDestroy": (ModuleHandle,),
    # zeModuleBuildLogGetString(hModuleBuildLog, pSize, pBuildLog)
    "zeModuleBuildLogGetString": (BuildLogHandle, _SIZE, c_char_p),
    # zeModuleBuildLogDestroy(hModuleBuildLog)
    "zeModuleBuildLogDestroy": (BuildLogHandle,),
    # zeModuleGetNativeBinary(hModule, pSize, pModuleNativeBinary)
    "zeModuleGetNativeBinary": (ModuleHandle, _SIZE, _BYTES),
    # zeModuleGetKernelNames(hModule, pCount, pNames)
    "zeModuleGetKernelNames": (ModuleHandle, _COUNT, POINTER(c_char_p)),
    # zeKernelCreate(hModule, desc, phKernel)
    "zeKernelCreate": (ModuleHandle, POINTER(ze_kernel_desc_t), POINTER(KernelHandle)),
    # zeKernelDestroy(hKernel)
    "zeKernelDestroy": (KernelHandle,),
    # zeKernelGetProperties(hKernel, pKernelProperties)
    "zeKernelGetProperties": (KernelHandle, POINTER(ze_kernel_properties_t)),
    # zeKernelSetGroupSize(hKernel, groupSizeX, groupSizeY, groupSizeZ)
    "zeKernelSetGroupSize": (KernelHandle, c_uint32, c_uint32, c_uint32),
    # zeKernelSetArgumentValue(hKernel, argIndex, argSize, pArgValue)
    "zeKernelSetArgumentValue": (KernelHandle, c_uint32, c_size_t, c_void_p),
    # zeCommandListCreateImmediate(hContext, hDevice, altdesc, phCommandList)
    "zeCommandListCreateImmediate": (
        ContextHandle, DeviceHandle, POINTER(ze_command_queue_desc_t), POINTER(CommandListHandle),
    ),
    # zeCommandListDestroy(hCommandList)
    "zeCommandListDestroy": (CommandListHandle,),
    # zeCommandListHostSynchronize(hCommandList, timeout)
    "zeCommandListHostSynchronize": (CommandListHandle, c_uint64),
    # zeCommandListAppendLaunchKernel(hCommandList, hKernel, pLaunchFuncArgs, hSignalEvent,
    #                                 numWaitEvents, phWaitEvents)
    "zeCommandListAppendLaunchKernel": (
        CommandListHandle, KernelHandle, POINTER(ze_group_count_t), *_SIGNAL,
    ),
    # zeCommandListAppendMemoryCopy(hCommandList, dstptr, srcptr, size, hSignalEvent, numWaitEvents,
    #                               phWaitEvents)
    "zeCommandListAppendMemoryCopy": (CommandListHandle, c_void_p, c_void_p, c_size_t, *_SIGNAL),
    # zeCommandListAppendMemoryFill(hCommandList, ptr, pattern, pattern_size, size, hSignalEvent,
    #                               numWaitEvents, phWaitEvents)
    "zeCommandListAppendMemoryFill": (
        CommandListHandle, c_void_p, c_void_p, c_size_t, c_size_t, *_SIGNAL,
    ),
    # zeCommandListAppendBarrier(hCommandList, hSignalEvent, numWaitEvents, phWaitEvents)
    "zeCommandListAppendBarrier": (CommandListHandle, *_SIGNAL),
    # zeEventPoolCreate(hContext, desc, numDevices, phDevices, phEventPool)
    "zeEventPoolCreate": (
        ContextHandle, POINTER(ze_event_pool_desc_t), c_uint32, POINTER(DeviceHandle),
        POINTER(EventPoolHandle),
    ),
    # zeEventPoolDestroy(hEventPool)
    "zeEventPoolDestroy": (EventPoolHandle,),
    # zeEventCreate(hEventPool, desc, phEvent)
    "zeEventCreate": (EventPoolHandle, POINTER(ze_event_desc_t), POINTER(EventHandle)),
    # zeEventDestroy(hEvent)
    "zeEventDestroy": (EventHandle,),
    # zeEventHostSynchronize(hEvent, timeout)
    "zeEventHostSynchronize": (EventHandle, c_uint64),
    # zeEventQueryStatus(hEvent)
    "zeEventQueryStatus": (EventHandle,),
    # zeEventHostReset(hEvent)
    "zeEventHostReset": (EventHandle,),
    # zeEventQueryKernelTimestamp(hEvent, dstptr)
    "zeEventQueryKernelTimestamp": (EventHandle, POINTER(ze_kernel_timestamp_result_t)),
    # zeMemAllocDevice(hContext, device_desc, size, alignment, hDevice, pptr)
    "zeMemAllocDevice": (
        ContextHandle, POINTER(ze_device_mem_alloc_desc_t), c_size_t, c_size_t, DeviceHandle,
        POINTER(c_void_p),
    ),
    # zeMemAllocShared(hContext, device_desc, host_desc, size, alignment, hDevice, pptr)
    "zeMemAllocShared": (
        ContextHandle, POINTER(ze_device_mem_alloc_desc_t), POINTER(ze_host_mem_alloc_desc_t),
        c_size_t, c_size_t, DeviceHandle, POINTER(c_void_p),
    ),
    # zeMemAllocHost(hContext, host_desc, size, alignment, pptr)
    "zeMemAllocHost": (
        ContextHandle, POINTER(ze_host_mem_alloc_desc_t), c_size_t, c_size_t, POINTER(c_void_p),
    ),
    # zeMemFree(hContext, ptr)
    "zeMemFree": (ContextHandle, c_void_p),
    # zeMemGetAllocProperties(hContext, ptr, pMemAllocProperties, phDevice)
    "zeMemGetAllocProperties": (
        ContextHandle, c_void_p, POINTER(ze_memory_allocation_properties_t), POINTER(DeviceHandle),
    ),
    # zeMemGetAddressRange(hContext, ptr, pBase, pSize)
    "zeMemGetAddressRange": (ContextHandle, c_void_p, POINTER(c_void_p), POINTER(c_size_t)),
}


class Api:
    """The functions of one Level Zero loader, each looked up on first use.

    Appends to a command list keep Python's lock: the specification forbids two threads appending
    to one list, and launches come from generated code that holds the lock too.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._releasing = ctypes.CDLL(path)
            self._holding = ctypes.PyDLL(path)
        except OSError as error:
            raise DeviceError(
                f"the Level Zero loader {path} cannot be loaded ({error}); install Intel's GPU "
                "driver (Debian and Ubuntu: libze1 and libze-intel-gpu1), or name the loader in "
                "TRITON_XE_LEVEL_ZERO"
            ) from error
        self._bound: dict[str, Any] = {}

    def function(self, name: str) -> Any:
        """The bound function; `DeviceError` when this loader is too old to have it."""
        found = self._bound.get(name)
        if found is not None:
            return found
        library = self._holding if "CommandListAppend" in name else self._releasing
        try:
            found = getattr(library, name)
        except AttributeError as error:
            raise DeviceError(
                f"the Level Zero loader {self.path} has no {name}: it is too old; update Intel's "
                "GPU driver and libze1"
            ) from error
        found.argtypes, found.restype = PROTOTYPES[name], c_int
        self._bound[name] = found
        return found

    def has(self, name: str) -> bool:
        """Whether this loader has the function."""
        return hasattr(self._releasing, name)

    def address(self, name: str) -> int:
        """The function's address, for generated code."""
        return ctypes.cast(self.function(name), c_void_p).value or 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; `LevelZeroError` when it does not answer success."""
        code = self.function(name)(*arguments)
        if code:
            raise LevelZeroError(name, code)


_lock = threading.Lock()
_loaded: dict[str, Api] = {}


def api() -> Api:
    """The process's Level Zero loader: `TRITON_XE_LEVEL_ZERO`, else the system's."""
    path = knobs.level_zero() or LOADER
    with _lock:
        if path not in _loaded:
            _loaded[path] = Api(path)
        return _loaded[path]
