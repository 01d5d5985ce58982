"""What the running work-group has learnt of what others released, for `library_sanitizer_sync`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from triton_xe.runtime.simulator.sanitizer.records import (
    Item,
    Known,
    Node,
    Published,
    Records,
    known,
)
from triton_xe.runtime.simulator.sanitizer.state import (
    FULL,
    GROUP_WORD,
    I32,
    I64,
    LEARN,
    WALK,
    Text,
    Word,
    Writer,
)

MOST_STEPS = 1 << 12
SOON = 16
"""Records that are walked at once when something is acquired and nothing is left from before."""
AT_A_TIME = 64
"""Records that are walked before another look whether an access has been acquired."""


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


def has_acquired(w: Writer, state: Any, access: tuple[Any, Any, Any, Any], lenient: Any) -> Any:
    """`covers`, after as much has been walked as it takes."""
    b = w.b
    found = w.variable(covers(w, state, *access, lenient))

    def open_() -> Any:
        more = b.icmp_unsigned("!=", w.word(state, Word.UNWALKED), I64(0))
        return b.zext(b.and_(more, b.not_(w.get(found))), I32)

    with w.chain(open_()) as (_, going):
        w.call(WALK, ir.VoidType(), [w["ctx"], I64(AT_A_TIME)])
        b.store(covers(w, state, *access, lenient), found)
        b.store(open_(), going)
    return w.get(found)


def make_learn() -> Text:
    """The running work-group acquires what a list holds."""
    w = Records(LEARN)
    b = w.b
    first = w["entry"]
    own = w.is_own(first)
    fresh = b.not_(is_held(w, first))
    news = b.or_(own, b.not_(knows_all(w, w.now(Word.FLOOR))))
    with b.if_then(b.and_(b.and_(w.some(first), fresh), news)):
        walked = b.not_(w.some(w.now(Word.UNWALKED)))
        acquires_more(w, own)
        hold(w, w.new({Item.ENTRY: first}))
        with b.if_then(walked):
            w.call(WALK, ir.VoidType(), [w["ctx"], I64(SOON)])
    b.ret_void()
    return w.text(), (FULL, WALK)


def is_held(w: Records, entry: Any) -> Any:
    """Whether the running work-group has acquired an entry."""
    fields = (w.of(entry, Published.HELD), w.of(entry, Published.SEEN))
    return w.b.or_(*(w.b.icmp_unsigned("==", x, w.stamp) for x in fields))


def acquires_more(w: Records, own: Any) -> None:
    """`own`: from a subgroup of the same work-group, too."""
    b = w.b
    w.note(Word.ACQUIRED, I64(1))
    w.note(Word.WITHIN, b.or_(w.now(Word.WITHIN), b.zext(own, I64)))
    w.note(Word.LEARNT, b.add(w.now(Word.LEARNT), I64(1)))


def hold(w: Records, item: Any) -> None:
    """Note what was acquired, to be walked."""
    b = w.b
    entry = w.of(item, Item.ENTRY)
    one = b.icmp_unsigned("==", w.of(item, Item.END), I32(0))
    with b.if_then(one):
        w.put(entry, Published.HELD, w.stamp)
    w.put(item, Item.NEXT, w.index(Word.LEARNT_LIST))
    w.note_index(Word.LEARNT_LIST, item)
    _see_item(w, item)


def _see_item(w: Records, item: Any) -> None:
    w.put(item, Item.SEEN, w.stamp)
    w.put(item, Item.LINK, w.index(Word.ITEMS))
    w.note_index(Word.ITEMS, item)
    w.note(Word.UNWALKED, I64(1))


def make_walk() -> Text:
    """Learn from up to so many records that the running work-group has acquired."""
    w = Records(WALK)
    b = w.b
    most = b.mul(w.group, I64(MOST_STEPS))
    first = w.now(Word.STEPS)
    soon = b.add(first, w["steps"])
    end = b.select(b.icmp_unsigned("<", soon, most), soon, most)
    steps = w.variable(first)
    entries, items = w.variable(w.index(Word.ENTRIES)), w.variable(w.index(Word.ITEMS))
    at, last = w.variable(w.index(Word.RANGE_AT)), w.variable(w.index(Word.RANGE_LAST))

    def see(record: Any, fields: type[Published | Item], waiting: Any) -> None:
        """Put a record that was not seen yet in front of those that wait."""
        new = b.icmp_unsigned("!=", w.of(record, fields.SEEN), w.stamp)
        with b.if_then(b.and_(w.some(record), new)):
            w.put(record, fields.SEEN, w.stamp)
            w.put(record, fields.LINK, w.get(waiting))
            b.store(record, waiting)

    see_entry = partial(see, fields=Published, waiting=entries)
    see_item = partial(see, fields=Item, waiting=items)

    with w.chain(I32(1)) as (_, going):
        b.store(b.add(w.get(steps), I64(1)), steps)
        inside = b.icmp_unsigned("<", w.get(at), w.get(last))
        with b.if_else(w.some(w.get(entries))) as (waiting, others):
            with waiting:
                entry = w.get(entries)
                b.store(w.of(entry, Published.LINK), entries)
                _visit(w, entry, see_entry, see_item)
            with others, b.if_else(inside) as (several, listed):
                with several:
                    entry = w.get(at)
                    b.store(b.add(entry, I32(1)), at)
                    see_entry(w.of(entry, Published.NEXT))
                with listed, b.if_then(w.some(w.get(items))):
                    item = w.get(items)
                    b.store(w.of(item, Item.LINK), items)
                    see_item(w.of(item, Item.NEXT))
                    entry, stop = w.of(item, Item.ENTRY), w.of(item, Item.END)
                    b.store(entry, at)
                    b.store(stop, last)
                    with b.if_then(b.not_(w.some(stop))):
                        see_entry(entry)
        over = b.icmp_unsigned(">=", w.get(steps), most)
        with b.if_then(over):
            w.note(Word.FLOOR, b.sub(w.group, I64(1)))
        with b.if_then(knows_all(w, w.now(Word.FLOOR))):
            for slot in (entries, items, at, last):
                b.store(I32(0), slot)
        inside = b.icmp_unsigned("<", w.get(at), w.get(last))
        more = b.or_(b.or_(w.some(w.get(entries)), w.some(w.get(items))), inside)
        w.note(Word.UNWALKED, b.zext(more, I64))
        more = b.and_(more, b.icmp_unsigned("<", w.get(steps), end))
        b.store(b.zext(more, I32), going)
    for word, slot in ((Word.ENTRIES, entries), (Word.ITEMS, items), (Word.RANGE_AT, at),
                       (Word.RANGE_LAST, last)):
        w.note_index(word, w.get(slot))
    w.note(Word.STEPS, w.get(steps))
    with b.if_then(b.icmp_unsigned("==", w.now(Word.UNWALKED), I64(0))):
        _raise_floor(w)
    b.ret_void()
    return w.text(), ()


def _visit(
    w: Records, entry: Any, see: Callable[[Any], None], see_item: Callable[[Any], None]
) -> None:
    """Learn from one entry, unless all that its work-group released is known."""
    b = w.b
    node = w.of(entry, Published.NODE)
    group = b.zext(w.of(node, Node.GROUP), I64)
    with b.if_then(b.icmp_unsigned(">", group, w.now(Word.FLOOR))):
        with b.if_then(b.icmp_unsigned("!=", w.of(node, Node.SEEN), w.stamp)):
            _meet(w, node, see_item)
        floor = b.zext(w.of(entry, Published.FLOOR), I64)
        w.note(Word.FLOOR, w.most(w.now(Word.FLOOR), floor))
        see(w.of(entry, Published.NEXT))


def _meet(w: Records, node: Any, see_item: Callable[[Any], None]) -> None:
    """Acquire one release, and leave what its work-group had acquired to do."""
    b = w.b
    w.put(node, Node.SEEN, w.stamp)
    group = w.of(node, Node.GROUP)
    words = known(w, w.state_, b.zext(group, I64))
    epoch = b.zext(w.of(node, Node.EPOCH), I64)
    phase = b.zext(w.of(node, Node.PHASE), I64)
    bit = b.shl(I64(1), b.zext(b.and_(w.of(node, Node.WARP), I32(63)), I64))
    before = b.icmp_unsigned("==", w.word(words, Known.BY), w.group)
    held = b.select(before, w.word(words, Known.EPOCH), I64(0))
    warps = b.select(before, w.word(words, Known.WARPS), I64(0))
    when = b.select(before, w.word(words, Known.PHASE), I64(0))
    same = b.and_(b.icmp_unsigned("==", epoch, held), b.icmp_unsigned(">", phase, when))
    later = b.or_(b.icmp_unsigned(">", epoch, held), same)
    w.set_word(words, Known.BY, w.group)
    w.set_word(words, Known.EPOCH, w.most(held, epoch))
    w.set_word(words, Known.PHASE, b.select(later, phase, when))
    w.set_word(words, Known.WARPS, b.or_(warps, bit))
    floor = w.of(node, Node.FLOOR)
    w.note(Word.FLOOR, w.most(w.now(Word.FLOOR), b.zext(floor, I64)))
    all_below = b.icmp_unsigned(">=", b.add(floor, I32(1)), group)
    see_item(b.select(all_below, I32(0), w.of(node, Node.ACQUIRED)))


def knows_all(w: Records, floor: Any) -> Any:
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
