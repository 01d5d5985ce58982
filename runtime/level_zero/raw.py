"""Level Zero's C interface: handle types, structures, prototypes, and the loader, bound on first
use.

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
LOOK_AFTER_NS = 500_000_000
NOT_READY, DEVICE_LOST, REQUIRES_RESET = 1, 0x70000001, 0x70000006
QUERY_TRUE, QUERY_FALSE = 0x7FFF0000, 0x7FFF0001
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


class IntelFlags(ctypes.Structure):
    """Flags that Intel's driver returns through `pNext` of a query; 0 if it does not.

    For modules they are `ze_intel_device_module_dp_exp_properties_t` (bit 1: DPAS), and for devices
    `ze_intel_device_block_array_exp_properties_t` (bits 0 and 1: 2D block stores and loads).  Both
    are in `ze_intel_gpu.h` of Intel's compute runtime.
    """

    _fields_ = (("stype", c_uint32), ("pNext", c_void_p), ("flags", c_uint32))
    DOT_PRODUCTS, BLOCK_2D = 0x30013, 0x30007
    DPAS, STORES_AND_LOADS = 2, 3


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


class GraphHandle(Handle):
    """ze_graph_handle_t"""


class ExecutableGraphHandle(Handle):
    """ze_executable_graph_handle_t"""


class _Described(ctypes.Structure):
    """A structure that starts with `stype` and `pNext`; `stype` is set on construction."""

    STYPE = 0

    def __init__(self, **values: Any) -> None:
        super().__init__(stype=self.STYPE, **values)


_C_TYPES: dict[str, Any] = {
    "uint8_t": c_uint8, "uint64_t": c_uint64, "size_t": c_size_t, "char": c_char, "char*": c_char_p,
    "void*": c_void_p, "uint8_t*": c_void_p,
    **{str(each.__doc__): each for each in Handle.__subclasses__()},
}


def _c_type(text: str) -> Any:
    """The type of a C declaration; flags and enumerations have 32 bits."""
    if text in _C_TYPES or not text.endswith("*"):
        return _C_TYPES.get(text, c_uint32)
    return POINTER(_c_type(text[:-1]))


def _structure(name: str, number: str, declarations: str) -> Any:
    """A structure of the header; `number` is its `stype`, if it has one."""
    fields: list[tuple[str, Any]] = [("stype", c_uint32), ("pNext", c_void_p)] if number else []
    for kind, field, count in re.findall(r"(\S+) (\w+)(?:\[(\d+)\])?;", declarations):
        fields.append((field, _c_type(kind) * int(count) if count else _c_type(kind)))
    base = _Described if number else ctypes.Structure
    return type(name, (base,), {"STYPE": int(number, 0), "_fields_": fields} if number else
                {"_fields_": fields})


def __getattr__(name: str) -> Any:
    """Declare to type checkers the structures, which are created from the declarations below."""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_STRUCTURES = """
ze_init_driver_type_desc_t 0x20021 { uint32_t flags; }
ze_driver_properties_t 0x1 { uint8_t uuid[16]; uint32_t driverVersion; }
ze_device_ip_version_ext_t 0x1000f { uint32_t ipVersion; }
ze_device_properties_t 0x3 {
    uint32_t type; uint32_t vendorId; uint32_t deviceId; uint32_t flags; uint32_t subdeviceId;
    uint32_t coreClockRate; uint64_t maxMemAllocSize; uint32_t maxHardwareContexts;
    uint32_t maxCommandQueuePriority; uint32_t numThreadsPerEU; uint32_t physicalEUSimdWidth;
    uint32_t numEUsPerSubslice; uint32_t numSubslicesPerSlice; uint32_t numSlices;
    uint64_t timerResolution; uint32_t timestampValidBits; uint32_t kernelTimestampValidBits;
    uint8_t uuid[16]; char name[256]; }
ze_device_compute_properties_t 0x4 {
    uint32_t maxTotalGroupSize; uint32_t maxGroupSizeX; uint32_t maxGroupSizeY;
    uint32_t maxGroupSizeZ; uint32_t maxGroupCountX; uint32_t maxGroupCountY;
    uint32_t maxGroupCountZ; uint32_t maxSharedLocalMemory; uint32_t numSubGroupSizes;
    uint32_t subGroupSizes[8]; }
ze_device_module_properties_t 0x5 {
    uint32_t spirvVersionSupported; uint32_t flags; uint32_t fp16flags; uint32_t fp32flags;
    uint32_t fp64flags; uint32_t maxArgumentsSize; uint32_t printfBufferSize;
    uint8_t nativeKernelSupported[16]; }
ze_device_memory_properties_t 0x7 {
    uint32_t flags; uint32_t maxClockRate; uint32_t maxBusWidth; uint64_t totalSize;
    char name[256]; }
ze_command_queue_group_properties_t 0x6 {
    uint32_t flags; size_t maxMemoryFillPatternSize; uint32_t numQueues; }
