"""The sanitizer's record of the releases and acquisitions of programs, location by location.

The memory model is that of C++ and LLVM, between work-groups ("programs"):

- a release publishes, at the location it writes, the accesses of its program and the releases that
  the program has acquired.  An atomic that reads the location and acquires gets them;
- a release is an atomic with that order, or a release fence and any later atomic write of the same
  subgroup;
- an acquire is an atomic with that order, or any atomic read and a later acquire fence; relaxed
  atomics alone order nothing;
- a read-modify-write keeps what is published and adds its own; a store of the same program keeps
  it.  An atomic or plain store of another program ends it;
- a release orders earlier accesses of its own subgroup, and the others' stores before the last
  barrier.  An acquisition of a subgroup is one of its whole work-group;
- fences and atomics of the scope of a work-group order nothing between work-groups.

Work-groups of most checked launches run to their end one after another, in the order of their
numbers.  That is one of the orders a device may choose.  So two accesses that this order leaves
without a chain of release and acquire are a race on a device too.  An access only counts as ordered
if its release was read.  Programs that wait for each other, take items of a queue, or are shuffled,
are interleaved, and use `clocks`.  The rest of this text is about the others.

All data are records of `FIELDS` 32-bit words, found by index; 0 is none.  The published releases of
a dword are a list of entries, the last release first.  A node is one release of one subgroup, with
the acquisitions of its work-group.  Each word of a tracked block has the index of its list in a
third shadow (`Entry.SYNC`).

An acquisition records which lists were read.  For atomics that publish a release themselves, these
are the lists after the entries that they created.  The lists are visited a few records at a time,
and as far as needed when an access of another work-group must be looked up.  Work-groups below a
floor need no visit, because all of their releases are known.  If a launch would visit more than
`MOST_STEPS` records per work-group, the current work-group counts as knowing all earlier releases.
That can only hide a race.
"""

from __future__ import annotations

from triton_xe.llvm import I8, I32, I64, integers
from triton_xe.llvm.values import Memory, Value, Variable
from triton_xe.runtime.simulator.sanitizer import cells, clocks
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.acquired import (
    count_acquisition,
    hold,
    is_acquired,
    knows_all,
    visited_soon,
    warp_bit,
)
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import (
    READS,
    WRITES,
    Entry,
    Item,
    Known,
    Node,
    Order,
    Published,
    Release,
    Word,
)

MADE_LATER = -1
"""Placeholder of a node that is created when it is first published."""


def _prepare(w: Checks, release: Memory) -> None:
    """Make the later atomic writes of a subgroup release its accesses up to now.

    The accesses after this point are of a new epoch, if there was one before it.  There is no floor
    if one subgroup has acquired from another of its own work-group.
    """
    state = w.state
    state[Word.EPOCH] += state[Word.ACCESSED]
    state[Word.ACCESSED] = 0
    alone = state[Word.WITHIN] == 0
    for word, value in (
        (Release.NODE, MADE_LATER), (Release.EPOCH, state[Word.EPOCH]),
        (Release.PHASE, state[Word.GLOBAL_PHASE] & cells.PHASE.most),
        (Release.ACQUIRED, w.select(
            w.clocked(), w.known(w.group)[Known.CLOCK], state[Word.ACQUIRED_LIST])),
        (Release.FLOOR, w.select(alone, state[Word.FLOOR], 0)),
        (Release.ACQUISITIONS, state[Word.ACQUISITIONS]),
    ):
        release[word] = value


def sync(
    w: Checks, ctx: Value, sg: Value, semantics: Value, address: Value, what: Value
) -> None:
    """Record an atomic on global memory after its execution: a read, a write, or both."""
    clocks.make_room(w)
    with w.when(w.clean() & w.in_order()):
        with w.when(~w.holds(w.block(w.state[Word.SYNC_ROW]), address)):
            w.call(s.SYNC_ROW, ctx, address)
        block = w.block(w.state[Word.SYNC_ROW])
        with w.when(block[Entry.SYNC] != 0):
            _synchronise(w, block, _list_at(w, block, address))


def sync_row(w: Checks, ctx: Value, address: Value) -> None:
    """Find the block of an atomic."""
    w.look_up(Word.SYNC_ROW, address)


def _list_at(w: Checks, block: Memory, address: Value) -> Memory:
    """Address of the list of a dword."""
    dword = address - (block[Entry.LOW] & -4) >> 2
    return Memory(w, (block[Entry.SYNC] + (dword << 2)).pointer(), I32)


