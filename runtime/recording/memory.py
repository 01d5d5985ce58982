"""Blocks of memory: read from a device into a file, and written to a device again."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import DeviceError
from triton_xe.runtime.device import MemoryBlock as Block

Bytes = NDArray[np.uint8]
CHUNK_BYTES = 16 << 20
PAGE = 4096
"""Memory is allocated such that addresses are equal to the recorded ones modulo this number."""
GAP = 1 << 20
"""Empty memory on both sides of a block on the simulator."""
NOWHERE = 1 << 60
"""Offset added to addresses of unknown memory: beyond all addresses, which have up to 57 bits."""
_SAMPLE_BYTES = 1 << 16


def is_addressable(device: Any, block: Block) -> bool:
    """True if this process can read a block by its address."""
    return bool(device.is_simulated) or block.kind in ("host", "shared")


def pieces(device: Any, block: Block) -> Iterator[Bytes]:
    """Yield the bytes of a block in chunks; each is overwritten by the next."""
    buffer = np.zeros(min(CHUNK_BYTES, block.nbytes), np.uint8)
    for at in range(block.low, block.high, CHUNK_BYTES):
        piece = buffer[: min(CHUNK_BYTES, block.high - at)]
        if is_addressable(device, block):
            ctypes.memmove(piece.ctypes.data, at, piece.nbytes)
        else:
            device.copy_to_host(piece, at)
        yield piece


def contents(device: Any, block: Block) -> Bytes:
    """All bytes of a block."""
    found = [piece.copy() for piece in pieces(device, block)]
    return np.concatenate(found) if found else np.empty(0, np.uint8)


def digest(device: Any, block: Block) -> bytes:
    made = hashlib.blake2b()
    for piece in pieces(device, block):
        made.update(piece.data)
    return made.digest()


def store(path: Path, contents: Iterable[tuple[int, Iterator[Bytes]]]) -> None:
    """Write blocks, by number, into a zip file, compressed if that makes them smaller."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, made in contents:
            entry = zipfile.ZipInfo(str(number))
            entry._compresslevel = 1  # type: ignore[attr-defined]
            first = next(made, np.empty(0, np.uint8))
            entry.compress_type = _method(first)
            with archive.open(entry, "w", force_zip64=True) as file:
                file.write(first.data)
                for piece in made:
                    file.write(piece.data)


def _method(piece: Bytes) -> int:
    """Compression method of a block.

    Random numbers are stored uncompressed, which is ten times as fast, because they hardly shrink.
    """
    middle = piece[piece.size // 2 :][:_SAMPLE_BYTES].tobytes()
    is_dense = len(zlib.compress(middle, 1)) > 0.9 * len(middle)
    return zipfile.ZIP_STORED if is_dense else zipfile.ZIP_DEFLATED


def load(path: Path, blocks: Sequence[Block], numbers: Iterable[int]) -> dict[int, Bytes]:
    """Read blocks from a zip file by number; `DeviceError` if it is damaged."""
    found: dict[int, Bytes] = {}
    numbers = tuple(numbers)
    if not numbers:
        return found
    try:
        with zipfile.ZipFile(path) as archive:
            for number in numbers:
                data = np.frombuffer(bytearray(archive.read(str(number))), np.uint8)
                if data.nbytes != blocks[number].nbytes:
                    raise DeviceError(f"{path}: block {number} has {data.nbytes} bytes, not "
                                      f"{blocks[number].nbytes}")
                found[number] = data
    except (zipfile.BadZipFile, zlib.error, KeyError, OSError) as error:
        raise DeviceError(f"{path} is missing or damaged: {error}") from error
    return found


class BlocksOnDevice:
    """Recorded blocks on a device, at addresses that equal the recorded ones modulo PAGE."""

    def __init__(self, device: Any, blocks: Sequence[Block]) -> None:
        self.device, self.recorded = device, blocks
        self._keep: list[Any] = []
        self.blocks = tuple(map(self._place, blocks))

    def _place(self, block: Block) -> Block:
        """Allocate memory for a block, at the same offset in a page."""
        rest = block.low % PAGE
        if self.device.is_simulated:
            memory = mmap.mmap(-1, block.nbytes + 2 * GAP + PAGE)
            base = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + GAP
        else:
            memory = self.device.allocate(block.nbytes + PAGE, PAGE, kind=block.kind)
            base = memory.pointer
        self._keep.append(memory)
        return Block(base + rest, base + rest + block.nbytes, block.kind)

    def moved(self, address: int, number: int | None) -> int:
        """New address for a recorded address; `NOWHERE` is added if its memory is unknown."""
        if number is not None:
            return address - self.recorded[number].low + self.blocks[number].low
        return NOWHERE + address % PAGE if address else 0

    def moved_by_number(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """New addresses for numbers in memory; numbers outside of recorded blocks do not change."""
        made = addresses.copy()
        for old, new in zip(self.recorded, self.blocks, strict=True):
            inside = (addresses >= np.uint64(old.low)) & (addresses < np.uint64(old.high))
            made[inside] += np.uint64((new.low - old.low) % (1 << 64))
        return made

    def write(self, number: int, data: Bytes) -> None:
        """Fill a block."""
        block = self.blocks[number]
        if is_addressable(self.device, block):
            ctypes.memmove(block.low, data.ctypes.data, data.nbytes)
        else:
            self.device.copy_to_device(block.low, data)

    def read(self, number: int) -> Bytes:
        return contents(self.device, self.blocks[number])


def words(data: Bytes, offsets: Sequence[int]) -> NDArray[np.uint64]:
    """The 64-bit numbers at byte offsets."""
    spread = data[np.asarray(offsets)[:, None] + np.arange(8)]
    return np.ascontiguousarray(spread).view(np.uint64)[:, 0]


def set_words(data: Bytes, offsets: Sequence[int], values: NDArray[np.uint64]) -> None:
    spread = np.ascontiguousarray(values[:, None]).view(np.uint8)
    data[np.asarray(offsets)[:, None] + np.arange(8)] = spread
