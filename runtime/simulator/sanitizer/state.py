"""The state of a sanitized launch, how its words are named, and a writer of functions on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from llvmlite import ir

I1, I8, I32, I64 = (ir.IntType(n) for n in (1, 8, 32, 64))
PTR = ir.PointerType()
Text = tuple[str, tuple[str, ...]]


class Word(IntEnum):
    """Words of the state of a sanitized launch."""

    TABLE = 0
    FIRST_SEARCHED = 1
    SEARCH_END = 2
    SCRATCH = 3
    GLOBAL_PHASE = 5
    """Barriers met so far, of any kind."""
    SLM_PHASE = 6
    EPOCH = 7
    RELEASED = 8
    """What is known of each work-group, `library_sanitizer_sync.Known`."""
    ACQUIRED = 9
    """Whether the work-group has acquired anything."""
    SLM_ENTRY = 10
    SLM_KNOWN = 11
    FENCED_GLOBAL = 12
    FENCED_SLM = 13
    SUBGROUP = 14
    GROUP = 15
    SLM_BYTES = 16
    PENDING = 17
    """List of what atomics have read since the last acquire fence; see READ_FIRST, too."""
    SITE = 18
    TRACE = 19
    TRACED = 20
    TRACE_MOST = 21
    SLM_SHADOW = 22
    ORIGINS = 23
    NOTED = 24
    """Whether there was an access in this epoch."""
    RELEASABLE = 25
    """What the last release fence of each subgroup covers, `library_sanitizer_sync.Release`."""
    SINCE = 26
    """Barriers met since one that fences global memory."""
    RELEASING = 27
    """Whether there was a release fence since the last barrier."""
    RECORDS = 28
    RECORDS_USED = 29
    RECORDS_ROOM = 30
    FREE = 31
    LEARNT = 32
    """How often the work-group has acquired."""
    LEARNT_LIST = 33
    """List of what it has acquired."""
    FLOOR = 34
    """All that work-groups of lower numbers released is known."""
    SYNC_ROW = 35
    """Of the block table, where the last atomic was."""
    PUSHED_NODE = 36
    PUSHED_ON = 37
    PUSHED = 38
    SUBGROUPS = 39
    JOINED = 41
    """Cells of several readers that were made, `library_sanitizer_sync.Joined`."""
    ENTRY = 42
    """Row of the block that an atomic of a lane must be in, or -1."""
    STEPS = 43
    """Records that the launch has walked to learn what they tell."""
    SEARCHED_ROW = 44
    """Of the block table, where the last search for an access of all lanes ended."""
    EMPTY_ROW = 45
    DID = 48
    """A byte for each lane: what its compare-and-swap has done."""
    WITHIN = 40
    """Whether a subgroup has acquired what another of its work-group released."""
    ENTRIES = 56
    """Entries to be walked, then what follows the entries of a range, then items."""
    RANGE_AT = 57
    RANGE_LAST = 58
    ITEMS = 59
    UNWALKED = 60
    """Whether there is any of these."""
    READ_FIRST = 61
    """Entries, one after another, after which stands what atomics have read; none if READ_END
    is 0."""
    READ_END = 62
    READ_OWN = 63
    """Whether something that they have read is of this work-group."""
    OWN_RECORDS = 64
    """The first record of the running work-group, and of the one before it."""
    LATE_RECORDS = 65
    COUNT = 72


class Kind(IntEnum):
    """Bits that describe an access; bits 8 and up hold the alignment."""

    WRITE = 1
    ATOMIC = 2
    SLM = 4
    SCALAR = 8
    """A load of global memory that every warp makes for itself: Triton puts no barrier between it
    and a later store by one of them, so only other programs' stores count."""
    SAME = 16
    """A store to shared memory of what is there already: warps that hold copies of a value may
    all write it."""
    LOCAL = 32
    """An atomic that is one only within its work-group."""


class Order(IntEnum):
    """Memory semantics of SPIR-V; acquire and release are what an atomic can also have itself."""

    ACQUIRE = 2
    RELEASE = 4
    BOTH = 8
    SEQUENTIAL = 16
    SLM = 256
    GLOBAL = 512
    FULL = BOTH | SLM | GLOBAL


class Code(IntEnum):
    """Why a launch was stopped; 1 and 2 are those of block surfaces and divergent barriers."""

    BOUNDS = 10
    ALIGNMENT = 11
    RACE = 12
    UNINITIALISED = 13
    NON_FINITE = 14
    UNDEFINED = 15
    RECORDS = 16
    TIME = 20


