"""Records that the checks of a launch keep in memory, and the signatures of their functions.

Each record has one definition, which generated code and Python's readers share.  It is an `IntEnum`
of its words, or (`cells`) `Bits` for the fields of a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from triton_xe.llvm import I1, I8, I32, I64, PTR, VOID, Operand, Type, vector
from triton_xe.llvm.builder import Routine
from triton_xe.runtime.simulator.library.symbols import symbol

# --- 64-bit words ---------------------------------------------------------------------------------


class Word(IntEnum):
    """Words of the state of a sanitized launch."""

    TABLE = 0
    FIRST_SEARCHED = 1
    SEARCH_END = 2
    SCRATCH = 3
    GLOBAL_PHASE = 5
    """Number of barriers so far, of any kind."""
    SLM_PHASE = 6
    EPOCH = 7
    RELEASED = 8
    """Records of each work-group, `Known`."""
    ACQUIRED = 9
    """True if the work-group has acquired anything."""
    SLM_ENTRY = 10
    SLM_KNOWN = 11
    FENCED_GLOBAL = 12
    FENCED_SLM = 13
    SUBGROUP = 14
    GROUP = 15
    SLM_BYTES = 16
    PENDING = 17
    """List of entries that atomics have read since the last acquire fence; see also READ_FIRST."""
    SITE = 18
    TRACE = 19
    TRACED = 20
    TRACE_MOST = 21
    SLM_SHADOW = 22
    ORIGINS = 23
    ACCESSED = 24
    """True if there was an access in this epoch."""
    RELEASABLE = 25
    """Accesses that the last release fence of each subgroup orders, `Release`."""
    SINCE = 26
    """Barriers since one that fences global memory."""
    RELEASING = 27
    """True if there was a release fence since the last barrier."""
    RECORDS = 28
    RECORDS_USED = 29
    RECORDS_ROOM = 30
    FREE = 31
    ACQUISITIONS = 32
    """Number of acquisitions of the work-group."""
    ACQUIRED_LIST = 33
    """List of the work-group's acquisitions."""
    FLOOR = 34
    """Work-groups with lower numbers all of whose releases are known."""
    SYNC_ROW = 35
    """Row of the block table with the last atomic."""
    SUBGROUPS = 39
    WITHIN = 40
    """True if a subgroup has acquired a release of another one of its work-group."""
    JOINED = 41
    """Cache of cells of several readers, `Joined`."""
    ENTRY = 42
    """Row of the block that must contain an atomic of a lane, or -1."""
    STEPS = 43
    """Records that the launch has visited for acquisitions."""
    SEARCHED_ROW = 44
    """Row of the block table that the last search for an access of all lanes found."""
    EMPTY_ROW = 45
    GOES_ON = 46
    """True if a launch continues after a fault, which the host notes."""
    NOTED = 47
    """Site and code of the last noted fault."""
    DID = 48
    """Effect of each lane's compare-and-swap, a byte each."""
    ENTRIES = 56
    """Entries to visit, then lists after the entries of a range, then items."""
    RANGE_AT = 57
    RANGE_LAST = 58
    ITEMS = 59
    UNVISITED = 60
    """True if any of these exist."""
    READ_FIRST = 61
    """First of consecutive entries whose next ones atomics have read; none if READ_END is 0."""
    READ_END = 62
    READ_OWN = 63
    """True if some entry that they have read is of this work-group."""
    OWN_RECORDS = 64
    """First record of the running work-group, and of the previous one."""
    LATE_RECORDS = 65
    CHECKED = 66
    """Accesses so far, each of one lane."""
    TOGETHER = 67
    """True if work-groups are interleaved without clocks; accesses have no known order then."""
    VALUES = 68
    """Values of the current store, if another subgroup may store equal ones."""
    CLOCKS = 69
    """Vector clocks of interleaved programs, see `clocks`; 0 without interleaving."""
    CLOCK_WORDS = 70
    CLOCKS_FREE = 71
    """Numbers of free clocks, and their count."""
    CLOCKS_LEFT = 72
    CLOCKS_MADE = 73
    """Cache of joined clocks, `Joined`."""
    BEGUN = 74
    """Largest number + 1 of the programs that have begun."""
    CLOCKED = 75
    """True if programs are interleaved and have clocks."""
    SLM_CHUNKS = 76
    """Accesses of this phase to each chunk of shared memory, `Chunk`."""
    SLM_LOG = 77
    """Log of the accesses of this phase, see `phases`."""
    SLM_LOGGED = 78
    """Words in use of the log."""
    SLM_EXACT = 79
    """True if the cells record the accesses of this phase, and are compared."""
    SLM_MIXED = 80
    """True if several subgroups have stored different values to some bytes."""
    SLM_NOTED = 81
    """Words of the log that are in the chunks; so are the stores of the rest."""
    SLM_WRITTEN = 82
    """Regions that this phase has written, a bit each."""
    SLM_READ = 83
    """Regions of loads in the log that are not in the chunks."""
    SLM_REGION = 84
    """Bits of an offset in a region: all of shared memory is 64 of them."""
    COUNT = 88


