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
(`Entry.SYNC`).

To acquire is to note which lists were read; for atomics that publish something themselves, those
are what follows the entries that they made.  The lists are walked a few records at a time, and as
far as it takes when an access of another work-group must be looked up.  What is below a floor need
not be walked: there, all that was released is known.  Where a launch would walk more than
`MOST_STEPS` records per work-group, the one that does counts as knowing all that was released
before it, which only ever hides a race.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from llvmlite import ir

from triton_xe.runtime.simulator.sanitizer.acquired import (
    SOON,
    acquires_more,
    hold,
    is_held,
    knows_all,
    make_learn,
    make_walk,
)
from triton_xe.runtime.simulator.sanitizer.records import (
    READS,
    WRITES,
    Item,
    Known,
    Node,
    Published,
    Records,
    Release,
    known,
    make_full,
    release_of,
)
from triton_xe.runtime.simulator.sanitizer.state import (
    FENCE,
    FIND,
    FULL,
    I1,
    I8,
    I32,
    I64,
    LEARN,
    PHASE_MOST,
    PTR,
    PUBLISH,
    SYNC,
    SYNC_ROW,
    WALK,
    Entry,
    Order,
    Text,
    Word,
    Writer,
    block_of,
    sync_lanes_name,
)

MADE_LATER = -1
"""In place of a node that is made when it is first published."""


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


def make_sync() -> Text:
    """An atomic on global memory, just done: reads what is published there, writes, or both."""
    w = Records(SYNC)
    b = w.b
    with b.if_then(w.clean()):
        block = block_of(w, w.state_, w.now(Word.SYNC_ROW))
        with b.if_then(_is_away(w, block, w["address"])):
            w.call(SYNC_ROW, ir.VoidType(), [w["ctx"], w["address"]])
        block = block_of(w, w.state_, w.now(Word.SYNC_ROW))
        with b.if_then(w.some(w.word(block, Entry.SYNC))):
            _synchronise(w, _place(w, block, w["address"]))
    b.ret_void()
    return w.text(), (FULL, LEARN, PUBLISH, SYNC_ROW)


def make_sync_row() -> Text:
    """Look up the block that an atomic was in."""
    w = Records(SYNC_ROW)
    found = w.call(FIND, I64, [w["ctx"], w["address"]])
    here = w.b.icmp_signed(">=", found, I64(0))
    w.note(Word.SYNC_ROW, w.b.select(here, found, w.now(Word.EMPTY_ROW)))
    w.b.ret_void()
    return w.text(), (FIND,)


def _is_away(w: Writer, block: Any, address: Any) -> Any:
    b = w.b
    return b.or_(b.icmp_unsigned("<", address, w.word(block, Entry.LOW)),
                 b.icmp_unsigned(">=", address, w.word(block, Entry.HIGH)))


def _place(w: Writer, block: Any, address: Any) -> Any:
    """Where the list of a dword is."""
    b = w.b
    low = b.and_(w.word(block, Entry.LOW), I64(-4))
    dword = b.lshr(b.sub(address, low), I64(2))
    return b.inttoptr(b.add(w.word(block, Entry.SYNC), b.shl(dword, I64(2))), PTR)


def _synchronise(w: Records, at: Any) -> None:
    b = w.b
    listed = b.load(at, typ=I32)
    reads, writes = (w.some(b.and_(w["what"], I32(bit))) for bit in (READS, WRITES))
    with b.if_then(b.and_(b.and_(reads, w.acquires()), w.some(listed))):
        w.call(LEARN, ir.VoidType(), [w["ctx"], listed])
    node = w.variable(I32(0))
    with b.if_then(writes), b.if_else(w.releases()) as (itself, fenced):
        with itself:
            own = release_of(w, w.state_, w.now(Word.SUBGROUPS))
            cover(w, w.state_, own)
            b.store(_make_node(w, own), node)
        with fenced:
            b.store(_fenced_node(w), node)
    arguments = [w["ctx"], listed, w.get(node), w["what"], b.not_(w.acquires())]
    after = w.call(PUBLISH, I32, arguments)
    with b.if_then(writes):
        b.store(after, at)


