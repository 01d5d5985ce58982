"""Bindings of the C++ library that registers the simulated device with torch."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from triton_xe.errors import DeviceError
from triton_xe.runtime.operator_traffic import Traffic

PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "xe_start": (c_int, (c_int, POINTER(c_uint64))),
    "xe_register_operators": (c_int, ()),
    "xe_last_error": (c_char_p, ()),
    "xe_get_device": (c_int, ()),
    "xe_set_device": (None, (c_int,)),
    "xe_get_stream": (c_int64, (c_int,)),
    "xe_set_stream": (None, (c_int, c_int64)),
    "xe_stream_handle": (c_uint64, (c_int, c_int64)),
    "xe_set_tf32": (None, (c_uint64,)),
    "xe_timestamp": (c_int64, ()),
    "xe_take_traffic": (None, (c_int, POINTER(c_int64))),
    "xe_graph_new": (c_void_p, ()),
    "xe_graph_begin": (c_int, (c_void_p,)),
    "xe_graph_end": (c_int, (c_void_p,)),
    "xe_graph_size": (c_uint64, (c_void_p,)),
    "xe_graph_replay": (c_int, (c_void_p, c_uint64, c_uint64)),
    "xe_graph_drop": (None, (c_void_p,)),
    "xe_note_kernel": (None, (c_char_p, c_int64, c_int64, c_int)),
    "xe_find_block": (
        c_int, (c_uint64, c_int, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_int))),
    "xe_track_writes": (None, ()),
    "xe_unwritten": (c_uint64, (c_uint64, POINTER(c_uint64), POINTER(c_uint64))),
    "xe_mark_block": (None, (c_uint64,)),
    "xe_maps": (c_int64, ()),
    "xe_guard_violations": (c_int64, ()),
    "xe_set_capacity": (None, (c_int, c_uint64)),
    "xe_capacity": (c_uint64, (c_int,)),
    "xe_memory_stats": (None, (c_int, POINTER(c_int64))),
    "xe_reset_peak_stats": (None, (c_int,)),
    "xe_reset_accumulated_stats": (None, (c_int,)),
}

STATISTICS = ("allocation", "segment", "active", "allocated_bytes", "reserved_bytes",
              "active_bytes", "requested_bytes")
POOLS = ("all", "small_pool", "large_pool")
FIELDS = ("current", "peak", "allocated", "freed")
COUNTERS = ("num_ooms", "num_device_alloc", "num_device_free")


class Allocation(NamedTuple):
    """A block of device memory."""

    base: int
    size: int
    device: int


class Library:
    """The loaded library.  Device indices must be valid: callers check them."""

    def __init__(self, path: Path) -> None:
        # PyDLL: these calls are shorter than releasing and taking the interpreter lock.
        self.functions = ctypes.PyDLL(str(path))
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(self.functions, name)
            function.restype, function.argtypes = result, arguments

    def start(self, capacities: list[int]) -> None:
        """Register the devices with torch."""
        values = (c_uint64 * len(capacities))(*capacities)
        if self.functions.xe_start(len(capacities), values):
            raise DeviceError(f"torch did not accept the simulated xpu device: {self._error()}")

    def check(self, status: int) -> None:
        """Raise `RuntimeError`, as torch's own functions do, if a call failed."""
        if status:
            raise RuntimeError(self._error())

    def _error(self) -> str:
        text: str = self.functions.xe_last_error().decode(errors="replace")
        return text.splitlines()[0]

    def allocation_of(self, pointer: int, *, freed: bool = False) -> Allocation | None:
        """The block that contains an address; with `freed`, one that was freed."""
        base, size, device = c_uint64(), c_uint64(), c_int()
        if not self.functions.xe_find_block(
                pointer, freed, byref(base), byref(size), byref(device)):
            return None
        return Allocation(base.value, size.value, device.value)

    def to_map(self, pointer: int) -> int:
        """Distance in bytes from the block at an address to its map of unwritten bytes, or 0."""
        base, size = c_uint64(), c_uint64()
        found = int(self.functions.xe_unwritten(pointer, byref(base), byref(size)))
        return found - base.value if found else 0

    def take_traffic(self, index: int) -> Traffic:
        """Memory traffic and work of operators since the last call."""
        values = (c_int64 * 5)()
        self.functions.xe_take_traffic(index, values)
        return Traffic(*values)

    def memory_stats(self, index: int) -> dict[str, Any]:
        """Memory statistics as torch nests them: name -> pool -> field, and counters."""
        count = len(STATISTICS) * len(POOLS) * len(FIELDS) + len(COUNTERS)
        values = (c_int64 * count)()
        self.functions.xe_memory_stats(index, values)
        numbers = iter(values)
        stats: dict[str, Any] = {
            name: {pool: {field: next(numbers) for field in FIELDS} for pool in POOLS}
            for name in STATISTICS}
        stats.update((name, next(numbers)) for name in COUNTERS)
        return stats


@cache
def load(path: Path) -> Library:
    return Library(path)
