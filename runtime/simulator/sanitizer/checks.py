"""The sanitizer's run-time checks, as LLVM functions: bounds, alignment, first use, races.

State of a launch (`Word`, 64-bit words, see `shadow.LaunchState`) is reached through word 12 of the
work-group's context.  Work-groups of a checked launch run one after another on one thread.

A tracked block has two cells of 64 bits per dword of memory, the last write and the last read:
bits 0-3 bytes, 4 atomic, 5-17 release epoch, 18-35 barrier phase, 36-42 subgroup, 43-63 group + 1.
Two accesses of one dword race when one writes, they share bytes, not both are atomic, and

- in one work-group: other subgroup, same phase (no barrier with the right fence between; a store to
  global memory after a load needs a barrier of any kind, by which the loaded value has arrived);
- in two work-groups: the second has not acquired what the first released after its access
  (`library_sanitizer_sync`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from triton_xe.runtime.simulator.library.names import STOPPED
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer.acquired import has_acquired
from triton_xe.runtime.simulator.sanitizer.lists import (
    joined_in_group,
    list_of,
    make_join,
    reader_of,
)
from triton_xe.runtime.simulator.sanitizer.records import publisher
from triton_xe.runtime.simulator.sanitizer.state import (
    ATOMIC,
    BARRIER,
    CHECK_BLOCK,
    CHECK_ONE,
    CLASH,
    EPOCH,
    EPOCH_MOST,
    ERROR_WORD,
    FIND,
    GROUP,
    GROUP_WORD,
    I1,
    I8,
    I32,
    I64,
    JOIN,
    MERGE,
    MISS,
    NEW_GROUP,
    NON_FINITE,
    PHASE,
    PHASE_MOST,
    PTR,
    SEVERAL,
    SEVERAL_GROUPS,
    SUBGROUP,
    UNDEFINED,
    WALK,
    Code,
    Entry,
    Kind,
    Order,
    Text,
    Word,
    Writer,
    block_of,
    start,
    try_lanes_name,
)
from triton_xe.runtime.simulator.sanitizer.sync import (
    MAKERS,
    forget_releases,
    make_syncs,
    releases_before_barrier,
)


def _report(w: Writer, code: Code, entry: Any, *other: Any) -> None:
    rest = list(other) or [I64(0), I64(0), I64(0)]
    access = [w[n] for n in ("ctx", "sg", "site", "lane")]
    tail = [w[n] for n in ("address", "size", "kind")]
    w.call("xe_san_report", ir.VoidType(), [*access, entry, *tail, I64(code), *rest])


def _make_report() -> Text:
    """Note the first fault of a launch in the error record."""
    w = start("xe_san_report")
    error = w.pointer(w["ctx"], ERROR_WORD)
    first = w.b.icmp_unsigned("==", w.word(error, 0), I64(0))
    with w.b.if_then(first):
        for k, name in enumerate(("site", "address", "size", "kind", "entry", "sg", "lane")):
            value = w[name]
            value = value if value.type == I64 else w.b.sext(value, I64)
            w.set_word(error, 1 + k, value)
        w.set_word(error, 8, w.word(w["ctx"], GROUP_WORD))
        for k, name in enumerate(("other", "other_site", "other_writes")):
            w.set_word(error, 9 + k, w[name])
        w.set_word(error, 0, w["code"])
    w.b.ret_void()
    return w.text(), ()


def _make_find() -> Text:
    """The entry that holds an address; asks the host once for a new block; -1 when none does."""
    w = start(FIND)
    state = w.state()
    found = w.variable(I64(-1))
    end = w.word(state, Word.SEARCH_END)
    with w.loop(w.word(state, Word.FIRST_SEARCHED), end) as k:
        block = block_of(w, state, k)
        low, high = w.word(block, Entry.LOW), w.word(block, Entry.HIGH)
        inside = w.b.and_(w.b.icmp_unsigned(">=", w["address"], low),
                          w.b.icmp_unsigned("<", w["address"], high))
        with w.b.if_then(inside):
            w.b.store(k, found)
    with w.b.if_then(w.b.icmp_signed("<", w.get(found), I64(0))):
        w.b.store(w.call(MISS, I64, [w["address"]]), found)
    w.b.ret(w.get(found))
    return w.text(), ()


def _make_one() -> Text:
    """Check one range of bytes; true when the access may happen."""
    w = start(CHECK_ONE)
    b = w.b
    result = w.variable(I1(1))
    state = w.state()
    error = w.pointer(w["ctx"], ERROR_WORD)
    clean = b.icmp_unsigned("==", w.word(error, 0), I64(0))
    with b.if_then(b.and_(w["active"], b.not_(clean))):
        arguments = [w["ctx"], w["sg"], b.zext(w["site"], I64)]
        w.call(STOPPED, ir.VoidType(), arguments)
        b.store(I1(0), result)
    with b.if_then(b.and_(w["active"], clean)):
        scalar = b.and_(w["kind"], I64(Kind.SCALAR))
        small = b.icmp_unsigned("<=", w["size"], I64(8))
        with b.if_then(b.and_(small, b.icmp_unsigned("==", scalar, I64(0)))):
            address = ir.Constant(ir.VectorType(I64, 1), ir.Undefined)
            arguments = [*(w[n] for n in ("ctx", "sg", "site", "entry")),
                         b.insert_element(address, w["address"], I32(0)), w["size"], w["kind"],
                         ir.Constant(ir.VectorType(I1, 1), [1])]
            with b.if_then(w.call(try_lanes_name(1), I1, arguments)):
                b.ret(I1(1))
        align = b.sub(b.lshr(w["kind"], I64(8)), I64(1))
        odd = b.icmp_unsigned("!=", b.and_(w["address"], align), I64(0))
        entry = w.variable(w["entry"])
        slm = b.icmp_unsigned("!=", b.and_(w["kind"], I64(Kind.SLM)), I64(0))
        unknown = b.and_(b.icmp_signed("<", w["entry"], I64(0)), b.not_(slm))
        with b.if_then(unknown):
            arguments = [w["ctx"], w["address"]]
            b.store(w.call(FIND, I64, arguments), entry)
        index = w.get(entry)
        missing = b.and_(b.icmp_signed("<", index, I64(0)), b.not_(slm))
        slot = b.select(slm, w.word(state, Word.SLM_ENTRY), b.select(missing, I64(0), index))
        block = block_of(w, state, slot)
        low = b.icmp_unsigned("<", w["address"], w.word(block, Entry.LOW))
        end = b.add(w["address"], w["size"])
        high = b.icmp_unsigned(">", end, w.word(block, Entry.HIGH))
        wrong = b.or_(b.or_(low, high), missing)
        with b.if_then(wrong):
            _report(w, Code.BOUNDS, index)
            b.store(I1(0), result)
        with b.if_then(b.and_(odd, b.not_(wrong))):
            _report(w, Code.ALIGNMENT, index)
            b.store(I1(0), result)
        cells = w.word(block, Entry.WRITES)
        tracked = b.icmp_unsigned("!=", cells, I64(0))
        with b.if_then(b.and_(tracked, w.get(result))):
            names = ("ctx", "sg", "site", "lane")
            arguments = [*(w[n] for n in names), block,
                         *(w[n] for n in ("address", "size", "kind"))]
            b.store(w.call("xe_san_track", I1, arguments), result)
    b.ret(w.get(result))
    return w.text(), (FIND, "xe_san_report", "xe_san_track", STOPPED, try_lanes_name(1))


def _conflict(
    w: Writer, state: Any, old: Any, new: Any, slm: Any, since: Any, *, reads: Any
) -> Any:
    """Whether an earlier access, which only `reads` or not, is not ordered before the new one.

    `since` counts the barriers, up to the last, that do not order the two.
    """
    b = w.b
    shared = b.icmp_unsigned("!=", b.and_(b.and_(old, new), I64(15)), I64(0))
    atomic = b.icmp_unsigned("!=", b.and_(b.and_(old, new), I64(1 << ATOMIC)), I64(0))
    group, mine = (b.lshr(x, I64(GROUP)) for x in (old, new))
    same = b.icmp_unsigned("==", group, mine)
    warp, moment = w.field(old, SUBGROUP, 7), w.field(old, PHASE, 18)
    other_warp = b.icmp_unsigned("!=", warp, w.field(new, SUBGROUP, 7))
    age = b.and_(b.sub(w.field(new, PHASE, 18), moment), I64(PHASE_MOST))
    phase = b.icmp_unsigned("<=", age, since)
    inside = b.and_(same, b.and_(other_warp, phase))
    across = b.and_(b.not_(slm), b.not_(same))
    local = b.icmp_unsigned("!=", b.and_(w["kind"], I64(Kind.LOCAL)), I64(0))
    excused = b.and_(atomic, b.not_(b.and_(across, local)))
    ordered = w.variable(I1(0))
    acquired = b.icmp_unsigned("!=", w.word(state, Word.ACQUIRED), I64(0))
    known_group = b.icmp_unsigned("<", group, I64(SEVERAL_GROUPS))
    with b.if_then(b.and_(b.and_(across, acquired), known_group)):
        epoch = b.sub(w.field(old, EPOCH, 13), w.field(old, ATOMIC, 1))
        anywhere = b.or_(b.icmp_unsigned("==", warp, I64(SEVERAL)),
                         b.icmp_unsigned("==", moment, I64(PHASE_MOST)))
        access = (group, epoch, moment, warp)
        covered = has_acquired(w, state, access, b.or_(anywhere, reads))
        b.store(covered, ordered)
    across = b.and_(across, b.not_(w.get(ordered)))
    used = b.icmp_unsigned("!=", old, I64(0))
    return b.and_(b.and_(used, shared), b.and_(b.not_(excused), b.or_(inside, across)))


def _conflicts(
    w: Writer, state: Any, old: Any, new: Any, slm: Any, since: Any, *, reads: Any, asked: Any
) -> Any:
    """Whether an access clashes with one of those that a cell tells of; and which.

    If that is not `asked`, whether the cell must go on to tell of them.
    """
    b = w.b
    found = w.variable(_conflict(w, state, old, new, slm, since, reads=reads))
    who = w.variable(old)
    first = list_of(old, b)
    listed = b.icmp_unsigned("!=", first, I32(0))
    with b.if_then(b.and_(listed, asked)):
        b.store(I1(0), found)
        with w.chain(first) as (reader, slot):
            cell, following = reader_of(w, state, reader)
            clash = _conflict(w, state, cell, new, slm, since, reads=reads)
            b.store(b.or_(w.get(found), clash), found)
            b.store(b.select(clash, cell, w.get(who)), who)
            b.store(following, slot)
    return w.get(found), w.get(who)


def _make_clash() -> Text:
    """Whether one earlier access of a place of global memory clashes with a new one.

    The earlier one is the last write, or tells who has `read` the place since.
    """
    w = start(CLASH)
    b = w.b
    state = w.state()
    since = b.select(w["read"], I64(0), w.word(state, Word.SINCE))
    found, _ = _conflicts(
        w, state, w["old"], w["new"], I1(0), since, reads=w["read"], asked=I1(1))
    b.ret(found)
    return w.text(), (WALK,)


def _make_merge() -> Text:
    """The cell of the readers of a place of global memory after one more."""
    w = start(MERGE)
    old, new = w["old"], w["new"]
    unordered = _conflict(w, w.state(), old, new, I1(0), I64(0), reads=I1(1))
    w.b.ret(_merged_read(w, old, new, unordered))
    return w.text(), (JOIN, WALK)


def _make_track() -> Text:
    """Compare with the last accesses of every dword of a range, and note this one."""
    w = start("xe_san_track")
    b = w.b
    state = w.state()
    result = w.variable(I1(1))
    kind = w["kind"]
    slm = b.icmp_unsigned("!=", b.and_(kind, I64(Kind.SLM)), I64(0))
    writes = b.icmp_unsigned("!=", b.and_(kind, I64(Kind.WRITE)), I64(0))
    same = b.icmp_unsigned("!=", b.and_(kind, I64(Kind.SAME)), I64(0))
    block = w["block"]
    first = b.sub(w["address"], b.and_(w.word(block, Entry.LOW), I64(-4)))
    end = b.add(first, w["size"])
    owner = owner_of(w, state, slm)
    last_writes, last_reads, write_sites, read_sites = (
        w.pointer(block, k)
        for k in (Entry.WRITES, Entry.READS, Entry.WRITE_SITES, Entry.READ_SITES)
    )
    _first_use(w, state, slm, writes, w["address"], result)
    with w.loop(b.lshr(first, I64(2)), b.lshr(b.add(end, I64(3)), I64(2))) as d:
        low = b.shl(d, I64(2))
        skip = b.select(b.icmp_unsigned(">", first, low), b.sub(first, low), I64(0))
        over = b.select(b.icmp_unsigned("<", end, b.add(low, I64(4))),
                        b.sub(b.add(low, I64(4)), end), I64(0))
        mask = b.and_(b.shl(I64(15), skip), b.lshr(I64(15), over))
        new = b.or_(owner, mask)
        old_write, old_read = w.word(last_writes, d), w.word(last_reads, d)
        after_write, writer = _conflicts(
            w, state, old_write, new, slm, unfenced_barriers(w, state, slm), reads=I1(0),
            asked=I1(1))
        mixed = b.and_(b.icmp_unsigned("==", w.field(old_write, SUBGROUP, 7), I64(SEVERAL)),
                       b.icmp_unsigned("==", b.lshr(old_write, I64(GROUP)),
                                       b.lshr(new, I64(GROUP))))
        # a place of shared memory that several subgroups write may be one that nobody reads
        several = b.and_(after_write, b.and_(slm, writes))
        was_mixed = b.icmp_unsigned("==", w.field(old_write, SUBGROUP, 7), I64(SEVERAL))
        mixes = b.and_(several, b.or_(was_mixed, b.not_(same)))
        after_write = b.or_(b.and_(after_write, b.not_(several)), b.and_(mixed, b.not_(writes)))
        after_read, reader = _conflicts(
            w, state, old_read, new, slm, I64(0), reads=I1(1), asked=writes)
        bad_read = b.and_(after_read, writes)
        bad = b.and_(b.or_(after_write, bad_read), w.get(result))
        with b.if_then(bad):
            site = b.select(after_write, w.word(write_sites, d, I32), w.word(read_sites, d, I32))
            _report(w, Code.RACE, I64(-1), b.select(after_write, writer, reader),
                    b.zext(site, I64), b.zext(after_write, I64))
            b.store(I1(0), result)
        _end_release(w, old_write, new, d)
        with b.if_else(writes) as (then, otherwise):
            with then:
                mine = b.icmp_unsigned("==", b.and_(old_write, I64(-16)), owner)
                kept = b.select(mine, b.or_(old_write, new), new)
                kept = b.select(mixes, b.or_(kept, I64(SEVERAL << SUBGROUP)), kept)
                w.set_word(last_writes, d, _with_other_bytes(w, old_write, new, kept, slm))
                w.set_word(last_reads, d, I64(0))
                w.set_word(write_sites, d, w["site"], I32)
            with otherwise:
                w.set_word(last_reads, d, _merged_read(w, old_read, new, after_read))
                w.set_word(read_sites, d, w["site"], I32)
    b.ret(w.get(result))
    return w.text(), ("xe_san_report", JOIN, WALK)


def _end_release(w: Writer, old: Any, new: Any, dword: Any) -> None:
    """An atomic finds nothing published where another program has stored since."""
    b = w.b
    places = w.word(w["block"], Entry.SYNC)
    stored = b.icmp_unsigned("==", w.field(old, ATOMIC, 1), I64(0))
    shared = b.icmp_unsigned("!=", b.and_(b.and_(old, new), I64(15)), I64(0))
    atomic = b.icmp_unsigned("!=", w.field(new, ATOMIC, 1), I64(0))
    one = b.icmp_unsigned("<", b.lshr(old, I64(GROUP)), I64(SEVERAL_GROUPS))
    here = b.and_(b.and_(b.icmp_unsigned("!=", places, I64(0)), one),
                  b.and_(atomic, b.and_(stored, shared)))
    with b.if_then(here):
        at = b.inttoptr(b.add(places, b.shl(dword, I64(2))), PTR)
        by = publisher(w, w.state(), b.load(at, typ=I32))
        with b.if_then(b.icmp_unsigned("!=", b.zext(by, I64), b.lshr(old, I64(GROUP)))):
            b.store(I32(0), at)


def unfenced_barriers(w: Writer, state: Any, slm: Any) -> Any:
    """The barriers, up to the last, after which earlier stores are not visible yet."""
    return w.b.select(slm, I64(0), w.word(state, Word.SINCE))


def owner_of(w: Writer, state: Any, slm: Any) -> Any:
    b = w.b
    group = b.add(w.word(w["ctx"], GROUP_WORD), I64(1))
    phase = b.select(slm, w.word(state, Word.SLM_PHASE), w.word(state, Word.GLOBAL_PHASE))
    scalar = b.icmp_unsigned("!=", b.and_(w["kind"], I64(Kind.SCALAR)), I64(0))
    phase = b.select(scalar, I64(PHASE_MOST), phase)
    epoch = w.word(state, Word.EPOCH)
    epoch = b.select(b.icmp_unsigned("<", epoch, I64(EPOCH_MOST)), epoch, I64(EPOCH_MOST))
    atomic = b.and_(b.lshr(w["kind"], I64(1)), I64(1))
    w.set_word(state, Word.NOTED, I64(1))
    owner = b.shl(group, I64(GROUP))
    for value, first in (
        (b.zext(w["sg"], I64), SUBGROUP), (b.and_(phase, I64(PHASE_MOST)), PHASE),
        (epoch, EPOCH), (atomic, ATOMIC),
    ):
        owner = b.or_(owner, b.shl(value, I64(first)))
    return owner


def _with_other_bytes(w: Writer, old: Any, new: Any, kept: Any, slm: Any) -> Any:
    """The cell after a store, which goes on to tell of other programs' stores of other bytes."""
    b = w.b
    apart = b.icmp_unsigned("==", b.and_(b.and_(old, new), I64(15)), I64(0))
    plain = b.icmp_unsigned("==", b.and_(b.or_(old, new), I64(1 << ATOMIC)), I64(0))
    group = b.icmp_unsigned("==", b.lshr(old, I64(GROUP)), b.lshr(new, I64(GROUP)))
    used = b.and_(b.icmp_unsigned("!=", old, I64(0)), b.not_(slm))
    result = w.variable(kept)
    with b.if_then(b.and_(b.and_(used, apart), b.and_(plain, b.not_(group)))):
        b.store(w.call(JOIN, I64, [w["ctx"], old, new, I1(1)]), result)
    return w.get(result)