ze_context_desc_t 0xd { uint32_t flags; }
ze_command_queue_desc_t 0xe {
    uint32_t ordinal; uint32_t index; uint32_t flags; uint32_t mode; uint32_t priority; }
ze_event_pool_desc_t 0x10 { uint32_t flags; uint32_t count; }
ze_event_desc_t 0x11 { uint32_t index; uint32_t signal; uint32_t wait; }
ze_kernel_timestamp_data_t { uint64_t kernelStart; uint64_t kernelEnd; }
ze_kernel_timestamp_result_t {
    ze_kernel_timestamp_data_t global; ze_kernel_timestamp_data_t context; }
ze_device_mem_alloc_desc_t 0x15 { uint32_t flags; uint32_t ordinal; }
ze_host_mem_alloc_desc_t 0x16 { uint32_t flags; }
ze_memory_allocation_properties_t 0x17 { uint32_t type; uint64_t id; uint64_t pageSize; }
ze_module_desc_t 0x1b {
    uint32_t format; size_t inputSize; void* pInputModule; char* pBuildFlags; void* pConstants; }
ze_kernel_desc_t 0x1d { uint32_t flags; char* pKernelName; }
ze_kernel_max_group_size_properties_ext_t 0x10013 { uint32_t maxGroupSize; }
ze_kernel_properties_t 0x1e {
    uint32_t numKernelArgs; uint32_t requiredGroupSizeX; uint32_t requiredGroupSizeY;
    uint32_t requiredGroupSizeZ; uint32_t requiredNumSubGroups; uint32_t requiredSubgroupSize;
    uint32_t maxSubgroupSize; uint32_t maxNumSubgroups; uint32_t localMemSize;
    uint32_t privateMemSize; uint32_t spillMemSize; uint8_t uuid[32]; }
ze_group_count_t { uint32_t groupCountX; uint32_t groupCountY; uint32_t groupCountZ; }
"""
"""Declarations as in the header: name, `stype` of those that start with `stype` and `pNext`,
fields.
"""
for _name, _number, _fields in re.findall(r"(\w+) (0x\w+ )?\{([^}]*)\}", _STRUCTURES):
    _C_TYPES[_name] = globals()[_name] = _structure(_name, _number, _fields)


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
zeDeviceGetStatus(ze_device_handle_t hDevice)
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
zeCommandListIsGraphCaptureEnabledExt(ze_command_list_handle_t hCommandList)
zeCommandListBeginGraphCaptureExt(ze_command_list_handle_t hCommandList, void* pNext)
zeCommandListEndGraphCaptureExt(ze_command_list_handle_t hCommandList, void* pNext,
    ze_graph_handle_t* phGraph)
zeGraphInstantiateExt(ze_graph_handle_t hGraph, void* pNext,
    ze_executable_graph_handle_t* phExecutableGraph)
zeCommandListAppendGraphExt(ze_command_list_handle_t hCommandList,
    ze_executable_graph_handle_t hGraph, void* pNext, ze_event_handle_t hSignalEvent,
    uint32_t numWaitEvents, ze_event_handle_t* phWaitEvents)
zeExecutableGraphDestroyExt(ze_executable_graph_handle_t hGraph)
zeGraphDestroyExt(ze_graph_handle_t hGraph)
zeCommandListAppendLaunchKernel(ze_command_list_handle_t hCommandList, ze_kernel_handle_t hKernel,
    ze_group_count_t* pLaunchFuncArgs, ze_event_handle_t hSignalEvent, uint32_t numWaitEvents,
    ze_event_handle_t* phWaitEvents)
zeCommandListAppendLaunchCooperativeKernel(ze_command_list_handle_t hCommandList,
    ze_kernel_handle_t hKernel, ze_group_count_t* pLaunchFuncArgs, ze_event_handle_t hSignalEvent,
    uint32_t numWaitEvents, ze_event_handle_t* phWaitEvents)
zeKernelSuggestMaxCooperativeGroupCount(ze_kernel_handle_t hKernel, uint32_t* totalGroupCount)
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
"""Declarations as in the header, without `const`; every function returns a `ze_result_t`."""


class Api:
    """The functions of one Level Zero loader, each looked up on first use.

    Functions that append to a command list run with Python's global lock, because the specification
    forbids two threads to append to one list.  Compiled launch code has the lock too.
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
        """The bound function; `DeviceError` if this loader is too old to have it."""
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
        """True if this loader has the function."""
        return hasattr(self._releasing, name)

    def address(self, name: str) -> int:
        """The function's address, for compiled code."""
        return ctypes.cast(self.function(name), c_void_p).value or 0

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; `LevelZeroError` if it does not return success."""
        code = self.function(name)(*arguments)
        if code:
            raise LevelZeroError(name, code)


_lock = threading.Lock()
loaded_apis: dict[str, Api] = {}


def api() -> Api:
    """The process's Level Zero loader: `TRITON_XE_LEVEL_ZERO`, or the system's."""
    path = knobs.level_zero() or LOADER
    with _lock:
        if path not in loaded_apis:
            loaded_apis[path] = Api(path)
        return loaded_apis[path]
