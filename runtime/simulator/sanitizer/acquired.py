"""Releases of other work-groups that the running one has acquired; see `sync`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from triton_xe.llvm import I1, I64
from triton_xe.llvm.values import Value, Variable
from triton_xe.runtime.simulator.sanitizer import clocks
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import Item, Known, Node, Published, Word

MOST_STEPS = 1 << 12
SOON = 4
"""Records that are visited at once if something is acquired and none are pending."""
AT_A_TIME = 64
"""Records that are visited before the next test whether an access has been acquired."""


def _happens_before(
    w: Checks, group: Value, epoch: Value, phase: Value, warp: Value, lenient: Value
) -> Value:
    """True if the running work-group is known to have acquired an access of another one."""
    known = w.known(group)
    fresh = epoch.compare("slt", known[Known.EPOCH])
    own = (known[Known.WARPS] >> (warp & 63)).has(1)
    direct = (known[Known.BY] == w.group) & fresh & (own | (phase != known[Known.PHASE]) | lenient)
    last = epoch.compare("slt", known[Known.LAST_EPOCH])
    return direct | (group <= w.state[Word.FLOOR]) & last


def has_acquired(w: Checks, access: tuple[Value, Value, Value, Value], lenient: Value) -> Value:
    """True if the running work-group has acquired an access; visits records as needed."""
    found = w.variable(0, I1)
    with w.when(w.clocked()):
        found.value = w.call(s.KNOWS, w["ctx"], *access, lenient)
    with w.otherwise():
        found.value = _happens_before(w, *access, lenient)
        with w.loop(lambda: (w.state[Word.UNVISITED] != 0) & ~found.value):
            w.call(s.VISIT, w["ctx"], AT_A_TIME)
            found.value = _happens_before(w, *access, lenient)
    return found.value


def knows_all(w: Checks, floor: Value) -> Value:
    return floor + 1 >= w.group


def acquire(w: Checks, ctx: Value, listed: Value) -> None:
    """Acquire the entries of a list for the running work-group."""
    with w.when(w.clocked()):
        clocks.acquire(w, listed)
        w.ret()
    own = w.is_own(listed)
    news = own | ~knows_all(w, w.state[Word.FLOOR])
    with w.when((listed != 0) & ~is_acquired(w, listed) & news), visited_soon(w):
        acquires_more(w, own)
        hold(w, w.pool.new({Item.ENTRY: listed}))


@contextmanager
def visited_soon(w: Checks) -> Iterator[None]:
    """Visit some records acquired inside at once, if no others are pending."""
    idle = w.state[Word.UNVISITED] == 0
    yield
    with w.when(idle):
        w.call(s.VISIT, w["ctx"], SOON)


def is_acquired(w: Checks, entry: Value) -> Value:
    """True if the running work-group has acquired an entry."""
    held, seen = (w.pool[entry, field] == w.stamp for field in (Published.HELD, Published.SEEN))
    return held | seen


def acquires_more(w: Checks, own: Value) -> None:
    """Count an acquisition; `own`: from a subgroup of the same work-group, too."""
    w.state[Word.ACQUIRED] = 1
    w.state[Word.WITHIN] |= own.to(I64)
    w.state[Word.ACQUISITIONS] += 1


def hold(w: Checks, item: Value) -> None:
    """Record an acquired item, to be visited later."""
    entry = w.pool[item, Item.ENTRY]
    with w.when(w.pool[item, Item.END] == 0):
        w.pool[entry, Published.HELD] = w.stamp
    w.pool[item, Item.NEXT] = w.index(Word.ACQUIRED_LIST)
    w.state[Word.ACQUIRED_LIST] = item
    w.pool[item, Item.SEEN] = w.stamp
    w.pool[item, Item.LINK] = w.index(Word.ITEMS)
    w.state[Word.ITEMS] = item
    w.state[Word.UNVISITED] = 1


def visit(w: Checks, ctx: Value, steps: Value) -> None:
    """Acquire up to `steps` of the records that follow from acquired ones."""
    state, pool = w.state, w.pool
    most, first = w.group * MOST_STEPS, state[Word.STEPS]
    end = w.select(first + steps < most, first + steps, most)
    done = w.variable(first)
    words = (Word.ENTRIES, Word.ITEMS, Word.RANGE_AT, Word.RANGE_LAST)
    slots = entries, items, at, last = [w.variable(w.index(word)) for word in words]

    def see(record: Value, fields: type[Published | Item], waiting: Variable) -> None:
        """Put a record that was not seen yet at the front of the pending ones."""
        with w.when((record != 0) & (pool[record, fields.SEEN] != w.stamp)):
            pool[record, fields.SEEN] = w.stamp
            pool[record, fields.LINK] = waiting.value
            waiting.value = record

    see_entry = partial(see, fields=Published, waiting=entries)
    see_item = partial(see, fields=Item, waiting=items)
    going = w.variable(1, I1)
    with w.loop(lambda: going.value):
        done.value += 1
        inside = at.value < last.value
        with w.when(entries.value != 0):
            entry = entries.value
            entries.value = pool[entry, Published.LINK]
            _visit_entry(w, entry, see_entry, see_item)
        with w.otherwise():
            with w.when(inside):
                entry = at.value
                at.value = entry + 1
                see_entry(pool[entry, Published.NEXT])
            with w.otherwise(), w.when(items.value != 0):
                item = items.value
                items.value = pool[item, Item.LINK]
                see_item(pool[item, Item.NEXT])
                entry, stop = pool[item, Item.ENTRY], pool[item, Item.END]
                at.value, last.value = entry, stop
                with w.when(stop == 0):
                    see_entry(entry)
        with w.when(done.value >= most):
            state[Word.FLOOR] = w.group - 1
        with w.when(knows_all(w, state[Word.FLOOR])):
            for slot in slots:
                slot.value = 0
        more = (entries.value != 0) | (items.value != 0) | (at.value < last.value)
        state[Word.UNVISITED] = more
        going.value = more & (done.value < end)
    for word, slot in zip(words, slots, strict=True):
        state[word] = slot.value
    state[Word.STEPS] = done.value
    with w.when(state[Word.UNVISITED] == 0):
        _raise_floor(w)


def _visit_entry(
    w: Checks, entry: Value, see: Callable[[Value], None], see_item: Callable[[Value], None]
) -> None:
    """Acquire one entry, unless all releases of its work-group are known."""
    node = w.pool[entry, Published.NODE]
    with w.when(w.pool[node, Node.GROUP].to(I64) > w.state[Word.FLOOR]):
        with w.when(w.pool[node, Node.SEEN] != w.stamp):
            _acquire_node(w, node, see_item)
        raise_to(w, w.pool[entry, Published.FLOOR])
        see(w.pool[entry, Published.NEXT])


def raise_to(w: Checks, floor: Value) -> None:
    w.state[Word.FLOOR] = w.largest(w.state[Word.FLOOR], floor.to(I64))


def _acquire_node(w: Checks, node: Value, see_item: Callable[[Value], None]) -> None:
    """Acquire one release, and queue the list that its work-group had acquired."""
    pool = w.pool
    pool[node, Node.SEEN] = w.stamp
    group = pool[node, Node.GROUP]
    known = w.known(group.to(I64))
    epoch, phase = (pool[node, field].to(I64) for field in (Node.EPOCH, Node.PHASE))
    before = known[Known.BY] == w.group
    held, warps, when = (w.select(before, known[word], 0)
                         for word in (Known.EPOCH, Known.WARPS, Known.PHASE))
    later = (epoch > held) | (epoch == held) & (phase > when)
    known[Known.BY] = w.group
    known[Known.EPOCH] = w.largest(held, epoch)
    known[Known.PHASE] = w.select(later, phase, when)
    known[Known.WARPS] = warps | warp_bit(pool[node, Node.WARP])
    floor = pool[node, Node.FLOOR]
    raise_to(w, floor)
    see_item(w.select(floor + 1 >= group, 0, pool[node, Node.ACQUIRED]))


def warp_bit(warp: Value) -> Value:
    return warp.w.term(1, I64) << (warp & 63).to(I64)


def _raise_floor(w: Checks) -> None:
    """Count the leading work-groups all of whose releases are known."""
    floor, going = w.variable(w.state[Word.FLOOR] + 1), w.variable(1, I1)
    with w.loop(lambda: going.value):
        group = floor.value
        known = w.known(group)
        last, warps = known[Known.LAST_EPOCH], known[Known.LAST_WARPS]
        newest = (known[Known.BY] == w.group) & (known[Known.EPOCH] >= last)
        whole = warps & known[Known.WARPS] == warps
        more = (newest & whole | (last == 0)) & (group < w.group)
        floor.value = group + more.to(I64)
        going.value = more
    w.state[Word.FLOOR] = floor.value - 1