def _merged_read(w: Writer, old: Any, new: Any, unordered: Any) -> Any:
    """One cell for all readers since the last write that are not ordered before this one."""
    b = w.b
    group = b.icmp_unsigned("==", b.lshr(old, I64(GROUP)), b.lshr(new, I64(GROUP)))
    warp = b.icmp_unsigned("==", w.field(old, SUBGROUP, 7), w.field(new, SUBGROUP, 7))
    scalar = b.icmp_unsigned("==", w.field(new, PHASE, 18), I64(PHASE_MOST))
    joined = joined_in_group(b, old, new)
    # of a scalar load no other subgroup need know, but of what was loaded before it
    when = I64(PHASE_MOST << PHASE)
    phase = b.select(scalar, b.and_(old, when), b.and_(joined, when))
    joined = b.or_(b.and_(joined, I64(~(PHASE_MOST << PHASE))), phase)
    listed = b.icmp_unsigned("!=", w.word(w["block"], Entry.SYNC), I64(0))
    kept = w.variable(joined)
    across = b.and_(unordered, b.not_(group))
    with b.if_then(across):
        b.store(several_readers(b, old, new), kept)
    with b.if_then(b.and_(across, listed)):
        b.store(w.call(JOIN, I64, [w["ctx"], old, new, I1(0)]), kept)
    stays = b.or_(b.and_(group, b.or_(warp, scalar)), unordered)
    return b.select(stays, w.get(kept), new)


