"""The sanitizer's run-time checks, as LLVM functions: bounds, alignment, first use, races.

State of a launch (`Word`, 64-bit words, see `shadow.LaunchState`) is reached through the context of
the work-group.  Work-groups of a checked launch run on one thread, one after another or in turns.

A tracked block has two cells of 64 bits per dword of memory, the last write and the last read.
Their fields are `BYTES`, `ATOMIC`, `EPOCH` (of releases), `PHASE` (of barriers), `WARP` and
`GROUP`.  Two accesses of one dword race if one writes, they share bytes, not both are atomic, and

- in one work-group: they are of different subgroups in the same phase, so that no barrier with the
  right fence is between them.  After a load, any barrier suffices for a store to global memory;
- in two work-groups: the second has not acquired what the first released after its access (`sync`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triton_xe.llvm import I1, I8, I32, I64, integers, poison, vector
from triton_xe.llvm.values import Memory, Term, Value, Variable
from triton_xe.runtime.simulator.context import Code, Context
from triton_xe.runtime.simulator.library.names import STOPPED
from triton_xe.runtime.simulator.sanitizer import cells, clocks, phases
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.acquired import has_acquired
from triton_xe.runtime.simulator.sanitizer.cells import ATOMIC, BYTES, EPOCH, GROUP, PHASE, WARP
from triton_xe.runtime.simulator.sanitizer.records import Checks, joined_in_group, list_of
from triton_xe.runtime.simulator.sanitizer.state import (
    Entry,
    Fault,
    Form,
    Kind,
    Node,
    Order,
    Published,
    Word,
)
from triton_xe.runtime.simulator.sanitizer.sync import forget_releases, releases_before_barrier

_PIECE = 16
"""Dwords of a range that are tested at once."""


def _report(w: Checks, code: Code, row: Term, *other: Term) -> Value:
    """Report a fault; true if the access may still be executed."""
    access = (w[n] for n in ("ctx", "sg", "site", "lane"))
    tail = (w[n] for n in ("address", "size", "kind"))
    return w.call(s.REPORT, *access, row, *tail, code, *(other or (0, 0, 0)))


def report(w: Checks, *arguments: Value) -> Value:
    """Record the first fault of a launch, or let the host note the fault and continue."""
    goes_on = w.state[Word.GOES_ON] != 0
    fault = w["site"].to(I64) << 8 | w["code"]
    with w.when(w.clean() & ~(goes_on & (w.state[Word.NOTED] == fault))):
        for k, name in reversed(tuple(enumerate(Fault._fields))):
            value = w.ctx[Context.GROUP] if name == "group" else w[name]
            w.error[k] = value.signed(I64)
        with w.when(goes_on):
            w.call(s.NOTE, w.error.base.integer())
            w.state[Word.NOTED] = fault
            w.error[0] = 0
    return goes_on


def find(w: Checks, ctx: Value, address: Value) -> Value:
    """Row of the block that contains an address, or -1; the host may add a row for it."""
    found = w.variable(-1)
    with w.range(w.state[Word.FIRST_SEARCHED], w.state[Word.SEARCH_END]) as k:
        with w.when(w.holds(w.block(k), address)):
            found.value = k
    with w.when(found.value.compare("slt", 0)):
        found.value = w.call(s.MISS, address)
    return found.value


def one(w: Checks, ctx: Value, sg: Value, site: Value, lane: Value, row: Value, address: Value,
        size: Value, kind: Value, active: Value) -> Value:
    """Check one range of bytes; true if the access may be executed."""
    result = w.variable(1, I1)
    clean = w.clean()
    with w.when(active & ~clean):
        w.call(STOPPED, ctx, sg, site.to(I64))
        result.value = 0
    with w.when(active & clean):
        w.state[Word.CHECKED] += 1
        with w.when((size <= 8) & ~w.flag(Kind.SCALAR)):
            only = Value(w, w.b.insert(poison(vector(1, I64)), address.operand, 0))
            every = w.term(1, vector(1, I1))
            with w.when(w.call(s.try_lanes(1, size.operand, kind.operand), ctx, sg, site, row, only,
                                   size, kind, every)):
                w.ret(1)
        with w.when((size > 8) & ~w.flag(Kind.SCALAR)), w.when(_fine_in_pieces(w)):
            w.ret(1)
        slm = w.flag(Kind.SLM)
        found = w.variable(row)
        with w.when(row.compare("slt", 0) & ~slm):
            found.value = w.call(s.FIND, ctx, address)
        index = found.value
        missing = index.compare("slt", 0) & ~slm
        block = w.block(w.select(slm, w.state[Word.SLM_ENTRY], w.select(missing, 0, index)))
        low, high = address < block[Entry.LOW], address + size > block[Entry.HIGH]
        wrong = low | high | missing
        odd = (address & (kind >> 8) - 1) != 0
        with w.when(wrong):
            result.value = 0
            with w.when(_report(w, Code.BOUNDS, index)):
                result.value = _in_a_block(w, address, size)
        with w.when(odd & ~wrong):
            result.value = _report(w, Code.ALIGNMENT, index)
        with w.when((block[Entry.WRITES] != 0) & result.value & ~w.flag(Kind.UNSEEN)):
            result.value = w.call(
                s.TRACK, ctx, sg, site, lane, block.base, address, size, kind)
        with w.when(result.value & ~slm & (block[Entry.UNWRITTEN] != 0)):
            with w.when(w.flag(Kind.NEEDS)):
                with w.when(w.call(s.FRESH, ctx, block.base, address, size)):
                    result.value = _report(w, Code.UNWRITTEN, index)
            with w.when(result.value & w.flag(Kind.WRITE)):
                w.call(s.MARK, ctx, block.base, address, size)
    return result.value


def _fine_in_pieces(w: Checks) -> Value:
    """True if a range of dwords certainly has no fault; `_PIECE` of them are tested at a time."""
    address, size, kind = (w[name] for name in ("address", "size", "kind"))
    known, align = kind.operand.integer_value(), 4 << 8
    kept = 255 & ~Kind.KEPT
    flags = kind & kept | align if known is None else w.term(known & kept | align, I64)
    steps = Value(w, integers(I64, range(0, 4 * _PIECE, 4)))
    fine = w.variable(((address | size) & 3 == 0) & (address & (kind >> 8) - 1 == 0))
    checked = s.try_lanes(_PIECE, 4, flags.operand)
    with w.range(0, w.select(fine.value, (size + 4 * _PIECE - 1) // (4 * _PIECE), 0)) as k:
        first = k * (4 * _PIECE)
        with w.when(fine.value):
            fine.value = w.call(checked, *(w[name] for name in ("ctx", "sg", "site", "row")),
                                steps + (address + first), 4, flags, steps < size - first)
    return fine.value


def _in_a_block(w: Checks, address: Value, size: Value) -> Value:
    """True if a range is in some block, even if no argument points to it."""
    row = w.call(s.FIND, w["ctx"], address)
    some = row.compare("sge", 0)
    block = w.block(w.select(some, row, 0))
    return some & w.holds(block, address) & (address + size <= block[Entry.HIGH])


def _conflict(
    w: Checks, old: Value, new: Value, slm: Value, since: Term, *, reads: Value
) -> Value:
    """True if an earlier access, a read if `reads`, is not ordered before the new one.

    `since` is the number of the latest barriers that do not order the two.
    """
    shared, atomic = (old & new).has(BYTES.full), (old & new).has(ATOMIC.full)
    group, warp, phase = (field.extract(old) for field in (GROUP, WARP, PHASE))
    same = group == GROUP.extract(new)
    age = PHASE.extract(new) - phase & PHASE.most
    inside = same & (warp != WARP.extract(new)) & (age <= since)
    across = ~slm & ~same & w.in_order()
    excused = atomic & ~(across & w.flag(Kind.LOCAL))
    ordered = w.variable(0, I1)
    acquired = w.state[Word.ACQUIRED] != 0
    with w.when(across & acquired & (group < cells.SEVERAL_GROUPS)):
        epoch = EPOCH.extract(old) - ATOMIC.extract(old)
        anywhere = (warp == cells.SEVERAL) | (phase == PHASE.most)
        ordered.value = has_acquired(w, (group, epoch, phase, warp), anywhere | reads)
    return (old != 0) & shared & ~excused & (inside | across & ~ordered.value)


def _conflicts(
    w: Checks, old: Value, new: Value, slm: Value, since: Term, *, reads: Value, asked: Value
) -> tuple[Value, Value]:
    """Return True if an access conflicts with one that a cell records, and the cell of that one.

    If `asked`, a cell with a list of accesses is compared with each access of the list.
    """
    found = w.variable(_conflict(w, old, new, slm, since, reads=reads))
    who = w.variable(old)
    first = list_of(w, old)
    with w.when((first != 0) & asked):
        found.value = 0
        with w.chain(first) as (reader, slot):
            cell, following = w.pool.read(reader)
            clash = _conflict(w, cell, new, slm, since, reads=reads)
            found.value |= clash
            who.value = w.select(clash, cell, who.value)
            slot.value = following
    return found.value, who.value


def clash(w: Checks, ctx: Value, old: Value, new: Value, kind: Value, read: Value) -> Value:
    """True if one earlier access of a dword conflicts with a new one.

    The earlier one is the last write, or, with `read`, the reads of the dword since.
    """
    slm = w.flag(Kind.SLM)
    since = w.select(read, 0, unfenced_barriers(w, slm))
    return _conflicts(w, old, new, slm, since, reads=read, asked=w.term(1, I1))[0]


def merge(w: Checks, ctx: Value, block: Value, old: Value, new: Value, kind: Value) -> Value:
    """Cell of the readers of a dword after one more."""
    return _merged_read(w, old, new, _is_other_read(w, old, new, w.flag(Kind.SLM)))


def _is_other_read(w: Checks, old: Value, new: Value, slm: Value) -> Value:
    """True if an earlier read, of any bytes of a dword, is not ordered before a new one."""
    def is_unordered(cell: Value) -> Value:
        return _conflict(w, cell | BYTES.full, new | BYTES.full, slm, 0, reads=w.term(1, I1))

    clash = w.variable(is_unordered(old))
    with w.when(slm), w.chain(list_of(w, old)) as (reader, slot):
        cell, slot.value = w.pool.read(reader)
        clash.value |= is_unordered(cell)
    return (old != 0) & clash.value


# --- creation of a chunk's cells ------------------------------------------------------------------
#
# Each dword of a chunk has a cell.  If the first accesses of the chunk are narrower than a dword,
# each element has a cell instead.  Thus programs may share a dword without sharing a cell.  A
# later access of another size merges the cells of such a chunk into cells of dwords, with lists of
# accesses.

_DWORDS = (1 << s.CHUNK_BITS) // 4
_PARTS_OF_DWORDS = {s.OF_HALVES: 2, s.OF_BYTES: 4}


def touch(w: Checks, ctx: Value, block: Value, chunk: Value, wanted: Value) -> None:
    """Create the `wanted` cells of a chunk of global memory that do not exist yet."""
    entry = Memory(w, block)
    flags = Memory(w, entry[Entry.TOUCHED].pointer(), I8)
    asked, before = wanted & s.OF_ELEMENTS, flags[chunk].to(I32)
    with w.when(before & (wanted | s.OF_ELEMENTS) == wanted):
        w.ret()
    with w.when((asked != 0) & (entry[Entry.ELEMENT_WRITES] == 0)):
        w.call(s.ELEMENTS, block.integer())
    elements = w.select(entry[Entry.ELEMENT_WRITES] != 0, asked, 0)
    with w.when(before != 0):
        entry.follow(Entry.FORM)[Form.LEFT] = -1
        w.call(s.CHANGE, ctx, block, chunk, wanted)
        w.ret()
    for kind, bit in enumerate(s.BEGUN_OF):
        with w.when(wanted.has(bit)):
            _clear(w, entry, chunk, kind, elements)
    made, form = wanted & s.BEGUN | elements, entry.follow(Entry.FORM)
    flags[chunk] = made.to(I8)
    alike = (form[Form.FLAGS] == 0) | (form[Form.FLAGS] == made.to(I64))
    form[Form.LEFT] = w.select(alike, form[Form.LEFT] - 1, -1)
    form[Form.FLAGS] = made.to(I64)


def change(w: Checks, ctx: Value, block: Value, chunk: Value, wanted: Value) -> None:
    """Create the `wanted` cells of a chunk from those that it has."""
    entry = Memory(w, block)
    flags = Memory(w, entry[Entry.TOUCHED].pointer(), I8)
    before = flags[chunk]
    begun = before.has(s.BEGUN)
    has = w.select(begun, before & s.OF_ELEMENTS, 0).to(I32)
    asked = wanted & s.OF_ELEMENTS
    stays = ~begun & (entry[Entry.ELEMENT_WRITES] != 0) | (has == asked)
    elements = w.select(stays, asked, 0)
    for kind, bit in enumerate(s.BEGUN_OF):
        with w.when(before.has(bit) & (has != elements)):
            _merge_elements(w, entry, chunk, kind, has)
        with w.when(wanted.has(bit) & ~before.has(bit)):
            _begin(w, entry, chunk, kind, before, elements)
    kept = before.to(I32) & ~s.OF_ELEMENTS | wanted & s.BEGUN
    flags[chunk] = (kept | elements).to(I8)


def _begin(
    w: Checks, entry: Memory, chunk: Value, kind: int, flags: Value, elements: Value
) -> None:
    """Create cells of stores (0) or loads (1), from those of the whole chunk."""
    bit = s.BEGUN_OF[kind]
    with w.when(flags.has(s.ALIKE * bit)):
        first, place = _cells_of(w, entry, chunk, kind, 0)
        merged, site = w.variable(first), w.variable(place)
        for number in range(1, s.PARTS):
            with w.when(flags.has(s.PART_FLAGS[number] * bit)):
                more, place = _cells_of(w, entry, chunk, kind, number)
                site.value = w.select(merged.value == 0, place, site.value)
                _join_cells(w, merged, more, kind)
        sites = entry[Entry.WRITE_SITES + kind] + _first_byte(entry, chunk)
        w.store(site.value, sites.pointer(), align=4)
        with w.when(elements == 0):
            w.store(merged.value, _dwords(entry, chunk, kind), align=8)
        for flag, count in _PARTS_OF_DWORDS.items():
            with w.when(elements == flag):
                each = _cells_of_elements(w, merged.value, count)
                w.store(each, _elements(entry, chunk, kind), align=8)
    with w.otherwise():
        _clear(w, entry, chunk, kind, elements)


def _clear(w: Checks, entry: Memory, chunk: Value, kind: int, elements: Value) -> None:
    """Create empty cells of stores (0) or loads (1)."""
    for flag, count in {0: 1, **_PARTS_OF_DWORDS}.items():
        with w.when(elements == flag):
            at = _elements(entry, chunk, kind) if flag else _dwords(entry, chunk, kind)
            w.fill(at, 0, 8 * count * _DWORDS)


def _first_byte(entry: Memory, chunk: Value) -> Value:
    return (chunk << s.CHUNK_BITS) - (entry[Entry.LOW] & -4)


def _dwords(entry: Memory, chunk: Value, kind: int) -> Value:
    """Address of the cells of a chunk's dwords."""
    return (entry[Entry.WRITES + kind] + (_first_byte(entry, chunk) << 1)).pointer()