OF_A_GROUP = (
    Word.GLOBAL_PHASE, Word.SLM_PHASE, Word.SINCE, Word.FENCED_GLOBAL, Word.FENCED_SLM, Word.EPOCH,
    Word.ACCESSED, Word.GROUP, Word.ACQUIRED, Word.RELEASING, Word.SLM_KNOWN, Word.SLM_SHADOW,
    Word.SLM_EXACT, Word.SLM_MIXED, Word.SLM_WRITTEN)
"""Words that are saved for each work-group, if several are interleaved."""


class Entry(IntEnum):
    """Words of an entry of the block table."""

    LOW = 0
    HIGH = 1
    WRITES = 2
    READS = 3
    WRITE_SITES = 4
    READ_SITES = 5
    SYNC = 6
    """Published lists of each dword; 0 in launches without atomics."""
    UNWRITTEN = 7
    """Offset from an address in the block to its byte in the map of unwritten bytes; 0 for none."""
    UNREAD = 8
    """True if the launch only stores there, so that a store of the same value has no effect."""
    TOUCHED = 9
    """Offset from the number of a chunk of global memory to the address of its flags.

    The number is the chunk's address over its size.  The flags, `BEGUN_OF` and `PART_FLAGS`, say
    which of its cells exist.
    """
    PUBLISHED = 10
    """Offset from the number of a page of lists (see `SYNC`) to the address of its flag.

    The flag is set if a list was published there.
    """
    FORM = 11
    """Address of the words of `Form`."""
    LINE_WRITES = 12
    """Cells of whole chunks, see `ALIKE`: offset from a chunk's number times the size of a cell.

    Reads and sites follow in the order above.
    """
    LINE_READS = 13
    LINE_WRITE_SITES = 14
    LINE_READ_SITES = 15
    LINE_WRITE_BYTES = 16
    """Bytes of the chunk that they record, a bit for each."""
    LINE_READ_BYTES = 17
    """The words of `PARTS` - 1 more such cells follow the six words of the first ones."""
    ELEMENT_WRITES = 60
    """Cells of elements that are smaller than a dword, see `checks`; 0 if not allocated yet.

    It is the offset from eight times the address of a chunk to the address of its first cell.
    """
    ELEMENT_READS = 61
    WORDS = 62


class Form(IntEnum):
    """Words about the flags of all chunks of a block."""

    LEFT = 0
    """0 if all chunks have the same flags; else the number of those without, or negative."""
    FLAGS = 1
    """Flags of the chunks that have some."""


PARTS, LINE_WORDS = 8, 6
"""Cells of a chunk that may each record some of its bytes, for each kind of access; and their words
in an entry."""
LIST_PAGE_BITS = 12


MOST_BYTES = 64
"""Largest access of a lane, in bytes."""
NOWHERE = -1000000
"""A row above every surface."""
SCRATCH_BYTES = 1 << 16
"""Bytes of the page for refused accesses."""
MOST_VALUES = 4096
"""Largest number of bytes of all lanes' values of one store."""
CHUNK_BITS = 6
BEGUN_OF = 1, 2
"""Flags for writes and reads: each dword of a chunk has a cell of its own."""
BEGUN = sum(BEGUN_OF)
ALIKE = 4
"""Factor of these flags: one cell records all dwords, or some bytes, of the chunk."""
PART_FLAGS = ALIKE, 16, *(64,) * (PARTS - 2)
"""Factors of these flags: which cells for parts of chunks exist."""
OF_HALVES, OF_BYTES = 64, 128
"""Flags of chunks in which each element of two bytes, or each byte, has a cell of its own."""
OF_ELEMENTS = OF_HALVES | OF_BYTES
WINDOW = 8
"""Largest number of consecutive chunks, of an access of all lanes, that are tested at once."""


