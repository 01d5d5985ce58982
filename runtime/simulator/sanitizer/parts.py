"""Cells of whole chunks of global memory, each of which records accesses of some bytes of the
chunk.

A chunk has up to `PARTS` of them for its stores, and for its loads: one per program and source
location.  An access of all lanes covers a few consecutive chunks, its *window*, which are tested at
once.  Possible conflicts, and accesses that would need one more cell, are left to the cells of
dwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import reduce
from operator import or_

from triton_xe.llvm import (
    I1,
    I8,
    I32,
    I64,
    VOID,
    Type,
    integers,
    vector,
)
from triton_xe.llvm.values import Memory, Value
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.cells import (
    ATOMIC,
    BYTES,
    GROUP,
    LIST,
    PHASE,
    SEVERAL_OWNERS,
    WARP,
)
from triton_xe.runtime.simulator.sanitizer.checks import unfenced_barriers
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import (
    ALIKE,
    BEGUN,
    BEGUN_OF,
    CHUNK_BITS,
    PART_FLAGS,
    PARTS,
    WINDOW,
    Entry,
    Kind,
    Word,
)

_UNROLLED = 4
"""Accesses of a window that are added in one step of a loop."""

# --- vector forms of the arithmetic of `checks` ---------------------------------------------------


def of_group(old: Value, owner: Value) -> Value:
    """Cells of the running work-group."""
    return old ^ owner < 1 << GROUP.first


def of_subgroup(old: Value, owner: Value) -> Value:
    """Cells of the running subgroup."""
    return (old ^ owner) & -1 << WARP.first == 0


def ordered(
    w: Checks, old: Value, owner: Value, slm: Value, since: Value, phased: Value
) -> Value:
    """Cells that cannot conflict: unused, atomic like the new access, or of this subgroup.

    If they are `phased`, also those before one more barrier.
    """
    group = of_group(old, owner)
    phase = (_age(old, owner) > since) & phased
    atomic = (old & owner).has(ATOMIC.full) & (group | ~w.flag(Kind.LOCAL))
    free = (old == 0) | of_subgroup(old, owner) | atomic
    return free | group & phase | ~group & slm & ~is_list(old)


def is_list(cells: Value) -> Value:
    """Cells that have lists of accesses."""
    several = cells >> GROUP.first == GROUP.most
    return several & cells.has(LIST.full)


def _age(old: Value, owner: Value) -> Value:
    """Number of barriers since an access."""
    return (owner >> PHASE.first) - (old >> PHASE.first) & PHASE.most


def earlier(old: Value, owner: Value) -> Value:
    """Cells of reads by this work-group before its last barrier."""
    return of_group(old, owner) & (_age(old, owner) > 0)


def merged_read(w: Checks, old: Value, new: Value, owner: Value, before: Value) -> Value:
    """The cell of reads `old` after the read `new`; reads `before` it are forgotten.

    Reads of several subgroups, or of several work-groups, become a cell without a single owner.
    """
    mine, read = of_subgroup(old, owner), old & BYTES.full
    several = read | new | WARP.full
    groups = (old | new) & BYTES.full | SEVERAL_OWNERS
    joined = w.select(of_group(old, owner), several, groups)
    return w.select(before | mine, w.select(mine, read | new, new), joined)


@contextmanager
def distinct(
    w: Checks, cells: Value, new: Value, which: Value
) -> Iterator[tuple[Value, Value, Value]]:
    """Loop over distinct cells of some lanes: yield the cell, the new one, and the lanes."""
    several = new.type != new.type.scalar
    with w.chain(which.bits) as (rest, slot):
        k = rest.lowest()
        one, mine = cells[k], new[k] if several else new
        alike = (cells == one) & (new == mine) if several else cells == one
        yield one, mine, alike & which
        slot.value = rest & ~alike.bits


# --- windows --------------------------------------------------------------------------------------


def can_record_whole(w: Checks) -> bool:
    """True if cells of whole chunks can record an access: a plain one of known size."""
    nbytes, kind = (w[name].operand.integer_value() for name in ("size", "kind"))
    some = nbytes is not None and 0 < nbytes <= 1 << CHUNK_BITS
    return some and kind is not None and not kind & (Kind.SLM | Kind.ATOMIC)


def left_over(
    w: Checks, block: Memory, first: Value, nbytes: int, owner: Value, *, least: int,
    crosses: bool,
) -> Value:
    """Record the accesses of `nbytes` each in the window from chunk `first` on, if `least` are.

    Return those that are not recorded, as bits.  `crosses`: one may cross the end of its chunk.
    """
    starts, active, whole = w["addresses"], w["mask"], 1 << CHUNK_BITS
    places, inner, count = (starts >> CHUNK_BITS) - first, starts & whole - 1, starts.type.count
    ones = w.spread(w.term(-1, I64) >> w.term(whole - nbytes, I64), count)
    width = min(WINDOW, (1 + crosses) * count)
    parts, over = [ones << inner], inner + nbytes > whole
    if crosses:
        parts.append(w.select(over, ones >> ((inner ^ -1) + 1 & whole - 1), 0))
    here = active & (places + over.to(I64) < width)
    left = w.variable(active.bits)
    with w.when(w.intrinsic("ctpop", here.bits).to(I32) >= least):
        bytes_ = _spread_over(w, places, [w.select(here, x, 0) for x in parts], width)
        recorded = record_parts(w, block, first, bytes_, owner)
        found = w.spread(recorded, count) >> (places & whole - 1)
        fine = found.has(1) & (found.has(2) | ~over) & here
        left.value &= ~fine.bits
    return left.value


def _spread_over(w: Checks, places: Value, parts: Sequence[Value], width: int) -> Value:
    """Bytes of each chunk of a window, from each access's first chunk and the next one."""
    numbers, lines = w.in_memory(places), [w.in_memory(bytes_) for bytes_ in parts]
    found, count = w.variable(w.term(0, vector(width, I64))), places.type.count
    step = min(count, _UNROLLED)
    with w.range(0, count, step) as first:
        for k in (first + k for k in range(step)):
            for further, line in enumerate(lines):
                steps = Value(w, integers(I64, range(-further, width - further)))
                here = steps == w.spread(numbers[k], width)
                found.value |= w.select(here, w.spread(line[k], width), 0)
    return found.value