def several_readers(b: ir.IRBuilder, old: Any, new: Any) -> Any:
    """The cell of readers of several programs, none of which is told."""
    owner = I64((SEVERAL << SUBGROUP) | -1 << GROUP)
    return b.or_(owner, b.and_(b.or_(old, new), I64(15)))


def _first_use(
    w: Writer, state: Any, slm: Any, writes: Any, address: Any, result: Any
) -> None:
    """Note which bytes of shared memory were written; a read of another one is a fault."""
    b = w.b
    with b.if_then(slm):
        known = w.pointer(state, Word.SLM_KNOWN)
        first = b.sub(address, w.word(w["block"], Entry.LOW))
        with w.loop(first, b.add(first, w["size"])) as k:
            with b.if_then(b.not_(writes)):
                fresh = b.icmp_unsigned("==", w.word(known, k, I8), I8(0))
                with b.if_then(b.and_(fresh, w.get(result))):
                    _report(w, Code.UNINITIALISED, I64(-1), k, I64(0), I64(0))
                    b.store(I1(0), result)
            with b.if_then(writes):
                w.set_word(known, k, I8(1), I8)


def _make_block() -> Text:
    """Check the part of a 2D block that is inside its surface."""
    w = start(CHECK_BLOCK)
    b = w.b
    result = w.variable(I1(1))
    x = b.mul(b.sext(w["x"], I64), w["element"])
    y = b.sext(w["y"], I64)
    width, height, pitch = (
        b.add(b.zext(w[n], I64), I64(1)) for n in ("w1", "h1", "p1"))

    def clipped(first: Any, count: Any, limit: Any) -> tuple[Any, Any]:
        end = b.add(first, count)
        low = b.select(b.icmp_signed(">", first, I64(0)), first, I64(0))
        return low, b.select(b.icmp_signed("<", end, limit), end, limit)

    (x0, x1), (y0, y1) = clipped(x, w["row_bytes"], width), clipped(y, w["rows"], height)
    some = b.and_(b.icmp_signed("<", x0, x1), b.icmp_signed("<", y0, y1))
    with b.if_then(some), w.loop(y0, y1) as row:
        address = b.add(b.add(w["base"], b.mul(row, pitch)), x0)
        arguments = [*(w[n] for n in ("ctx", "sg", "site")), I32(-1), w["entry"], address,
                     b.sub(x1, x0), w["kind"], I1(1)]
        b.store(b.and_(w.get(result), w.call(CHECK_ONE, I1, arguments)), result)
    b.ret(w.get(result))
    return w.text(), (CHECK_ONE,)


