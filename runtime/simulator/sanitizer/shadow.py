"""State of a sanitized launch: its words, block table and shadow memory."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, TypeVar

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from triton_xe import knobs
from triton_xe.locks import ForkLock
from triton_xe.runtime.simulator.run import jit
from triton_xe.runtime.simulator.run.blocks import Block, BlockMap
from triton_xe.runtime.simulator.run.tensors import Tensor
from triton_xe.runtime.simulator.sanitizer import cells
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.clocks import EPOCHS, PHASES, SPARE, WARPS, Clock
from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
from triton_xe.runtime.simulator.sanitizer.state import (
    CHUNK_BITS,
    FIELDS,
    JOINED_KEPT,
    LIST_PAGE_BITS,
    LOG_WORDS,
    LOGGED_LANES,
    MOST_VALUES,
    PARTS,
    SCRATCH_BYTES,
    WINDOW,
    Chunk,
    Entry,
    Joined,
    Known,
    Release,
    Word,
)
from triton_xe.runtime.simulator.trace.library import RECORD_WORDS
from triton_xe.runtime.simulator.trace.tracing import MOST_RECORDS

CELL_BYTES = 8, 8, 4, 4, 4
"""Bytes of a dword's cells, sites and list: `Entry.WRITES` to `Entry.SYNC`."""
LINE_BYTES = 8, 8, 4, 4, 8, 8
"""Bytes of a chunk's cells: `Entry.LINE_WRITES` and following."""
_LINE_SIZES = np.array(PARTS * LINE_BYTES, np.int64)
_LINE_STARTS = np.cumsum(_LINE_SIZES) - _LINE_SIZES
SPARE_CHUNKS = WINDOW
"""Extra chunks before and after those of a block, because several are read at once."""
NEAR = 1 << 16
"""Largest distance in bytes from a block at which a wrong address is reported as its own."""
SPARE_BYTES = 1 << 29
_HUGE_PAGE = 1 << 21
"""Bytes of a large page of Linux.  Cells of scattered accesses are in many small ones."""
MOST_SEARCHED = 4096
RECORDS, MOST_RECORDS_OF_RELEASES = 1 << 14, 1 << 25
"""Records of releases at the start of a launch, and the largest number of them (1 GiB)."""
SPARE_RECORDS = 1 << 13
"""Records reserved for the access that exhausts the others: two per dword, for 16 KiB."""
MOST_GROUPS = cells.SEVERAL_GROUPS - 2
MOST_CLOCKED = 1 << 12
"""Largest number of programs of a launch with clocks."""
CLOCKS, CLOCK_BYTES, MOST_CLOCK_BYTES = 1 << 15, 1 << 24, 1 << 29
"""Clocks before the first search for unused ones, bytes of clocks at first, and most bytes.

After each search that finds fewer than `MOST_LEFT` clocks, or most in use, the number doubles.
"""
MOST_LEFT = 1 << 16
Words = NDArray[np.int64]
_Shadow = tuple[tuple[int, ...], tuple[int, int, int], Words]
Scalar = TypeVar("Scalar", bound=np.generic)
lock = ForkLock()
"""Serialises sanitized launches."""


_spare: list[_Memory] = []
"""Shadow memory of earlier launches, because fresh pages cost more than the checks."""


@lru_cache(256)
def _line_offsets(count: int, first: int) -> Words:
    """Offsets to each of the arrays of `count` cells of chunks, whose numbers begin at `first`."""
    return _LINE_STARTS * count + _LINE_SIZES * (SPARE_CHUNKS - first)


class _Memory(NamedTuple):
    """Uninitialised memory, aligned to a cache line."""

    nbytes: int
    address: int
    owner: NDArray[np.uint8]


def _address(memory: NDArray[Scalar]) -> int:
    """Address of an array; `memory.ctypes` takes ten times as long."""
    return int(memory.__array_interface__["data"][0])


