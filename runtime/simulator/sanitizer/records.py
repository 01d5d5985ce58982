"""Writer of functions on the state of a launch, and lists of cells with several accesses.

A cell has room for one access.  Reads of several programs since the last write are a list of cells
instead.  The cell then has the list's index in the bits of epoch and phase.  Memory that the same
programs read shares its lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from triton_xe.llvm import I32, I64, constant, vector
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
    """Cell of two reads of one program; atomic if both are.

    Of reads before and after a barrier, the later one remains.  A scalar load conflicts with no
    store of its program, but an earlier load may.
    """
    scalar = cells.PHASE.extract(new) == cells.PHASE.most
    one_phase, one_warp = (~(old ^ new).has(x.full) for x in (cells.PHASE, cells.WARP))
    several = w.select(one_phase & ~one_warp, cells.WARP.full, 0)
    earlier = old & ~cells.EPOCH.full | new & cells.EPOCH.full
    both = w.select(scalar & ~one_phase, earlier, new) & ~cells.ATOMIC.full
    both |= old & new & cells.ATOMIC.full | several
    return w.select(one_phase | one_warp | scalar, both, new)


def join(w: Checks, ctx: Value, old: Value, new: Value) -> Value:
    """Cell of a read and earlier ones of other programs."""
    hashed = ((old * 0x9E3779B97F4A7C15) ^ new) * 0x9E3779B97F4A7C15 >> 56
    kept = w.state.follow(Word.JOINED).row(hashed, Joined.WORDS)
    with w.when((kept[Joined.OLD] == old) & (kept[Joined.NEW] == new)):
        w.ret(kept[Joined.MADE])
    listed = w.variable(list_of(w, old))
    with w.when(listed.value == 0):
        listed.value = _element(w, old, w.term(0, I32))
    first, following = w.pool.read(listed.value)
    again = cells.GROUP.extract(first) == cells.GROUP.extract(new)
    cell = w.select(again, joined_in_group(w, first, new), new)
    index = _element(w, cell, w.select(again, following, listed.value))
    result = index.to(I64) << cells.LIST.first | cells.SEVERAL_OWNERS
    for word, value in ((Joined.OLD, old), (Joined.NEW, new), (Joined.MADE, result)):
        kept[word] = value
    return result


def _element(w: Checks, cell: Value, following: Value) -> Value:
    """Create an element of a list of accesses."""
    return w.pool.new({Reader.LOW: cell.to(I32), Reader.HIGH: (cell >> 32).to(I32),
                       Reader.NEXT: following})