class Entry(IntEnum):
    """Words of an entry of the block table."""

    LOW = 0
    HIGH = 1
    WRITES = 2
    READS = 3
    WRITE_SITES = 4
    READ_SITES = 5
    SYNC = 6
    """What is published at each dword; 0 in launches without atomics."""
    WORDS = 8


STATE_WORD = 12
GROUP_WORD = 10
ERROR_WORD = 7
MASK, ATOMIC, EPOCH, PHASE, SUBGROUP, GROUP = 0, 4, 5, 18, 36, 43
EPOCH_MOST, PHASE_MOST, SEVERAL = (1 << 13) - 1, (1 << 18) - 1, 127
SEVERAL_GROUPS = (1 << 21) - 1

CHECK_ONE = "xe_san_one"
CHECK_BLOCK = "xe_san_block"
FIND = "xe_san_find"
CLASH = "xe_san_clash"
MERGE = "xe_san_merge"
FENCE = "xe_san_fence"
BARRIER = "xe_san_barrier"
SYNC = "xe_san_sync"
NEW_GROUP = "xe_san_group"
LEARN = "xe_san_learn"
PUBLISH = "xe_san_publish"
JOIN = "xe_san_join"
WALK = "xe_san_walk"
SYNC_ROW = "xe_san_row"
FULL = "xe_san_full"
ROOM = "xe_san_room"
"""Of the host: makes room for more records, if it can."""
NON_FINITE = "xe_san_non_finite"
UNDEFINED = "xe_san_undefined"
MISS = "xe_san_miss"
"""Of the host: the index of a new entry for the block that holds an address, or -1."""


def slm_shadow_bytes(slm_bytes: int) -> int:
    """Bytes of the shadow of shared memory: a power of two, so that places wrap around."""
    return 1 << max(slm_bytes - 1, 63).bit_length()


