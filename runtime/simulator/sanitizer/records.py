"""The records of what programs release and acquire, for `library_sanitizer_sync`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from llvmlite import ir

from triton_xe.runtime.simulator.sanitizer.state import (
    ERROR_WORD,
    FULL,
    GROUP_WORD,
    I32,
    I64,
    ROOM,
    SIGNATURES,
    Code,
    Order,
    Text,
    Word,
    Writer,
)

FIELDS = 8
READS, WRITES = 1, 2
"""What an atomic does; a compare-and-swap that fails only reads."""


class Published(IntEnum):
    """An entry of the list of a location."""

    NODE = 0
    NEXT = 1
    FLOOR = 2
    """All that work-groups below this one ever released is in the rest of the list."""
    HELD = 3
    """The work-group, + 1, that has acquired it."""
    PENDING = 4
    """The work-group, + 1, that has read it and may acquire it by a fence."""
    SEEN = 6
    """The work-group, + 1, that walks it, or did."""
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
    LEARNT = 7


class Item(IntEnum):
    """One element of a list of what was acquired, or read: an entry, or what follows several."""

    ENTRY = 0
    NEXT = 1
    END = 2
    """One past the last of the entries that follow one another, if they are several; else 0."""
    SEEN = 6
    LINK = 7


class Release(IntEnum):
    """64-bit words of what the last release fence of a subgroup covers."""

    NODE = 0
    EPOCH = 1
    PHASE = 2
    ACQUIRED = 3
    FLOOR = 4
    LEARNT = 5
    WORDS = 8


class Known(IntEnum):
    """64-bit words of what is known of a work-group: by the running one, and at all."""

    BY = 0
    """The running work-group + 1, if it knows anything."""
    EPOCH = 1
    PHASE = 2
    WARPS = 3
    LAST_EPOCH = 4
    """Of the last release; 0 is none."""
    LAST_WARPS = 5
    WORDS = 6


def known(w: Writer, state: Any, group: Any) -> Any:
    """Where the words of a work-group, by number + 1, are."""
    words = w.pointer(state, Word.RELEASED)
    return w.b.gep(words, [w.b.mul(group, I64(8 * Known.WORDS))], source_etype=ir.IntType(8))


def publisher(w: Writer, state: Any, listed: Any) -> Any:
    """The number + 1 of the work-group that released last, by what a location has."""
    pool = w.pointer(state, Word.RECORDS)

    def field(record: Any, number: IntEnum) -> Any:
        at = w.b.add(w.b.mul(w.b.zext(record, I64), I64(FIELDS)), I64(int(number)))
        return w.word(pool, at, I32)

    return field(field(listed, Published.NODE), Node.GROUP)


class Records(Writer):
    """A function about records; what it looks up once."""

    def __init__(
        self, name: str, signature: tuple[ir.Type, list[tuple[str, ir.Type]]] | None = None
    ) -> None:
        super().__init__(name, *(signature or SIGNATURES[name]))
        self.state_ = self.state()
        self.group = self.b.add(self.word(self["ctx"], GROUP_WORD), I64(1))
        self.stamp = self.b.trunc(self.group, I32)

    def now(self, word: Word) -> Any:
        return self.word(self.state_, word)

    def note(self, word: Word, value: Any) -> None:
        self.set_word(self.state_, word, value)

    def index(self, word: Word) -> Any:
        return self.b.trunc(self.now(word), I32)

    def note_index(self, word: Word, value: Any) -> None:
        self.note(word, self.b.zext(value, I64))

    def at(self, record: Any, field: IntEnum) -> Any:
        b = self.b
        offset = b.mul(b.zext(record, I64), I64(4 * FIELDS))
        pool = self.pointer(self.state_, Word.RECORDS)
        return b.gep(pool, [b.add(offset, I64(4 * int(field)))], source_etype=ir.IntType(8))

    def of(self, record: Any, field: IntEnum) -> Any:
        return self.b.load(self.at(record, field), typ=I32)

    def put(self, record: Any, field: IntEnum, value: Any) -> None:
        self.b.store(value, self.at(record, field))

    def new(self, fields: Mapping[IntEnum, Any]) -> Any:
        """The index of a new record; what `fields` leaves out is 0."""
        b = self.b
        used = self.now(Word.RECORDS_USED)
        with b.if_then(b.icmp_unsigned(">=", used, self.now(Word.RECORDS_ROOM)), likely=False):
            self.call(FULL, ir.VoidType(), [self["ctx"]])
        self.note(Word.RECORDS_USED, b.add(used, I64(1)))
        record = b.trunc(used, I32)
        whole: Any = ir.Constant(ir.VectorType(I32, FIELDS), [0] * FIELDS)
        for field, value in fields.items():
            whole = b.insert_element(whole, value, I32(int(field)))
        b.store(whole, self.at(record, Node.GROUP), align=4 * FIELDS)
        return record

    def is_own(self, entry: Any) -> Any:
        """Whether the last release that a list has is of the running work-group."""
        return self.b.icmp_unsigned(">=", entry, self.index(Word.OWN_RECORDS))

    def some(self, record: Any) -> Any:
        return self.b.icmp_unsigned("!=", record, record.type(0))

    def most(self, *values: Any) -> Any:
        first, *rest = values
        for other in rest:
            first = self.b.select(self.b.icmp_unsigned(">", first, other), first, other)
        return first

    def has(self, *orders: Order) -> Any:
        """Whether the semantics have one of the bits."""
        bits = self.b.and_(self["semantics"], I32(sum(orders)))
        return self.b.icmp_unsigned("!=", bits, I32(0))

    def acquires(self) -> Any:
        return self.has(Order.ACQUIRE, Order.BOTH, Order.SEQUENTIAL)

    def releases(self) -> Any:
        return self.has(Order.RELEASE, Order.BOTH, Order.SEQUENTIAL)

    def release(self) -> Any:
        """The words of what the last release fence of the subgroup covers."""
        return release_of(self, self.state_, self.b.zext(self["sg"], I64))

    def clean(self) -> Any:
        error = self.pointer(self["ctx"], ERROR_WORD)
        return self.b.icmp_unsigned("==", self.word(error, 0), I64(0))


def release_of(w: Writer, state: Any, subgroup: Any) -> Any:
    """The words of one subgroup, or, after the last, those of an atomic that releases itself."""
    offset = w.b.mul(subgroup, I64(8 * Release.WORDS))
    return w.b.gep(w.pointer(state, Word.RELEASABLE), [offset], source_etype=ir.IntType(8))


def make_full() -> Text:
    """Ask the host for room for more records.

    Where the host has none left, the launch stops; the last records serve until it has.
    """
    w = Records(FULL)
    b = w.b
    w.call(ROOM, ir.VoidType(), [])
    full = b.icmp_unsigned(">=", w.now(Word.RECORDS_USED), w.now(Word.RECORDS_ROOM))
    with b.if_then(b.and_(full, w.clean())):
        error = w.pointer(w["ctx"], ERROR_WORD)
        for k in range(2, 9):
            w.set_word(error, k, I64(0))
        w.set_word(error, 1, b.and_(w.now(Word.SITE), I64(0xFFFFFFFF)))
        w.set_word(error, 8, w.word(w["ctx"], GROUP_WORD))
        w.set_word(error, 0, I64(Code.RECORDS))
    b.ret_void()
    return w.text(), ()