def _synchronise(w: Checks, block: Memory, at: Memory) -> None:
    """Acquire what an atomic reads, and publish what it writes, at one location."""
    listed, what = at[0], w["what"]
    reads, writes = what.has(READS), what.has(WRITES)
    with w.when(reads & w.acquires() & (listed != 0)):
        w.call(s.ACQUIRE, w["ctx"], listed)
    node = w.variable(0, I32)
    with w.when(writes):
        with w.when(w.releases()):
            own = w.release(w.state[Word.SUBGROUPS])
            _prepare(w, own)
            node.value = _make_node(w, own)
        with w.otherwise():
            node.value = _fenced_node(w)
    after = w.call(s.PUBLISH, w["ctx"], listed, node.value, what, ~w.acquires())
    with w.when(writes):
        _put(w, block, at, after)


def _put(w: Checks, block: Memory, at: Memory, listed: Value) -> None:
    """Set the list of a location."""
    at[0] = listed
    page = at.base.integer() >> s.LIST_PAGE_BITS
    Memory(w, (page + block[Entry.PUBLISHED]).pointer(), I8)[0] = 1


def syncs(
    w: Checks, ctx: Value, sg: Value, addresses: Value, mask: Value, did: Value
) -> None:
    """Record relaxed atomics of the lanes of a subgroup, after their execution.

    `did` is the effect of all of them; 0 if each has recorded its own.
    """
    clocks.make_room(w)
    memory = w.in_memory(addresses)
    recorded = Memory(w, w.state.address(Word.DID), I8)
    row = w.variable(w.block(w.state[Word.SYNC_ROW]).base)
    released = w.release(sg.to(I64))[Release.NODE] != 0
    node = w.variable(0, I32)
    last, last_did, made = (w.variable(-1, I32) for _ in range(3))
    inside, listed_all, lists = _in_block(w, Memory(w, row.value))
    unlisted = inside & ((listed_all == 0) | ~mask).every()
    quiet = ~released & unlisted
    alike = inside & released & (did == READS | WRITES) & w.clean() & w.in_order() & ~w.clocked()
    with w.when(alike & ~knows_all(w, w.release(sg.to(I64))[Release.FLOOR])):
        _publish_all(w, Memory(w, row.value), listed_all, lists)
        w.ret()
    with w.each(w.select(w.clean() & w.in_order() & ~quiet, mask.bits, 0)) as k:
        address = memory[k]
        does = w.select(did != 0, did, recorded[k].to(I32))
        with w.when(~inside), w.when(w.unlikely(~w.holds(Memory(w, row.value), address))):
            w.call(s.SYNC_ROW, ctx, address)
            row.value = w.block(w.state[Word.SYNC_ROW]).base
        block = Memory(w, row.value)
        with w.when(block[Entry.SYNC] != 0):
            at = _list_at(w, block, address)
            listed = at[0]
            writes = does.has(WRITES)
            publishes = writes & released
            affects = publishes | (listed != 0)
            with w.when(publishes & (node.value == 0)):
                node.value = _fenced_node(w)
            with w.when(affects & ~((listed == last.value) & (does == last_did.value))):
                made.value = w.call(
                    s.PUBLISH, ctx, listed, w.select(writes, node.value, 0), does, 1)
                last.value, last_did.value = listed, does
            with w.when(writes & affects):
                _put(w, block, at, made.value)


def _publish_all(w: Checks, block: Memory, listed: Value, lists: Value) -> None:
    """Do `PUBLISH` for all active lanes at once."""
    state, mask, lanes = w.state, w["mask"], listed.type.count
    node, older = _fenced_node(w), (listed != 0) & mask
    some = older.bits != 0
    state[Word.READ_OWN] |= (((listed >= w.index(Word.OWN_RECORDS)) & older).bits != 0).to(I64)
    with w.when(some & (state[Word.READ_END] != state[Word.RECORDS_USED])):
        _end_range(w)
        state[Word.READ_FIRST] = state[Word.RECORDS_USED]
    first = w.pool.reserve(w.select(some, lanes + 1, 1))
    w.pool.write(first, {Published.NODE: node})
    with w.when(some):
        for k in range(lanes):
            w.pool.write(first + k + 1, {Published.NODE: node, Published.NEXT: listed[k]})
        state[Word.READ_END] = first + lanes + 1
    steps = Value(w, integers(I32, range(1, lanes + 1)))
    w.scatter(w.select(older, steps, 0) + first, lists, mask)
    with w.when(state[Word.CLOCKS] != 0):
        pages = (lists.integer() >> s.LIST_PAGE_BITS) + block[Entry.PUBLISHED]
        w.scatter(w.spread(w.term(1, I8), lanes), pages.pointer(), mask)


def _in_block(w: Checks, block: Memory) -> tuple[Value, Value, Value]:
    """True if all active lanes are in a block with lists; the lists, and their addresses.

    All are loaded at once, so that they are in the processor's caches when each lane needs its own.
    """
    addresses, mask, lists = w["addresses"], w["mask"], block[Entry.SYNC]
    inside = w.holds(block, addresses)
    dwords = addresses - (block[Entry.LOW] & -4) & -4
    places = (dwords + lists).pointer()
    listed = w.gather(I32, places, inside & mask & (lists != 0))
    return (inside | ~mask).every() & (lists != 0), listed, places


