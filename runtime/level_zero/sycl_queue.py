"""Queues of the SYCL runtime, which torch.xpu uses, called without a C++ compiler.

`torch.xpu.current_stream().sycl_queue` is the address of a `sycl::queue`.  The SYCL runtime that
torch has loaded exports the member functions used here under their Itanium C++ names. Objects are
returned through a hidden first argument, as the x86-64 ABI specifies for classes with a destructor.
Tested with intel-sycl-rt 2026.2 and dpctl's queues.
"""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_xe.errors import DeviceError
from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.errors import QueueRecordingError
from triton_xe.runtime.level_zero.objects import wait

_GET_NATIVE = "_ZNK4sycl3_V15queue9getNativeERi"
_IS_IN_ORDER = "_ZNK4sycl3_V15queue11is_in_orderEv"
GET_CONTEXT = "_ZNK4sycl3_V15queue11get_contextEv"
_GET_DEVICE = "_ZNK4sycl3_V15queue10get_deviceEv"
_CONTEXT_NATIVE = "_ZNK4sycl3_V17context9getNativeEv"
_DEVICE_NATIVE = "_ZNK4sycl3_V16device9getNativeEv"
_STATE = "_ZNK4sycl3_V15queue20ext_oneapi_get_stateEv"
_WAIT = "_ZN4sycl3_V15queue10wait_proxyERKNS0_6detail13code_locationE"
_RECORDING, _CAPTURE_STATE = 1, "zeCommandListIsGraphCaptureEnabledExt"
_ADAPTER_TABLE, _MINOR_VERSIONS = 64, 64
"""Size of the function table of an adapter, whose first entry is urAdapterGet; versions are 0.x."""
OBJECT_BYTES = 64
"""Upper bound of the size of a SYCL object; each is one shared pointer."""


class _CodeLocation(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p), ("function", ctypes.c_char_p), ("line", ctypes.c_ulong),
        ("column", ctypes.c_ulong),
    ]


@dataclass(frozen=True)
class SyclQueue:
    """Native handles of a queue; `native` is an immediate command list or a command queue."""

    address: int
    native: int
    is_command_list: bool
    is_in_order: bool
    context: int
    device: int
    owns_all_work: bool = False
    """True if every command of the queue, copies too, goes through the one list `native`."""

    @property
    def keeps_order(self) -> bool:
        """True if a kernel appended to `native` is in order with all of the queue's own work."""
        return self.is_command_list and self.is_in_order and self.owns_all_work

    @property
    def is_recording(self) -> bool:
        """True while commands are recorded into a SYCL graph instead of running."""
        state = _state()
        return state is not None and state(self.address) == _RECORDING

    @property
    def records_natively(self) -> bool:
        """True if the driver records everything that any caller appends to `native`."""
        if not self.is_command_list or not raw.api().has(_CAPTURE_STATE):
            return False
        state = raw.api().function(_CAPTURE_STATE)(raw.CommandListHandle(self.native))
        return bool(state == raw.QUERY_TRUE)

    def wait(self) -> None:
        """Wait for all work of the queue; SYCL refuses that while it records.

        Level Zero waits instead of SYCL, which would end the process if the device is lost.
        """
        if self.is_recording:
            raise QueueRecordingError(
                "a SYCL queue is being recorded into a graph, and cannot be waited for until then"
            )
        if self.keeps_order:
            wait("zeCommandListHostSynchronize", raw.CommandListHandle(self.native))
            return
        function(_WAIT, None, ctypes.c_void_p, ctypes.c_void_p)(self.address, code_location())


@dataclass(frozen=True)
class TorchStream:
    """A queue of torch if the SYCL runtime cannot be used; torch waits for it.

    Torch's memory can be used unchanged, because Intel's driver knows an allocation in every
    context.
    """

    address: int
    index: int
    device: int
    context: int
    native = 0
    keeps_order = records_natively = False

    @property
    def is_recording(self) -> bool:
        """True while torch captures its current stream into a graph."""
        ask = getattr(sys.modules["torch"].xpu, "is_current_stream_capturing", None)
        return bool(ask and ask())

    def wait(self) -> None:
        """Wait for all work of torch's device."""
        sys.modules["torch"].xpu.synchronize(self.index)


