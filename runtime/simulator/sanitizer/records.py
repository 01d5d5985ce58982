"""Writer of functions on the state of a launch, and lists of cells with several accesses.

A cell has room for one access.  Reads of several programs since the last write, and stores of
several programs to different bytes of a dword, are a list of cells instead.  The cell then has the
list's index in the bits of epoch and phase.  Dwords that the same programs access share their
lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum

from triton_xe.llvm import I1, I32, I64, constant, vector
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Memory, Term, Value, Variable, Writer
from triton_xe.runtime.simulator.context import Code, Context
from triton_xe.runtime.simulator.sanitizer import cells
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.state import Joined, Reader, Word


class Checks(Writer):
    """Writer of a function of the sanitizer; `pool[record, field]` are its records."""

    def __init__(self, routine: Routine) -> None:
        super().__init__(routine)
        self.ctx = Memory(self, self["ctx"])
        self.state = self.ctx.follow(Context.STATE)
        self.pool = Pool(self)
        self.group = self.ctx[Context.GROUP] + 1
        self.stamp = self.group.to(I32)
        self.first_stores: Variable | None = None
        """Lanes, as bits, whose stores are the first ones to their elements; see `check_lanes`."""

    @property
    def error(self) -> Memory:
        return self.ctx.follow(Context.ERROR)

    def in_order(self) -> Value:
        """True if work-groups have run one after another so far."""
        return self.state[Word.TOGETHER] == 0

    def clean(self) -> Value:
        """True if the launch has no fault yet."""
        return self.error[0] == 0

    def flag(self, kind: s.Kind) -> Value:
        """True if the access is of that kind."""
        return self["kind"].has(kind)

    @contextmanager
    def each(self, bits: Value) -> Iterator[Value]:
        """Loop over the numbers of the set bits."""
        with self.chain(bits) as (rest, slot):
            slot.value = rest & rest - 1
            yield rest.lowest()

    def in_memory(self, x: Value) -> Memory:
        """A vector in memory, whose elements are loaded by index."""
        at = self.space(x.type)
        self.store(x, at)
        return Memory(self, at, x.type.scalar)

    def index(self, word: Word) -> Value:
        """A word of the state that is the index of a record."""
        return self.state[word].to(I32)

    def block(self, row: Value) -> Memory:
        """An entry of the block table."""
        return self.state.follow(Word.TABLE).row(row, s.Entry.WORDS)

    @staticmethod
    def holds(block: Memory, address: Value) -> Value:
        """True if an address, or each of several, is in a block."""
        return (address >= block[s.Entry.LOW]) & (address < block[s.Entry.HIGH])

    def look_up(self, row: Word, address: Value) -> None:
        """Write the row of the block that contains an address, or an empty one, to a word."""
        found = self.call(s.FIND, self["ctx"], address)
        self.state[row] = self.select(found.compare("sge", 0), found, self.state[Word.EMPTY_ROW])

    def known(self, group: Value) -> Memory:
        """Record of a work-group, by number + 1."""
        return self.state.follow(Word.RELEASED).row(group, s.Known.WORDS)

    def release(self, subgroup: Value) -> Memory:
        """Release record of one subgroup, or, after the last, of an atomic that releases itself."""
        before = self.select(self.clocked(), self.group * (self.state[Word.SUBGROUPS] + 1), 0)
        return self.state.follow(Word.RELEASABLE).row(before + subgroup, s.Release.WORDS)

    def clocked(self) -> Value:
        """True if programs are interleaved, and clocks record the releases that they know."""
        return self.state[Word.CLOCKED] != 0

    def is_own(self, entry: Value) -> Value:
        """True if the last release of a list is the running work-group's."""
        return entry >= self.index(Word.OWN_RECORDS)

    def has(self, *orders: s.Order) -> Value:
        """True if the semantics have one of the bits."""
        return self["semantics"].has(sum(orders))

    def acquires(self) -> Value:
        return self.has(s.Order.ACQUIRE, s.Order.BOTH, s.Order.SEQUENTIAL)

    def releases(self) -> Value:
        return self.has(s.Order.RELEASE, s.Order.BOTH, s.Order.SEQUENTIAL)


class Pool:
    """The records of a launch; their addresses may change when one is created."""

    def __init__(self, w: Checks) -> None:
        self.w = w

    def _memory(self, record: Value) -> Memory:
        return self.w.state.follow(Word.RECORDS, I32).row(record.to(I64), s.FIELDS)

    def __getitem__(self, key: tuple[Value, IntEnum]) -> Value:
        return self._memory(key[0])[key[1]]

    def __setitem__(self, key: tuple[Value, IntEnum], value: Term) -> None:
        self._memory(key[0])[key[1]] = value

    def new(self, fields: Mapping[IntEnum, Value]) -> Value:
        """Create a record and return its index; fields not given are 0."""
        record = self.reserve(1)
        self.write(record, fields)
        return record

    def reserve(self, count: Term) -> Value:
        """Index of the first of so many new records, fewer than there are spare ones."""
        w = self.w
        used = w.state[Word.RECORDS_USED]
        with w.when(w.unlikely(used >= w.state[Word.RECORDS_ROOM])):
            w.call(s.FULL, w["ctx"])
        w.state[Word.RECORDS_USED] = used + count
        return used.to(I32)

    def write(self, record: Value, fields: Mapping[IntEnum, Value]) -> None:
        w, whole = self.w, constant(vector(s.FIELDS, I32), 0)
        for field, value in fields.items():
            whole = w.b.insert(whole, value.operand, int(field))
        w.store(Value(w, whole), self._memory(record).base, align=4 * s.FIELDS)

    def read(self, reader: Value) -> tuple[Value, Value]:
        """The cell of an element of a list of accesses, and the next element."""
        memory = self._memory(reader)
        low, high, following = (memory[field] for field in Reader)
        return low.to(I64) | high.to(I64) << 32, following