def _aligned(memory: NDArray[Scalar]) -> NDArray[Scalar]:
    """The memory from its first cache line on."""
    return memory[-_address(memory) % 64 // memory.itemsize :]


def _untouched(count: int) -> NDArray[np.int32]:
    """At least `count` zeros, in pages that are allocated at their first use, which is rare."""
    nbytes = -(-4 * count >> LIST_PAGE_BITS) << LIST_PAGE_BITS
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, nbytes, private), np.int32)


_values = np.zeros(MOST_VALUES + 4, np.uint8)
_log = np.empty(LOG_WORDS + LOGGED_LANES, np.int64)
_VALUES_AT, _LOG_AT = _address(_values), _address(_log)
"""Addresses for `Word.VALUES` and `Word.SLM_LOG`, shared by successive launches."""


def _take(nbytes: int) -> _Memory:
    """Memory of at least `nbytes`: that of an earlier launch, if at most four times as large."""
    fitting = [m for m in _spare if nbytes <= m.nbytes <= 4 * nbytes]
    if not fitting:
        align = 64 if nbytes < _HUGE_PAGE else _HUGE_PAGE
        pages = mmap.mmap(-1, nbytes + align, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if align == _HUGE_PAGE:
            pages.madvise(mmap.MADV_HUGEPAGE)
        made = np.frombuffer(pages, np.uint8)
        return _Memory(nbytes, _address(made) + align - 1 & -align, made)
    best = min(fitting)
    _spare.remove(best)
    return best


def _give(memory: _Memory) -> None:
    """Keep memory for later launches; free the oldest above `SPARE_BYTES`."""
    _spare.append(memory)
    while len(_spare) > 1 and sum([m.nbytes for m in _spare]) > SPARE_BYTES:
        _spare.pop(0)


ARENA_BYTES = 1 << 19


class Arena:
    """Zeroed memory for the start of a launch.

    Memory of earlier launches is reused, because fresh pages cost more than zeroing it.
    """

    def __init__(self) -> None:
        self.table: Words = np.zeros((1 << 13, Entry.WORDS), np.int64)
        self._memory = _aligned(np.zeros(ARENA_BYTES + 64, np.uint8))[:ARENA_BYTES]
        self._address = _address(self._memory)
        self.table_at = _address(self.table)
        self._used = 0
        self._larger: list[NDArray[np.uint8]] = []

    def take(self, nbytes: int) -> int:
        """Address of that many zero bytes, aligned to a cache line."""
        begin, end = self._used, self._used + nbytes + 64
        if end > ARENA_BYTES:
            self._larger.append(_aligned(np.zeros(nbytes + 64, np.uint8)))
            return _address(self._larger[-1])
        self._used = end + 63 & -64
        return self._address + begin

    def begin(self) -> Arena:
        """Return itself, with nothing in use."""
        self._memory[: self._used] = 0
        self._used = 0
        self._larger.clear()
        return self

    def clear(self, rows: int) -> None:
        """Zero the table, of which `rows` rows were in use."""
        self.table[:rows] = 0


def array_at(address: int, count: int, dtype: type[Scalar]) -> NDArray[Scalar]:
    """Array of the memory at an address, which others must keep alive."""
    nbytes = count * np.dtype(dtype).itemsize
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)).view(dtype)


_arenas: list[Arena] = []
"""Arenas of launches that have ended."""
spare_clocks: list[Words] = []
"""Clock memory of the last launch."""
_spare_records: list[NDArray[np.int32]] = []
"""Record memory of the last launch."""


def _records(count: int) -> NDArray[np.int32]:
    """Memory for at least `count` records; the first ones are zero, the rest is uninitialised."""
    kept = _spare_records.pop() if _spare_records else None
    if kept is None or not count <= len(kept) // FIELDS <= MOST_RECORDS_OF_RELEASES:
        kept = _aligned(np.empty(count * FIELDS + 16, np.int32))[: count * FIELDS]
    kept[:FIELDS] = 0
    return kept