def make_syncs(lanes: int) -> Text:
    """Atomics without an order of their own, just done by the lanes of a subgroup.

    `did` is what all of them did; 0 if each has noted that.
    """
    vector, masks = ir.VectorType(I64, lanes), ir.VectorType(I1, lanes)
    w = Records(sync_lanes_name(lanes), (ir.VoidType(), [
        ("ctx", PTR), ("sg", I32), ("addresses", vector), ("mask", masks), ("did", I32)]))
    b = w.b
    memory = w.space(vector)
    b.store(w["addresses"], memory)
    noted = b.gep(w.state_, [I64(8 * Word.DID)], source_etype=I8)
    block = w.variable(block_of(w, w.state_, w.now(Word.SYNC_ROW)))
    released = b.icmp_unsigned("!=", w.word(w.release(), Release.NODE), I64(0))
    node = w.variable(I32(0))
    last, last_did, made = (w.variable(I32(-1)) for _ in range(3))
    bits = ir.IntType(lanes)
    quiet = b.and_(b.not_(released), _nothing_listed(w, lanes, w.get(block)))
    active = b.select(b.and_(w.clean(), b.not_(quiet)), b.bitcast(w["mask"], bits), bits(0))
    with w.chain(active) as (rest, slot):
        k = b.zext(b.cttz(rest, I1(1)), I64)
        b.store(b.and_(rest, b.sub(rest, rest.type(1))), slot)
        address = w.word(memory, k)
        own = b.zext(w.word(noted, k, I8), I32)
        did = b.select(w.some(w["did"]), w["did"], own)
        with b.if_then(_is_away(w, w.get(block), address), likely=False):
            w.call(SYNC_ROW, ir.VoidType(), [w["ctx"], address])
            b.store(block_of(w, w.state_, w.now(Word.SYNC_ROW)), block)
        places = w.word(w.get(block), Entry.SYNC)
        with b.if_then(w.some(places)):
            at = _place(w, w.get(block), address)
            listed = b.load(at, typ=I32)
            writes = w.some(b.and_(did, I32(WRITES)))
            publishes = b.and_(writes, released)
            again = b.and_(b.icmp_unsigned("==", listed, w.get(last)),
                           b.icmp_unsigned("==", did, w.get(last_did)))
            with b.if_then(b.and_(publishes, b.not_(w.some(w.get(node))))):
                b.store(_fenced_node(w), node)
            with b.if_then(b.and_(b.or_(publishes, w.some(listed)), b.not_(again))):
                given = b.select(writes, w.get(node), I32(0))
                arguments = [w["ctx"], listed, given, did, I1(1)]
                b.store(w.call(PUBLISH, I32, arguments), made)
                b.store(listed, last)
                b.store(did, last_did)
            changes = b.and_(writes, b.or_(publishes, w.some(listed)))
            with b.if_then(changes):
                b.store(w.get(made), at)
    b.ret_void()
    return w.text(), (FULL, PUBLISH, SYNC_ROW)


def _nothing_listed(w: Records, lanes: int, block: Any) -> Any:
    """Whether the active lanes are all in a block, where nothing is published at their places.

    All places are read at once: the processor has them, then, when each lane needs its own.
    """
    b, longs = w.b, ir.VectorType(I64, lanes)
    words, pointers = ir.VectorType(I32, lanes), ir.VectorType(PTR, lanes)

    def spread(value: Any) -> Any:
        one = b.insert_element(ir.Constant(longs, ir.Undefined), value, I32(0))
        return b.shuffle_vector(one, one, ir.Constant(words, [0] * lanes))

    low, high = w.word(block, Entry.LOW), w.word(block, Entry.HIGH)
    inside = b.and_(b.icmp_unsigned(">=", w["addresses"], spread(low)),
                    b.icmp_unsigned("<", w["addresses"], spread(high)))
    lists = w.word(block, Entry.SYNC)
    here = b.and_(b.and_(inside, w["mask"]), b.icmp_unsigned("!=", spread(lists), spread(I64(0))))
    offsets = b.sub(w["addresses"], spread(b.and_(low, I64(-4))))
    dwords = b.and_(offsets, ir.Constant(longs, [-4] * lanes))
    at = b.inttoptr(b.add(spread(lists), dwords), pointers)
    none = ir.Constant(words, [0] * lanes)
    name = f"llvm.masked.gather.v{lanes}i32.v{lanes}p0"
    listed = w.call(name, words, [at, here, none])
    empty = b.and_(inside, b.icmp_unsigned("==", listed, none))
    idle = b.bitcast(b.or_(empty, b.not_(w["mask"])), ir.IntType(lanes))
    return b.icmp_signed("==", idle, idle.type(-1))


def _read(w: Records, listed: Any) -> None:
    """A later acquire fence acquires it."""
    b = w.b
    waits = b.icmp_unsigned("==", w.of(listed, Published.PENDING), w.stamp)
    with b.if_then(b.not_(b.or_(is_held(w, listed), waits))):
        w.put(listed, Published.PENDING, w.stamp)
        _note_own(w, listed)
        slot = w.variable(w.index(Word.FREE))
        with b.if_else(w.some(w.get(slot))) as (again, fresh):
            with again:
                w.note_index(Word.FREE, w.of(w.get(slot), Item.NEXT))
            with fresh:
                b.store(w.new({}), slot)
        item = w.get(slot)
        w.put(item, Item.ENTRY, listed)
        w.put(item, Item.END, I32(0))
        w.put(item, Item.NEXT, w.index(Word.PENDING))
        w.note_index(Word.PENDING, item)