def elements_of(nbytes: int) -> int:
    """Flag of chunks with cells for elements of that many bytes; 0 for dwords."""
    return {1: OF_BYTES, 2: OF_HALVES}.get(nbytes, 0)


def line_of(word: Entry) -> Entry:
    """The word for whole chunks that corresponds to a word for dwords."""
    return Entry(word + Entry.LINE_WRITES - Entry.WRITES)


class Chunk(IntEnum):
    """Words of a phase's accesses to a chunk of shared memory."""

    OWNER = 0
    """Group, phase and subgroup, as in a cell, whose accesses the next words are."""
    WRITTEN = 1
    """A bit for each byte."""
    READ = 2
    WORDS = 4


LOG_WORDS, LOGGED_LANES = 1 << 15, 32


class Release(IntEnum):
    """Words of the accesses that the last release fence of a subgroup orders."""

    NODE = 0
    EPOCH = 1
    PHASE = 2
    ACQUIRED = 3
    FLOOR = 4
    ACQUISITIONS = 5
    WORDS = 8


class Known(IntEnum):
    """Words of a work-group's state, partly as known by the running one."""

    BY = 0
    """The running work-group + 1, if it knows anything of this one."""
    EPOCH = 1
    PHASE = 2
    WARPS = 3
    LAST_EPOCH = 4
    """Epoch of the last release; 0 is none."""
    LAST_WARPS = 5
    CLOCK = BY
    """For interleaved programs: the clock of acquisitions, and that of reads to be acquired."""
    READ = EPOCH
    ENDED = PHASE
    """True if the work-group has ended."""
    WORDS = 6


class Joined(IntEnum):
    """Words of a cell that was joined from two, cached for the next such pair."""

    OLD = 0
    NEW = 1
    MADE = 2
    WRITES = 3
    WORDS = 4


JOINED_KEPT = 256

# --- records: 32-bit fields, found by index -------------------------------------------------------

FIELDS = 8


class Published(IntEnum):
    """An entry of the list of a location."""

    NODE = 0
    NEXT = 1
    FLOOR = 2
    """All releases of work-groups below this one are in the rest of the list."""
    HELD = 3
    """The work-group, + 1, that has acquired it."""
    PENDING = 4
    """The work-group, + 1, that has read it and may acquire it by a fence."""
    SEEN = 6
    """The work-group, + 1, that is visiting it, or has visited it."""
    LINK = 7


class Node(IntEnum):
    """One release."""

    GROUP = 0
    EPOCH = 1
    PHASE = 2
    WARP = 3
    ACQUIRED = 4
    FLOOR = 5
    SEEN = 6
    ACQUISITIONS = 7


class Item(IntEnum):
    """One element of a list of acquired or read entries: an entry, or the ends of several."""

    ENTRY = 0
    NEXT = 1
    END = 2
    """One past the last of consecutive entries, if there are several; else 0."""
    SEEN = 6
    LINK = 7


class Reader(IntEnum):
    """One element of a list of accesses of one dword: its cell, as two words."""

    LOW = 0
    HIGH = 1
    NEXT = 2


# --- what an access is, what it means -------------------------------------------------------------


class Kind(IntEnum):
    """Bits that describe an access; bits 8 and up are the alignment."""

    WRITE = 1
    ATOMIC = 2
    SLM = 4
    SCALAR = 8
    """A load of global memory that every warp executes for itself.

    Triton inserts no barrier between it and a later store by one of them, so that only other
    programs' stores count.
    """
    KEPT = 16
    """A store whose values are at `Word.VALUES`, lane by lane."""
    LOCAL = 32
    """An atomic that is atomic only within its work-group."""
    NEEDS = 64
    """An atomic whose result depends on the old value."""
    UNSEEN = 128
    """A load by a subgroup whose copy of the value has no use, so that no store conflicts."""


class Order(IntEnum):
    """Memory semantics of SPIR-V; atomics can have acquire and release."""

    ACQUIRE = 2
    RELEASE = 4
    BOTH = 8
    SEQUENTIAL = 16
    SLM = 256
    GLOBAL = 512
    FULL = BOTH | SLM | GLOBAL