def _make_barrier() -> Text:
    """All subgroups are past a barrier, subgroup 0 first: a new phase of the memory it fences."""
    w = start(BARRIER)
    state, b = w.state(), w.b

    def fences(order: Order, fenced: Word) -> Any:
        before = b.icmp_unsigned("!=", w.word(state, fenced), I64(0))
        w.set_word(state, fenced, I64(0))
        named = b.icmp_unsigned("!=", b.and_(w["semantics"], I32(order)), I32(0))
        return b.or_(named, before)

    def count(word: Word, more: Any) -> Any:
        total = b.add(w.word(state, word), more)
        w.set_word(state, word, total)
        return total

    with b.if_then(b.icmp_unsigned("==", w["sg"], I32(0))):
        count(Word.SLM_PHASE, b.zext(fences(Order.SLM, Word.FENCED_SLM), I64))
        count(Word.GLOBAL_PHASE, I64(1))
        visible = fences(Order.GLOBAL, Word.FENCED_GLOBAL)
        w.set_word(state, Word.SINCE, b.select(visible, I64(0), count(Word.SINCE, I64(1))))
        releases_before_barrier(w, state)
    b.ret_void()
    return w.text(), ()


def _make_group() -> Text:
    """A new work-group begins: nothing is known of its shared memory, nothing acquired."""
    w = start(NEW_GROUP)
    state, b = w.state(), w.b
    for word in (Word.GLOBAL_PHASE, Word.SLM_PHASE, Word.SINCE, Word.FENCED_GLOBAL,
                 Word.FENCED_SLM):
        w.set_word(state, word, I64(0))
    forget_releases(w, state)
    group = w.word(w["ctx"], GROUP_WORD)
    w.set_word(state, Word.GROUP, group)
    slm = w.pointer(w["ctx"], 6)
    block = block_of(w, state, w.word(state, Word.SLM_ENTRY))
    low = b.ptrtoint(slm, I64)
    w.set_word(block, Entry.LOW, low)
    nbytes = w.word(state, Word.SLM_BYTES)
    w.set_word(block, Entry.HIGH, b.add(low, nbytes))
    known = w.pointer(state, Word.SLM_KNOWN)
    with w.loop(I64(0), b.lshr(b.add(nbytes, I64(7)), I64(3))) as k:
        w.set_word(known, k, I64(0))
    b.ret_void()
    return w.text(), ()


