"""Reports of kernels to the host: lines of tl.device_print, failed tl.device_assert.

The format of the buffer is described in `lowering/emit/debug.py`.  A launch that may report waits
for its end, so that lines are printed in order and the launch that failed raises the error.  With
`TRITON_XE_ASSERT=abort` the process ends with SIGABRT instead, as with SYCL's assert on Intel's own
driver.  This is for test suites that expect that and for core dumps.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.runtime import observers

HEADER_BYTES, RECORD_BYTES = 32, 32
SHOWN_FAILURES = 8

_RECORD = [("site", "<i4"), ("pid", "<i4", 3), ("index", "<i4"), ("unused", "<i4"), ("bits", "<u8")]

Site = Mapping[str, Any]


class DeviceAssertionError(DeviceError, AssertionError):
    """A tl.device_assert failed; the kernel ran to its end, and the process continues."""


class DebugBuffer:
    """The buffer of one launch; give `pointer` to the kernel, then call `report`."""

    def __init__(self, device: Any, kernel: str, sites: Sequence[Site]) -> None:
        self._device = device
        self._kernel = kernel
        self._sites = sites
        self._capacity = max(1, (knobs.print_bytes() - HEADER_BYTES) // RECORD_BYTES)
        self._buffer = device.allocate(HEADER_BYTES + self._capacity * RECORD_BYTES)
        self.pointer = self._buffer.pointer
        self._clear()

    def _clear(self) -> None:
        header = struct.pack("<8i", 0, self._capacity, *[0] * 6)
        self._device.copy_to_device(self.pointer, header)

    def report(self) -> None:
        """Wait for the kernel, print its lines, and raise `DeviceAssertionError` if an assertion
        failed.

        With `TRITON_XE_ASSERT=abort` the failure is printed to stderr and the process ends.  For a
        launch captured into a simulated graph, each replay reports.
        """
        if observers.keep(self, self._report_replay):
            return
        try:
            self._device.synchronize()
            found = self._records()
        finally:
            self._buffer.free()
        self._report(*found)

    def _report_replay(self) -> None:
        found = self._records()
        self._clear()
        self._report(*found)

    def _report(self, asked: int, records: Any) -> None:
        """Print lines of device_print; raise, or abort, if an assertion failed."""
        failed = []
        for record in records:
            site = self._sites[record["site"]]
            if site["what"] == "print":
                print(line(site, record["pid"], int(record["index"]), int(record["bits"])))
            else:
                failed.append((site, record))
        if asked > len(records):
            print(
                f"kernel {self._kernel!r}: {asked - len(records)} more reports did not fit; set "
                "TRITON_XE_PRINT_BYTES to a larger number of bytes"
            )
        sys.stdout.flush()
        if not failed:
            return
        if knobs.abort_on_assert():
            print(self._failures(failed), file=sys.stderr, flush=True)
            os.abort()
        error = DeviceAssertionError(self._failures(failed))
        error.location = str(failed[0][0]["where"])
        raise error

    def _records(self) -> tuple[int, Any]:
        """How many records the kernel requested, and those that fitted."""
        import numpy as np  # not earlier: every program that imports Triton imports this module

        header = np.zeros(8, np.int32)
        self._device.copy_to_host(header, self.pointer)
        asked = int(header[:1].view(np.uint32)[0])
        records = np.zeros(min(asked, self._capacity), _RECORD)
        if len(records):
            self._device.copy_to_host(records, self.pointer + HEADER_BYTES)
        return asked, records

    def _failures(self, failed: Sequence[tuple[Site, Any]]) -> str:
        """The message of failed assertions, each once."""
        shown = list(dict.fromkeys(
            f"{site['where'] or 'unknown source location'}: program ({_numbers(record['pid'])})"
            f"{_element(site, int(record['index']))}: {site['text'] or 'assertion failed'}"
            for site, record in failed
        ))
        more = len(shown) - SHOWN_FAILURES
        tail = f"\n  ... and {more} more" if more > 0 else ""
        head = f"kernel {self._kernel!r}: device-side assertion failed"
        return "\n  ".join([head, *shown[:SHOWN_FAILURES]]) + tail


def _numbers(values: Any) -> str:
    return ", ".join(str(int(v)) for v in values)


def _element(site: Site, index: int) -> str:
    shape = site.get("shape")
    return "" if not shape else f", element ({_numbers(coordinates(index, shape))})"


def coordinates(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Coordinates of a row-major position.

    >>> coordinates(7, (2, 4))
    (1, 3)
    """
    out = []
    for size in reversed(shape):
        out.append(index % size)
        index //= size
    return tuple(reversed(out))


def line(site: Site, pid: Sequence[int], index: int, bits: int) -> str:
    """Format one line of tl.device_print, as Triton does on other GPUs.

    >>> site = {"text": " x: ", "type": "i32", "signed": True, "hex": False, "shape": [16]}
    >>> line(site, (0, 1, 0), 3, 7)
    'pid (0, 1, 0) idx ( 3) x: 7'
    """
    head = f"pid ({_numbers(pid)})"
    if site["type"] == "none":
        return head + str(site["text"])
    shape = site.get("shape") or ()
    places = ", ".join(
        f"{c:{len(str(n - 1))}}" for c, n in zip(coordinates(index, shape), shape, strict=True)
    )
    operand = site.get("operand")
    which = "" if operand is None else f"(operand {operand}) "
    return f"{head} idx ({places}){site['text']}{which}{shown(site, bits)}"


def shown(site: Site, bits: int) -> str:
    """Format a value from its bits."""
    kind = str(site["type"])
    if kind == "ptr":
        return f"0x{bits:x}"
    if kind.startswith("i"):
        return _integer(int(kind[1:]), bits, bool(site.get("signed")), bool(site.get("hex")))
    value = _float(kind, bits)
    return value.hex() if site.get("hex") else f"{value:f}"


def _integer(width: int, bits: int, signed: bool, as_hex: bool) -> str:
    bits &= (1 << width) - 1
    if as_hex:
        return f"0x{bits:0{max(width // 4, 1)}x}"
    return str(bits - (1 << width) if signed and width > 1 and bits >> (width - 1) else bits)


def _float(kind: str, bits: int) -> float:
    if kind == "bf16":
        kind, bits = "f32", bits << 16
    if kind not in _FLOATS:
        return float(bits & 0xFF)
    letter, size = _FLOATS[kind]
    (value,) = struct.unpack(f"<{letter}", bits.to_bytes(16, "little")[:size])
    return float(value)


_FLOATS = {"f16": ("e", 2), "f32": ("f", 4), "f64": ("d", 8)}
"""Letter of `struct` and bytes of each type."""


__all__ = ["DebugBuffer", "DeviceAssertionError", "coordinates", "line"]
