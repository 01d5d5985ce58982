"""Memory of an emulated GPU: a sparse file that the program maps, and pages of the program.

Buffers of the driver are ranges of that file: program and emulator see the same bytes.  A program's
own pages (`userptr`) are not shared.  A launch reads copies of those that it touches, and writes
back what it changed when it ends.  A kernel that waits until the program writes into such pages
therefore never ends.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import DeviceError
from triton_xe.runtime.emulator import memory

_ALIGNMENT = 1 << 16
"""Alignment of buffers in bytes; the size of pages that the driver uses for memory of a GPU."""
_PIECE = 1 << 14
"""Bytes of a program's pages that are copied at once."""
ARENA_BYTES = 1 << 37
"""Size of the file; what nothing wrote takes no memory."""
_NO_RESERVE = 0x4000
"""Flag of Linux' `mmap`; Python names it since 3.13."""
_S = TypeVar("_S", bound=ctypes.Structure)


class EmulatorFault(DeviceError):
    """The emulated GPU cannot go on: a real one would fault, or the emulator does not know how."""


class Arena:
    """The file, and which of its ranges are free."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("emulated-gpu")
        os.ftruncate(self.descriptor, ARENA_BYTES)
        self._map = mmap.mmap(
            self.descriptor, ARENA_BYTES, flags=mmap.MAP_SHARED | _NO_RESERVE)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.start: int = self.bytes.ctypes.data
        """Host address of the first byte."""
        self.inode = os.fstat(self.descriptor).st_ino
        self._free: dict[int, list[int]] = defaultdict(list)
        self._end = _ALIGNMENT

    def allocate(self, size: int) -> int:
        """Offset of `size` zeroed bytes; `MemoryError` when the file has no more."""
        size = _aligned(size)
        if self._free[size]:
            return self._free[size].pop()
        if self._end + size > ARENA_BYTES:
            raise MemoryError
        self._end += size
        return self._end - size

    def release(self, offset: int, size: int) -> None:
        """Give a range back to the system; it reads as zero again."""
        self._map.madvise(mmap.MADV_REMOVE, offset, _aligned(size))
        self._free[_aligned(size)].append(offset)

    def close(self) -> None:
        self.bytes = np.zeros(0, np.uint8)
        os.close(self.descriptor)


def _aligned(size: int) -> int:
    return -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT


class Program:
    """Memory of the process that uses the GPU, by the system's view of it."""

    def __init__(self, process: int) -> None:
        self.process = process
        self._memory = os.open(f"/proc/{process}/mem", os.O_RDWR | os.O_CLOEXEC)

    def read(self, address: int, size: int) -> bytes:
        try:
            data = os.pread(self._memory, size, address)
        except OSError:
            data = b""
        if len(data) != size:
            raise EmulatorFault(f"the program's memory at {address:#x} ({size} bytes) cannot be "
                                "read: it was unmapped, or is protected")
        return data

    def write(self, address: int, data: bytes) -> None:
        try:
            written = os.pwrite(self._memory, data, address)
        except OSError:
            written = 0
        if written != len(data):
            raise EmulatorFault(f"the program's memory at {address:#x} ({len(data)} bytes) cannot "
                                "be written: it was unmapped, or is protected")

    def structure(self, address: int, kind: type[_S]) -> _S:
        return kind.from_buffer_copy(self.read(address, ctypes.sizeof(kind)))

    def close(self) -> None:
        os.close(self._memory)


@dataclass(eq=False)
class _Copies:
    """Copies of pages that belong to the program, for the time of one launch."""

    program: Program
    arena: Arena
    address: int
    size: int
    offset: int
    before: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    """Piece -> its bytes as they were read."""

    def fetch(self, piece: int) -> None:
        """Copy a piece of the program's memory when it is first used."""
        if piece not in self.before:
            size = min(_PIECE, self.size - piece * _PIECE)
            data = self.program.read(self.address + piece * _PIECE, size)
            self.before[piece] = np.frombuffer(data, np.uint8)
            self._piece(piece)[:] = self.before[piece]

    def flush(self) -> None:
        """Write back the bytes that changed, and forget all."""
        for piece, before in self.before.items():
            after = self._piece(piece)
            first = self.address + piece * _PIECE
            for start, end in _runs(after != before):
                self.program.write(first + start, after[start:end].tobytes())
        self.before.clear()

    def _piece(self, piece: int) -> NDArray[np.uint8]:
        start = self.offset + piece * _PIECE
        return self.arena.bytes[start : min(start + _PIECE, self.offset + self.size)]