def _elements(entry: Memory, chunk: Value, kind: int) -> Value:
    """Address of the cells of a chunk's elements."""
    return (entry[Entry.ELEMENT_WRITES + kind] + (chunk << s.CHUNK_BITS + 3)).pointer()


def _cells_of_elements(w: Checks, cells: Value, count: int) -> Value:
    """Split each dword's cell into cells of its `count` elements; 0 for unaccessed elements."""
    width, part = 4 // count, (1 << 4 // count) - 1
    each = cells.shuffled(None, [k // count for k in range(count * _DWORDS)])
    masks = Value(w, integers(I64, [part << k % count * width for k in range(count * _DWORDS)]))
    bytes_ = each & masks
    return w.select(bytes_ == 0, 0, each & ~BYTES.full | bytes_)


def _merge_elements(w: Checks, entry: Memory, chunk: Value, kind: int, elements: Value) -> None:
    """Merge the cells of elements into those of their dwords."""
    for flag, count in _PARTS_OF_DWORDS.items():
        with w.when(elements == flag):
            every = w.load(vector(count * _DWORDS, I64), _elements(entry, chunk, kind), align=8)
            merged = w.variable(w.term(0, vector(_DWORDS, I64)))
            for k in range(count):
                _join_cells(w, merged, every.shuffled(None, range(k, count * _DWORDS, count)), kind)
            w.store(merged.value, _dwords(entry, chunk, kind), align=8)


def _join_cells(w: Checks, merged: Variable, more: Value, kind: int) -> None:
    """Add accesses of other bytes to the cells of dwords."""
    both = (merged.value != 0) & (more != 0) & ((merged.value ^ more) & ~BYTES.full != 0)
    with w.when(w.unlikely(both.bits != 0)):
        ones, others = w.in_memory(merged.value), w.in_memory(more)
        with w.each(both.bits) as k:
            pair = ones[k], others[k]
            # the later access of a program decides the phase of both
            swapped = PHASE.extract(pair[0]) > PHASE.extract(pair[1])
            old, new = w.select(swapped, pair[1], pair[0]), w.select(swapped, pair[0], pair[1])
            ones[k] = _joined(w, old, new, kind)
        merged.value = w.load(more.type, ones.base)
    merged.value |= w.select(both, 0, more)


def _joined(w: Checks, old: Value, new: Value, kind: int) -> Value:
    """The cell that records all accesses of two cells."""
    result, listed = w.variable(old), list_of(w, new)
    with w.when(listed == 0):
        result.value = w.call(s.JOIN, w["ctx"], old, new, int(kind == 0))
    with w.chain(listed) as (one, slot):
        cell, slot.value = w.pool.read(one)
        result.value = w.call(s.JOIN, w["ctx"], result.value, cell, int(kind == 0))
    return result.value


def _cells_of(
    w: Checks, entry: Memory, chunk: Value, kind: int, number: int
) -> tuple[Value, Value]:
    """Expand a cell of a chunk to cells and sites of its dwords; 0 for unaccessed dwords."""
    cell, site, bytes_ = (
        w.load(t, (entry[word + kind + number * s.LINE_WORDS] + chunk * t.size).pointer())
        for word, t in ((Entry.LINE_WRITES, I64), (Entry.LINE_WRITE_SITES, I32),
                        (Entry.LINE_WRITE_BYTES, I64)))
    steps = Value(w, integers(I64, range(0, 4 * _DWORDS, 4)))
    kept = w.spread(bytes_, _DWORDS) >> steps & BYTES.full
    none = (kept == 0) | (cell == 0)
    return (w.select(none, 0, w.spread(cell & ~BYTES.full, _DWORDS) | kept),
            w.spread(site, _DWORDS))


# --- each dword of a range ------------------------------------------------------------------------


class _Cells(NamedTuple):
    """The cells of a dword before an access, and the access as a cell."""

    write: Value
    read: Value
    new: Value


class _Race(NamedTuple):
    """Flags of a dword: with which earlier accesses an access conflicts."""

    after_write: Value
    after_read: Value
    writer: Value
    """Cell of the store that it conflicts with."""
    reader: Value
    mixes: Value
    """True if several subgroups store different values to a dword of shared memory."""


def track(w: Checks, ctx: Value, sg: Value, site: Value, lane: Value, block: Value,
          address: Value, size: Value, kind: Value) -> Value:
    """Compare an access with the recorded ones of every dword of a range, and record it."""
    result = w.variable(1, I1)
    slm, writes = w.flag(Kind.SLM), w.flag(Kind.WRITE)
    entry = Memory(w, block)
    first = address - (entry[Entry.LOW] & -4)
    end = first + size
    owner = owner_of(w, slm)
    columns = entry.follow(Entry.WRITES), entry.follow(Entry.READS)
    sites = tuple(entry.follow(word, I32) for word in (Entry.WRITE_SITES, Entry.READ_SITES))
    with w.when(slm):
        phases.ask_cells(w)
    _first_use(w, slm, writes, result)
    last = address + size - 1 >> s.CHUNK_BITS
    with w.when(~slm), w.range(address >> s.CHUNK_BITS, last + 1) as chunk:
        w.call(s.TOUCH, ctx, block, chunk, s.BEGUN)
    with w.range(first >> 2, end + 3 >> 2) as d:
        dword = _Cells(columns[0][d], columns[1][d], owner | _bytes_of(w, d, first, end))
        race = _race(w, dword, d, slm, writes)
        with w.when(race.mixes):
            w.state[Word.SLM_MIXED] = 1
        with w.when((race.after_write | race.after_read) & result.value):
            other_site = w.select(race.after_write, sites[0][d], sites[1][d])
            other = w.select(race.after_write, race.writer, race.reader)
            result.value = _report(
                w, Code.RACE, -1, other, other_site.to(I64), race.after_write.to(I64))
        _end_release(w, entry, dword.write, dword.new, d)
        with w.when(writes):
            columns[0][d], columns[1][d] = _after_store(w, dword, owner, race.mixes, slm)
            sites[0][d] = site
        with w.otherwise():
            _, read, new = dword
            columns[1][d] = _merged_read(w, read, new, _is_other_read(w, read, new, slm))
            sites[1][d] = site
    return result.value


def _race(w: Checks, of: _Cells, dword: Value, slm: Value, writes: Value) -> _Race:
    """The accesses that an access of a dword conflicts with.

    Several subgroups may write a dword of shared memory that is never read.
    """
    no, yes = w.term(0, I1), w.term(1, I1)
    after_write, writer = _conflicts(
        w, of.write, of.new, slm, unfenced_barriers(w, slm), reads=no, asked=yes)
    was_mixed = WARP.extract(of.write) == cells.SEVERAL
    mixed = was_mixed & (GROUP.extract(of.write) == GROUP.extract(of.new))
    several = after_write & slm & writes
    same = _stores_the_same(w, of.write, of.new, dword, after_write)
    after_read, reader = _conflicts(w, of.read, of.new, slm, 0, reads=yes, asked=writes)
    return _Race(after_write & ~several & ~same | mixed & ~writes, after_read & writes,
                 writer, reader, several & (was_mixed | ~same))


def _after_store(
    w: Checks, of: _Cells, owner: Value, mixes: Value, slm: Value
) -> tuple[Value, Value]:
    """The cells of a dword's stores and reads after a store."""
    mine = of.write & -16 == owner
    kept = w.select(mine, of.write | of.new, of.new)
    kept = w.select(mixes, kept | WARP.full, kept)
    rest = of.read & ~(of.new & BYTES.full)
    return (_with_other_bytes(w, of.write, of.new, kept, slm),
            w.select(rest.has(BYTES.full), rest, 0))


def _bytes_of(w: Checks, dword: Value, first: Value, end: Value) -> Value:
    """Bits of the bytes of a dword that are in a range."""
    low = dword << 2
    skip = w.select(first > low, first - low, 0)
    over = w.select(end < low + 4, low + 4 - end, 0)
    return w.term(15, I64) << skip & w.term(15, I64) >> over


def _stores_the_same(
    w: Checks, old: Value, new: Value, dword: Value, asked: Value
) -> Value:
    """True if a store, if `asked`, writes the value that another subgroup has stored.

    For a store of another program, only if the launch does not read the block.  Otherwise the reads
    of the old store, and their order, would have to be recorded as well.
    """
    block = Memory(w, w["block"])
    in_program = (GROUP.extract(old) == GROUP.extract(new)) & ~old.has(ATOMIC.full)
    result = w.variable(asked & w.flag(Kind.KEPT) & (in_program | (block[Entry.UNREAD] != 0)))
    start = block[Entry.LOW] & -4
    lane = w.select(w["lane"].compare("slt", 0), 0, w["lane"]).to(I64)
    values = w.state[Word.VALUES] + lane * w["size"]
    with w.when(result.value), w.range(0, 4) as k, w.when(new.has(w.term(1, I64) << k)):
        at = start + (dword << 2) + k
        put, there = (w.load(I8, x.pointer()) for x in (values + at - w["address"], at))
        result.value &= put == there
    return result.value


def _end_release(w: Checks, block: Memory, old: Value, new: Value, dword: Value) -> None:
    """Drop published releases before an atomic, if another program has stored since."""
    lists, group = block[Entry.SYNC], GROUP.extract(old)
    stored = ~old.has(ATOMIC.full) & (old & new).has(BYTES.full)
    with w.when((lists != 0) & (group < cells.SEVERAL_GROUPS) & new.has(ATOMIC.full) & stored):
        at = Memory(w, (lists + (dword << 2)).pointer(), I32)
        by = w.variable(0)
        with w.when(w.clocked()):
            by.value = clocks.clock_of(w, at[0])[clocks.Clock.BY]
        with w.otherwise():
            by.value = w.pool[w.pool[at[0], Published.NODE], Node.GROUP].to(I64)
        with w.when(by.value != group):
            at[0] = 0


def unfenced_barriers(w: Checks, slm: Value) -> Value:
    """Number of the latest barriers after which earlier stores are not visible yet."""
    return w.select(slm, 0, w.state[Word.SINCE])


def owner_of(w: Checks, slm: Value) -> Value:
    """Cell of the access, without bytes."""
    state = w.state
    phase = w.select(slm, state[Word.SLM_PHASE], state[Word.GLOBAL_PHASE])
    phase = w.select(w.flag(Kind.SCALAR), PHASE.most, phase)
    epoch = w.select(state[Word.EPOCH] < EPOCH.most, state[Word.EPOCH], EPOCH.most)
    state[Word.ACCESSED] = 1
    owner = w.group << GROUP.first
    for value, field in ((w["sg"].to(I64), WARP), (phase & PHASE.most, PHASE), (epoch, EPOCH),
                         (w.flag(Kind.ATOMIC).to(I64), ATOMIC)):
        owner |= value << field.first
    return owner


def _with_other_bytes(w: Checks, old: Value, new: Value, kept: Value, slm: Value) -> Value:
    """The cell after a store: it still records other programs' stores of other bytes."""
    result, plain = w.variable(kept), ~(old | new).has(ATOMIC.full)
    others = (old & ~new).has(BYTES.full) & (GROUP.extract(old) != GROUP.extract(new))
    with w.when(others & ~slm & plain):
        result.value = w.call(s.JOIN, w["ctx"], old, new, 1)
    return result.value


def _merged_read(w: Checks, old: Value, new: Value, unordered: Value) -> Value:
    """The cell after a read: all reads since the last write that are not ordered before it."""
    group = GROUP.extract(old) == GROUP.extract(new)
    warp = WARP.extract(old) == WARP.extract(new)
    scalar = PHASE.extract(new) == PHASE.most
    joined = joined_in_group(w, old, new)
    # a scalar load conflicts with no other subgroup, but the loads before it may
    phase = w.select(scalar, old & PHASE.full, joined & PHASE.full)
    kept = w.variable(joined & ~PHASE.full | phase)
    across = unordered & ~group
    with w.when(across):
        kept.value = (old | new) & BYTES.full | cells.SEVERAL_OWNERS
    differs = (old ^ new).has(BYTES.full)
    followed = (Memory(w, w["block"])[Entry.SYNC] != 0) | differs | (list_of(w, old) != 0)
    once = warp & (PHASE.extract(old) == PHASE.extract(new))
    apart = group & differs & ~once & (unordered | warp | scalar | (old & PHASE.full == PHASE.full))
    with w.when(across & followed | apart):
        kept.value = w.call(s.JOIN, w["ctx"], old, new, 0)
    return w.select(group & (warp | scalar) | unordered | apart, kept.value, new)


def _first_use(w: Checks, slm: Value, writes: Value, result: Variable) -> None:
    """Record which bytes of shared memory are written; a read of other bytes is a fault."""
    with w.when(slm):
        known = w.state.follow(Word.SLM_KNOWN, I8)
        first = w["address"] - Memory(w, w["block"])[Entry.LOW]
        with w.range(first, first + w["size"]) as k:
            bit = w.term(1, I8) << (k & 7).to(I8)
            with w.when(writes):
                known[k >> 3] = known[k >> 3] | bit
            with w.otherwise(), w.when((known[k >> 3] & bit == 0) & result.value):
                result.value = _report(w, Code.UNINITIALISED, -1, k, 0, 0)


def block(w: Checks, ctx: Value, sg: Value, site: Value, row: Value, base: Value,
          w1: Value, h1: Value, p1: Value, x: Value, y: Value, row_bytes: Value, rows: Value,
          element: Value, kind: Value) -> Value:
    """Check the part of a 2D block that is inside its surface."""
    result = w.variable(1, I1)
    width, height, pitch = (n.to(I64) + 1 for n in (w1, h1, p1))
    place = x.signed(I64) * element, y.signed(I64)
    x0, x1, y0, y1, some = surface_part(w, width, height, place, (row_bytes, rows))
    with w.when(some), w.range(y0, y1) as line:
        fine = w.call(s.check_one(0, kind.operand), ctx, sg, site, -1, row,
                      base + line * pitch + x0, x1 - x0, kind, 1)
        result.value &= fine
    return result.value


def barrier(w: Checks, ctx: Value, sg: Value, semantics: Value) -> None:
    """Begin a new phase of the memory that a barrier fences; the first subgroup does so."""
    state = w.state

    def fences(order: Order, fenced: Word) -> Value:
        before = state[fenced] != 0
        state[fenced] = 0
        return semantics.has(order) | before

    passed = w.ctx[Context.PASSED]
    w.ctx[Context.PASSED] = w.select(passed + 1 == state[Word.SUBGROUPS], 0, passed + 1)
    with w.when(passed == 0):
        ordered = fences(Order.SLM, Word.FENCED_SLM)
        state[Word.SLM_PHASE] += ordered.to(I64)
        with w.when(ordered):
            phases.begin_phase(w)
        state[Word.GLOBAL_PHASE] += 1
        visible = fences(Order.GLOBAL, Word.FENCED_GLOBAL)
        state[Word.SINCE] = w.select(visible, 0, state[Word.SINCE] + 1)
        releases_before_barrier(w)


def group(w: Checks, ctx: Value) -> None:
    """Begin a new work-group: its shared memory is unknown, and nothing is acquired."""
    state = w.state
    for word in (Word.GLOBAL_PHASE, Word.SLM_PHASE, Word.SINCE, Word.FENCED_GLOBAL,
                 Word.FENCED_SLM):
        state[word] = 0
    forget_releases(w)
    w.ctx[Context.PASSED] = 0
    state[Word.GROUP] = w.ctx[Context.GROUP]
    entry, low = w.block(state[Word.SLM_ENTRY]), w.ctx[Context.SLM]
    nbytes = state[Word.SLM_BYTES]
    entry[Entry.LOW] = low
    entry[Entry.HIGH] = low + nbytes
    phases.begin_group(w)


def non_finite(w: Checks, ctx: Value, sg: Value, site: Value, bad: Value) -> None:
    """Report an infinity or NaN from finite operands; `bad` has a bit per lane."""
    _report_lane(w, Code.NON_FINITE, 0)


def undefined(
    w: Checks, ctx: Value, sg: Value, site: Value, bad: Value, use: Value, at: Value
) -> None:
    """Report a use of undefined bits; `use` numbers the check, `bad` has a bit per lane.

    They are stored to address `at`, unless it is 0.
    """
    _report_lane(w, Code.UNDEFINED, use, at)


def collision(
    w: Checks, ctx: Value, sg: Value, site: Value, bad: Value, at: Value, nbytes: Value
) -> None:
    """Report that a store of several elements to address `at` left another element there."""
    _report_lane(w, Code.COLLISION, 0, at, nbytes, Kind.WRITE)


def _report_lane(
    w: Checks, code: Code, other: Term, at: Term = 0, size: Term = 0, kind: Term = 0
) -> None:
    """Report the first lane of `bad`, if there is one."""
    with w.when(w["bad"] != 0):
        lane = w["bad"].lowest().to(I32)
        w.call(s.REPORT, w["ctx"], w["sg"], w["site"], lane, -1, at, size, kind, code, other, 0, 0)


# --- maps of unwritten bytes ----------------------------------------------------------------------
#
# A map has a byte for each byte of a block, 0xff if it was never written.  torch's allocator
# creates one for each fresh block.  Its operators and the stores of checked launches mark what they
# write.  A load of bytes that were never written is tracked like one that is masked off
# (`definedness`).  Its *shadow* is what the same load reads from the map.


def mark(w: Checks, ctx: Value, block: Value, address: Value, size: Value) -> None:
    """Mark a range of bytes as written."""
    moved = address + Memory(w, block)[Entry.UNWRITTEN]
    w.fill(moved.pointer(), 0, size)


def fresh(w: Checks, ctx: Value, block: Value, address: Value, size: Value) -> Value:
    """True if any byte of a range is unwritten."""
    start = address + Memory(w, block)[Entry.UNWRITTEN]
    found = w.variable(0, I1)
    with w.range(start, start + size) as k:
        found.value |= w.load(I8, k.pointer()) != 0
    return found.value


def note_lanes(
    w: Checks, ctx: Value, block: Value, addresses: Value, mask: Value, size: Value, kind: Value
) -> Value:
    """Mark the bytes that the lanes of a valid access write; false if they read unwritten bytes."""
    result, memory = w.variable(1, I1), Memory(w, addresses)
    with w.when(w.flag(Kind.NEEDS)), w.each(mask) as k:
        result.value &= ~w.call(s.FRESH, ctx, block, memory[k], size)
    with w.each(w.select(result.value & w.flag(Kind.WRITE), mask, 0)) as k:
        w.call(s.MARK, ctx, block, memory[k], size)
    return result.value


def clipped(w: Checks, first: Value, count: Value, limit: Value) -> tuple[Value, Value]:
    """The part of a range that is between 0 and a limit."""
    end = first + count
    return (w.select(first.compare("sgt", 0), first, 0),
            w.select(end.compare("slt", limit), end, limit))


def surface_part(
    w: Checks, width: Value, height: Value, place: Sequence[Value], shape: Sequence[Value]
) -> tuple[Value, Value, Value, Value, Value]:
    """First and end byte, first and end row of a 2D block in its surface; true if any are."""
    x0, x1 = clipped(w, place[0], shape[0], width)
    y0, y1 = clipped(w, place[1], shape[1], height)
    return x0, x1, y0, y1, x0.compare("slt", x1) & y0.compare("slt", y1)


def surface_y(
    w: Checks, ctx: Value, row: Value, base: Value, w1: Value, h1: Value, p1: Value, x: Value,
    y: Value, row_bytes: Value, rows: Value,
) -> Value:
    """Row from which a 2D block can be loaded from the map: `y` if the whole block is in memory."""
    width, height, pitch = (n.to(I64) + 1 for n in (w1, h1, p1))
    x0, x1, y0, y1, _ = surface_part(w, width, height, (x.signed(I64), y.signed(I64)),
                                     (row_bytes, rows))
    block = w.block(row)
    inside = (base + y0 * pitch + x0 >= block[Entry.LOW]) & (
        base + (y1 - 1) * pitch + x1 <= block[Entry.HIGH])
    nowhere: Term = w.term(s.NOWHERE, I32)
    return w.select(inside, y, nowhere)