class LaunchState:
    """The state of one launch; the context's state word has its `address`."""

    def __init__(
        self, memory: BlockMap, plan: Instrumentation, kinds: Sequence[str],
        values: Sequence[int | float], groups: int, slm_bytes: int,
        sub_groups: int = 1, lanes: int = 16, tensors: Mapping[int, Tensor] | None = None,
        *, takes_turns: bool = False, is_eager: bool = False,
    ) -> None:
        self.memory = memory
        self.tensors = tensors or {}
        self.noted: Callable[[list[int]], None] | None = None
        """Callback for faults of a launch that continues after them."""
        self.order: NDArray[np.int64] | None = None
        """Numbers of the work-groups in the order in which they run; None for the usual order."""
        self.track = groups <= MOST_GROUPS
        self.plan = plan
        self.count = len(kinds)
        self._whole_storage = knobs.whole_storage()
        self._arena = _arenas.pop().begin() if _arenas else Arena()
        self.table: Words = self._arena.table[: self.count + 2 + MOST_SEARCHED]
        self.blocks: dict[int, Block] = {}
        self._keep: list[NDArray[np.generic]] = []
        self._borrowed: list[_Memory] = []
        self._shadows: dict[Block, _Shadow] = {}
        self._elements: dict[Block, tuple[int, int]] = {}
        self._whole: dict[int, Block] = {}
        self._maps: dict[Block, int] = {}
        self._has_maps = memory.has_maps()
        self._records: NDArray[np.int32] = np.zeros(0, np.int32)
        self._lists: list[tuple[NDArray[np.int32], NDArray[np.uint8]]] = []
        """Published lists of each block, by dword, in pages; and flags of used pages."""
        self.pointers = {k: int(v) for k, (t, v) in enumerate(zip(kinds, values, strict=True))
                         if t == "ptr"}
        found = {k: memory.find(pointer) for k, pointer in self.pointers.items()}
        written, self._read = (
            {b for k in some if (b := found.get(k)) is not None}
            for some in (plan.written, plan.read))
        for k, pointer in self.pointers.items():
            block = found[k] if found[k] is not None else memory.find(pointer - 1)
            if block is not None:
                self._enter(k, block, tracked=plan.writes_anywhere or block in written)
        self.sub_groups, self.slm_bytes = sub_groups, slm_bytes
        self._origins_shape = (
            len(plan.undefined.origins), sub_groups, checks.origin_words(lanes))
        self.words: Words = self._first_words(groups)
        self.address = _address(self.words)
        """Value of the context's state word."""
        if takes_turns and groups <= MOST_CLOCKED:
            self._begin_clocks(groups)
            self.words[Word.CLOCKED] = is_eager

    def _first_words(self, groups: int) -> Words:
        """Words of the state before the launch, and the memory that they point to."""
        slm_bytes = self.slm_bytes
        chunks = (slm_bytes >> CHUNK_BITS) + 1
        first, last = self.count + 1, len(self.table) - 1
        words = [0] * Word.COUNT
        for word, value in (
            (Word.TABLE, self._arena.table_at), (Word.FIRST_SEARCHED, first),
            (Word.SEARCH_END, first), (Word.SCRATCH, self._array(SCRATCH_BYTES)),
            (Word.VALUES, _VALUES_AT), (Word.SLM_LOG, _LOG_AT),
            (Word.RELEASED, self._array(8 * Known.WORDS * (min(groups, MOST_GROUPS) + 2))),
            (Word.RELEASABLE, self._array(8 * Release.WORDS * (self.sub_groups + 1))),
            (Word.JOINED, self._array(8 * Joined.WORDS * JOINED_KEPT)),
            (Word.SUBGROUPS, self.sub_groups), (Word.SYNC_ROW, self.count),
            (Word.SEARCHED_ROW, last), (Word.EMPTY_ROW, last),
            (Word.RECORDS, self._array(4 * FIELDS)), (Word.RECORDS_USED, 1),
            (Word.SLM_ENTRY, self.count), (Word.SLM_BYTES, slm_bytes),
            (Word.SLM_KNOWN, self._array(8 * (chunks + 1))),
            (Word.SLM_CHUNKS, self._array(8 * chunks * Chunk.WORDS)),
            (Word.SLM_REGION, max(CHUNK_BITS, (slm_bytes - 1).bit_length() - 6)),
        ):
            words[word] = value
        if self.plan.undefined.origins:
            words[Word.SLM_SHADOW] = self._array(self.shadow_bytes)
            words[Word.ORIGINS] = self._array(8 * math.prod(self._origins_shape))
        if slm_bytes:
            self.table[self.count, Entry.WRITES:Entry.READ_SITES + 1] = self._cells(slm_bytes)
        return np.array(words, np.int64)

    @property
    def origins(self) -> NDArray[np.int64]:
        """The origins that masked loads have recorded, by load, subgroup and `origin_words`."""
        count = math.prod(self._origins_shape)
        return array_at(int(self.words[Word.ORIGINS]), count, np.int64).reshape(
            self._origins_shape)

    @staticmethod
    def use(state: LaunchState | None) -> None:
        """Use a state for the checks of the next launch; None when it has ended."""
        global _current
        _current = state

    @property
    def shadow_bytes(self) -> int:
        """Bytes of the shadow of shared memory, with those that an access at its end may load."""
        return checks.slm_shadow_bytes(self.slm_bytes) + 256

    @property
    def checked(self) -> int:
        """Number of checked accesses, each of one lane."""
        return int(self.words[Word.CHECKED])

    def trace(self) -> NDArray[np.int64]:
        """Allocate the trace, and return its records, which the launch fills."""
        records = np.zeros((MOST_RECORDS, RECORD_WORDS), np.int64)
        self._keep.append(records)
        self.words[Word.TRACE] = _address(records)
        self.words[Word.TRACE_MOST] = MOST_RECORDS
        return records

    def _array(self, nbytes: int) -> int:
        """Address of `nbytes` bytes of zeros."""
        return self._arena.take(nbytes)

    def _zeroed_array(self, count: int) -> Words:
        """An array of `count` words of zeros."""
        return array_at(self._array(8 * count), count, np.int64)

    def _begin_clocks(self, groups: int) -> None:
        """Create clocks, all free except clock 0."""
        words = self.words
        self._known = self._zeroed_array(Known.WORDS * (groups + 2)).reshape(-1, Known.WORDS)
        per_group = self.sub_groups + 1
        self._releases = self._zeroed_array(Release.WORDS * per_group * (groups + 2)).reshape(
            -1, per_group, Release.WORDS)
        self._joined_clocks = self._zeroed_array(Joined.WORDS * JOINED_KEPT)
        width = groups + 2 + Clock.FIRST + 7 & -8
        self._clocks = (spare_clocks.pop() if spare_clocks
                        else _aligned(np.empty(MOST_CLOCK_BYTES // 8, np.int64)))
        self._clocks[:width] = 0
        self._free = np.empty(MOST_CLOCK_BYTES // (8 * width) - 1, np.int32)
        self._count = min(CLOCKS, CLOCK_BYTES // (8 * width), len(self._free))
        self._give_clocks(np.arange(self._count - 1, 0, -1))
        words[Word.CLOCK_WORDS] = width
        for word, array in ((Word.RELEASED, self._known), (Word.RELEASABLE, self._releases),
                            (Word.CLOCKS_MADE, self._joined_clocks), (Word.CLOCKS, self._clocks),
                            (Word.CLOCKS_FREE, self._free)):
            words[word] = _address(array)

    def take_turns(self) -> None:
        """Switch to clocks, because a second program begins while another one waits.

        All earlier releases are merged into one clock, whatever location they are acquired through.
        """
        words, live = self.words, int(self.words[Word.BEGUN]) - 1
        if not words[Word.CLOCKS]:
            words[Word.TOGETHER] = 1
        if words[Word.TOGETHER] or words[Word.CLOCKED]:
            return
        words[Word.CLOCKED] = 1
        all_, width = int(self._free[words[Word.CLOCKS_LEFT] - 1]), int(words[Word.CLOCK_WORDS])
        words[Word.CLOCKS_LEFT] -= 1
        last, warps = (int(self._known[live, k]) for k in (Known.LAST_EPOCH, Known.LAST_WARPS))
        clock = self._clocks[all_ * width : (all_ + 1) * width]
        clock[:Clock.FIRST] = live - 1, live + 1, live, 0
        clock[Clock.FIRST + live] = min(last, EPOCHS.most) << EPOCHS.first | PHASES.full | (
            warps & WARPS.most) if last else 0
        for lists, pages in self._lists:
            some = lists[pages != 0]
            lists[pages != 0] = np.where(some == 0, 0, all_)
        own = self._releases[0].copy()
        self._releases[0] = 0
        self._known[:, [Known.CLOCK, Known.READ, Known.ENDED]] = 0
        self._known[:live, Known.ENDED] = 1
        self._known[live, Known.CLOCK] = all_ if words[Word.ACQUIRED] else 0
        self._known[live, Known.READ] = all_ if words[Word.PENDING] or words[Word.READ_END] else 0
        own[own[:, Release.NODE] > 0, Release.NODE] = all_
        own[:, Release.ACQUIRED] = self._known[live, Known.CLOCK]
        self._releases[live] = own

    def _give_clocks(self, numbers: NDArray[np.int64]) -> None:
        """Set the list of free clocks."""
        self._free[: len(numbers)] = numbers
        self.words[Word.CLOCKS_LEFT] = len(numbers)

    def free_clocks(self) -> None:
        """Free unreferenced clocks; double their number if most are in use."""
        used = np.zeros(self._count, bool)
        lives = self._known[:, Known.ENDED] == 0
        releases = self._releases[lives][..., [Release.NODE, Release.ACQUIRED]]
        lists = (lists[pages != 0] for lists, pages in self._lists)
        for some in (*lists, self._known[lives][:, [Known.CLOCK, Known.READ]],
                     np.maximum(releases, 0)):
            used[some[some != 0]] = True
        self._joined_clocks[:] = 0
        begun = len(used)
        if 2 * np.count_nonzero(used) > begun or begun < MOST_LEFT:
            self._count = min(2 * begun, len(self._free))
        free = np.flatnonzero(~used[1:])[::-1] + 1
        self._give_clocks(np.concatenate((np.arange(self._count - 1, begun - 1, -1), free)))

    def make_room(self) -> None:
        """Free clocks if they have run out; otherwise double the records, up to a limit."""
        if self.words[Word.CLOCKED] and self.words[Word.CLOCKS_LEFT] < SPARE:
            self.free_clocks()
            return
        old = self._records
        count = max(2 * len(old) // FIELDS, RECORDS)
        if count > MOST_RECORDS_OF_RELEASES:
            return
        self._records = _records(count)
        self._records[: len(old)] = old
        self.words[Word.RECORDS] = _address(self._records)
        self.words[Word.RECORDS_ROOM] = len(self._records) // FIELDS - SPARE_RECORDS

    def _borrow(self, nbytes: int) -> int:
        """Address of uninitialised memory until the launch ends."""
        memory = _take(nbytes)
        self._borrowed.append(memory)
        return memory.address

    def _cells(self, slm_bytes: int) -> tuple[int, ...]:
        """Addresses of the zeroed cells and sites of shared memory: writes, reads, their sites."""
        count = -(-(slm_bytes // 4 + 2) // 8) * 8
        start = self._borrow(24 * count)
        ctypes.memset(start, 0, 16 * count)
        return tuple(start + at * count for at in (0, 8, 16, 20))

    def _shadow_of(self, block: Block) -> _Shadow:
        """Allocate shadow memory of a block; generated code initializes it chunk by chunk.

        Return the words of the block's entry from `WRITES`, `TOUCHED` and `LINE_WRITES` on.
        """
        nbytes, first = block.high - block.low, block.low >> CHUNK_BITS
        chunks = (nbytes >> CHUNK_BITS) + 2
        releases = published = 0
        if self.plan.synchronises:
            lists = _untouched(nbytes // 4 + 8).reshape(-1, 1 << LIST_PAGE_BITS - 2)
            pages = array_at(self._array(len(lists)), len(lists), np.uint8)
            self._lists.append((lists, pages))
            releases = _address(lists)
            published = _address(pages) - (releases >> LIST_PAGE_BITS)
        spare = (1 << CHUNK_BITS) // 4
        dwords = nbytes // 4 + 2 + 2 * spare + 7 & -8
        line_count = chunks + 2 * SPARE_CHUNKS + 7 & -8
        start = self._borrow(24 * dwords + PARTS * sum(LINE_BYTES) * line_count)
        cells = tuple(start + at * dwords + size * spare
                      for at, size in zip((0, 8, 16, 20), CELL_BYTES, strict=False))
        lines = _line_offsets(line_count, first) + (start + 24 * dwords)
        touched, form = self._array(chunks + 2 * 64) + 64 - first, self._array(8 * 2)
        ctypes.c_int64.from_address(form).value = (block.high - 1 >> CHUNK_BITS) - first + 1
        return (*cells, releases), (touched, published, form), lines

    def allocate_elements(self, row: int) -> None:
        """Allocate the cells of the elements of a block, if there is enough memory."""
        block = self._whole[row]
        first, last = block.low >> CHUNK_BITS, block.high >> CHUNK_BITS
        nbytes = last + 1 - first << CHUNK_BITS + 3
        try:
            start = self._borrow(2 * nbytes)
        except MemoryError:
            return
        low = start - (first << CHUNK_BITS + 3)
        self._elements[block] = low, low + nbytes
        for k, whole in self._whole.items():
            if whole == block:
                self.table[k, Entry.ELEMENT_WRITES:Entry.WORDS] = low, low + nbytes

    def close(self) -> None:
        """Keep the shadow memory for the next launch."""
        for memory in self._borrowed:
            _give(memory)
        self._borrowed.clear()
        self._arena.clear(int(self.words[Word.SEARCH_END]))
        _arenas[:] = [self._arena]
        words = self.words
        if words[Word.CLOCKS] and self._count * words[Word.CLOCK_WORDS] <= CLOCK_BYTES // 8:
            spare_clocks[:] = [self._clocks]
        if 0 < self._records.nbytes <= SPARE_BYTES:
            _spare_records[:] = [self._records]

    def _enter(self, row: int, block: Block, *, tracked: bool) -> None:
        """Write the table's row of a block, with shadow memory if its accesses are tracked."""
        part = self.blocks[row] = self._part(row, block)
        starts: tuple[int, ...] = (0,) * len(CELL_BYTES)
        flags, unread = (0, 0, 0), False
        if tracked and self.track:
            if block not in self._shadows:
                self._shadows[block] = self._shadow_of(block)
            cells, flags, lines = self._shadows[block]
            first = (part.low >> 2) - (block.low >> 2)
            starts = tuple(at and at + size * first
                           for at, size in zip(cells, CELL_BYTES, strict=True))
            self.table[row, Entry.LINE_WRITES:Entry.ELEMENT_WRITES] = lines
            if block in self._elements:
                self.table[row, Entry.ELEMENT_WRITES:] = self._elements[block]
            self._whole[row] = block
            unread = not (self.plan.reads_anywhere or self.plan.strict or self.plan.synchronises
                          or block in self._read)
        self.table[row, :Entry.LINE_WRITES] = (
            part.low, part.high, *starts, self._map_of(block), unread, *flags)

    def _map_of(self, block: Block) -> int:
        """Bytes from the block to its map of unwritten bytes; 0 if all are written."""
        if block not in self._maps:
            self._maps[block] = self.memory.to_map(block.low) if self._has_maps else 0
        return self._maps[block]

    def first_unwritten(self, row: int, start: int = 0) -> int:
        """The first unwritten byte of an argument, from an address on."""
        block, to_map = self.blocks[row], int(self.table[row, Entry.UNWRITTEN])
        start = max(start, block.low)
        map_ = (ctypes.c_uint8 * (block.high - start)).from_address(start + to_map)
        return start + int(np.argmax(np.ctypeslib.as_array(map_)))

    def _part(self, row: int, block: Block) -> Block:
        """Part of a block that an argument's accesses may touch: that of the passed tensor."""
        extent = self.tensors[row].extent if row in self.tensors else None
        return block if extent is None or self._whole_storage else block.view(*extent)

    def number(self, group: int) -> int:
        """Number of the work-group at an index of the launch's order."""
        return group if self.order is None else int(self.order[group])

    def miss(self, address: int) -> int:
        """Add a row for the block that contains an address; -1 if there is no block or no room."""
        block = self.memory.find(address)
        row = int(self.words[Word.SEARCH_END])
        if block is None or row >= len(self.table) - 1:
            return -1
        self._enter(row, block, tracked=self.plan.writes_anywhere or block in self._shadows)
        self.words[Word.SEARCH_END] = row + 1
        return row

    def argument_of(self, address: int) -> int | None:
        """Index of the parameter whose block contains an address, or is close to it."""
        freed = self.memory.freed(address)
        if freed is not None:
            return next((k for k, p in self.pointers.items() if freed.low <= p < freed.high), None)
        near = ((max(b.low - address, address - b.high + 1, 0), k)
                for k, b in self.blocks.items() if k < self.count)
        far, found = min(near, default=(0, None))
        return found if far < NEAR else None


_current: LaunchState | None = None
"""The state of the launch that runs."""


# -- callbacks of generated code, for the current launch -------------------------------------------


def _on_miss(address: int) -> int:
    return -1 if _current is None else _current.miss(address & (1 << 64) - 1)


def _on_full() -> None:
    if _current is not None:
        _current.make_room()


def _on_elements(entry: int) -> None:
    if _current is not None:
        _current.allocate_elements((entry - int(_current.words[Word.TABLE])) // (8 * Entry.WORDS))


def _on_turns() -> None:
    if _current is not None:
        _current.take_turns()


def _on_fault(error: int) -> None:
    if _current is not None and _current.noted is not None:
        _current.noted(list((ctypes.c_int64 * len(checks.Fault._fields)).from_address(error)))


def _bind(code: int, name: int) -> None:
    """Compile a library function; if that is interrupted, it is called again.

    Errors end the process, because the function's caller cannot go on.
    """
    try:
        address = jit.helper_address(ctypes.string_at(name).decode())
    except Exception:
        traceback.print_exc()
        os.abort()
    ctypes.c_void_p.from_address(code).value = address


_BIND = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_ROOM = ctypes.CFUNCTYPE(None)
_NOTE = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_MISS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64)


@cache
def prepare() -> tuple[object, ...]:
    """Define the symbols by which generated code calls back; return the objects to keep."""
    made = {checks.MISS: _MISS(_on_miss), checks.ROOM: _ROOM(_on_full),
            checks.NOTE: _NOTE(_on_fault), checks.TURNS: _ROOM(_on_turns),
            checks.ELEMENTS: _NOTE(_on_elements), checks.BIND: _BIND(_bind)}
    for routine, callback in made.items():
        llvm.add_symbol(routine.symbol, ctypes.cast(callback, ctypes.c_void_p).value)
    return tuple(made.values())