def _runs(changed: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Start and end of each run of true elements.

    >>> _runs(np.array([0, 1, 1, 0, 1], bool))
    [(1, 3), (4, 5)]
    """
    edges = np.flatnonzero(np.diff(changed.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


@dataclass(frozen=True)
class _Binding:
    """Addresses of the GPU from `start` to `end`, with the offset of the first one's byte."""

    start: int
    end: int
    offset: int
    copies: _Copies | None = None

    def part(self, start: int, end: int) -> _Binding:
        return _Binding(start, end, self.offset + start - self.start, self.copies)


class AddressSpace(memory.AddressSpace):
    """Addresses of the GPU -> bytes of the file or of the program (`VM` of the xe driver).

    Bits of addresses from `bits` on are copies of the one below.
    """

    def __init__(self, arena: Arena, program: Program, bits: int) -> None:
        super().__init__()
        self.arena, self.program, self._mask = arena, program, (1 << bits) - 1
        self._bindings: list[_Binding] = []
        self._tables: tuple[NDArray[Any], ...] | None = None

    def plain(self, address: int) -> int:
        """An address without the copies of its last bit."""
        return address & self._mask

    def bind(self, start: int, size: int, offset: int) -> None:
        """Let addresses mean bytes of the file; an older meaning ends."""
        self._put(_Binding(self.plain(start), self.plain(start) + size, offset))

    def bind_program(self, start: int, size: int, address: int) -> None:
        """Let addresses mean pages of the program."""
        offset = self.arena.allocate(size)
        copies = _Copies(self.program, self.arena, address, size, offset)
        self._put(_Binding(self.plain(start), self.plain(start) + size, offset, copies))

    def unbind(self, start: int, size: int) -> None:
        """Let addresses mean nothing; bindings around them are cut."""
        start = self.plain(start)
        end, kept = start + size, []
        for old in self._bindings:
            if old.end <= start or end <= old.start:
                kept.append(old)
                continue
            kept += [old.part(*ends) for ends in ((old.start, start), (end, old.end))
                     if ends[0] < ends[1]]
        for copies in {b.copies for b in self._bindings} - {b.copies for b in kept}:
            if copies is not None:
                self.arena.release(copies.offset, copies.size)
        self._bindings, self._tables = kept, None
        self._starts = [each.start for each in kept]

    def _put(self, binding: _Binding) -> None:
        """Add a binding in the order of addresses, and remove what was bound there."""
        self.unbind(binding.start, binding.end - binding.start)
        bisect.insort(self._bindings, binding, key=lambda each: each.start)
        self._starts = [each.start for each in self._bindings]

    def uses(self, offset: int, size: int) -> bool:
        """True if addresses mean a byte of this range of the file."""
        return any(offset <= each.offset < offset + size for each in self._bindings)

    def close(self) -> None:
        self.unbind(0, self._mask + 1)

    # ---- single values, for the command streamer -------------------------------------------

    def load(self, address: int, size: int) -> bytes:
        """The bytes at an address of the GPU."""
        parts = []
        while size:
            binding, at = self._find(address)
            count = min(size, binding.end - at)
            place = binding.offset + at - binding.start
            if binding.copies is None:
                parts.append(self.arena.bytes[place : place + count].tobytes())
            else:
                parts.append(self.program.read(_address(binding, place), count))
            address, size = address + count, size - count
        return b"".join(parts)

    def store(self, address: int, data: bytes) -> None:
        """Write bytes to a GPU address: to the arena, or to the program's memory."""
        while data:
            binding, at = self._find(address)
            count = min(len(data), binding.end - at)
            place = binding.offset + at - binding.start
            if binding.copies is None:
                self.arena.bytes[place : place + count] = np.frombuffer(data[:count], np.uint8)
            else:
                self.program.write(_address(binding, place), data[:count])
            address, data = address + count, data[count:]

    def copy(self, address: int, size: int) -> bytes:
        return self.load(address, size)

    def bytes_from(self, address: int) -> int:
        binding, at = self._find(address)
        return binding.end - at

    def _find(self, address: int) -> tuple[_Binding, int]:
        at = self.plain(address)
        index = bisect.bisect_right(self._starts, at) - 1
        if index < 0 or self._bindings[index].end <= at:
            raise EmulatorFault(f"address {address:#x} of the GPU means no memory")
        return self._bindings[index], at

    # ---- many addresses, for launches ------------------------------------------------------

    def locate(self, addresses: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Host addresses of the `size` bytes at each address; a fault names the first outside."""
        at = addresses & self._mask
        if at.size and (near := self._around(int(at.min()), int(at.max()) + size)) is not None:
            return at + (near.offset - near.start + self.arena.start)
        starts, ends, shifts, copied = self._arrays()
        index = np.searchsorted(starts, at, "right") - 1
        wrong = (index < 0) | (at + size > ends[index])
        if wrong.any():
            raise EmulatorFault(
                f"an access of {size} bytes at address {int(at[wrong][0]):#x} is outside of every "
                "buffer")
        found: NDArray[np.int64] = at + shifts[index]
        if copied.any() and (used := copied[index]).any():
            for which in np.unique(index[used]):
                _fetch(self._bindings[which], found[index == which], size)
        return found + self.arena.start

    def _around(self, start: int, end: int) -> _Binding | None:
        """The buffer of the file that contains all these addresses; None if there is none.

        Mostly there is one, and the addresses need no table.
        """
        index = bisect.bisect_right(self._starts, start) - 1
        found = self._bindings[index] if index >= 0 else None
        return found if found is not None and end <= found.end and found.copies is None else None

    def flush(self) -> None:
        """Write what launches changed in the program's pages, and read them anew from now on."""
        for binding in self._bindings:
            if binding.copies is not None and binding.copies.before:
                binding.copies.flush()

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        if self._tables is None:
            rows = [(b.start, b.end, b.offset - b.start) for b in self._bindings] or [(0, 0, 0)]
            starts, ends, shifts = np.array(rows, np.int64).T
            copied = np.array([b.copies is not None for b in self._bindings] or [False])
            self._tables = starts, ends, shifts, copied
        return self._tables


def _fetch(binding: _Binding, offsets: NDArray[np.int64], size: int) -> None:
    """Copy the pages of the program that contain bytes at these offsets of the file."""
    copies = binding.copies
    assert copies is not None
    first = offsets - copies.offset
    for piece in np.unique(np.concatenate((first, first + size - 1)) // _PIECE).tolist():
        copies.fetch(piece)


def _address(binding: _Binding, offset: int) -> int:
    """Address in the program of a byte at an offset of the file."""
    copies = binding.copies
    assert copies is not None
    return copies.address + offset - copies.offset
