"""Memory of the emulated device: GPU addresses are mapped to memory of this process.

`AddressSpace` maps ranges of GPU addresses to host addresses, each with its exact size; an access
outside of every range is a fault.  Shared local memory and scratch are `BankedMemory`: one array
for each work-group or thread.  Addresses are never rounded: hardware takes misaligned accesses of
global memory, which are done byte by byte and counted.
"""

from __future__ import annotations

import bisect
import ctypes
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import SimulatorTrap, UnsupportedError

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Addresses = NDArray[np.int64]
_FIRST = 4096
_LAST = (1 << 47) - _FIRST
_GAP = 4096
_START = 1 << 32


class Fault(SimulatorTrap):
    """The emulated device stopped a kernel; `what` names the kind of fault."""


def fault(what: str, sentence: str) -> Fault:
    error = Fault(sentence)
    error.what = what
    return error


def _process_memory() -> dict[int, Array]:
    """All memory of this process as one array for each element size."""
    everything = np.ctypeslib.as_array(
        (ctypes.c_uint8 * (_LAST - _FIRST)).from_address(_FIRST))
    return {size: everything[: everything.size // size * size].view(f"u{size}")
            for size in (1, 2, 4, 8)}


_HOST = _process_memory()


class AddressSpace:
    """Ranges of GPU addresses, each mapped to host memory; all of them readable and writable."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[int, int]] = {}
        self._kept: dict[int, Array] = {}
        self._starts: list[int] = []
        self._next = _START
        self._table: Addresses = np.zeros((0, 3), np.int64)
        self.misaligned: Counter[str] = Counter()
        """Misaligned accesses by kind."""

    def map(self, address: int, host_address: int, size: int) -> None:
        """Map `size` bytes at a GPU address to those at a host address."""
        self._ranges[address] = (size, host_address)
        self._sort()

    def unmap(self, address: int) -> None:
        """Remove the range that begins at a GPU address."""
        del self._ranges[address]
        self._kept.pop(address, None)
        self._sort()

    def _sort(self) -> None:
        self._starts = sorted(self._ranges)
        self._table = np.array(
            [(start, start + self._ranges[start][0], self._ranges[start][1] - start)
             for start in self._starts], np.int64).reshape(-1, 3)

    def put(self, values: Array | bytes) -> int:
        """Allocate memory with these contents, between gaps; returns its GPU address."""
        raw = values if isinstance(values, bytes) else np.ascontiguousarray(values).tobytes()
        kept = np.zeros(len(raw) + 64, np.uint8)
        first = -kept.ctypes.data % 64
        kept[first : first + len(raw)] = np.frombuffer(raw, np.uint8)
        address = self._next
        self._next += (len(raw) + 2 * _GAP - 1) // _GAP * _GAP
        self._kept[address] = kept
        self.map(address, kept.ctypes.data + first, len(raw))
        return address

    def get(self, address: int, dtype: Any, shape: Any) -> Array:
        """A copy of the array at a GPU address."""
        kind = np.dtype(dtype)
        size = int(np.prod(shape)) * kind.itemsize
        return np.frombuffer(self.copy(address, size), kind).reshape(shape).copy()

    def copy(self, address: int, size: int) -> bytes:
        """The bytes at a GPU address, which one range has to hold."""
        (host,) = self.locate(np.array([address]), size)
        return ctypes.string_at(int(host), size)

    def bytes_from(self, address: int) -> int:
        """Bytes from a GPU address to the end of its range; 0 if it is not mapped."""
        index = bisect.bisect_right(self._starts, address) - 1
        return 0 if index < 0 else max(0, int(self._table[index, 1]) - address)

    def locate(self, addresses: Addresses, size: int) -> Addresses:
        """Host addresses of accesses of `size` bytes; a fault names the first outside."""
        if not addresses.size:
            return addresses
        low, high = int(addresses.min()), int(addresses.max())
        index = bisect.bisect_right(self._starts, low) - 1
        if index >= 0 and high + size <= self._table[index, 1]:
            return addresses + self._table[index, 2]
        return self._locate_each(addresses, size)

    def _locate_each(self, addresses: Addresses, size: int) -> Addresses:
        """Translate addresses one by one; a fault if one is outside of all bindings."""
        rows = np.searchsorted(self._table[:, 0], addresses, "right") - 1
        inside = rows >= 0
        if inside.any():
            inside &= addresses + size <= self._table[rows, 1]
        if not inside.all():
            raise fault("out of bounds", self._outside(int(addresses[~inside].flat[0]), size))
        found: Addresses = addresses + self._table[rows, 2]
        return found

    def _outside(self, address: int, size: int) -> str:
        """Error text for an access to no allocation, with the allocation before it."""
        index = bisect.bisect_right(self._starts, address) - 1
        near = ""
        if index >= 0:
            start, end = (int(x) for x in self._table[index, :2])
            near = (f"; the allocation before it has {end - start} bytes from {start:#x} and ends "
                    f"{address + size - end} bytes before the access does")
        return f"{size} bytes at {address:#x} are in no allocation{near}"

    def read(self, addresses: Addresses, dtype: Any) -> Array:
        """Elements at GPU addresses (any shape)."""
        size = np.dtype(dtype).itemsize
        at = self.locate(addresses, size)
        if size > 1 and (at & size - 1).any():
            self.misaligned[f"load d{8 * size}"] += int(np.count_nonzero(at & size - 1))
            return self._read_bytes(at, dtype)
        return _HOST[size][at - _FIRST >> size.bit_length() - 1].view(dtype)

    def _read_bytes(self, at: Addresses, dtype: Any) -> Array:
        size = np.dtype(dtype).itemsize
        parts = _HOST[1][(at - _FIRST)[..., None] + np.arange(size)]
        return np.ascontiguousarray(parts).view(dtype)[..., 0]

    def write(self, addresses: Addresses, values: Array) -> None:
        """Store elements at GPU addresses; of several at one address the last remains."""
        size = values.dtype.itemsize
        at = self.locate(addresses, size)
        if size > 1 and (at & size - 1).any():
            self.misaligned[f"store d{8 * size}"] += int(np.count_nonzero(at & size - 1))
            raw = np.ascontiguousarray(values)[..., None].view(np.uint8)
            _HOST[1][(at - _FIRST)[..., None] + np.arange(size)] = raw
        else:
            _HOST[size][at - _FIRST >> size.bit_length() - 1] = values.view(f"u{size}")


class Undefined:
    """Contents that nothing defines: random bytes of a seed, so that results show their use."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def fill(self, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """Bytes of registers or memory before anything is written."""
        return self._random.integers(0, 256, shape, np.uint8)

    def above(self, values: Array, bits: int, dtype: Any) -> Array:
        """Values in a wider type, the bits from `bits` on undefined."""
        upper = self._random.integers(0, 1 << 8 * np.dtype(dtype).itemsize - bits, values.shape,
                                      dtype) << dtype(bits)
        return values.astype(dtype) | upper


def local_addresses(addresses: Array) -> Array:
    """Addresses of shared local memory without the tag of IGC's generic pointers."""
    return addresses & _LOCAL_BITS


class BankedMemory:
    """Memory with one bank of `size` bytes for each owner (work-group or thread).

    A read may reach `overrun` bytes past the bank's end, which are undefined.
    """

    def __init__(
        self, name: str, size: int, owners: int, undefined: Undefined, overrun: int = 0
    ) -> None:
        self.name, self.size, self._readable = name, size, size + overrun
        self._stride = max(8, -(-self._readable // 8) * 8)
        self._bytes = undefined.fill((self._stride * owners,))

    def _places(self, addresses: Addresses, owners: Array, size: int, end: int) -> Addresses:
        """Byte offsets of addresses in the memory of each owner; raise a fault for others."""
        outside = (addresses < 0) | (addresses + size > end)
        if outside.any():
            raise fault("out of bounds", (
                f"{size} bytes at {int(addresses[outside].flat[0]):#x} are outside of the "
                f"{self.size} bytes of {self.name}"))
        return addresses + owners * self._stride

    def read(self, addresses: Addresses, owners: Array, dtype: Any) -> Array:
        """Load elements; misaligned ones byte by byte.

        IGC 2.40 loads `<16 x i8>` at an odd address as `load.slm.d32 (4|M0)` of 4 addresses with a
        stride of 4 bytes.  If the alignment is unknown, IGC avoids transposed messages only.
        """
        size = np.dtype(dtype).itemsize
        places = self._places(addresses, owners, size, self._readable)
        if (places & size - 1).any():
            parts = self._bytes[places[..., None] + np.arange(size)]
            return np.ascontiguousarray(parts).view(dtype)[..., 0]
        return self._bytes.view(dtype)[places // size]

    def write(self, addresses: Addresses, owners: Array, values: Array) -> None:
        size = values.dtype.itemsize
        places = self._places(addresses, owners, size, self.size)
        if (places & size - 1).any():
            raw = np.ascontiguousarray(values)[..., None].view(np.uint8)
            self._bytes[places[..., None] + np.arange(size)] = raw
        else:
            self._bytes.view(values.dtype)[places // size] = values


Surfaces = Callable[[str, int], tuple[int, int]]
"""Kind ("bti", "ss", "bss") and number of a surface -> its GPU address and size in bytes."""
_LOCAL_BITS = (1 << 28) - 1
"""IGC tags addresses of shared local memory with bit 28 (PrivateMemoryToSLM.hpp)."""
SCRATCH_HANDLE = 0x400
"""Offset of the scratch surface in r0.5, [31:10]; a message names it shifted right by 4."""


_LINE_BITS = 6
"""Log2 of the bytes of a cache line."""


class Lines:
    """Cache lines of global memory that a launch prefetches, and those that it loads."""

    def __init__(self) -> None:
        self._prefetched: dict[int, list[Array]] = {}
        self._loaded: list[Array] = []

    def prefetch(self, pc: int, addresses: Array) -> None:
        self._prefetched.setdefault(pc, []).append(np.unique(addresses >> _LINE_BITS))

    def load(self, addresses: Array) -> None:
        self._loaded.append(np.unique(addresses >> _LINE_BITS))

    def prefetched(self) -> dict[int, Array]:
        """Program counter of each prefetch -> numbers of its lines."""
        return {pc: np.unique(np.concatenate(parts)) for pc, parts in self._prefetched.items()}

    def unused(self) -> dict[int, float]:
        """Program counter of each prefetch -> share of its lines that nothing loads."""
        loaded = np.unique(np.concatenate([np.zeros(0, np.int64), *self._loaded]))
        return {pc: float(1 - np.isin(lines, loaded).mean()) if len(lines) else 0.0
                for pc, lines in self.prefetched().items()}


@dataclass
class Memories:
    """The memories that the threads of a launch reach."""

    space: AddressSpace
    local: BankedMemory
    """Shared local memory, one bank for each work-group."""
    scratch: BankedMemory
    """One bank for each thread."""
    barriers: Any
    """`gateway.Barriers` of the work-groups."""
    undefined: Undefined
    general_state_base: int = 0
    """GPU address that 32-bit stateless addresses count from (BTI 255)."""
    surfaces: Surfaces | None = None
    scratch_pointer: int = SCRATCH_HANDLE
    """Handle of scratch memory in messages of Xe3P."""
    bytes_moved: Counter[int] = field(default_factory=Counter)
    """Bytes that each instruction's messages asked for, by program counter."""
    pc: int = 0
    """Program counter of the instruction that runs."""
    lines: Lines | None = None
    """Lines that are prefetched and loaded, if a check asks for them."""
    findings: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Program counter and what a message does that the hardware's tables do not allow."""

    def read(self, where: Place, addresses: Array, chosen: Bools | None, dtype: Any) -> Array:
        """Elements at the addresses of chosen channels, zeros in the others."""
        if chosen is None or chosen.all():
            return self._load(where, addresses, where.owners(addresses), dtype)
        result = np.zeros(addresses.shape, dtype)
        owners = None if where.owner is None else where.owners(addresses)[chosen]
        result[chosen] = self._load(where, addresses[chosen], owners, dtype)
        return result

    def _load(self, where: Place, addresses: Array, owners: Any, dtype: Any) -> Array:
        self.bytes_moved[self.pc] += addresses.size * np.dtype(dtype).itemsize
        if where.bank is None:
            if self.lines is not None:
                self.lines.load(addresses)
            return self.space.read(addresses, dtype)
        return where.bank.read(addresses, owners, dtype)

    def write(self, where: Place, addresses: Array, chosen: Bools | None, values: Array) -> None:
        """Store the elements of chosen channels."""
        owners = where.owners(addresses)
        if chosen is not None and not chosen.all():
            addresses, values = addresses[chosen], values[chosen]
            owners = None if owners is None else owners[chosen]
        self.bytes_moved[self.pc] += addresses.size * values.dtype.itemsize
        if where.bank is None:
            self.space.write(addresses, values)
        else:
            where.bank.write(addresses, owners, values)

    def surface(self, kind: str, number: int) -> tuple[int, int]:
        """GPU address and size of a surface; `UnsupportedError` if the launch describes none."""
        if self.surfaces is None:
            raise UnsupportedError(f"surface {kind}[{number:#x}] is not described by the launch")
        return self.surfaces(kind, number)


@dataclass(frozen=True)
class Place:
    """Memory that a message addresses: global memory, or a bank of each owner."""

    bank: BankedMemory | None = None
    owner: Array | None = None

    def owners(self, addresses: Array) -> Any:
        """The owner of each address (the leading axis is that of the threads)."""
        if self.owner is None:
            return None
        shape = (-1,) + (1,) * (addresses.ndim - 1)
        return np.broadcast_to(self.owner.reshape(shape), addresses.shape)