def smallest(w: Checks, x: Value) -> Value:
    """The smallest element."""
    if x.type.count == 1:
        return x[0]
    return w.call(f"llvm.vector.reduce.umin.v{x.type.count}i64", x, result=I64)


class _Chunks:
    """Data of the chunks of one window, or of several in ascending order.

    Windows may have chunks in common.  Then the last one has the data that are stored.
    """

    def __init__(self, w: Checks, first: Value, count: int) -> None:
        self.w, self.count = w, count
        number = first.type.lanes
        self._firsts = [first] if number == 1 else [first[k] for k in range(number)]
        self._each = count // number

    def _places(self, base: Value, t: Type) -> list[Value]:
        return [(base + first * t.size).pointer() for first in self._firsts]

    def load(self, base: Value, t: Type) -> Value:
        """A datum of each chunk; `base` is the address of that of chunk 0."""
        flat = vector(self._each, t)
        found = [self.w.load(flat, at, align=t.size) for at in self._places(base, t)]
        while len(found) > 1:
            both = range(2 * found[0].type.count)
            found = [a.shuffled(b, both) for a, b in zip(found[::2], found[1::2], strict=True)]
        return found[0]

    def store(self, value: Value, base: Value, where: Value | None = None) -> None:
        """Store a datum of each chunk; with `where`, of some."""
        t = value.type.scalar
        for k, at in enumerate(self._places(base, t)):
            own = range(k * self._each, (k + 1) * self._each)
            part = value.shuffled(None, own)
            if where is None:
                self.w.store(part, at, align=t.size)
            else:
                mask = where.shuffled(None, own)
                name = f"llvm.masked.store.{part.type.mangled}.p0"
                self.w.b.call(name, VOID, [part.operand, at.operand, mask.operand],
                              aligns=(0, t.size, 0))