def origin_words(lanes: int) -> int:
    """Words of what is noted of one masked load by one subgroup: group + 1, addresses from 8 on."""
    return 8 + -(-lanes // 8) * 8


def check_lanes_name(lanes: int) -> str:
    return f"xe_san_lanes_{lanes}"


def try_lanes_name(lanes: int) -> str:
    """Of the check that notes the accesses where all is well, and else does nothing."""
    return f"xe_san_try_{lanes}"


def sync_lanes_name(lanes: int) -> str:
    return f"xe_san_syncs_{lanes}"


class Writer:
    """A module with one public function, written with llvmlite's builder."""

    def __init__(self, name: str, result: ir.Type, arguments: list[tuple[str, ir.Type]]) -> None:
        self.module = ir.Module(name)
        self.function = self._define(name, result, arguments)
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.arguments = {n: a for (n, _), a in zip(arguments, self.function.args, strict=True)}

    def _define(
        self, name: str, result: ir.Type, arguments: list[tuple[str, ir.Type]]
    ) -> ir.Function:
        made = ir.Function(self.module, ir.FunctionType(result, [t for _, t in arguments]), name)
        made.attributes.add("nounwind")
        for (text, _), argument in zip(arguments, made.args, strict=True):
            argument.name = text
        return made

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def text(self) -> str:
        lines = str(self.module).splitlines()
        return "\n".join(x for x in lines if not x.startswith(("target ", "; ModuleID")))

    def word(self, base: Any, index: int | Any, kind: ir.Type = I64) -> Any:
        at = index if isinstance(index, ir.Value) else I64(int(index))
        return self.b.load(self.b.gep(base, [at], source_etype=kind), typ=kind)

    def set_word(self, base: Any, index: int | Any, value: Any, kind: ir.Type = I64) -> None:
        at = index if isinstance(index, ir.Value) else I64(int(index))
        self.b.store(value, self.b.gep(base, [at], source_etype=kind))

    def pointer(self, base: Any, index: int) -> Any:
        return self.word(base, index, PTR)

    def state(self) -> Any:
        return self.pointer(self["ctx"], STATE_WORD)

    def variable(self, value: Any) -> Any:
        slot = self.space(value.type)
        self.b.store(value, slot)
        return slot

    def space(self, kind: ir.Type) -> Any:
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def get(self, slot: Any) -> Any:
        return self.b.load(slot, typ=slot.allocated_type)

    @contextmanager
    def loop(self, first: Any, end: Any) -> Iterator[Any]:
        """for k in range(first, end), unsigned."""
        slot = self.variable(first)
        head, body, after = (self.function.append_basic_block(n) for n in ("head", "body", "after"))
        self.b.branch(head)
        self.b.position_at_end(head)
        k = self.get(slot)
        self.b.cbranch(self.b.icmp_unsigned("<", k, end), body, after)
        self.b.position_at_end(body)
        yield k
        self.b.store(self.b.add(k, k.type(1)), slot)
        self.b.branch(head)
        self.b.position_at_end(after)

    @contextmanager
    def chain(self, first: Any) -> Iterator[tuple[Any, Any]]:
        """While there is a record: it, and where to leave the next one."""
        slot = self.variable(first)
        head, body, after = (self.function.append_basic_block(n) for n in ("head", "body", "after"))
        self.b.branch(head)
        self.b.position_at_end(head)
        record = self.get(slot)
        self.b.cbranch(self.b.icmp_unsigned("!=", record, record.type(0)), body, after)
        self.b.position_at_end(body)
        yield record, slot
        self.b.branch(head)
        self.b.position_at_end(after)

    def call(self, name: str, result: ir.Type, arguments: list[Any]) -> Any:
        known = self.module.globals.get(name)
        if known is None:
            kind = ir.FunctionType(result, [a.type for a in arguments])
            known = ir.Function(self.module, kind, name)
        return self.b.call(known, arguments)

    def field(self, cell: Any, first: int, bits: int) -> Any:
        part = self.b.lshr(cell, I64(first)) if first else cell
        return self.b.and_(part, I64((1 << bits) - 1))


SITE_ARGUMENTS = [("ctx", PTR), ("sg", I32), ("site", I32)]
_ACCESS = [
    *SITE_ARGUMENTS, ("lane", I32), ("entry", I64), ("address", I64), ("size", I64), ("kind", I64),
]
SIGNATURES: dict[str, tuple[ir.Type, list[tuple[str, ir.Type]]]] = {
    CHECK_ONE: (I1, [*_ACCESS, ("active", I1)]),
    FIND: (I64, [("ctx", PTR), ("address", I64)]),
    "xe_san_track": (I1, [*_ACCESS[:4], ("block", PTR), *_ACCESS[5:]]),
    "xe_san_report": (ir.VoidType(), [
        *_ACCESS, ("code", I64), ("other", I64), ("other_site", I64), ("other_writes", I64)]),
    CLASH: (I1, [("ctx", PTR), ("old", I64), ("new", I64), ("kind", I64), ("read", I1)]),
    MERGE: (I64, [("ctx", PTR), ("block", PTR), ("old", I64), ("new", I64), ("kind", I64)]),
    CHECK_BLOCK: (I1, [
        *SITE_ARGUMENTS, ("entry", I64), ("base", I64), ("w1", I32), ("h1", I32), ("p1", I32),
        ("x", I32), ("y", I32), ("row_bytes", I64), ("rows", I64), ("element", I64),
        ("kind", I64)]),
    FENCE: (ir.VoidType(), [("ctx", PTR), ("sg", I32), ("scope", I32), ("semantics", I32)]),
    BARRIER: (ir.VoidType(), [("ctx", PTR), ("sg", I32), ("semantics", I32)]),
    SYNC: (ir.VoidType(), [
        ("ctx", PTR), ("sg", I32), ("semantics", I32), ("address", I64), ("what", I32)]),
    LEARN: (ir.VoidType(), [("ctx", PTR), ("entry", I32)]),
    WALK: (ir.VoidType(), [("ctx", PTR), ("steps", I64)]),
    PUBLISH: (I32, [
        ("ctx", PTR), ("listed", I32), ("node", I32), ("what", I32), ("waits", I1)]),
    SYNC_ROW: (ir.VoidType(), [("ctx", PTR), ("address", I64)]),
    JOIN: (I64, [("ctx", PTR), ("old", I64), ("new", I64), ("writes", I1)]),
    FULL: (ir.VoidType(), [("ctx", PTR)]),
    NEW_GROUP: (ir.VoidType(), [("ctx", PTR)]),
    NON_FINITE: (ir.VoidType(), [*SITE_ARGUMENTS, ("bad", I64)]),
    UNDEFINED: (ir.VoidType(), [*SITE_ARGUMENTS, ("bad", I64), ("use", I64)]),
}


def start(name: str) -> Writer:
    return Writer(name, *SIGNATURES[name])


def block_of(w: Writer, state: Any, index: Any) -> Any:
    table = w.pointer(state, Word.TABLE)
    offset = w.b.mul(index, I64(8 * Entry.WORDS))
    return w.b.gep(table, [offset], source_etype=I8)