def _note_own(w: Records, listed: Any) -> None:
    own = w.b.zext(w.is_own(listed), I64)
    w.note(Word.READ_OWN, w.b.or_(w.now(Word.READ_OWN), own))


def _read_before(w: Records, entry: Any, rest: Any) -> None:
    """A later acquire fence acquires what follows an entry just made."""
    b = w.b
    _note_own(w, rest)
    follows = b.icmp_unsigned("==", entry, w.index(Word.READ_END))
    with b.if_then(b.not_(follows)):
        _end_range(w)
        w.note_index(Word.READ_FIRST, entry)
    w.note_index(Word.READ_END, b.add(entry, I32(1)))


def _end_range(w: Records) -> None:
    """Put entries that follow one another, if there are any, into the list of what was read."""
    with w.b.if_then(w.some(w.now(Word.READ_END))):
        w.note_index(Word.PENDING, w.new({
            Item.ENTRY: w.index(Word.READ_FIRST), Item.END: w.index(Word.READ_END),
            Item.NEXT: w.index(Word.PENDING)}))
    w.note(Word.READ_END, I64(0))


def _fenced_node(w: Records) -> Any:
    """The node of the last release fence of the subgroup; 0 without one."""
    release = w.release()
    late = w.b.icmp_signed("<", w.word(release, Release.NODE), I64(0))
    with w.b.if_then(late):
        w.set_word(release, Release.NODE, w.b.zext(_make_node(w, release), I64))
    return w.b.trunc(w.word(release, Release.NODE), I32)


def _make_node(w: Records, release: Any) -> Any:
    """The node of a release, which is about to be published."""
    b = w.b
    fields: dict[IntEnum, Any] = {
        field: b.trunc(w.word(release, word), I32) for field, word in (
            (Node.EPOCH, Release.EPOCH), (Node.PHASE, Release.PHASE),
            (Node.ACQUIRED, Release.ACQUIRED), (Node.FLOOR, Release.FLOOR),
            (Node.LEARNT, Release.LEARNT))
    }
    node = w.new({**fields, Node.GROUP: w.stamp, Node.WARP: w["sg"]})
    words = known(w, w.state_, w.group)
    last = w.most(w.word(words, Known.LAST_EPOCH), w.word(release, Release.EPOCH))
    w.set_word(words, Known.LAST_EPOCH, last)
    bit = b.shl(I64(1), b.zext(b.and_(w["sg"], I32(63)), I64))
    w.set_word(words, Known.LAST_WARPS, b.or_(w.word(words, Known.LAST_WARPS), bit))
    return node


def make_publish() -> Text:
    """What is published at a place after an atomic, which does `what` and releases `node`, or 0.

    `waits`: a later acquire fence acquires what it reads.
    """
    w = Records(PUBLISH)
    b = w.b
    listed, node = w["listed"], w["node"]
    reads, writes = (w.some(b.and_(w["what"], I32(bit))) for bit in (READS, WRITES))
    with b.if_then(b.not_(w.some(node)), likely=False):
        with b.if_then(b.and_(b.and_(reads, w["waits"]), w.some(listed))):
            _read(w, listed)
        keeps = b.or_(b.or_(reads, b.not_(writes)), w.is_own(listed))
        b.ret(b.select(keeps, listed, I32(0)))
    tail = b.select(reads, listed, I32(0))
    rest = w.variable(tail)
    with b.if_then(w.is_own(tail)):
        holder = w.of(tail, Published.NODE)
        mine = b.icmp_unsigned("==", w.of(holder, Node.WARP), w.of(node, Node.WARP))
        with b.if_then(b.and_(mine, _newer(w, holder, node))):
            b.ret(tail)
        b.store(b.select(mine, w.of(tail, Published.NEXT), tail), rest)
    all_known = knows_all(w, b.zext(w.of(node, Node.FLOOR), I64))
    with b.if_then(b.and_(all_known, b.not_(w.is_own(w.get(rest))))):
        b.store(I32(0), rest)
    same = b.and_(b.icmp_unsigned("==", w.index(Word.PUSHED_NODE), node),
                  b.icmp_unsigned("==", w.index(Word.PUSHED_ON), w.get(rest)))
    with b.if_then(same):
        b.ret(w.index(Word.PUSHED))
    entry = w.new({Published.NODE: node, Published.NEXT: w.get(rest),
                   Published.FLOOR: _floor_of(w, w.get(rest))})
    with b.if_then(b.and_(w["waits"], w.some(w.get(rest)))):
        _read_before(w, entry, w.get(rest))
    for word, value in ((Word.PUSHED_NODE, node), (Word.PUSHED_ON, w.get(rest)),
                        (Word.PUSHED, entry)):
        w.note_index(word, value)
    b.ret(entry)
    return w.text(), (FULL,)


