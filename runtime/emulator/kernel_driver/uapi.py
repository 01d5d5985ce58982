"""Structures of the ioctl requests of Linux' xe kernel driver.

Source: `include/uapi/drm/xe_drm.h` and `drm.h` of Linux, as Intel's compute runtime carries them in
`third_party/uapi-eudebug/drm/xe_drm.h`.  Numbers that start with `0x4` are those of xe.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

_KINDS = {"q": ctypes.c_uint64, "i": ctypes.c_uint32, "h": ctypes.c_uint16, "s": ctypes.c_int64}


def _structure(name: str, fields: str) -> type[ctypes.Structure]:
    """A structure from `kind:name` words; `q` 64 bits, `i` 32, `h` 16, `s` signed 64 bits."""
    pairs = (word.split(":") for word in fields.split())
    return type(name, (ctypes.Structure,), {"_fields_": [(n, _KINDS[k]) for k, n in pairs]})


Version = _structure(
    "Version", "i:major i:minor i:patch i:_ q:name_size q:name q:date_size q:date "
    "q:description_size q:description")
GemClose = _structure("GemClose", "i:handle i:_")
Query = _structure("Query", "q:extensions i:query i:size q:data q:_0 q:_1")
GemCreate = _structure(
    "GemCreate", "q:extensions q:size i:placement i:flags i:vm i:handle h:caching h:_0 h:_1 h:_2 "
    "q:_3 q:_4")
MmapOffset = _structure("MmapOffset", "q:extensions i:handle i:flags q:offset q:_0 q:_1")
VmCreate = _structure("VmCreate", "q:extensions i:flags i:vm q:_0 q:_1")
VmDestroy = _structure("VmDestroy", "i:vm i:_ q:_0 q:_1")
BindOperation = _structure(
    "BindOperation", "q:extensions i:handle h:pat h:_ q:offset q:size q:address i:operation "
    "i:flags i:region i:_1 q:_2 q:_3 q:_4")
VmBind = _structure(
    "VmBind", "q:extensions i:vm i:queue i:_ i:count q:vector "
    + " ".join(f"q:_bind{n}" for n in range(ctypes.sizeof(BindOperation) // 8 - 1))
    + " i:_1 i:sync_count q:syncs q:_2 q:_3")
"""`vector` and what follows is the operation itself if `count` is 1."""
QueueCreate = _structure(
    "QueueCreate", "q:extensions h:width h:placements i:vm i:flags i:queue q:instances q:_0 q:_1")
QueueDestroy = _structure("QueueDestroy", "i:queue i:_ q:_0 q:_1")
QueueProperty = _structure("QueueProperty", "q:extensions i:queue i:property q:value q:_0 q:_1")
Sync = _structure("Sync", "q:extensions i:kind i:flags q:address q:value q:_0 q:_1")
Exec = _structure(
    "Exec", "q:extensions i:queue i:sync_count q:syncs q:address h:batches h:_0 h:_1 h:_2 q:_3 "
    "q:_4")
WaitFence = _structure(
    "WaitFence", "q:extensions q:address h:operation h:flags i:_0 q:value q:mask s:timeout i:queue "
    "i:_1 q:_2 q:_3")
EngineCycles = _structure(
    "EngineCycles",
    "h:engine_class h:instance h:gt h:_ i:clock i:width q:cycles q:cpu_time q:delta")

REQUESTS: Mapping[int, tuple[str, type[ctypes.Structure]]] = {
    0x00: ("DRM_VERSION", Version),
    0x09: ("DRM_GEM_CLOSE", GemClose),
    0x40: ("XE_DEVICE_QUERY", Query),
    0x41: ("XE_GEM_CREATE", GemCreate),
    0x42: ("XE_GEM_MMAP_OFFSET", MmapOffset),
    0x43: ("XE_VM_CREATE", VmCreate),
    0x44: ("XE_VM_DESTROY", VmDestroy),
    0x45: ("XE_VM_BIND", VmBind),
    0x46: ("XE_EXEC_QUEUE_CREATE", QueueCreate),
    0x47: ("XE_EXEC_QUEUE_DESTROY", QueueDestroy),
    0x48: ("XE_EXEC_QUEUE_GET_PROPERTY", QueueProperty),
    0x49: ("XE_EXEC", Exec),
    0x4A: ("XE_WAIT_USER_FENCE", WaitFence),
}
"""Number of a request -> its name and structure."""
UNKNOWN: Mapping[int, str] = {
    0x0C: "DRM_GET_CAP", 0x0D: "DRM_SET_CLIENT_CAP", 0x2D: "DRM_PRIME_HANDLE_TO_FD",
    0x2E: "DRM_PRIME_FD_TO_HANDLE", 0x4B: "XE_OBSERVATION", 0x4C: "XE_MADVISE",
    0x4D: "XE_VM_QUERY_MEM_RANGE_ATTRS", 0x4E: "XE_EUDEBUG_CONNECT", 0xBF: "DRM_SYNCOBJ_CREATE",
    0xC0: "DRM_SYNCOBJ_DESTROY", 0xC1: "DRM_SYNCOBJ_HANDLE_TO_FD",
    0xC2: "DRM_SYNCOBJ_FD_TO_HANDLE", 0xC3: "DRM_SYNCOBJ_WAIT", 0xC4: "DRM_SYNCOBJ_RESET",
    0xC5: "DRM_SYNCOBJ_SIGNAL",
}
"""Requests that are known by name only, for a refusal that says which one it is."""

SIGNAL = 1
"""Flag of a `Sync`: to be signalled, not waited for."""
USER_FENCE = 2
"""Kind of a `Sync`: a number in memory."""
MAP, UNMAP, MAP_PROGRAM, UNMAP_ALL, PREFETCH = range(5)
"""Operations of `BindOperation`; `MAP_PROGRAM` is `userptr`."""
ABSOLUTE_TIME = 1
"""Flag of `WaitFence`: the time-out is a time, not a duration."""