class Fault(NamedTuple):
    """The words of the error record of a launch that the checks stopped."""

    code: int
    site: int
    address: int
    size: int
    kind: int
    row: int
    sg: int
    lane: int
    group: int
    other: int
    """For a race, the cell of the earlier access; otherwise a number for the code's report."""
    other_site: int
    other_writes: int


READS, WRITES = 1, 2
"""Effects of an atomic; a compare-and-swap that fails only reads."""


def slm_shadow_bytes(slm_bytes: int) -> int:
    """Bytes of the shadow of shared memory: a power of two, so that addresses wrap around."""
    return 1 << max(slm_bytes - 1, 63).bit_length()


def origin_words(lanes: int) -> int:
    """Words that one masked load of one subgroup records: group + 1, addresses from 8 on."""
    return 8 + -(-lanes // 8) * 8


# --- functions ------------------------------------------------------------------------------------


def routine(name: str, result: Type, *lanes: int | str, **parameters: Type) -> Routine:
    """The function `name` of the sanitizer; the first parameter is the work-group's context."""
    return Routine(symbol("san", name, *lanes), result, (("ctx", PTR), *parameters.items()))


_SITE = {"sg": I32, "site": I32}
_TAIL = {"address": I64, "size": I64, "kind": I64}
_ACCESS = {**_SITE, "lane": I32, "row": I64, **_TAIL}

REPLAY_LOG = routine("replay_log", VOID)
NOTE_READS = routine("note_reads", VOID)
REPLAY, REPLAY_ONE = (
    routine(name, I1, **_SITE, row=I64, addresses=vector(lanes, I64), size=I64, kind=I64,
            mask=vector(lanes, I1))
    for name, lanes in (("replay", LOGGED_LANES), ("replay_one", 1)))
TRACK = routine("track", I1, **_SITE, lane=I32, block=PTR, **_TAIL)
FIND = routine("find", I64, address=I64)
REPORT = routine("report", I1, **_ACCESS, code=I64, other=I64, other_site=I64, other_writes=I64)
TOUCH, CHANGE = (routine(name, VOID, block=PTR, chunk=I64, wanted=I32)
                 for name in ("touch", "change"))
MARK = routine("mark", VOID, block=PTR, address=I64, size=I64)
FRESH = routine("fresh", I1, block=PTR, address=I64, size=I64)
NOTE_LANES = routine("note_lanes", I1, block=PTR, addresses=PTR, mask=I64, size=I64, kind=I64)
SURFACE_Y = routine("surface_y", I32, row=I64, base=I64, w1=I32, h1=I32, p1=I32, x=I32, y=I32,
                    row_bytes=I64, rows=I64)
CLASH = routine("clash", I1, old=I64, new=I64, kind=I64, read=I1)
MERGE = routine("merge", I64, block=PTR, old=I64, new=I64, kind=I64)
JOIN = routine("join", I64, old=I64, new=I64, writes=I1)
FENCE = routine("fence", VOID, sg=I32, scope=I32, semantics=I32)
BARRIER = routine("barrier", VOID, sg=I32, semantics=I32)
SYNC = routine("sync", VOID, sg=I32, semantics=I32, address=I64, what=I32)
SYNC_ROW = routine("row", VOID, address=I64)
ACQUIRE = routine("acquire", VOID, listed=I32)
JOIN_CLOCKS = routine("join_clocks", I32, first=I32, second=I32, by=I32)
STAMP = routine("stamp", I32, sg=I32, release=PTR)
KNOWS = routine("knows", I1, group=I64, epoch=I64, phase=I64, warp=I64, lenient=I1)
VISIT = routine("visit", VOID, steps=I64)
PUBLISH = routine("publish", I32, listed=I32, node=I32, what=I32, waits=I1)
FULL = routine("full", VOID)
NEW_GROUP = routine("group", VOID)
NON_FINITE = routine("non_finite", VOID, **_SITE, bad=I64)
UNDEFINED = routine("undefined", VOID, **_SITE, bad=I64, use=I64, at=I64)


def record_parts(count: int, number: int, writes: bool, asks: bool) -> Routine:
    """Records a store, or load, of some bytes of `count` chunks: `number` windows of equal size."""
    first = I64 if number == 1 else vector(number, I64)
    return routine("parts", I64, count, number, int(writes), int(asks), site=I32, block=PTR,
                   first=first, bytes=vector(count, I64), owner=I64)


def check_elements(lanes: int, count: int, size: int, kind: Operand | int) -> Routine:
    """Checks `count` adjacent elements of each lane, each with a mask of its own."""
    return routine("elements", I1, lanes, count, *known(size, kind), **_SITE, row=I64,
                   addresses=vector(lanes, I64), size=I64, kind=I64, mask=vector(lanes * count, I1))


def check_steps(
    lanes: int, count: int, size: int, kind: int, strides: Sequence[int], *, masked: bool
) -> Routine:
    """Checks `count` elements of each lane, at known offsets from a base, see `steps`."""
    mask = {"mask": vector(lanes * count, I1)} if masked else {}
    return routine("steps", I1, lanes, count, size, kind, int(masked), spelled(strides), **_SITE,
                   row=I64, base=I64, seen=I1, **mask)


def check_batch(
    number: int, lanes: int, count: int, size: int, kind: int, strides: Sequence[int], *,
    masked: bool,
) -> Routine:
    """Checks several accesses of the form of `check_steps`; a bit is set for each without fault.

    Faults are not reported.
    """
    mask = {"mask": vector(number * lanes * count, I1)} if masked else {}
    return routine("batch", I32, number, lanes, count, size, kind, int(masked), spelled(strides),
                   **_SITE, row=I64, bases=vector(number, I64), seen=I1, **mask)


def spelled(strides: Sequence[int]) -> str:
    """Spell numbers as a part of a name."""
    return "s" + "_".join(str(k).replace("-", "n") for k in strides)


def numbers(text: str) -> tuple[int, ...]:
    """The numbers that `spelled` has spelled."""
    return tuple(int(word.replace("n", "-")) for word in text.removeprefix("s").split("_"))


ANY = Operand(I64, "%any")
"""Placeholder of a size or kind that is not known."""
COLLISION = routine("collision", VOID, **_SITE, bad=I64, at=I64, nbytes=I64)

BIND = Routine("xe_san_bind", VOID, (("code", PTR), ("name", PTR)))
"""Host function: write the address of a named library function to a variable."""
MISS = Routine("xe_san_miss", I64, (("address", I64),))
"""Host function: index of a new entry for the block that contains an address, or -1."""
ROOM = Routine("xe_san_room", VOID, ())
"""Host function: make room for more records, if possible."""
ELEMENTS = Routine("xe_san_elements", VOID, (("entry", I64),))
"""Host function: allocate the cells of a block's elements, if possible."""
TURNS = Routine("xe_san_turns", VOID, ())
"""Host function: switch to clocks, if there may be clocks."""
NOTE = Routine("xe_san_note", VOID, (("error", I64),))
"""Host function: note the fault in an error record."""


def known(size: Operand | int, kind: Operand | int) -> tuple[int, ...]:
    """Size, or 0 for any, and kind, if they are constants to specialise a function for."""
    nbytes, flags = (x if isinstance(x, int) else x.integer_value() for x in (size, kind))
    if flags is None:
        return ()
    return 0 if nbytes is None or nbytes > MOST_BYTES else nbytes, flags


def check_one(size: Operand | int, kind: Operand | int) -> Routine:
    """The check of a range of bytes."""
    return routine("one", I1, *known(size, kind), **_ACCESS, active=I1)


CHECK_ONE = routine("one", I1, **_ACCESS, active=I1)


def check_block(kind: Operand | int) -> Routine:
    """The check of the part of a 2D block that is inside its surface."""
    return routine(
        "block", I1, *known(0, kind), **_SITE, row=I64, base=I64, w1=I32, h1=I32, p1=I32, x=I32,
        y=I32, row_bytes=I64, rows=I64, element=I64, kind=I64)


def check_lanes(
    lanes: int, size: Operand | int, kind: Operand | int, name: str = "lanes"
) -> Routine:
    """The check of one access of all lanes."""
    return routine(name, I1 if name == "try" else I8, lanes, *known(size, kind), **_SITE, row=I64,
                   addresses=vector(lanes, I64), size=I64, kind=I64, mask=vector(lanes, I1))


def try_lanes(lanes: int, size: Operand | int, kind: Operand | int) -> Routine:
    """The check that records the accesses if they are valid, and otherwise does nothing."""
    return check_lanes(lanes, size, kind, "try")


def sync_lanes(lanes: int) -> Routine:
    return routine("syncs", VOID, lanes, sg=I32, addresses=vector(lanes, I64),
                   mask=vector(lanes, I1), did=I32)