class _Part:
    """The cells with one number, for stores (0) or loads (1), of a window's chunks."""

    def __init__(
        self, w: Checks, block: Memory, chunks: _Chunks, flags: Value, kind: int, number: int,
        *, asks: bool = False,
    ) -> None:
        self.w, self.block, self.chunks, self.kind, self.asks = w, block, chunks, kind, asks
        self.count = flags.type.count
        self.words = Entry.LINE_WRITES + kind + number * s.LINE_WORDS
        self.flag = PART_FLAGS[number] << kind
        self.is_there = flags.has(self.flag)
        self.cell = self.bytes = w.term(0, vector(self.count, I64))
        self.site = w.term(0, vector(self.count, I32))
        self.in_order = w.term(1, vector(self.count, I1))
        """True if its recorded accesses are ordered before the current one."""
        self.is_new = w.term(0, vector(self.count, I1))
        """True if it records the current access."""

    def load(self) -> _Part:
        """Load the cells; where they do not exist, they record no bytes."""
        w = self.w
        self.cell = w.select(self.is_there, self._load(Entry.LINE_WRITES, I64), 0)
        there = self.cell != 0
        self.bytes = w.select(there, self._load(Entry.LINE_WRITE_BYTES, I64), 0)
        return self

    def load_site(self) -> None:
        self.site = self._load(Entry.LINE_WRITE_SITES, I32)

    def has(self, bytes_: Value) -> Value:
        return self.bytes.has(bytes_)

    def compare(self, owner: Value, bytes_: Value) -> None:
        """Test whether it is of this subgroup, or of this program and before one more barrier.

        With `asks`, also whether this program has acquired it, if it has some of the bytes.
        """
        w, no = self.w, self.w.term(0, I1)
        since = w.term(0, I64) if self.kind else unfenced_barriers(w, no)
        most = w.select(_age(self.cell, owner) > since, 1 << WARP.count, 1)
        self.in_order = (self.cell ^ owner) >> WARP.first < most
        if self.asks:
            found = w.variable(self.in_order)
            asked = ~self.in_order & self.has(bytes_) & ~of_group(self.cell, owner)
            with distinct(w, self.cell, owner | BYTES.full, asked) as (one, mine, alike):
                clash = w.call(s.CLASH, w["ctx"], one, mine, w["kind"], self.kind)
                found.value |= w.select(clash, 0, alike)
            self.in_order = found.value

    def is_same(self, cell: Value) -> Value:
        """True if it records accesses of the same program and source location."""
        return (self.cell == cell) & (self.site == self.w["site"])

    def note_access(self, recorded: Value, cell: Value, bytes_: Value) -> None:
        """Record the current access; where another cell records it, drop its bytes."""
        w = self.w
        self.cell = w.select(self.is_new, cell, self.cell)
        self.site = w.select(self.is_new, w["site"], self.site)
        self.drop(recorded, bytes_)
        self.bytes = w.select(self.is_new, self.bytes | bytes_, self.bytes)

    def drop(self, where: Value, bytes_: Value) -> None:
        """Remove some bytes."""
        self.bytes = self.w.select(where, self.bytes & ~bytes_, self.bytes)

    def join(self, where: Value, cell: Value) -> None:
        """Add one more reader."""
        self.cell = self.w.select(where, cell, self.cell)
        self.site = self.w.select(where, self.w["site"], self.site)

    def put_bytes(self) -> None:
        self._store(self.bytes, Entry.LINE_WRITE_BYTES)

    def put(self) -> None:
        self._store(self.cell, Entry.LINE_WRITES)
        self._store(self.site, Entry.LINE_WRITE_SITES)
        self.put_bytes()

    def begin(self, where: Value) -> None:
        """Create it where it does not exist."""
        for value, word in ((self.cell, Entry.LINE_WRITES), (self.site, Entry.LINE_WRITE_SITES),
                            (self.bytes, Entry.LINE_WRITE_BYTES)):
            self._store(value, word, where)

    def clear(self, where: Value) -> None:
        """Create it empty where it does not exist."""
        self._store(self.w.term(0, self.cell.type), Entry.LINE_WRITES, where)

    def _base(self, word: Entry) -> Value:
        return self.block[self.words + word - Entry.LINE_WRITES]

    def _store(self, value: Value, word: Entry, where: Value | None = None) -> None:
        self.chunks.store(value, self._base(word), where)

    def _load(self, word: Entry, t: Type) -> Value:
        return self.chunks.load(self._base(word), t)