def _read(w: Checks, listed: Value) -> None:
    """Note a list that a later acquire fence acquires."""
    waits = w.pool[listed, Published.PENDING] == w.stamp
    with w.when(~(is_acquired(w, listed) | waits)):
        w.pool[listed, Published.PENDING] = w.stamp
        _record_own(w, listed)
        item = w.variable(w.index(Word.FREE))
        with w.when(item.value != 0):
            w.state[Word.FREE] = w.pool[item.value, Item.NEXT]
        with w.otherwise():
            item.value = w.pool.new({})
        w.pool[item.value, Item.ENTRY] = listed
        w.pool[item.value, Item.END] = 0
        w.pool[item.value, Item.NEXT] = w.index(Word.PENDING)
        w.state[Word.PENDING] = item.value


def _record_own(w: Checks, listed: Value) -> None:
    w.state[Word.READ_OWN] |= w.is_own(listed).to(I64)


def _read_before(w: Checks, entry: Value, rest: Value) -> None:
    """Note the rest of the list after a new entry, which a later acquire fence acquires."""
    _record_own(w, rest)
    with w.when(entry != w.index(Word.READ_END)):
        _end_range(w)
        w.state[Word.READ_FIRST] = entry
    w.state[Word.READ_END] = entry + 1


def _end_range(w: Checks) -> None:
    """Add a range of consecutive entries, if there is one, to the list of noted reads."""
    with w.when(w.state[Word.READ_END] != 0):
        w.state[Word.PENDING] = w.pool.new({
            Item.ENTRY: w.index(Word.READ_FIRST), Item.END: w.index(Word.READ_END),
            Item.NEXT: w.index(Word.PENDING)})
    w.state[Word.READ_END] = 0


def _fenced_node(w: Checks) -> Value:
    """The node of the last release fence of the subgroup; 0 without one."""
    release = w.release(w["sg"].to(I64))
    with w.when(release[Release.NODE].compare("slt", 0)):
        release[Release.NODE] = _make_node(w, release)
    return release[Release.NODE].to(I32)


def _make_node(w: Checks, release: Memory) -> Value:
    """Create the node of a release that is about to be published."""
    known = w.known(w.group)
    known[Known.LAST_EPOCH] = w.largest(known[Known.LAST_EPOCH], release[Release.EPOCH])
    known[Known.LAST_WARPS] |= warp_bit(w["sg"])
    made = w.variable(0, I32)
    with w.when(w.clocked()):
        made.value = w.call(s.STAMP, w["ctx"], w["sg"], release.base)
    with w.otherwise():
        made.value = _make_record(w, release)
    return made.value


def _make_record(w: Checks, release: Memory) -> Value:
    same = ("EPOCH", "PHASE", "ACQUIRED", "FLOOR", "ACQUISITIONS")
    return w.pool.new({**{Node[n]: release[Release[n]].to(I32) for n in same},
                       Node.GROUP: w.stamp, Node.WARP: w["sg"]})


def publish(
    w: Checks, ctx: Value, listed: Value, node: Value, what: Value, waits: Value
) -> Value:
    """List of a location after an atomic, which does `what` and releases `node`, or 0.

    `waits`: a later acquire fence acquires the list that it reads.
    """
    pool = w.pool
    reads = what.has(READS)
    with w.when(w.clocked()):
        w.ret(clocks.published(w, listed, node, reads, what.has(WRITES), waits))
    with w.when(w.unlikely(node == 0)):
        with w.when(reads & waits & (listed != 0)):
            _read(w, listed)
        keeps = reads | ~what.has(WRITES) | w.is_own(listed)
        w.ret(w.select(keeps, listed, 0))
    tail = w.select(reads, listed, 0)
    rest = w.variable(tail)
    with w.when(w.is_own(tail)):
        holder = pool[tail, Published.NODE]
        mine = pool[holder, Node.WARP] == pool[node, Node.WARP]
        with w.when(mine & _newer(w, holder, node)):
            w.ret(tail)
        rest.value = w.select(mine, pool[tail, Published.NEXT], tail)
    all_known = knows_all(w, pool[node, Node.FLOOR].to(I64))
    with w.when(all_known & ~w.is_own(rest.value)):
        rest.value = 0
    entry = pool.new({Published.NODE: node, Published.NEXT: rest.value,
                      Published.FLOOR: _floor_of(w, rest.value)})
    with w.when(waits & (rest.value != 0)):
        _read_before(w, entry, rest.value)
    return entry


