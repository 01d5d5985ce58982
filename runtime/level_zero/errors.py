"""Level Zero result codes and the error that carries one.

Codes and wording: `ze_result_t` of the specification 1.17; the tests compare the codes with the
header in `third_party/level_zero`.
"""

from __future__ import annotations

from triton_xe.errors import DeviceError

RESULTS: dict[int, tuple[str, str]] = {
    0x00000001: ("NOT_READY", "not finished yet"),
    0x70000001: ("ERROR_DEVICE_LOST", "the device hung, was reset or removed; restart the program"),
    0x70000002: ("ERROR_OUT_OF_HOST_MEMORY", "not enough host memory"),
    0x70000003: ("ERROR_OUT_OF_DEVICE_MEMORY", "not enough device memory"),
    0x70000004: ("ERROR_MODULE_BUILD_FAILURE", "the module could not be compiled"),
    0x70000005: ("ERROR_MODULE_LINK_FAILURE", "the modules could not be linked"),
    0x70000006: ("ERROR_DEVICE_REQUIRES_RESET", "the device must be reset"),
    0x70000007: ("ERROR_DEVICE_IN_LOW_POWER_STATE", "the device is in a low power state"),
    0x70010000: ("ERROR_INSUFFICIENT_PERMISSIONS", "access denied; is the user in group render?"),
    0x70010001: ("ERROR_NOT_AVAILABLE", "in use by someone else, or removed"),
    0x70020000: ("ERROR_DEPENDENCY_UNAVAILABLE", "a library the driver needs is missing"),
    0x78000001: ("ERROR_UNINITIALIZED", "no driver is initialised; is an Intel GPU driver there?"),
    0x78000002: ("ERROR_UNSUPPORTED_VERSION", "this version is not supported; update the driver"),
    0x78000003: ("ERROR_UNSUPPORTED_FEATURE", "the driver or device does not support this"),
    0x78000004: ("ERROR_INVALID_ARGUMENT", "an argument is invalid"),
    0x78000005: ("ERROR_INVALID_NULL_HANDLE", "a handle is null or not valid"),
    0x78000006: ("ERROR_HANDLE_OBJECT_IN_USE", "the object is still in use by the device"),
    0x78000007: ("ERROR_INVALID_NULL_POINTER", "a pointer is null"),
    0x78000008: ("ERROR_INVALID_SIZE", "a size is invalid"),
    0x78000009: ("ERROR_UNSUPPORTED_SIZE", "the size is larger than the device supports"),
    0x7800000A: ("ERROR_UNSUPPORTED_ALIGNMENT", "the device does not support this alignment"),
    0x7800000B: ("ERROR_INVALID_SYNCHRONIZATION_OBJECT", "an event or fence is in a wrong state"),
    0x7800000C: ("ERROR_INVALID_ENUMERATION", "an enumeration value is invalid"),
    0x7800000D: ("ERROR_UNSUPPORTED_ENUMERATION", "the device does not support this choice"),
    0x7800000E: ("ERROR_UNSUPPORTED_IMAGE_FORMAT", "the image format is not supported"),
    0x7800000F: ("ERROR_INVALID_NATIVE_BINARY", "the native binary is for another device"),
    0x78000010: ("ERROR_INVALID_GLOBAL_NAME", "the module has no such global variable"),
    0x78000011: ("ERROR_INVALID_KERNEL_NAME", "the module has no such kernel"),
    0x78000012: ("ERROR_INVALID_FUNCTION_NAME", "the module has no such function"),
    0x78000013: ("ERROR_INVALID_GROUP_SIZE_DIMENSION", "the work-group size does not fit"),
    0x78000014: ("ERROR_INVALID_GLOBAL_WIDTH_DIMENSION", "the grid size is invalid"),
    0x78000015: ("ERROR_INVALID_KERNEL_ARGUMENT_INDEX", "the kernel has no such parameter"),
    0x78000016: ("ERROR_INVALID_KERNEL_ARGUMENT_SIZE", "an argument has the wrong size"),
    0x78000017: ("ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE", "a kernel attribute is invalid"),
    0x78000018: ("ERROR_INVALID_MODULE_UNLINKED", "the module calls functions nothing defines"),
    0x78000019: ("ERROR_INVALID_COMMAND_LIST_TYPE", "wrong kind of command list"),
    0x7800001A: ("ERROR_OVERLAPPING_REGIONS", "the memory regions overlap"),
    0x7800001C: ("ERROR_INVALID_KERNEL_HANDLE", "the kernel handle is invalid here"),
    0x78000021: ("ERROR_ADDRESS_NOT_FOUND", "no allocation has this address"),
    0x7FFFFFFE: ("ERROR_UNKNOWN", "unknown or internal driver error"),
}


class LevelZeroError(DeviceError):
    """A Level Zero call failed: `call`, `code`, `meaning` and, for builds, `build_log`."""

    def __init__(self, call: str, code: int, build_log: str = "", what: str = "") -> None:
        self.call, self.code, self.build_log = call, code & 0xFFFFFFFF, build_log.strip()
        name, self.meaning = RESULTS.get(self.code, ("unknown result", "no explanation known"))
        self.name = f"ZE_RESULT_{name}" if self.code in RESULTS else name
        text = f"{call} failed: {self.meaning} ({self.name}, 0x{self.code:08x})"
        text = f"{what}: {text}" if what else text
        super().__init__(f"{text}\nbuild log:\n{self.build_log}" if self.build_log else text)

    @property
    def is_out_of_memory(self) -> bool:
        return self.code in (0x70000002, 0x70000003)

    @property
    def is_build_failure(self) -> bool:
        """True if the driver cannot build the kernel; smaller blocks or more registers may help.

        With too much scratch space some drivers do not compile, and others find no memory for it.
        """
        return (self.call in ("zeModuleCreate", "zeKernelCreate")
                and self.code in (0x70000003, 0x70000004, 0x70000005, 0x78000009))

    @property
    def is_device_lost(self) -> bool:
        return self.code == 0x70000001


class QueueRecordingError(DeviceError):
    """A queue is being recorded into a graph, and the requested operation cannot be recorded."""
