"""Releases of other work-groups that the running one has acquired; see `sync`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from triton_xe.llvm import I1, I64
from triton_xe.llvm.values import Value
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
    """True if the releases of all work-groups before the running one are known."""
    return floor + 1 >= w.group


def acquire(w: Checks, ctx: Value, listed: Value) -> None:
    """Acquire the entries of a list for the running work-group."""
    with w.when(w.clocked()):
        clocks.acquire(w, listed)
        w.ret()
    own = w.is_own(listed)
    news = own | ~knows_all(w, w.state[Word.FLOOR])
    with w.when((listed != 0) & ~is_acquired(w, listed) & news), visited_soon(w):
        count_acquisition(w, own)
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


def count_acquisition(w: Checks, own: Value) -> None:
    """Count an acquisition; with `own`, from a subgroup of the same work-group."""
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
    state = w.state
    most, first = w.group * MOST_STEPS, state[Word.STEPS]
    end = w.select(first + steps < most, first + steps, most)
    done = w.variable(first)
    pending = _Pending(w)
    going = w.variable(1, I1)
    with w.loop(lambda: going.value):
        done.value += 1
        pending.visit_one()
        with w.when(done.value >= most):
            state[Word.FLOOR] = w.group - 1
        with w.when(knows_all(w, state[Word.FLOOR])):
            for slot in pending.slots:
                slot.value = 0
        more = pending.is_left()
        state[Word.UNVISITED] = more
        going.value = more & (done.value < end)
    for word, slot in zip(pending.WORDS, pending.slots, strict=True):
        state[word] = slot.value
    state[Word.STEPS] = done.value
    with w.when(state[Word.UNVISITED] == 0):
        _raise_floor(w)


class _Pending:
    """Records to visit: a list of entries, a list of items, and a range of entries."""

    WORDS = (Word.ENTRIES, Word.ITEMS, Word.RANGE_AT, Word.RANGE_LAST)

    def __init__(self, w: Checks) -> None:
        self.w = w
        self.slots = [w.variable(w.index(word)) for word in self.WORDS]
        self.entries, self.items, self.at, self.last = self.slots

    def is_left(self) -> Value:
        """True if any record is left."""
        return (self.entries.value != 0) | (self.items.value != 0) | (
            self.at.value < self.last.value)

    def visit_one(self) -> None:
        """Visit the first entry; if there is none, the next of the range; else the first item."""
        w, pool = self.w, self.w.pool
        inside = self.at.value < self.last.value
        with w.when(self.entries.value != 0):
            entry = self.entries.value
            self.entries.value = pool[entry, Published.LINK]
            self._visit_entry(entry)
        with w.otherwise():
            with w.when(inside):
                entry = self.at.value
                self.at.value = entry + 1
                self.see(pool[entry, Published.NEXT], Published)
            with w.otherwise(), w.when(self.items.value != 0):
                self._visit_item(self.items.value)

    def see(self, record: Value, fields: type[Published | Item]) -> None:
        """Put a record that was not seen yet at the front of its list."""
        w, waiting = self.w, self.entries if fields is Published else self.items
        with w.when((record != 0) & (w.pool[record, fields.SEEN] != w.stamp)):
            w.pool[record, fields.SEEN] = w.stamp
            w.pool[record, fields.LINK] = waiting.value
            waiting.value = record

    def _visit_item(self, item: Value) -> None:
        """Make the entries of an item the range, or see the one that it has."""
        w, pool = self.w, self.w.pool
        self.items.value = pool[item, Item.LINK]
        self.see(pool[item, Item.NEXT], Item)
        entry, stop = pool[item, Item.ENTRY], pool[item, Item.END]
        self.at.value, self.last.value = entry, stop
        with w.when(stop == 0):
            self.see(entry, Published)

    def _visit_entry(self, entry: Value) -> None:
        """Acquire one entry, unless all releases of its work-group are known."""
        w = self.w
        node = w.pool[entry, Published.NODE]
        with w.when(w.pool[node, Node.GROUP].to(I64) > w.state[Word.FLOOR]):
            with w.when(w.pool[node, Node.SEEN] != w.stamp):
                _acquire_node(w, node, partial(self.see, fields=Item))
            raise_floor_to(w, w.pool[entry, Published.FLOOR])
            self.see(w.pool[entry, Published.NEXT], Published)


def raise_floor_to(w: Checks, floor: Value) -> None:
    """Note that all releases of work-groups up to `floor` are known."""
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
    raise_floor_to(w, floor)
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