def _newer(w: Checks, node: Value, other: Value) -> Value:
    """True if a release of one subgroup is not before another."""
    epoch, phase, acquisitions = ((w.pool[node, field], w.pool[other, field])
                                  for field in (Node.EPOCH, Node.PHASE, Node.ACQUISITIONS))
    later = (epoch[0] > epoch[1]) | (epoch[0] == epoch[1]) & (phase[0] == phase[1])
    return later & (acquisitions[0] >= acquisitions[1])


def _floor_of(w: Checks, rest: Value) -> Value:
    """Number of leading work-groups all of whose releases are in an entry's rest of a list.

    Complete lists grow work-group by work-group; older entries are not worth the search.
    """
    floor = w.variable(0, I32)
    with w.when(rest >= w.index(Word.LATE_RECORDS)):
        node = w.pool[rest, Published.NODE]
        group = w.pool[node, Node.GROUP]
        floor.value = w.largest(w.pool[rest, Published.FLOOR], w.pool[node, Node.FLOOR])
        with w.when((floor.value + 1 == group) & (group != w.stamp)):
            _count_ended(w, node, group, floor)
    return floor.value


def _count_ended(w: Checks, node: Value, group: Value, floor: Variable) -> None:
    """Raise a floor to a work-group that has ended, if the node is its only release."""
    known = w.known(group.to(I64))
    last = known[Known.LAST_EPOCH] == w.pool[node, Node.EPOCH].to(I64)
    alone = known[Known.LAST_WARPS] == warp_bit(w.pool[node, Node.WARP])
    floor.value = w.select(last & alone, group, floor.value)


def fence(w: Checks, ctx: Value, sg: Value, scope: Value, semantics: Value) -> None:
    """Record a memory fence: the next barrier orders the accesses that it fences.

    In global memory, a release fence makes later atomics release the accesses before it.  An
    acquire fence acquires the lists that atomics before it have read.
    """
    with w.when(w.has(Order.SLM)):
        w.state[Word.FENCED_SLM] = 1
    everywhere = w.has(Order.GLOBAL)
    with w.when(everywhere):
        w.state[Word.FENCED_GLOBAL] = 1
    clocks.make_room(w)
    between = everywhere & w.clean() & w.in_order() & (scope < 2)
    with w.when(between & w.acquires()):
        _acquire_read(w)
    with w.when(between & w.releases()):
        _prepare(w, w.release(sg.to(I64)))
        w.state[Word.RELEASING] = 1


def _acquire_read(w: Checks) -> None:
    """Acquire all noted reads."""
    with w.when(w.clocked()):
        clocks.acquire_read(w)
    with w.otherwise():
        _acquire_records(w)


def _acquire_records(w: Checks) -> None:
    """Acquire all entries that atomics have read since the last acquire fence."""
    own = w.state[Word.READ_OWN] != 0
    some = (w.state[Word.PENDING] != 0) | (w.state[Word.READ_END] != 0)
    news = own | ~knows_all(w, w.state[Word.FLOOR])
    with w.when(some & news), visited_soon(w):
        _end_range(w)
        count_acquisition(w, own)
        with w.chain(w.index(Word.PENDING)) as (item, slot):
            slot.value = w.pool[item, Item.NEXT]
            hold(w, item)
    with w.chain(w.select(news, 0, w.index(Word.PENDING))) as (item, slot):
        slot.value = w.pool[item, Item.NEXT]
        w.pool[item, Item.NEXT] = w.index(Word.FREE)
        w.state[Word.FREE] = item
    for word in (Word.PENDING, Word.READ_END, Word.READ_OWN):
        w.state[word] = 0


def releases_before_barrier(w: Checks) -> None:
    """After a barrier, let all subgroups release accesses that any of them fenced before."""
    fenced = w.state[Word.RELEASING] != 0
    w.state[Word.RELEASING] = 0
    with w.range(0, w.select(fenced, w.state[Word.SUBGROUPS], 0)) as k:
        _prepare(w, w.release(k))


_OF_A_GROUP = (
    Word.EPOCH, Word.ACCESSED, Word.RELEASING, Word.PENDING, Word.FLOOR, Word.ACQUISITIONS,
    Word.ACQUIRED_LIST, Word.WITHIN, Word.ACQUIRED, Word.READ_END, Word.READ_OWN,
    Word.ENTRIES, Word.ITEMS, Word.RANGE_AT, Word.RANGE_LAST, Word.UNVISITED)


def forget_releases(w: Checks) -> None:
    """Begin a new work-group, without releases or acquisitions."""
    for word in _OF_A_GROUP:
        w.state[word] = 0
    w.state[Word.LATE_RECORDS] = w.state[Word.OWN_RECORDS]
    w.state[Word.OWN_RECORDS] = w.state[Word.RECORDS_USED]
    w.state[Word.BEGUN] = w.largest(w.state[Word.BEGUN], w.group + 1)
    with w.range(0, w.state[Word.SUBGROUPS]) as k:
        w.release(k)[Release.NODE] = 0
