"""Level Zero as it is: handle types, structures, prototypes, and the loader bound on first use.

Importing needs no driver.  Names, field order and types are those of the specification 1.17
(`third_party/level_zero/include/ze_api.h`), and the tests compare every one with that header.
"""

from __future__ import annotations

import ctypes
import re
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


_C_TYPES: dict[str, Any] = {
    "uint32_t": c_uint32, "uint64_t": c_uint64, "size_t": c_size_t, "void*": c_void_p,
    "uint8_t*": c_void_p, "char*": c_char_p,
    **{str(each.__doc__): each for each in Handle.__subclasses__()},
    **{each.__name__: each for each in _Described.__subclasses__()},
    **{each.__name__: each for each in (ze_group_count_t, ze_kernel_timestamp_result_t)},
}


def _c_type(text: str) -> Any:
    """The type of a C declaration; flags and enumerations have 32 bits."""
    if text in _C_TYPES or not text.endswith("*"):
        return _C_TYPES.get(text, c_uint32)
    return POINTER(_c_type(text[:-1]))


def _prototypes(declarations: str) -> dict[str, tuple[Any, ...]]:
    return {
        name: tuple(_c_type(each.split()[0]) for each in parameters.split(","))
        for name, parameters in re.findall(r"(\w+)\(([^)]*)\)", declarations)
    }


PROTOTYPES: Mapping[str, tuple[Any, ...]] = _prototypes("""
zeInit(ze_init_flags_t flags)
zeInitDrivers(uint32_t* pCount, ze_driver_handle_t* phDrivers, ze_init_driver_type_desc_t* desc)
zeDriverGet(uint32_t* pCount, ze_driver_handle_t* phDrivers)
zeDriverGetProperties(ze_driver_handle_t hDriver, ze_driver_properties_t* pDriverProperties)
zeDriverGetApiVersion(ze_driver_handle_t hDriver, ze_api_version_t* version)
zeDeviceGet(ze_driver_handle_t hDriver, uint32_t* pCount, ze_device_handle_t* phDevices)
zeDeviceGetSubDevices(ze_device_handle_t hDevice, uint32_t* pCount,
    ze_device_handle_t* phSubdevices)
zeDeviceGetProperties(ze_device_handle_t hDevice, ze_device_properties_t* pDeviceProperties)
zeDeviceGetComputeProperties(ze_device_handle_t hDevice,
    ze_device_compute_properties_t* pComputeProperties)
zeDeviceGetModuleProperties(ze_device_handle_t hDevice,
    ze_device_module_properties_t* pModuleProperties)
zeDeviceGetMemoryProperties(ze_device_handle_t hDevice, uint32_t* pCount,
    ze_device_memory_properties_t* pMemProperties)
zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t hDevice, uint32_t* pCount,
    ze_command_queue_group_properties_t* pCommandQueueGroupProperties)
zeContextCreate(ze_driver_handle_t hDriver, ze_context_desc_t* desc,
    ze_context_handle_t* phContext)
zeContextDestroy(ze_context_handle_t hContext)
zeModuleCreate(ze_context_handle_t hContext, ze_device_handle_t hDevice, ze_module_desc_t* desc,
    ze_module_handle_t* phModule, ze_module_build_log_handle_t* phBuildLog)
zeModuleDestroy(ze_module_handle_t hModule)
zeModuleBuildLogGetString(ze_module_build_log_handle_t hModuleBuildLog, size_t* pSize,
    char* pBuildLog)
zeModuleBuildLogDestroy(ze_module_build_log_handle_t hModuleBuildLog)
zeModuleGetNativeBinary(ze_module_handle_t hModule, size_t* pSize, uint8_t* pModuleNativeBinary)
zeModuleGetKernelNames(ze_module_handle_t hModule, uint32_t* pCount, char** pNames)
zeKernelCreate(ze_module_handle_t hModule, ze_kernel_desc_t* desc, ze_kernel_handle_t* phKernel)
zeKernelDestroy(ze_kernel_handle_t hKernel)
zeKernelGetProperties(ze_kernel_handle_t hKernel, ze_kernel_properties_t* pKernelProperties)
zeKernelSetGroupSize(ze_kernel_handle_t hKernel, uint32_t groupSizeX, uint32_t groupSizeY,
    uint32_t groupSizeZ)
zeKernelSetArgumentValue(ze_kernel_handle_t hKernel, uint32_t argIndex, size_t argSize,
    void* pArgValue)
zeCommandListCreateImmediate(ze_context_handle_t hContext, ze_device_handle_t hDevice,
    ze_command_queue_desc_t* altdesc, ze_command_list_handle_t* phCommandList)
zeCommandListDestroy(ze_command_list_handle_t hCommandList)
zeCommandListHostSynchronize(ze_command_list_handle_t hCommandList, uint64_t timeout)
zeCommandListAppendLaunchKernel(ze_command_list_handle_t hCommandList, ze_kernel_handle_t hKernel,
    ze_group_count_t* pLaunchFuncArgs, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t* phWaitEvents)
zeCommandListAppendMemoryCopy(ze_command_list_handle_t hCommandList, void* dstptr, void* srcptr,
    size_t size, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t* phWaitEvents)
zeCommandListAppendMemoryFill(ze_command_list_handle_t hCommandList, void* ptr, void* pattern,
    size_t pattern_size, size_t size, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t* phWaitEvents)
zeCommandListAppendBarrier(ze_command_list_handle_t hCommandList, ze_event_handle_t hSignalEvent,
    uint32_t numWaitEvents, ze_event_handle_t* phWaitEvents)
zeEventPoolCreate(ze_context_handle_t hContext, ze_event_pool_desc_t* desc, uint32_t numDevices,
    ze_device_handle_t* phDevices, ze_event_pool_handle_t* phEventPool)
zeEventPoolDestroy(ze_event_pool_handle_t hEventPool)
zeEventCreate(ze_event_pool_handle_t hEventPool, ze_event_desc_t* desc,
    ze_event_handle_t* phEvent)
zeEventDestroy(ze_event_handle_t hEvent)
zeEventHostSynchronize(ze_event_handle_t hEvent, uint64_t timeout)
zeEventQueryStatus(ze_event_handle_t hEvent)
zeEventHostReset(ze_event_handle_t hEvent)
zeEventQueryKernelTimestamp(ze_event_handle_t hEvent, ze_kernel_timestamp_result_t* dstptr)
zeMemAllocDevice(ze_context_handle_t hContext, ze_device_mem_alloc_desc_t* device_desc,
    size_t size, size_t alignment, ze_device_handle_t hDevice, void** pptr)
zeMemAllocShared(ze_context_handle_t hContext, ze_device_mem_alloc_desc_t* device_desc,
    ze_host_mem_alloc_desc_t* host_desc, size_t size, size_t alignment,
    ze_device_handle_t hDevice, void** pptr)
zeMemAllocHost(ze_context_handle_t hContext, ze_host_mem_alloc_desc_t* host_desc, size_t size,
    size_t alignment, void** pptr)
zeMemFree(ze_context_handle_t hContext, void* ptr)
zeMemGetAllocProperties(ze_context_handle_t hContext, void* ptr,
    ze_memory_allocation_properties_t* pMemAllocProperties, ze_device_handle_t* phDevice)
zeMemGetAddressRange(ze_context_handle_t hContext, void* ptr, void** pBase, size_t* pSize)
""")
"""As in the header, without `const`; every function answers a `ze_result_t`."""


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
