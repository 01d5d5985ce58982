"""The blocks of simulated device memory: live ones, and recently freed ones."""

from __future__ import annotations

import bisect
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triton_xe.runtime import torch_memory

REMEMBERED = 4096
QUARANTINE_BYTES = 1 << 28


class Block(NamedTuple):
    """Bytes `low` to `high` (exclusive) of one allocation on device `device`, or of a view."""

    low: int
    high: int
    device: int
    inside: Block | None = None
    """The allocation that a view is part of; None for an allocation."""

    def __str__(self) -> str:
        what = f"{self.high - self.low} bytes at {self.low:#x}"
        return f"block of {what}" if self.inside is None else f"view of {what} in a {self.inside}"

    def view(self, low: int, high: int) -> Block:
        """The part between two addresses; the block itself if that is all, or not inside."""
        if (low, high) == (self.low, self.high) or not self.low <= low < high <= self.high:
            return self
        return Block(low, high, self.device, self)


class BlockMap:
    """Finds blocks by address: those of the device, borrowed memory, and torch's xpu tensors."""

    def __init__(self) -> None:
        self._own: dict[int, Block] = {}
        self._starts: list[int] = []
        self._freed: deque[tuple[Block, NDArray[np.uint8]]] = deque()
        self._freed_bytes = 0
        self._seen: dict[int, Block] = {}
        self._borrowed: list[Block] = []
        self._unwritten: dict[int, tuple[int, NDArray[np.uint8]]] = {}

    def borrow(self, block: Block) -> None:
        """Add memory of another library, merged with overlapping borrowed blocks."""
        separate = [b for b in self._borrowed[-REMEMBERED:]
                    if b.high <= block.low or block.high <= b.low]
        overlapping = [block, *(b for b in self._borrowed if b not in separate)]
        low, high = min(b.low for b in overlapping), max(b.high for b in overlapping)
        whole = Block(low, high, block.device)
        self._borrowed = [*separate, whole]

    def add(self, block: Block) -> None:
        self._own[block.low] = block
        bisect.insort(self._starts, block.low)

    def remove(self, low: int, memory: NDArray[np.uint8]) -> None:
        """Move a freed block to quarantine, so that its addresses are not reused yet."""
        self._freed.append((self._own.pop(low), memory))
        self._starts.pop(bisect.bisect_left(self._starts, low))
        self._freed_bytes += memory.nbytes
        while self._freed_bytes > QUARANTINE_BYTES or len(self._freed) > REMEMBERED:
            self._freed_bytes -= self._freed.popleft()[1].nbytes

    def note_unwritten(self, low: int, map_: NDArray[np.uint8]) -> None:
        """Set the map of unwritten bytes of the memory from an address on."""
        self._unwritten[low] = low + map_.nbytes, map_

    def has_maps(self) -> bool:
        """True if some block has unwritten bytes."""
        return bool(self._unwritten) or torch_memory.has_maps()

    def to_map(self, address: int) -> int:
        """Distance in bytes from the block at an address to its map of unwritten bytes.

        0 if the block has no map.
        """
        for low, (high, map_) in self._unwritten.items():
            if low <= address < high:
                return int(map_.ctypes.data) - low
        return torch_memory.to_map(address)

    def find(self, address: int) -> Block | None:
        """The live block that contains an address."""
        lent = (b for b in self._borrowed if b.low <= address < b.high)
        return self._own_block(address) or next(lent, None) or self._of_torch(address)

    def owned(self, address: int) -> Block | None:
        """The live block that contains an address, without borrowed memory."""
        return self._own_block(address) or self._of_torch(address)

    def _own_block(self, address: int) -> Block | None:
        k = bisect.bisect_right(self._starts, address) - 1
        if k >= 0:
            block = self._own[self._starts[k]]
            if address < max(block.high, block.low + 1):
                return block
        return None

    def _of_torch(self, address: int) -> Block | None:
        block = _block_of_torch(address, freed=False)
        if block is None:
            return None
        if len(self._seen) > REMEMBERED:
            self._seen.clear()
        self._seen[block.low] = block
        return block

    def freed(self, address: int) -> Block | None:
        """The freed block that contains an address, if its memory is still in quarantine."""
        for block, _ in self._freed:
            if block.low <= address < block.high:
                return block
        return _block_of_torch(address, freed=True)

    def nearest(self, address: int) -> Block | None:
        """The known live block whose beginning or end is closest to an address."""
        live = [b for b in self._seen.values() if self.find(b.low) == b]
        return min([*self._own.values(), *self._borrowed, *live], default=None,
                   key=lambda b: min(abs(address - b.low), abs(address - b.high + 1)))


def _block_of_torch(address: int, *, freed: bool) -> Block | None:
    found = torch_memory.allocation_of(address, freed=freed)
    return None if found is None else Block(found.base, found.base + found.size, found.device)