def record_parts(
    w: Checks, block: Memory, first: Value, bytes_: Value, owner: Value
) -> Value:
    """Record an access of some bytes of each chunk of a window; return the recorded chunks."""
    writes = bool(int(w["kind"].operand.integer_value() or 0) & Kind.WRITE)
    access, result = (w["ctx"], w["site"], block.base, first, bytes_, owner), w.variable(0)
    asks = w.unlikely(w.state[Word.ACQUIRED] != 0)
    for chosen, which in ((True, asks), (False, ~asks)):
        with w.when(which):
            check = s.record_parts(bytes_.type.count, first.type.lanes, writes, chosen)
            result.value = w.call(check, *access)
    return result.value


def record(
    w: Checks, ctx: Value, site: Value, block: Value, first: Value, bytes: Value, owner: Value,
    writes: bool, asks: bool,
) -> Value:
    """Record an access of some bytes of each chunk of a window; return the recorded chunks.

    There may be several windows, in ascending order, whose accessed chunks are distinct.  With
    `asks`, the program may have acquired accesses of other programs.
    """
    entry, count = Memory(w, block), bytes.type.count
    w.arguments["kind"] = w.term(int(writes), I64)
    chunks = _Chunks(w, first, count)
    flags = chunks.load(entry[Entry.TOUCHED], I8)
    here = (bytes != 0) & ~flags.has(BEGUN)
    recorded, some = w.variable(0), w.select(here, flags, 0)
    more = some.has(3 * PART_FLAGS[2]).bits != 0
    several = some.has(3 * PART_FLAGS[1]).bits != 0
    for present, which in ((1, ~several & ~more), (2, several & ~more), (PARTS, more)):
        with w.when(which & (here.bits != 0)):
            window = _Window(w, entry, chunks, flags, present, writes, asks=asks)
            recorded.value = window.record(here, bytes, w.spread(owner, count))
    return recorded.value


