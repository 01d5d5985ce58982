"""What a sanitized launch needs besides its kernel: block table, shadow memory, reports.

The layout of the words is that of `library_sanitizer`.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.run.blocks import Block, BlockMap
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
from triton_xe.runtime.simulator.sanitizer.state import (
    FIELDS,
    JOINED_KEPT,
    Code,
    Entry,
    Joined,
    Kind,
    Known,
    Release,
    Word,
)
from triton_xe.runtime.simulator.trace.library import RECORD_WORDS
from triton_xe.runtime.simulator.trace.tracing import MOST_RECORDS

NEAR, FAR = 4096, 1 << 20
"""Bytes from a block within which an address is taken as meant for it."""
SPARE_BYTES = 1 << 29
SCRATCH_BYTES = 1 << 16
MOST_SEARCHED = 4096
RECORDS, MOST_RECORDS_OF_RELEASES = 1 << 14, 1 << 25
"""Records of releases that a launch begins with, and may have: 1 GiB."""
SPARE_RECORDS = 1 << 13
"""For the access that is under way when there is no more room: two per dword, of 16 KiB at most."""
MOST_GROUPS = checks.SEVERAL_GROUPS - 2
Words = NDArray[np.int64]
lock = threading.Lock()
"""Sanitized launches run one at a time."""


_spare: list[NDArray[np.uint8]] = []
"""Shadow memory of earlier launches: fresh pages cost more than the checks."""


def _take(nbytes: int) -> NDArray[np.uint8]:
    fitting = [m for m in _spare if nbytes <= m.nbytes <= 4 * nbytes]
    if not fitting:
        return np.empty(nbytes, np.uint8)
    best = min(fitting, key=lambda m: m.nbytes)
    _spare[:] = [m for m in _spare if m is not best]
    return best


def _give(memory: NDArray[np.uint8]) -> None:
    _spare.append(memory)
    while len(_spare) > 1 and sum(m.nbytes for m in _spare) > SPARE_BYTES:
        _spare.pop(0)


_spare_records: list[NDArray[np.int32]] = []
"""Those of the last launch."""


def _records(count: int) -> NDArray[np.int32]:
    """Memory for that many records or more, the first of them of zeros; as it comes, the rest."""
    kept = _spare_records.pop() if _spare_records else None
    if kept is not None and count <= len(kept) // FIELDS <= MOST_RECORDS_OF_RELEASES:
        found = kept
    else:
        made = np.empty(count * FIELDS + 16, np.int32)
        skipped = -int(made.ctypes.data) % 64 // 4
        found = made[skipped : skipped + count * FIELDS]
    found[:FIELDS] = 0
    return found


class SanitizerReport(SimulatorTrap):
    """A fault that the sanitizer found.

    `argument` is the number of the kernel parameter whose block it concerns, or None; `offset` the
    byte in that block, `nbytes` what was accessed there.
    """

    def __init__(
        self, text: str, argument: int | None = None, address: int = 0, nbytes: int = 0
    ) -> None:
        super().__init__(text)
        self.argument = argument
        self.address = address
        self.nbytes = nbytes

    def name_tensor(self, tensors: Sequence[tuple[int, str, Any]]) -> None:
        """Add the tensor, of (parameter number, name, tensor), that the report is about.

        Among tensors that share the memory, the parameter whose address was used comes first.
        """
        exact = [t for t in tensors if t[0] == self.argument]
        if self.argument is None or not exact:
            return
        _, name, tensor = exact[0]
        self.args = (f"{self.args[0]}; {describe(name, tensor, self.address)}", *self.args[1:])


class LaunchState:
    """The state of one launch; `address` is what the context's state word holds."""

    def __init__(
        self, memory: BlockMap, plan: Instrumentation, kinds: Sequence[str],
        values: Sequence[int | float], groups: int, slm_bytes: int,
        sub_groups: int = 1, lanes: int = 16,
    ) -> None:
        self.memory = memory
        self.track = groups <= MOST_GROUPS
        self.plan = plan
        self.count = len(kinds)
        self.words: Words = np.zeros(Word.COUNT, np.int64)
        self.table: Words = np.zeros((self.count + 2 + MOST_SEARCHED, Entry.WORDS), np.int64)
        self.blocks: dict[int, Block] = {}
        self._keep: list[NDArray[np.generic]] = []
        self._borrowed: list[NDArray[np.uint8]] = []
        self._shadows: dict[Block, tuple[int, ...]] = {}
        self._records: NDArray[np.int32] = np.zeros(0, np.int32)
        pointers = {k: int(v) for k, (t, v) in enumerate(zip(kinds, values, strict=True))
                    if t == "ptr"}
        self.pointers = pointers
        written = {b for k in plan.written if (b := memory.find(pointers.get(k, 0))) is not None}
        for k, pointer in pointers.items():
            block = memory.find(pointer) or memory.find(pointer - 1)
            if block is not None:
                self._enter(k, block, tracked=plan.writes_anywhere or block in written)
        self.sub_groups = sub_groups
        self._fill_words(groups, slm_bytes)
        self.origins = self._origins(lanes)

    def _fill_words(self, groups: int, slm_bytes: int) -> None:
        w = self.words
        w[Word.TABLE] = self.table.ctypes.data
        w[Word.FIRST_SEARCHED] = w[Word.SEARCH_END] = self.count + 1
        w[Word.SCRATCH] = self._array(SCRATCH_BYTES, np.uint8)
        w[Word.RELEASED] = self._array(Known.WORDS * (min(groups, MOST_GROUPS) + 2), np.int64)
        w[Word.RELEASABLE] = self._array(Release.WORDS * (self.sub_groups + 1), np.int64)
        w[Word.JOINED] = self._array(Joined.WORDS * JOINED_KEPT, np.int64)
        w[Word.SUBGROUPS] = self.sub_groups
        w[Word.SYNC_ROW] = self.count
        w[Word.SEARCHED_ROW] = w[Word.EMPTY_ROW] = len(self.table) - 1
        w[Word.RECORDS_USED] = 1
        self.make_room()
        w[Word.SLM_ENTRY] = self.count
        w[Word.SLM_BYTES] = slm_bytes
        if self.plan.undefined.origins:
            shadow = checks.slm_shadow_bytes(slm_bytes) + 256
            w[Word.SLM_SHADOW] = self._array(shadow, np.uint8)
        w[Word.SLM_KNOWN] = self._array(slm_bytes + 64, np.uint8)
        self.table[self.count, Entry.WRITES:Entry.READ_SITES + 1] = self._cells(slm_bytes)[:4]

    def _origins(self, lanes: int) -> NDArray[np.int64]:
        """Room for what masked loads note, by load, subgroup and `origin_words`."""
        loads, words = len(self.plan.undefined.origins), checks.origin_words(lanes)
        memory = np.zeros(loads * self.sub_groups * words + 8, np.int64)
        skipped = -int(memory.ctypes.data) % 64 // 8
        noted = memory[skipped : skipped + loads * self.sub_groups * words]
        self.words[Word.ORIGINS] = memory.ctypes.data + 8 * skipped
        self._keep.append(memory)
        return noted.reshape(loads, self.sub_groups, words)

    def trace(self) -> NDArray[np.int64]:
        """Make room for a trace; returns the records, filled by the launch."""
        records = np.zeros((MOST_RECORDS, RECORD_WORDS), np.int64)
        self._keep.append(records)
        self.words[Word.TRACE] = records.ctypes.data
        self.words[Word.TRACE_MOST] = MOST_RECORDS
        return records

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)

    def _array(self, count: int, dtype: type) -> int:
        made: NDArray[np.generic] = np.zeros(max(count, 1) + 64, dtype)
        self._keep.append(made)
        return int(made.ctypes.data) + -int(made.ctypes.data) % 64

    def make_room(self) -> None:
        """Twice as many records of releases, up to a limit."""
        old = self._records
        count = max(2 * len(old) // FIELDS, RECORDS)
        if count > MOST_RECORDS_OF_RELEASES:
            return
        self._records = _records(count)
        self._records[: len(old)] = old
        self.words[Word.RECORDS] = self._records.ctypes.data
        self.words[Word.RECORDS_ROOM] = len(self._records) // FIELDS - SPARE_RECORDS

    def _cells(self, nbytes: int) -> tuple[int, ...]:
        """Addresses of the cells and sites of a block: writes, reads, their sites, releases."""
        count = -(-(nbytes // 4 + 2) // 8) * 8
        releases = self._array(count, np.int32) if self.plan.synchronises else 0
        memory = _take(24 * count + 64)
        self._borrowed.append(memory)
        start = int(memory.ctypes.data)
        start += -start % 64
        ctypes.memset(start, 0, 16 * count)
        return start, start + 8 * count, start + 16 * count, start + 20 * count, releases

    def close(self) -> None:
        """Give the shadow memory back for the next launch."""
        for memory in self._borrowed:
            _give(memory)
        self._borrowed.clear()
        if self._records.nbytes <= SPARE_BYTES:
            _spare_records[:] = [self._records]

    def _enter(self, row: int, block: Block, *, tracked: bool) -> None:
        self.blocks[row] = block
        self.table[row, :2] = block.low, block.high
        if tracked and self.track:
            if block not in self._shadows:
                self._shadows[block] = self._cells(block.high - block.low)
            self.table[row, Entry.WRITES:Entry.SYNC + 1] = self._shadows[block]

    def miss(self, address: int) -> int:
        """A new row for the block that holds an address no row holds; -1 when none does."""
        block = self.memory.find(address)
        row = int(self.words[Word.SEARCH_END])
        if block is None or row >= len(self.table) - 1:
            return -1
        self._enter(row, block, tracked=self.plan.writes_anywhere or block in self._shadows)
        self.words[Word.SEARCH_END] = row + 1
        return row

    def argument_of(self, address: int) -> int | None:
        """The parameter whose block is at, or closest around, an address."""
        near = [
            (max(b.low - address, address - b.high + 1, 0), k)
            for k, b in self.blocks.items() if k < self.count
        ]
        return min(near, default=(0, None))[1] if near else None


_current: LaunchState | None = None


def _answer(address: int) -> int:
    return -1 if _current is None else _current.miss(address & (1 << 64) - 1)


def _more_room() -> None:
    if _current is not None:
        _current.make_room()


_ROOM = ctypes.CFUNCTYPE(None)
_MISS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64)


@cache
def prepare() -> tuple[Callable[[int], int], Callable[[], None]]:
    """Make the host's part of the checks known to the code that calls it."""
    answer, room = _MISS(_answer), _ROOM(_more_room)
    for name, callback in ((checks.MISS.symbol, answer), (checks.ROOM.symbol, room)):
        llvm.add_symbol(name, ctypes.cast(callback, ctypes.c_void_p).value)
    return answer, room


def use(state: LaunchState | None) -> None:
    """The checks of the launch that comes use `state`; None when it has ended."""
    global _current
    _current = state


# --- reports --------------------------------------------------------------------------------------


def explain(
    state: LaunchState, kernel: str, places: Mapping[int, str], error: Sequence[int],
    grid: tuple[int, int, int],
) -> SanitizerReport:
    """The report of an error record."""
    code, site, address, nbytes, kind, entry, warp, lane, group = error[:9]
    address &= (1 << 64) - 1
    who = f"program {program(group, grid)}, warp {warp}" + (f", lane {lane}" if lane >= 0 else "")
    place = places.get(site, f"line {site} of its LLVM module")
    where = f"kernel {kernel}, {place}, {who}"
    action = "atomic" if kind & Kind.ATOMIC else "store" if kind & Kind.WRITE else "load"
    what = f"{action} of {nbytes} bytes"
    argument: int | None = entry if 0 <= entry < state.count else state.argument_of(address)
    if kind & Kind.SLM:
        argument = None
        address -= int(state.table[state.count, Entry.LOW])
    if code == Code.BOUNDS:
        text = _bounds(state, kind, what, entry, address)
    elif code == Code.ALIGNMENT:
        text = (f"misaligned {what} at {_spot(state, kind, address)}: it was compiled for a "
                f"multiple of {kind >> 8} bytes")
    elif code == Code.RACE:
        text = _race(kind, what, state, address, places, error, grid)
    elif code == Code.UNINITIALISED:
        text = (f"{what} of shared local memory that no store of this work-group wrote: byte "
                f"{error[9]} of {int(state.words[Word.SLM_BYTES])}")
        argument = None
    elif code == Code.RECORDS:
        text = (f"this launch releases and acquires more than the checks can follow "
                f"({MOST_RECORDS_OF_RELEASES} releases by atomics that are not relaxed); check it "
                "with fewer programs, or make the atomics relaxed where they order nothing")
        argument = None
    elif code == Code.UNDEFINED:
        text, argument, address = _undefined(state, places, error)
        nbytes = 0
    else:
        text, argument = "finite operands give an infinity or NaN", None
    return SanitizerReport(f"{where}: {text}", argument, address, nbytes)


def _undefined(
    state: LaunchState, places: Mapping[int, str], error: Sequence[int]
) -> tuple[str, int | None, int]:
    """What was done with an undefined value; the argument and address it was not loaded from."""
    plan = state.plan.undefined
    warp, lane, group = error[6:9]
    what, loads = plan.uses[error[9]]
    found = _masked_off(state.origins, sorted(loads), warp, lane, group + 1)
    load, address = found if found is not None else (min(loads), 0)
    text = (f"{what} a value that is undefined here: the load at {places[plan.origins[load]]} "
            "is masked off and has no `other`")
    if found is None:
        return text, None, 0
    entry = plan.entries[load]
    argument = entry if 0 <= entry < state.count else state.argument_of(address)
    return f"{text}; it did not read address {address:#x}", argument, address


def _masked_off(
    noted: NDArray[np.int64], loads: Sequence[int], warp: int, lane: int, group: int
) -> tuple[int, int] | None:
    """(load, address) of a masked-off lane: this one, else one of this subgroup, else any."""
    rows = [(k, sg) for sg in range(noted.shape[1]) for k in loads if noted[k, sg, 0] == group]
    rows.sort(key=lambda row: row[1] != warp)
    for k, sg in rows:
        if sg == warp and noted[k, sg, 8 + lane]:
            return k, int(noted[k, sg, 8 + lane])
    for k, sg in rows:
        lanes = noted[k, sg, 8:]
        if lanes.any():
            return k, int(lanes[np.flatnonzero(lanes)[0]])
    return None


def describe(name: str, tensor: Any, address: int) -> str:
    """An argument with its shape, and which of its elements an address is."""
    if not hasattr(tensor, "data_ptr") or not hasattr(tensor, "stride"):
        return f"argument {name!r}"
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    dtype = str(tensor.dtype).removeprefix("torch.")
    offset = (address - tensor.data_ptr()) // tensor.element_size()
    return (f"argument {name!r}: {dtype} tensor of shape {shape}, strides {strides}, "
            f"{_element(offset, shape, strides)}")


def _element(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """`offset`, in elements, as an index; the first one goes over the end where it must."""
    index, rest = [0] * len(shape), offset
    for k in sorted(range(len(shape)), key=lambda k: (-strides[k], k)):
        if strides[k] > 0 and (shape[k] > 1 or k == 0):
            index[k] = rest // strides[k]
            rest -= index[k] * strides[k]
    text = f"element {tuple(index)}" if rest == 0 and offset >= 0 else f"element offset {offset}"
    inside = all(0 <= x < n for x, n in zip(index, shape, strict=True))
    return text if inside and offset >= 0 else f"{text}, which it does not have"


def program(group: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The program id of a work-group by number."""
    x, rest = group % grid[0], group // grid[0]
    return x, rest % grid[1], rest // grid[1]


def _spot(state: LaunchState, kind: int, address: int) -> str:
    if kind & Kind.SLM:
        return f"byte {address} of shared local memory"
    return f"address {address:#x}"


def _bounds(state: LaunchState, kind: int, what: str, entry: int, address: int) -> str:
    if kind & Kind.SLM:
        return (f"out-of-bounds {what} at byte {address} of shared local memory, which has "
                f"{int(state.words[Word.SLM_BYTES])} bytes")
    if 0 <= address < 1 << 16:
        return f"{what} through a null pointer (address {address:#x})"
    freed = state.memory.freed(address)
    if freed is not None:
        return f"{what} after free: address {address:#x} was in a {freed}, which has been freed"
    block = state.blocks.get(entry) if entry >= 0 else None
    if block is not None:
        return f"out-of-bounds {what}: {beside(block, address)}"
    near = state.memory.nearest(address)
    far = 1 << 62 if near is None else min(abs(address - near.low), abs(address - near.high))
    if near is not None and far < NEAR:
        return f"out-of-bounds {what}: {beside(near, address)}"
    if is_mapped(address):
        return (f"{what} of host memory at {address:#x}: the pointer is no device memory (a CPU "
                "tensor?); a GPU cannot reach it")
    if near is not None and far < FAR:
        return f"out-of-bounds {what}: {beside(near, address)}"
    return f"{what} at {address:#x}, where there is no memory"


def beside(block: Block, address: int) -> str:
    """Where an address is, seen from a block."""
    if address < block.low:
        return f"{block.low - address} bytes before the start of the {block}"
    if address >= block.high:
        return f"{address - block.high} bytes past the end of the {block}"
    return f"it begins at byte {address - block.low} of the {block} and goes over its end"


def is_mapped(address: int) -> bool:
    """Whether this process has memory at an address."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            for line in maps:
                low, high = (int(x, 16) for x in line.split(" ", 1)[0].split("-"))
                if low <= address < high:
                    return True
    except OSError:
        return False
    return False


def _race(
    kind: int, what: str, state: LaunchState, address: int, places: Mapping[int, str],
    error: Sequence[int], grid: tuple[int, int, int],
) -> str:
    other, site, writes = error[9] & (1 << 64) - 1, error[10], error[11]
    group, warp = checks.GROUP.of(other) - 1, checks.WARP.of(other)
    verb = ("atomic" if checks.ATOMIC.of(other) else "store") if writes else "load"
    if group == checks.SEVERAL_GROUPS - 1:
        who = "several programs"
    elif warp == checks.SEVERAL:
        who = f"several warps of program {program(group, grid)}"
    else:
        who = f"program {program(group, grid)}, warp {warp}"
    hint = "no barrier with a fence of that memory is between them"
    if group != error[8]:
        hint = "nothing orders them: programs run at the same time"
    place = places.get(site, f"line {site}")
    return (f"data race: {what} at {_spot(state, kind, address)} and the earlier {verb} at {place} "
            f"({who}); {hint}")