def full(w: Checks, ctx: Value) -> None:
    """Request room for more records from the host.

    If the host has none left, the launch stops; the spare records serve until then.
    """
    w.call(s.ROOM)
    with w.when((w.state[Word.RECORDS_USED] >= w.state[Word.RECORDS_ROOM]) & w.clean()):
        known: dict[str, Term] = {"code": Code.RECORDS, "group": w.ctx[Context.GROUP],
                                  "site": w.state[Word.SITE] & 0xFFFFFFFF}
        for k, name in reversed(tuple(enumerate(s.Fault._fields))):
            w.error[k] = known.get(name, 0)


def list_of(w: Checks, cell: Value) -> Value:
    """The list of accesses of a cell of several programs; 0 for none."""
    several = cells.GROUP.extract(cell) == cells.SEVERAL_GROUPS
    return w.select(several, cells.LIST.extract(cell), 0).to(I32)


def joined_in_group(w: Checks, old: Value, new: Value) -> Value:
    """Cell of two readers of one work-group: bytes of both, atomic if both are."""
    several = w.select((old ^ new).has(cells.WARP.full), cells.WARP.full, 0)
    plain = new & ~cells.ATOMIC.full | old & cells.BYTES.full
    return plain | old & new & cells.ATOMIC.full | several


def join(w: Checks, ctx: Value, old: Value, new: Value, writes: Value) -> Value:
    """Cell of an access and earlier ones, of another program or of other bytes.

    Stores (`writes`) are recorded separately by subgroup.  A list has each byte's last store, so
    that it has at most four elements.  Loads of a program are recorded separately by phase, and by
    subgroup if their bytes differ.
    """
    hashed = ((old * 0x9E3779B97F4A7C15) ^ new) * 0x9E3779B97F4A7C15 >> 56
    kept = w.state.follow(Word.JOINED).row(hashed, Joined.WORDS)
    same = (kept[Joined.OLD] == old) & (kept[Joined.NEW] == new)
    with w.when(same & (kept[Joined.WRITES] == writes.to(I64))):
        w.ret(kept[Joined.MADE])

    listed = w.variable(list_of(w, old))
    with w.when(listed.value == 0):
        listed.value = _element(w, old, w.term(0, I32))
    first, following = w.pool.read(listed.value)
    owner = w.select(writes, cells.WARP.first, cells.GROUP.first)
    same = first >> owner == new >> owner
    one_phase = cells.PHASE.extract(first) == cells.PHASE.extract(new)
    alike = one_phase & (first >> cells.WARP.first == new >> cells.WARP.first)
    apart = same & ~writes & ~alike & (~one_phase | (first ^ new).has(cells.BYTES.full))
    again = same & ~apart
    with w.when(apart):
        listed.value = _without_replaced(w, listed.value, new)
    cell = w.select(again, joined_in_group(w, first, new), new)
    others = w.variable(w.select(again, following, listed.value))
    with w.when(writes & (old & new & ~w.select(again, first, 0)).has(cells.BYTES.full)):
        rest = w.variable(0, I32)
        with w.chain(others.value) as (one, slot):
            earlier, slot.value = w.pool.read(one)
            left = earlier & ~(cell & cells.BYTES.full)
            with w.when(left.has(cells.BYTES.full)):
                rest.value = _element(w, left, rest.value)
        with w.when(rest.value == 0):
            w.ret(cell)
        others.value = rest.value
    index = _element(w, cell, others.value).to(I64) << cells.LIST.first
    result = index | cells.SEVERAL_OWNERS | (old | new) & cells.BYTES.full
    for word, value in ((Joined.OLD, old), (Joined.NEW, new), (Joined.MADE, result),
                        (Joined.WRITES, writes)):
        kept[word] = value
    return result


def _element(w: Checks, cell: Value, following: Value) -> Value:
    """Create an element of a list of accesses."""
    return w.pool.new({Reader.LOW: cell.to(I32), Reader.HIGH: (cell >> 32).to(I32),
                       Reader.NEXT: following})


def _without_replaced(w: Checks, listed: Value, new: Value) -> Value:
    """A list of loads, without earlier ones of the same bytes by the subgroup of a new one.

    A scalar load does not replace others, because it conflicts with no store of its program.
    """
    end, going = w.variable(listed), w.variable(1, I1)
    with w.loop(lambda: going.value):
        cell, following = w.pool.read(end.value)
        own = cells.GROUP.extract(cell) == cells.GROUP.extract(new)
        end.value = w.select(own, following, end.value)
        going.value = own & (following != 0)
    rest, one = w.variable(end.value), w.variable(listed)
    with w.loop(lambda: one.value != end.value):
        cell, one.value = w.pool.read(one.value)
        scalar = [cells.PHASE.extract(x) == cells.PHASE.most for x in (cell, new)]
        replaced = ((cell ^ new) >> cells.WARP.first == 0) & (scalar[0] | ~scalar[1])
        with w.when(~replaced | (cell & ~new).has(cells.BYTES.full)):
            rest.value = _element(w, cell, rest.value)
    return rest.value