class _Window:
    """Consecutive chunks, each with a limited number of cells of each kind."""

    def __init__(
        self, w: Checks, block: Memory, chunks: _Chunks, flags: Value, present: int, writes: bool,
        *, asks: bool,
    ) -> None:
        self.w, self.chunks, self.flags, self.writes = w, chunks, flags, writes
        self.touched = block[Entry.TOUCHED]
        own = 0 if writes else 1
        self.synchronises = block[Entry.SYNC] != 0
        self.own, self.others = (
            [_Part(w, block, chunks, flags, kind, k, asks=asks) for k in range(present)]
            for kind in (own, 1 - own))
        for part in self.own:
            part.load().load_site()
        self.unused = [_Part(w, block, chunks, flags, own, k) for k in range(present, PARTS)]
        self.has_others = reduce(or_, (part.is_there for part in self.others)).bits != 0

    def record(self, here: Value, bytes_: Value, owner: Value) -> Value:
        """Compare an access with the cells and record it; return the chunks that allow both."""
        w = self.w
        clear = self._clear_of_others(here, bytes_, owner)
        free = self._in_order(self.own, clear, bytes_, owner)
        result = w.variable(0)
        if not self.writes:
            window = self._copied()
            with w.when((clear & ~free).bits != 0):
                recorded = window.note_access(free, bytes_, owner)
                recorded |= window.join(clear & ~free, bytes_, owner)
                result.value = window.put(recorded, bytes_)
                w.ret(result.value)
        result.value = self.put(self.note_access(free, bytes_, owner), bytes_)
        return result.value

    def _clear_of_others(self, here: Value, bytes_: Value, owner: Value) -> Value:
        """The chunks of `here` whose accesses of the other kind are in order.

        Cells of that kind are loaded if any of them exist.  Otherwise their memory may be
        untouched.  Even a masked load from there is slow, because a processor does not cache that
        a page is missing.
        """
        w, clear = self.w, self.w.variable(here)
        slots = [w.variable(part.bytes) for part in self.others]
        with w.when(self.has_others):
            for part, slot in zip(self.others, slots, strict=True):
                slot.value = part.load().bytes
            clear.value = self._in_order(self.others, here, bytes_, owner)
        for part, slot in zip(self.others, slots, strict=True):
            part.bytes = slot.value
        return clear.value

    def _in_order(
        self, parts: Sequence[_Part], here: Value, bytes_: Value, owner: Value
    ) -> Value:
        """The chunks of `here` whose accesses of these bytes are ordered before the current one."""
        for part in parts:
            part.compare(owner, bytes_)
            here &= part.in_order | ~part.has(bytes_)
        return here

    def _copied(self) -> _Window:
        """A copy whose cells change independently."""
        made = copy(self)
        made.own, made.unused = ([copy(part) for part in some] for some in (self.own, self.unused))
        return made

    def note_access(self, free: Value, bytes_: Value, owner: Value) -> Value:
        """Record the access in one of the cells; return the chunks for which one can.

        It is a cell that records the same program and source location, or one all of whose bytes
        the access overwrites.
        """
        cells, new, recorded = [*self.own, *self.unused[:1]], owner | BYTES.full, free & ~free
        for part in self.own:
            part.is_new = free & part.is_same(new) & ~recorded
            recorded |= part.is_new
        for part in cells:
            only = free & (part.bytes & ~bytes_ == 0) & ~recorded
            part.is_new |= only
            recorded |= only
        for part in cells:
            part.note_access(recorded, new, bytes_)
        return recorded

    def join(self, shared: Value, bytes_: Value, owner: Value) -> Value:
        """Add a reader of its bytes to one of the cells; return the chunks for which one can."""
        w, new, recorded = self.w, owner | BYTES.full, shared & ~shared
        for part in self.own:
            merged = merged_read(w, part.cell, new, owner, part.in_order)
            known = (part.bytes == bytes_) | (merged == part.cell) & (bytes_ & ~part.bytes == 0)
            joins = shared & ~recorded & known & ~part.in_order
            joins &= ~self.synchronises | of_group(part.cell, owner)
            for other in self.own:
                joins &= ~other.has(bytes_) if other is not part else shared
            part.join(joins, merged)
            recorded |= joins
        return recorded

    def _clear_unused(self) -> None:
        """Create unused cells empty, if cells of the same group are created."""
        w, first = self.w, self.unused[0]
        begun = first.is_new & ~first.is_there
        for part in self.own:
            if part.flag == first.flag:
                begun |= part.is_new & ~part.is_there
        with w.when(w.unlikely(begun.bits != 0)):
            for one in self.unused:
                if one.flag == first.flag:
                    one.clear(begun & ~one.is_new)

    def _drop_loads(self, recorded: Value, bytes_: Value) -> None:
        """Forget the loads of what a store overwrites."""
        w = self.w
        with w.when(self.has_others):
            for part in self.others:
                gone = recorded & part.has(bytes_)
                with w.when(gone.bits != 0):
                    part.drop(gone, bytes_)
                    part.put_bytes()

    def put(self, recorded: Value, bytes_: Value) -> Value:
        """Store changed cells; return their chunks, as bits."""
        w, flags = self.w, self.flags
        with w.when(recorded.bits != 0):
            for part in self.own:
                part.put()
            if self.writes:
                self._drop_loads(recorded, bytes_)
            for part in self.unused[:1]:
                with w.when(part.is_new.bits != 0):
                    part.begin(part.is_new)
                self._clear_unused()
            for part in [*self.own, *self.unused[:1]]:
                flags = w.select(part.is_new, flags | part.flag, flags)
            with w.when((flags != self.flags).bits != 0):
                self.chunks.store(flags, self.touched)
        return recorded.bits.to(I64)


# --- where the cells are that an access of all lanes is compared with -----------------------------


def flags_of(w: Checks, block: Memory, chunks: Value, active: Value) -> Value:
    """Flags of the chunks of active lanes, and those of the next chunks in the upper bits."""
    return w.gather(I32, (chunks + block[Entry.TOUCHED]).pointer(), active)


def fill_dwords(mask: Value, index: Value, bytes_: Value) -> Value:
    """True if each lane, with others at a power-of-two distance, fills its dword."""
    lanes, w = mask.type.count, mask.w
    found = w.select(mask, bytes_, 0)
    for step in (1 << k for k in range(lanes.bit_length() - 1)):
        across = [k ^ step for k in range(lanes)]
        same = index == index.shuffled(None, across)
        found |= w.select(same, found.shuffled(None, across), 0)
    return ((found == BYTES.full) | ~mask).every()


