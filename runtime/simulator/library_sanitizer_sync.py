"""The sanitizer's record of what programs release and acquire, location by location.

The memory model is that of C++ and LLVM, between work-groups ("programs"):

- a release publishes, at the location it writes, what its program did and has itself acquired; an
  atomic that reads the location and acquires learns it.  A release is an atomic with that order, or
  a release fence and any later atomic write of the same subgroup; an acquire is an atomic with that
  order, or any atomic read and a later acquire fence.  Relaxed atomics alone order nothing;
- a read-modify-write keeps what is published and adds its own; a store of the same program keeps
  it; an atomic or plain store of another program ends it;
- a release covers what its own subgroup did before it, and what the others stored before the last
  barrier; what a subgroup acquires, its whole work-group has;
- fences and atomics of the scope of a work-group order nothing between work-groups.

Work-groups of a checked launch run to their end one after another, in the order of their numbers.
That is one of the orders a device may choose, so two accesses that this order leaves without a
chain of release and acquire are a race on a device too.  An access only counts as ordered if its
release was read: what another order would do (a counter that hands out work differently) is not
looked at.

All is in records of `FIELDS` 32-bit words, found by index; 0 is none.  What is published at a dword
is a list of entries, the last release first; a node is one release of one subgroup, with what its
work-group had acquired.  Each word of a tracked block has the index of its list in a third shadow
(`Entry.SYNC`).  What is below a floor need not be walked: there, all that was released is known.
A work-group that has walked `MOST_STEPS` records counts as knowing all that was released before it,
which only ever hides a race; histograms of many programs get there.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from llvmlite import ir

from triton_xe.runtime.simulator.library_sanitizer_state import (
    ERROR_WORD,
    FENCE,
    FIND,
    GROUP_WORD,
    I32,
    I64,
    LEARN,
    NEW_RECORD,
    PHASE_MOST,
    PTR,
    PUBLISH,
    ROOM,
    SIGNATURES,
    SYNC,
    Code,
    Entry,
    Order,
    Text,
    Word,
    Writer,
    block_of,
)

FIELDS = 8
MOST_STEPS = 1 << 12
READS, WRITES = 1, 2
"""What an atomic does; a compare-and-swap that fails only reads."""
MADE_LATER = -1
"""In place of a node that is made when it is first published."""


class Published(IntEnum):
    """An entry of the list of a location."""

    NODE = 0
    NEXT = 1
    FLOOR = 2
    """All that work-groups below this one ever released is in the rest of the list."""
    PENDING = 4
    """The work-group, + 1, that has read it and may acquire it by a fence."""
    LEARNT = 5
    """How much the work-group in SEEN had learnt before."""
    SEEN = 6
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
    """One element of a list of entries."""

    ENTRY = 0
    NEXT = 1
    SEEN = 6


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


def covers(
    w: Writer, state: Any, group: Any, epoch: Any, phase: Any, warp: Any, lenient: Any
) -> Any:
    """Whether the running work-group has acquired an access of another one."""
    b = w.b
    words = known(w, state, group)
    mine = b.add(w.word(w["ctx"], GROUP_WORD), I64(1))
    seen = b.icmp_unsigned("==", w.word(words, Known.BY), mine)
    fresh = b.icmp_signed("<", epoch, w.word(words, Known.EPOCH))
    warps = b.lshr(w.word(words, Known.WARPS), b.and_(warp, I64(63)))
    own = b.icmp_unsigned("!=", b.and_(warps, I64(1)), I64(0))
    before = b.icmp_unsigned("!=", phase, w.word(words, Known.PHASE))
    direct = b.and_(b.and_(seen, fresh), b.or_(b.or_(own, before), lenient))
    below = b.icmp_unsigned("<=", group, w.word(state, Word.FLOOR))
    last = b.icmp_signed("<", epoch, w.word(words, Known.LAST_EPOCH))
    return b.or_(direct, b.and_(below, last))


class Records(Writer):
    """A function about records; what it looks up once."""

    def __init__(self, name: str) -> None:
        super().__init__(name, *SIGNATURES[name])
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

    def _at(self, record: Any, field: IntEnum) -> Any:
        b = self.b
        offset = b.mul(b.zext(record, I64), I64(4 * FIELDS))
        pool = self.pointer(self.state_, Word.RECORDS)
        return b.gep(pool, [b.add(offset, I64(4 * int(field)))], source_etype=ir.IntType(8))

    def of(self, record: Any, field: IntEnum) -> Any:
        return self.b.load(self._at(record, field), typ=I32)

    def put(self, record: Any, field: IntEnum, value: Any) -> None:
        self.b.store(value, self._at(record, field))

    def new(self) -> Any:
        return self.call(NEW_RECORD, I32, [self["ctx"]])

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


def next_epoch(w: Writer, state: Any) -> Any:
    """The epoch of the accesses after this point, which is new if there was one before it."""
    noted = w.word(state, Word.NOTED)
    epoch = w.b.add(w.word(state, Word.EPOCH), noted)
    w.set_word(state, Word.EPOCH, epoch)
    w.set_word(state, Word.NOTED, I64(0))
    return epoch


def _floor_held(w: Writer, state: Any) -> Any:
    """The floor of a release; none if one subgroup has acquired from another of its own."""
    alone = w.b.icmp_unsigned("==", w.word(state, Word.WITHIN), I64(0))
    return w.b.select(alone, w.word(state, Word.FLOOR), I64(0))


def cover(w: Writer, state: Any, release: Any) -> None:
    """Let the later atomic writes of a subgroup release what was done up to now."""
    phase = w.b.and_(w.word(state, Word.GLOBAL_PHASE), I64(PHASE_MOST))
    for word, value in (
        (Release.NODE, I64(MADE_LATER)), (Release.EPOCH, next_epoch(w, state)),
        (Release.PHASE, phase), (Release.ACQUIRED, w.word(state, Word.LEARNT_LIST)),
        (Release.FLOOR, _floor_held(w, state)), (Release.LEARNT, w.word(state, Word.LEARNT)),
    ):
        w.set_word(release, word, value)


def make_new_record() -> Text:
    """The index of a fresh record, of zeros; asks the host for room.

    Where the host has none left, the launch stops; the last records serve until it has.
    """
    w = Records(NEW_RECORD)
    b = w.b
    used = w.now(Word.RECORDS_USED)
    with b.if_then(b.icmp_unsigned(">=", used, w.now(Word.RECORDS_ROOM))):
        w.call(ROOM, ir.VoidType(), [])
        full = b.icmp_unsigned(">=", used, w.now(Word.RECORDS_ROOM))
        with b.if_then(b.and_(full, w.clean())):
            error = w.pointer(w["ctx"], ERROR_WORD)
            for k in range(2, 9):
                w.set_word(error, k, I64(0))
            w.set_word(error, 1, b.and_(w.now(Word.SITE), I64(0xFFFFFFFF)))
            w.set_word(error, 8, w.word(w["ctx"], GROUP_WORD))
            w.set_word(error, 0, I64(Code.RECORDS))
    w.note(Word.RECORDS_USED, b.add(used, I64(1)))
    b.ret(b.trunc(used, I32))
    return w.text(), ()


def make_learn() -> Text:
    """The running work-group acquires what a list holds."""
    w = Records(LEARN)
    b = w.b
    first = w["entry"]
    fresh = b.and_(w.some(first), b.icmp_unsigned("!=", w.of(first, Published.SEEN), w.stamp))
    within = b.icmp_unsigned("==", w.of(w.of(first, Published.NODE), Node.GROUP), w.stamp)
    fresh = b.and_(fresh, b.or_(within, b.not_(_knows_all(w, w.now(Word.FLOOR)))))
    news = w.variable(I32(0))
    with b.if_then(fresh):
        w.note(Word.ACQUIRED, I64(1))
        learnt = b.add(w.now(Word.LEARNT), I64(1))
        w.note(Word.LEARNT, learnt)
        todo = w.variable(I32(0))

        def push(entry: Any) -> None:
            new = b.icmp_unsigned("!=", w.of(entry, Published.SEEN), w.stamp)
            with b.if_then(b.and_(w.some(entry), new)):
                w.put(entry, Published.SEEN, w.stamp)
                w.put(entry, Published.LEARNT, b.trunc(learnt, I32))
                w.put(entry, Published.LINK, w.get(todo))
                b.store(entry, todo)

        push(first)
        steps = w.variable(w.now(Word.STEPS))
        with w.chain(w.get(todo)) as (entry, slot):
            b.store(w.of(entry, Published.LINK), todo)
            b.store(b.add(w.get(steps), I64(1)), steps)
            node = w.of(entry, Published.NODE)
            with b.if_then(b.icmp_unsigned("!=", w.of(node, Node.SEEN), w.stamp)):
                b.store(I32(1), news)
                _meet(w, node, push, steps)
            rest = w.of(entry, Published.NEXT)
            floor = w.of(entry, Published.FLOOR)
            below = b.icmp_unsigned(">=", floor, w.of(w.of(rest, Published.NODE), Node.GROUP))
            with b.if_then(b.not_(below)):
                push(rest)
            w.note(Word.FLOOR, w.most(w.now(Word.FLOOR), b.zext(floor, I64)))
            over = b.icmp_unsigned(">", w.get(steps), I64(MOST_STEPS))
            with b.if_then(over):
                w.note(Word.FLOOR, b.sub(w.group, I64(1)))
            b.store(b.select(over, I32(0), w.get(todo)), slot)
        w.note(Word.STEPS, w.get(steps))
    with b.if_then(w.some(w.get(news))):
        item = w.new()
        w.put(item, Item.ENTRY, first)
        w.put(item, Item.NEXT, w.index(Word.LEARNT_LIST))
        w.note_index(Word.LEARNT_LIST, item)
        _raise_floor(w)
    b.ret_void()
    return w.text(), (NEW_RECORD,)


def _meet(w: Records, node: Any, push: Any, steps: Any) -> None:
    """Acquire one release, and leave what its work-group had acquired to do."""
    b = w.b
    w.put(node, Node.SEEN, w.stamp)
    group = w.of(node, Node.GROUP)
    within = b.icmp_unsigned("==", group, w.stamp)
    w.note(Word.WITHIN, b.or_(w.now(Word.WITHIN), b.zext(within, I64)))
    words = known(w, w.state_, b.zext(group, I64))
    epoch = b.zext(w.of(node, Node.EPOCH), I64)
    bit = b.shl(I64(1), b.zext(b.and_(w.of(node, Node.WARP), I32(63)), I64))
    before = b.icmp_unsigned("==", w.word(words, Known.BY), w.group)
    held = b.select(before, w.word(words, Known.EPOCH), I64(0))
    warps = b.select(before, w.word(words, Known.WARPS), I64(0))
    later = b.icmp_unsigned(">=", epoch, held)
    phase = b.zext(w.of(node, Node.PHASE), I64)
    w.set_word(words, Known.BY, w.group)
    w.set_word(words, Known.EPOCH, w.most(held, epoch))
    w.set_word(words, Known.PHASE, b.select(later, phase, w.word(words, Known.PHASE)))
    w.set_word(words, Known.WARPS, b.or_(warps, bit))
    floor = w.of(node, Node.FLOOR)
    w.note(Word.FLOOR, w.most(w.now(Word.FLOOR), b.zext(floor, I64)))
    all_below = b.icmp_unsigned(">=", b.add(floor, I32(1)), group)
    listed = b.select(all_below, I32(0), w.of(node, Node.ACQUIRED))
    with w.chain(listed) as (item, slot):
        again = b.icmp_unsigned("==", w.of(item, Item.SEEN), w.stamp)
        with b.if_then(b.not_(again)):
            w.put(item, Item.SEEN, w.stamp)
            b.store(b.add(w.get(steps), I64(1)), steps)
            push(w.of(item, Item.ENTRY))
        b.store(b.select(again, I32(0), w.of(item, Item.NEXT)), slot)


def _knows_all(w: Records, floor: Any) -> Any:
    return w.b.icmp_unsigned(">=", w.b.add(floor, I64(1)), w.group)


def _raise_floor(w: Records) -> None:
    """Count the first work-groups all of whose releases are known."""
    b = w.b
    floor = w.variable(b.add(w.now(Word.FLOOR), I64(1)))
    going = w.variable(I32(1))
    with w.chain(w.get(going)) as (_, slot):
        group = w.get(floor)
        words = known(w, w.state_, group)
        last, warps = w.word(words, Known.LAST_EPOCH), w.word(words, Known.LAST_WARPS)
        mine = b.icmp_unsigned("==", w.word(words, Known.BY), w.group)
        newest = b.icmp_unsigned(">=", w.word(words, Known.EPOCH), last)
        whole = b.icmp_unsigned("==", b.and_(warps, w.word(words, Known.WARPS)), warps)
        all_known = b.or_(b.and_(b.and_(mine, newest), whole), b.icmp_unsigned("==", last, I64(0)))
        more = b.and_(all_known, b.icmp_unsigned("<", group, w.group))
        b.store(b.add(group, b.zext(more, I64)), floor)
        b.store(b.zext(more, I32), slot)
    w.note(Word.FLOOR, b.sub(w.get(floor), I64(1)))


def make_sync() -> Text:
    """An atomic on global memory, just done: reads what is published there, writes, or both."""
    w = Records(SYNC)
    b = w.b
    with b.if_then(w.clean()):
        row = w.variable(w.now(Word.SYNC_ROW))
        block = block_of(w, w.state_, w.get(row))
        away = b.or_(b.icmp_unsigned("<", w["address"], w.word(block, Entry.LOW)),
                     b.icmp_unsigned(">=", w["address"], w.word(block, Entry.HIGH)))
        with b.if_then(away):
            b.store(w.call(FIND, I64, [w["ctx"], w["address"]]), row)
        with b.if_then(b.icmp_signed(">=", w.get(row), I64(0))):
            w.note(Word.SYNC_ROW, w.get(row))
            block = block_of(w, w.state_, w.get(row))
            places = w.word(block, Entry.SYNC)
            with b.if_then(w.some(places)):
                low = b.and_(w.word(block, Entry.LOW), I64(-4))
                dword = b.lshr(b.sub(w["address"], low), I64(2))
                at = b.inttoptr(b.add(places, b.shl(dword, I64(2))), PTR)
                _synchronise(w, at)
    b.ret_void()
    return w.text(), (NEW_RECORD, LEARN, PUBLISH, FIND)


def _synchronise(w: Records, at: Any) -> None:
    b = w.b
    listed = b.load(at, typ=I32)
    reads, writes = (w.some(b.and_(w["what"], I32(bit))) for bit in (READS, WRITES))
    with b.if_then(b.and_(reads, w.some(listed))):
        with b.if_else(w.acquires()) as (now, later):
            with now:
                w.call(LEARN, ir.VoidType(), [w["ctx"], listed])
            with later:
                _read(w, listed)
    with b.if_then(writes):
        node = w.variable(I32(0))
        with b.if_else(w.releases()) as (itself, fenced):
            with itself:
                own = release_of(w, w.state_, w.now(Word.SUBGROUPS))
                cover(w, w.state_, own)
                b.store(_make_node(w, own), node)
            with fenced:
                release = w.release()
                late = b.icmp_signed("<", w.word(release, Release.NODE), I64(0))
                with b.if_then(late):
                    w.set_word(release, Release.NODE, b.zext(_make_node(w, release), I64))
                b.store(b.trunc(w.word(release, Release.NODE), I32), node)
        holder = w.of(w.of(listed, Published.NODE), Node.GROUP)
        keeps = b.or_(reads, b.icmp_unsigned("==", holder, w.stamp))
        kept = b.select(keeps, listed, I32(0))
        b.store(kept, at)
        with b.if_then(w.some(w.get(node))):
            tail = b.select(reads, listed, I32(0))
            b.store(w.call(PUBLISH, I32, [w["ctx"], w.get(node), tail]), at)


def _read(w: Records, listed: Any) -> None:
    """A later acquire fence acquires it."""
    b = w.b
    seen = b.icmp_unsigned("==", w.of(listed, Published.SEEN), w.stamp)
    waits = b.icmp_unsigned("==", w.of(listed, Published.PENDING), w.stamp)
    with b.if_then(b.not_(b.or_(seen, waits))):
        w.put(listed, Published.PENDING, w.stamp)
        slot = w.variable(w.index(Word.FREE))
        with b.if_else(w.some(w.get(slot))) as (again, fresh):
            with again:
                w.note_index(Word.FREE, w.of(w.get(slot), Item.NEXT))
            with fresh:
                b.store(w.new(), slot)
        item = w.get(slot)
        w.put(item, Item.ENTRY, listed)
        w.put(item, Item.NEXT, w.index(Word.PENDING))
        w.note_index(Word.PENDING, item)


def _make_node(w: Records, release: Any) -> Any:
    """The node of a release, which is about to be published."""
    b = w.b
    node = w.new()
    w.put(node, Node.GROUP, w.stamp)
    w.put(node, Node.WARP, w["sg"])
    for field, word in (
        (Node.EPOCH, Release.EPOCH), (Node.PHASE, Release.PHASE),
        (Node.ACQUIRED, Release.ACQUIRED), (Node.FLOOR, Release.FLOOR),
        (Node.LEARNT, Release.LEARNT),
    ):
        w.put(node, field, b.trunc(w.word(release, word), I32))
    words = known(w, w.state_, w.group)
    last = w.most(w.word(words, Known.LAST_EPOCH), w.word(release, Release.EPOCH))
    w.set_word(words, Known.LAST_EPOCH, last)
    bit = b.shl(I64(1), b.zext(b.and_(w["sg"], I32(63)), I64))
    w.set_word(words, Known.LAST_WARPS, b.or_(w.word(words, Known.LAST_WARPS), bit))
    return node


def make_publish() -> Text:
    """The list that a release makes of one; both are kept."""
    w = Records(PUBLISH)
    b = w.b
    node, tail = w["node"], w.variable(w["tail"])
    holder = w.of(w.get(tail), Published.NODE)
    mine = b.and_(b.icmp_unsigned("==", w.of(holder, Node.GROUP), w.stamp),
                  b.icmp_unsigned("==", w.of(holder, Node.WARP), w.of(node, Node.WARP)))
    newer = _newer(w, holder, node)
    with b.if_then(b.and_(mine, newer)):
        b.ret(w.get(tail))
    with b.if_then(mine):
        b.store(w.of(w.get(tail), Published.NEXT), tail)
    rest = w.get(tail)
    learnt = b.icmp_unsigned("<=", w.of(rest, Published.LEARNT), w.of(node, Node.LEARNT))
    held = b.and_(b.icmp_unsigned("==", w.of(rest, Published.SEEN), w.stamp), learnt)
    others = b.icmp_unsigned("!=", w.of(w.of(rest, Published.NODE), Node.GROUP), w.stamp)
    all_known = _knows_all(w, b.zext(w.of(node, Node.FLOOR), I64))
    held = b.or_(held, b.and_(others, all_known))
    rest = b.select(held, I32(0), rest)
    same = b.and_(b.icmp_unsigned("==", w.index(Word.PUSHED_NODE), node),
                  b.icmp_unsigned("==", w.index(Word.PUSHED_ON), rest))
    with b.if_then(same):
        b.ret(w.index(Word.PUSHED))
    above = w.of(rest, Published.NODE)
    floor = _floor_of(w, rest, above)
    entry = w.new()
    for field, value in ((Published.NODE, node), (Published.NEXT, rest),
                         (Published.FLOOR, floor)):
        w.put(entry, field, value)
    for word, value in ((Word.PUSHED_NODE, node), (Word.PUSHED_ON, rest), (Word.PUSHED, entry)):
        w.note_index(word, value)
    b.ret(entry)
    return w.text(), (NEW_RECORD,)


def _newer(w: Records, node: Any, other: Any) -> Any:
    """Whether a release of one subgroup is not before another."""
    b = w.b
    epochs = [w.of(n, Node.EPOCH) for n in (node, other)]
    phase = b.icmp_unsigned("==", w.of(node, Node.PHASE), w.of(other, Node.PHASE))
    later = b.or_(b.icmp_unsigned(">", *epochs), b.and_(b.icmp_unsigned("==", *epochs), phase))
    learnt = b.icmp_unsigned(">=", w.of(node, Node.LEARNT), w.of(other, Node.LEARNT))
    return b.and_(later, learnt)


def _floor_of(w: Records, entry: Any, node: Any) -> Any:
    """Up to which work-group a list has all that those before it released."""
    b = w.b
    floor = w.most(w.of(entry, Published.FLOOR), w.of(node, Node.FLOOR))
    group = w.of(node, Node.GROUP)
    words = known(w, w.state_, b.zext(group, I64))
    epoch = b.zext(w.of(node, Node.EPOCH), I64)
    last = b.icmp_unsigned("==", w.word(words, Known.LAST_EPOCH), epoch)
    bit = b.shl(I64(1), b.zext(b.and_(w.of(node, Node.WARP), I32(63)), I64))
    alone = b.icmp_unsigned("==", w.word(words, Known.LAST_WARPS), bit)
    ended = b.icmp_unsigned("!=", group, w.stamp)
    next_ = b.icmp_unsigned("==", b.add(floor, I32(1)), group)
    more = b.and_(b.and_(last, alone), b.and_(ended, next_))
    return b.add(floor, b.zext(more, I32))


def make_fence() -> Text:
    """A memory fence: what it covers is ordered by the next barrier.

    In global memory, a release fence lets the atomics after it release the accesses before it; an
    acquire fence acquires what the atomics before it have read.
    """
    w = Records(FENCE)
    b = w.b
    with b.if_then(w.has(Order.SLM)):
        w.note(Word.FENCED_SLM, I64(1))
    everywhere = w.has(Order.GLOBAL)
    with b.if_then(everywhere):
        w.note(Word.FENCED_GLOBAL, I64(1))
    between = b.and_(b.and_(everywhere, w.clean()), b.icmp_unsigned("<", w["scope"], I32(2)))
    with b.if_then(b.and_(between, w.acquires())):
        _acquire(w)
    with b.if_then(b.and_(between, w.releases())):
        cover(w, w.state_, w.release())
        w.note(Word.RELEASING, I64(1))
    b.ret_void()
    return w.text(), (NEW_RECORD, LEARN)


def _acquire(w: Records) -> None:
    """Acquire all that was read."""
    b = w.b
    with w.chain(w.index(Word.PENDING)) as (item, slot):
        entry = w.of(item, Item.ENTRY)
        w.call(LEARN, ir.VoidType(), [w["ctx"], entry])
        following = w.of(item, Item.NEXT)
        w.put(item, Item.NEXT, w.index(Word.FREE))
        w.note_index(Word.FREE, item)
        b.store(following, slot)
    w.note(Word.PENDING, I64(0))


def releases_before_barrier(w: Writer, state: Any) -> None:
    """After a barrier, what any subgroup has fenced before it, all of them may release."""
    b = w.b
    fenced = b.icmp_unsigned("!=", w.word(state, Word.RELEASING), I64(0))
    w.set_word(state, Word.RELEASING, I64(0))
    count = b.select(fenced, w.word(state, Word.SUBGROUPS), I64(0))
    with w.loop(I64(0), count) as k:
        cover(w, state, release_of(w, state, k))


def forget_releases(w: Writer, state: Any) -> None:
    """A new work-group begins: it has released and acquired nothing."""
    for word in (Word.EPOCH, Word.NOTED, Word.RELEASING, Word.PENDING, Word.FLOOR, Word.LEARNT,
                 Word.LEARNT_LIST, Word.PUSHED_NODE, Word.STEPS, Word.WITHIN, Word.ACQUIRED):
        w.set_word(state, word, I64(0))
    fences = w.pointer(state, Word.RELEASABLE)
    with w.loop(I64(0), w.word(state, Word.SUBGROUPS)) as k:
        w.set_word(fences, w.b.mul(k, I64(Release.WORDS)), I64(0))


MAKERS = {
    "fence": make_fence,
    "learn": make_learn,
    "publish": make_publish,
    "record": make_new_record,
    "sync": make_sync,
}