def _newer(w: Records, node: Any, other: Any) -> Any:
    """Whether a release of one subgroup is not before another."""
    b = w.b
    epochs = [w.of(n, Node.EPOCH) for n in (node, other)]
    phase = b.icmp_unsigned("==", w.of(node, Node.PHASE), w.of(other, Node.PHASE))
    later = b.or_(b.icmp_unsigned(">", *epochs), b.and_(b.icmp_unsigned("==", *epochs), phase))
    learnt = b.icmp_unsigned(">=", w.of(node, Node.LEARNT), w.of(other, Node.LEARNT))
    return b.and_(later, learnt)


def _floor_of(w: Records, rest: Any) -> Any:
    """Up to which work-group an entry before the rest of a list has all that was released.

    Lists grow work-group by work-group if they have all; older ones are not worth the look.
    """
    b = w.b
    floor = w.variable(I32(0))
    recent = b.icmp_unsigned(">=", rest, w.index(Word.LATE_RECORDS))
    with b.if_then(recent):
        node = w.of(rest, Published.NODE)
        group = w.of(node, Node.GROUP)
        b.store(w.most(w.of(rest, Published.FLOOR), w.of(node, Node.FLOOR)), floor)
        next_ = b.icmp_unsigned("==", b.add(w.get(floor), I32(1)), group)
        _count_ended(w, node, b.and_(next_, b.icmp_unsigned("!=", group, w.stamp)), floor)
    return w.get(floor)


def _count_ended(w: Records, node: Any, which: Any, floor: Any) -> None:
    """Raise a floor to a work-group that has ended, if the node is all it released."""
    b = w.b
    with b.if_then(which):
        group = w.of(node, Node.GROUP)
        words = known(w, w.state_, b.zext(group, I64))
        epoch = b.zext(w.of(node, Node.EPOCH), I64)
        last = b.icmp_unsigned("==", w.word(words, Known.LAST_EPOCH), epoch)
        bit = b.shl(I64(1), b.zext(b.and_(w.of(node, Node.WARP), I32(63)), I64))
        alone = b.icmp_unsigned("==", w.word(words, Known.LAST_WARPS), bit)
        b.store(b.select(b.and_(last, alone), group, w.get(floor)), floor)


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
    return w.text(), (FULL, WALK)


def _acquire(w: Records) -> None:
    """Acquire all that was read."""
    b = w.b
    own = w.some(w.now(Word.READ_OWN))
    some = b.or_(w.some(w.now(Word.PENDING)), w.some(w.now(Word.READ_END)))
    news = b.or_(own, b.not_(knows_all(w, w.now(Word.FLOOR))))
    with b.if_then(b.and_(some, news)):
        walked = b.not_(w.some(w.now(Word.UNWALKED)))
        _end_range(w)
        acquires_more(w, own)
        with w.chain(w.index(Word.PENDING)) as (item, slot):
            b.store(w.of(item, Item.NEXT), slot)
            hold(w, item)
        with b.if_then(walked):
            w.call(WALK, ir.VoidType(), [w["ctx"], I64(SOON)])
    with w.chain(b.select(news, I32(0), w.index(Word.PENDING))) as (item, slot):
        b.store(w.of(item, Item.NEXT), slot)
        w.put(item, Item.NEXT, w.index(Word.FREE))
        w.note_index(Word.FREE, item)
    for word in (Word.PENDING, Word.READ_END, Word.READ_OWN):
        w.note(word, I64(0))


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
                 Word.LEARNT_LIST, Word.PUSHED_NODE, Word.WITHIN, Word.ACQUIRED, Word.READ_END,
                 Word.READ_OWN, Word.ENTRIES, Word.ITEMS, Word.RANGE_AT, Word.RANGE_LAST,
                 Word.UNWALKED):
        w.set_word(state, word, I64(0))
    w.set_word(state, Word.LATE_RECORDS, w.word(state, Word.OWN_RECORDS))
    w.set_word(state, Word.OWN_RECORDS, w.word(state, Word.RECORDS_USED))
    fences = w.pointer(state, Word.RELEASABLE)
    with w.loop(I64(0), w.word(state, Word.SUBGROUPS)) as k:
        w.set_word(fences, w.b.mul(k, I64(Release.WORDS)), I64(0))


MAKERS = {
    "fence": make_fence,
    "full": make_full,
    "learn": make_learn,
    "publish": make_publish,
    "sync": make_sync,
    "row": make_sync_row,
    "walk": make_walk,
}