class Dwords:
    """Cells of dwords, one per active lane, by number."""

    alone: Value | None = None
    """For parts of dwords: true if each has a dword to itself."""

    def __init__(self, w: Checks, index: Value, active: Value) -> None:
        self.w, self.index, self.active = w, index, active

    def place(self, block: Memory, word: Entry) -> Value:
        """Address of the cells, or sites, of all dwords."""
        return block[word]

    def _at(self, base: Value, size: int) -> Value:
        return (self.index * size + base).pointer()

    def load(self, base: Value, t: Type) -> Value:
        return self.w.gather(t, self._at(base, t.size), self.active)

    def store(self, value: Value, base: Value) -> None:
        self.w.scatter(value, self._at(base, value.type.scalar.size), self.active)

    def begin(self, block: Memory, mine: Value, flags: Value | None) -> Value:
        """Create cells for this kind of access; true if there are some of the other kind."""
        w = self.w
        chunks = self.index * 4 + (block[Entry.LOW] & -4) >> CHUNK_BITS
        if flags is None:
            flags = flags_of(w, block, chunks, self.active)
        others = (flags.has(either(mine.to(I32) ^ BEGUN)) & self.active).bits != 0
        wanted = w.select(others, BEGUN, mine.to(I32))
        missing = (flags & (wanted | s.OF_ELEMENTS) != wanted) & self.active
        with w.when(w.unlikely(missing.bits != 0)):
            numbers = w.in_memory(chunks)
            with w.each(missing.bits) as k:
                w.call(s.TOUCH, w["ctx"], block.base, numbers[k], wanted)
        return others


class Elements(Dwords):
    """One cell per lane, for its element of less than a dword, in chunks that have such cells."""

    def __init__(self, w: Checks, block: Memory, nbytes: int, active: Value) -> None:
        addresses, most = w["addresses"], 1 << CHUNK_BITS
        super().__init__(w, addresses - (block[Entry.LOW] & -4) >> 2, active)
        self._numbers = (addresses & -most) + ((addresses & most - 1) >> nbytes - 1)

    def place(self, block: Memory, word: Entry) -> Value:
        return block[{Entry.WRITES: Entry.ELEMENT_WRITES,
                      Entry.READS: Entry.ELEMENT_READS}.get(word, word)]

    def _at(self, base: Value, size: int) -> Value:
        # sites are those of dwords
        return ((self._numbers if size == 8 else self.index) * size + base).pointer()

    @staticmethod
    def begun(
        w: Checks, block: Memory, flags: Value, bytes_: Value, active: Value
    ) -> tuple[Value, Value]:
        """Create missing cells; return lanes with cells of elements, and if the other kind exists.

        If lanes fill dwords together, the cells of dwords are used.
        """
        flag = s.elements_of(w["size"].operand.integer_value() or 0)
        mine, chunks = w.select(w.flag(Kind.WRITE), *BEGUN_OF, I32), w["addresses"] >> CHUNK_BITS
        others = (flags.has(either(mine ^ BEGUN)) & active).bits != 0
        wanted = w.select(others, BEGUN, mine) | flag
        there = w.variable((flags & (wanted | s.OF_ELEMENTS) == wanted) & active)
        missing = active & ~there.value & (~flags.has(BEGUN) | flags.has(flag))
        with w.when(w.unlikely(missing.bits != 0)):
            numbers, full = w.in_memory(chunks), fill_dwords(active, w["addresses"] >> 2, bytes_)
            with w.each(w.select(full, 0, missing.bits)) as k:
                w.call(s.TOUCH, w["ctx"], block.base, numbers[k], wanted)
            # without memory for them, dwords have them
            there.value |= missing & ~full & (block[Entry.ELEMENT_WRITES] != 0)
        return there.value, others


def either(kind: Value) -> Value:
    """Flags of chunks that have cells of that kind: of each dword, or one for all of them."""
    return kind * (1 + ALIKE)