def sycl_queue(address: int) -> SyclQueue:
    """The queue at `address`; `DeviceError` if no SYCL runtime is loaded in this process.

    The SYCL context and device objects are kept for the life of the process.  SYCL has no way to
    release them without a compiler, and torch's own live as long.
    """
    kind = ctypes.c_int(0)
    pointer = ctypes.c_void_p
    native = function(_GET_NATIVE, pointer, pointer, ctypes.POINTER(ctypes.c_int))
    handle = native(address, ctypes.byref(kind)) or 0
    in_order = function(_IS_IN_ORDER, ctypes.c_bool, pointer)(address)
    context = _native_of(GET_CONTEXT, _CONTEXT_NATIVE, address)
    device = _native_of(_GET_DEVICE, _DEVICE_NATIVE, address)
    return SyclQueue(
        address, handle, kind.value == 1, bool(in_order), context, device, has_one_list()
    )


@functools.cache
def _state() -> Any:
    """Function that returns the state of a queue (`_RECORDING` or other); None in a SYCL without
    graphs.
    """
    try:
        return function(_STATE, ctypes.c_int, ctypes.c_void_p)
    except DeviceError:
        return None


def state_address() -> int:
    """The address of `_state` for compiled code, or 0."""
    state = _state()
    return ctypes.cast(state, ctypes.c_void_p).value or 0 if state is not None else 0


def has_one_list() -> bool:
    """True if each queue of this process keeps all its work in one command list.

    The second Level Zero adapter of the SYCL runtime (the default from Xe2 on) does.  The first one
    may copy on another engine, and orders by events that it has only for its own commands.  Both
    are loaded, and the unused one reports that it has no adapter.  Tested with intel-sycl-rt 2026.2
    on pvc, dg2 (first), bmg, lnl and ptl (second), and SYCL_UR_USE_LEVEL_ZERO_V2=0 and 1.
    """
    return _is_in_use("libur_adapter_level_zero_v2.so") and not _is_in_use(
        "libur_adapter_level_zero.so"
    )


def _is_in_use(adapter: str) -> bool:
    """True if a loaded adapter returns an adapter from `urAdapterGet`."""
    maps = Path("/proc/self/maps").read_text()
    loaded = re.search(rf"(/\S*/{re.escape(adapter)}\S*)$", maps, re.MULTILINE)
    if loaded is None:
        return False
    try:
        table_of = ctypes.CDLL(loaded[1]).urGetAdapterProcAddrTable
    except (AttributeError, OSError):
        return False
    table = (ctypes.c_void_p * _ADAPTER_TABLE)()
    # an adapter fills the table only for its own version of the interface
    if not any(table_of(minor, table) == 0 for minor in range(_MINOR_VERSIONS)) or not table[0]:
        return False
    count = ctypes.c_uint32()
    get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)
    return get(table[0])(0, None, ctypes.addressof(count)) == 0 and count.value > 0


def _native_of(getter: str, native: str, queue: int) -> int:
    room = ctypes.create_string_buffer(OBJECT_BYTES)
    function(getter, None, ctypes.c_void_p, ctypes.c_void_p)(room, queue)
    return int(function(native, ctypes.c_void_p, ctypes.c_void_p)(room) or 0)


@functools.cache
def _location() -> _CodeLocation:
    return _CodeLocation(b"triton-xe", b"launch", 0, 0)


def code_location() -> int:
    """Address of the source location that SYCL records for commands submitted here."""
    return ctypes.addressof(_location())


def function(name: str, result: Any, *arguments: Any) -> Any:
    """An exported function of the loaded SYCL runtime, by its C++ name."""
    try:
        found = getattr(_library(), name)
    except AttributeError as error:
        raise DeviceError(
            f"this SYCL runtime ({_library()._name}) does not export {name}; its version is not "
            "supported; use the torch version this package names"
        ) from error
    found.restype, found.argtypes = result, arguments
    return found


@functools.cache
def _library() -> ctypes.CDLL:
    """The SYCL runtime that this process has loaded."""
    maps = Path("/proc/self/maps").read_text()
    loaded = re.findall(r"(/\S*/libsycl\.so\.\d+\S*)$", maps, re.MULTILINE)
    if not loaded:
        raise DeviceError(
            "a SYCL queue was given, but no SYCL runtime is loaded in this process; pass stream 0 "
            "for the device's own command list"
        )
    return ctypes.CDLL(loaded[0])