def _make_non_finite() -> Text:
    """Stop where finite operands gave an infinity or NaN; `bad` has a bit per lane."""
    return _first_bad_lane(start(NON_FINITE), Code.NON_FINITE, I64(0))


def _make_undefined() -> Text:
    """Stop where undefined bits are used: `use` numbers the check, `bad` has a bit per lane."""
    w = start(UNDEFINED)
    return _first_bad_lane(w, Code.UNDEFINED, w["use"])


def _first_bad_lane(w: Writer, code: Code, other: Any) -> Text:
    b = w.b
    with b.if_then(b.icmp_unsigned("!=", w["bad"], I64(0))):
        count = b.cttz(w["bad"], I1(1))
        arguments = [w["ctx"], w["sg"], w["site"], b.trunc(count, I32), I64(-1), I64(0), I64(0),
                     I64(0), I64(code), other, I64(0), I64(0)]
        w.call("xe_san_report", ir.VoidType(), arguments)
    b.ret_void()
    return w.text(), ("xe_san_report",)


_MAKERS: dict[str, Callable[[], Text]] = {
    "report": _make_report,
    "find": _make_find,
    "one": _make_one,
    "track": _make_track,
    "clash": _make_clash,
    "merge": _make_merge,
    "block": _make_block,
    "barrier": _make_barrier,
    "group": _make_group,
    "non_finite": _make_non_finite,
    "undefined": _make_undefined,
    "join": make_join,
    **MAKERS,
}
PATTERN = r"xe_san_(" + "|".join([*_MAKERS, r"(?:lanes|try|syncs)_\d+"]) + ")"


def function(host: HostCpu, name: str) -> Text:
    """The module of `xe_san_<name>`."""
    if name in _MAKERS:
        return _MAKERS[name]()
    from triton_xe.runtime.simulator.sanitizer import lanes as of_lanes

    kind, lanes = name.split("_")
    makers = {"lanes": of_lanes.check_lanes, "try": of_lanes.try_lanes, "syncs": make_syncs}
    return makers[kind](int(lanes))


__all__ = [
    "NEW_GROUP", "PATTERN", "Code", "Word", "function", "owner_of", "unfenced_barriers",
]
