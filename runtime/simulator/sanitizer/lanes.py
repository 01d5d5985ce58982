"""The sanitizer's check of one access of all lanes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from triton_xe.runtime.simulator.ir import I1, I8, I32, I64, Type, integers, vector
from triton_xe.runtime.simulator.ir.values import Memory, Value, Variable
from triton_xe.runtime.simulator.sanitizer import phases
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.cells import (
    ATOMIC,
    BYTES,
    GROUP,
    PHASE,
    SEVERAL_OWNERS,
    WARP,
)
from triton_xe.runtime.simulator.sanitizer.checks import owner_of, unfenced_barriers
from triton_xe.runtime.simulator.sanitizer.phases import any_of
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import (
    ALIKE,
    BEGUN,
    BEGUN_OF,
    CHUNK_BITS,
    SECOND,
    Entry,
    Kind,
    Word,
)


def check_lanes(w: Checks, *arguments: Value) -> Value:
    """True when no active lane's access is at fault.

    All lanes are looked at together; whatever is not plainly right is left to `CHECK_ONE`.
    """
    addresses, mask = w["addresses"], w["mask"].bits
    result = w.variable(1, I1)
    fine = try_lanes(w)
    with w.when(fine):
        w.state[Word.CHECKED] += w.intrinsic("ctpop", mask).to(I64)
    with w.otherwise():
        space = w.space(addresses.type)
        w.store(addresses, space)
        memory = Memory(w, space)
        with w.range(0, addresses.type.count) as k:
            active = (mask >> k.to(mask.type)).to(I1)
            fine = w.call(s.CHECK_ONE, w["ctx"], w["sg"], w["site"], k.to(I32), w["row"],
                          memory[k], w["size"], w["kind"], active)
            result.value &= fine
    return result.value


def try_lanes(w: Checks, *arguments: Value) -> Value:
    """Whether no active lane's access is at fault; if there may be a fault, nothing is recorded."""
    addresses, mask = w["addresses"], w["mask"].bits
    good = w.variable(mask == 0)
    with w.when(~good.value):
        slm = w.flag(Kind.SLM)
        row = w.variable(w.select(slm, w.state[Word.SLM_ENTRY], w["row"]))
        with w.when(w["row"].compare("slt", 0) & ~slm):
            row.value = _searched(w, mask)
        block = w.block(row.value)
        good.value = _inside(w, block)
        with w.when(good.value & (block[Entry.WRITES] != 0) & ~w.flag(Kind.UNSEEN)):
            with w.when(slm):
                good.value = phases.is_logged(w, block, owner_of(w, slm))
                with w.when(~good.value):
                    phases.ask_cells(w)
                    good.value = 1
                    _record(w, block, slm, good)
            with w.otherwise():
                _record(w, block, slm, good)
        fresh = (block[Entry.UNWRITTEN] != 0) & w["kind"].has(Kind.WRITE | Kind.NEEDS)
        with w.when(w.unlikely(good.value & fresh)):
            with w.when(_is_run(w) & ~w.flag(Kind.NEEDS)):
                w.call(s.MARK, w["ctx"], block.base, addresses[0], w["size"] * addresses.type.count)
            with w.otherwise():
                space = w.space(addresses.type)
                w.store(addresses, space)
                good.value = w.call(s.NOTE_LANES, w["ctx"], block.base, space, mask.to(I64),
                                    w["size"], w["kind"])
    return good.value


def replay(w: Checks, *arguments: Value) -> Value:
    """Record in the cells an access of shared memory that is known to be right."""
    slm, good = w.flag(Kind.SLM), w.variable(1, I1)
    block = w.block(w.state[Word.SLM_ENTRY])
    _record_scattered(w, block, owner_of(w, slm), slm, good, w["mask"])
    return good.value


def _is_run(w: Checks) -> Value:
    """Whether all lanes take part, each right after the one before."""
    addresses, mask = w["addresses"], w["mask"]
    steps = Value(w, integers(I64, range(mask.type.count))) * w["size"]
    return ((addresses == steps + addresses[0]) & mask).every()


def _searched(w: Checks, mask: Value) -> Value:
    """The row of the block that the first active lane's address is in; an empty one if none."""
    address = w["addresses"][mask.lowest()]
    block = w.block(w.state[Word.SEARCHED_ROW])
    with w.when(~w.holds(block, address)):
        w.look_up(Word.SEARCHED_ROW, address)
    return w.state[Word.SEARCHED_ROW]


def _inside(w: Checks, block: Memory) -> Value:
    """Whether every active lane is in the block, and aligned."""
    addresses = w["addresses"]
    fits = (addresses >= block[Entry.LOW]) & (addresses + w["size"] <= block[Entry.HIGH])
    even = addresses & (w["kind"] >> 8) - 1 == 0
    return (fits & even | ~w["mask"]).every()


# --- the cells of all lanes -----------------------------------------------------------------------


class _Dwords:
    """Each dword has cells of its own."""

    def place(self, block: Memory, word: Entry) -> Value:
        """Where the cells, or sites, of all dwords begin."""
        return block[word]

    def known(self, cells: Value, of: Value) -> Value:
        """The cells, of that kind; 0 for those that have not begun."""
        return cells


class _Scattered(_Dwords):
    """One cell per lane, anywhere; only those of active lanes."""

    def __init__(self, w: Checks, cells: Value, active: Value) -> None:
        self.w, self.cells, self.active = w, cells, active

    @property
    def index(self) -> Value:
        """Their numbers."""
        return self.cells

    def _at(self, base: Value, size: int) -> Value:
        return (self.cells * size + base).pointer()

    def load(self, base: Value, t: Type) -> Value:
        return self.w.gather(t, self._at(base, t.size), self.active)

    def store(self, value: Value, base: Value) -> None:
        self.w.scatter(value, self._at(base, value.type.scalar.size), self.active)

    def begin(self, block: Memory, mine: Value) -> Value:
        """Have cells for this kind of access; whether there are some of the other kind."""
        w = self.w
        chunks = self.cells * 4 + (block[Entry.LOW] & -4) >> CHUNK_BITS
        flags = w.gather(I32, (chunks + block[Entry.TOUCHED]).pointer(), self.active)
        others = (flags.has(_either(mine.to(I32) ^ BEGUN)) & self.active).bits != 0
        wanted = w.select(others, BEGUN, mine.to(I32))
        missing = (flags & wanted != wanted) & self.active
        with w.when(w.unlikely(missing.bits != 0)), w.chain(missing.bits) as (rest, slot):
            slot.value = rest & rest - 1
            w.call(s.TOUCH, w["ctx"], block.base, chunks[rest.lowest()], wanted)
        return others


class _Run(_Dwords):
    """So many cells, one after another: plain vector accesses."""

    def __init__(self, w: Checks, first: Value, lanes: int) -> None:
        self.w, self.first, self.lanes = w, first, lanes
        self.active = w.term(1, vector(lanes, I1))

    @property
    def index(self) -> Value:
        return Value(self.w, integers(I64, range(self.lanes))) + self.first

    def _at(self, base: Value, size: int) -> Value:
        return (base + self.first * size).pointer()

    def load(self, base: Value, t: Type) -> Value:
        return self.w.load(vector(self.lanes, t), self._at(base, t.size), align=4)

    def store(self, value: Value, base: Value) -> None:
        self.w.store(value, self._at(base, value.type.scalar.size), align=4)

    def begin(self, block: Memory, mine: Value) -> Value:
        w, others = self.w, self.w.variable(0, I8)
        flags = Memory(w, block[Entry.TOUCHED].pointer(), I8)
        address = self.first * 4 + (block[Entry.LOW] & -4)
        chunks = address >> CHUNK_BITS, (address + 4 * self.lanes - 1 >> CHUNK_BITS) + 1
        with w.range(*chunks) as chunk:
            others.value |= flags[chunk]
        some = others.value.has(_either(mine ^ BEGUN))
        wanted = w.select(some, BEGUN, mine)
        with w.range(*chunks) as chunk, w.when(w.unlikely(flags[chunk] & wanted != wanted)):
            w.call(s.TOUCH, w["ctx"], block.base, chunk, wanted.to(I32))
        return some


class _Lines(_Dwords):
    """The cells of so many whole chunks in a row, all of whose dwords have the same."""

    def __init__(self, w: Checks, block: Memory, address: Value, count: int) -> None:
        self.w, self.block, self.count = w, block, count
        self.first = address >> CHUNK_BITS
        self.index = w.spread(self.first, count)
        self.active = w.term(1, vector(count, I1))
        self._flags = (block[Entry.TOUCHED] + self.first).pointer()
        self.flags = w.load(vector(count, I8), self._flags, align=1)

    def _at(self, base: Value, size: int) -> Value:
        return (base + self.first * size).pointer()

    def load(self, base: Value, t: Type) -> Value:
        return self.w.load(vector(self.count, t), self._at(base, t.size), align=4)

    def store(self, value: Value, base: Value) -> None:
        self.w.store(value, self._at(base, value.type.scalar.size), align=4)

    def place(self, block: Memory, word: Entry) -> Value:
        return block[s.line_of(word)]

    def known(self, cells: Value, of: Value) -> Value:
        return self.w.select(self.flags.has(of * ALIKE), cells, 0)

    def are_alike(self) -> Value:
        """Whether no dword of them has a cell of its own, or none."""
        alike = ~self.flags.has(BEGUN * (1 + SECOND))
        for kind, of in enumerate(BEGUN_OF):
            bytes_ = self.load(self.block[Entry.LINE_WRITE_BYTES + kind], I64)
            alike &= (bytes_ == -1) | ~self.flags.has(of * ALIKE)
        return alike.every()

    def have(self, of: Value) -> Value:
        """Whether some of them have cells of that kind."""
        return self.flags.has(of * ALIKE).bits != 0

    def note(self, mine: Value) -> None:
        """From now on they have cells of that kind."""
        w, reads = self.w, self.block[Entry.LINE_READ_BYTES]
        w.store(self.flags | mine * ALIKE, self._flags, align=1)
        at = w.select(w.flag(Kind.WRITE), self.block[Entry.LINE_WRITE_BYTES], reads)
        self.store(w.term(-1, vector(self.count, I64)), at)


_Cells = _Scattered | _Run | _Lines


def _either(kind: Value) -> Value:
    """Flags of chunks that have cells of that kind: of each dword, or one for all of them."""
    return kind * (1 + ALIKE)


def _record(w: Checks, block: Memory, slm: Value, good: Variable) -> None:
    """Compare with the cells, and record the access, dword by dword; or parts of a dword."""
    owner, nbytes = owner_of(w, slm), w["size"].operand.integer_value()
    done = w.variable(0, I1)
    if nbytes is not None and nbytes.bit_count() == 1 and nbytes <= 1 << CHUNK_BITS:
        _record_groups(w, block, nbytes, owner, slm, good, done)
    with w.when(~done.value):
        rest = w.variable(w["mask"].bits)
        if _has_parts(w):
            _record_parts(w, block, owner, rest)
        with w.when(rest.value != 0):
            mask = Value(w, w.b.bitcast(rest.value.operand, w["mask"].type))
            _record_scattered(w, block, owner, slm, good, mask)


def _record_groups(
    w: Checks, block: Memory, nbytes: int, owner: Value, slm: Value, good: Variable, done: Variable
) -> None:
    """The same if lanes access whole chunks together, or all of them dwords in a row."""
    addresses, mask = w["addresses"], w["mask"]
    lanes = mask.type.count
    per = min(lanes, (1 << CHUNK_BITS) // nbytes)
    if per * nbytes % 4:
        return
    mine = w.select(w.flag(Kind.WRITE), *BEGUN_OF, I8)
    heads = [k - k % per for k in range(lanes)]
    first, begun = addresses.shuffled(None, heads), mask.shuffled(None, heads)
    steps = Value(w, integers(I64, [k % per * nbytes for k in range(lanes)]))
    in_a_row = (addresses == first + steps) & (first & 3 == 0)
    done.value = (in_a_row & mask & begun | ~(mask | begun)).every()
    starts, active = (x.shuffled(None, heads[::per]) for x in (addresses, mask))
    rest = w.variable(w.select(done.value, active.bits.to(I64), 0))
    known, count = w["kind"].operand.integer_value(), len(heads) // per
    lined = per * nbytes == 1 << CHUNK_BITS and known is not None and not known & Kind.SLM
    if lined and count > 1:
        row = Value(w, integers(I64, range(0, count << CHUNK_BITS, 1 << CHUNK_BITS))) + starts[0]
        even = starts[0] & (1 << CHUNK_BITS) - 1 == 0
        with w.when(done.value & even & ((starts == row) & active).every()):
            with w.when(_are_recorded(w, block, starts[0], count, owner, slm, good)):
                rest.value = 0
    places, others = w.space(starts.type), w.variable(1, I1)
    w.store(starts, places)
    with w.chain(rest.value) as (left, slot):
        slot.value = left & left - 1
        address, fine = Memory(w, places)[left.lowest()], w.variable(0, I1)
        if lined:
            with w.when(address & (1 << CHUNK_BITS) - 1 == 0):
                fine.value = _are_recorded(w, block, address, 1, owner, slm, good)
        if _has_parts(w):
            with w.when(~fine.value):
                fine.value = _is_run_recorded(w, block, address, per * nbytes, owner)
        with w.when(~fine.value):
            cells = _Run(w, address - (block[Entry.LOW] & -4) >> 2, per * nbytes // 4)
            with w.when(~slm):
                others.value = cells.begin(block, mine)
            _compare_and_record(w, block, cells, owner | 15, owner, slm, good, others)


def _are_recorded(
    w: Checks, block: Memory, address: Value, count: int, owner: Value, slm: Value, good: Variable
) -> Value:
    """Compare and record accesses of so many chunks in a row, if all of their dwords are alike."""
    mine, lines = w.select(w.flag(Kind.WRITE), *BEGUN_OF, I8), _Lines(w, block, address, count)
    alike = lines.are_alike()
    with w.when(alike):
        others = w.variable(lines.have(mine ^ BEGUN))
        _compare_and_record(w, block, lines, owner | 15, owner, slm, good, others)
        with w.when(good.value):
            lines.note(mine)
    return alike


def _has_parts(w: Checks) -> bool:
    """Whether cells of whole chunks may tell of accesses of parts of them: plain ones of a size."""
    nbytes, kind = (w[name].operand.integer_value() for name in ("size", "kind"))
    return bool(nbytes) and kind is not None and not kind & (Kind.SLM | Kind.ATOMIC)


def _record_parts(w: Checks, block: Memory, owner: Value, rest: Variable) -> None:
    """Record what can be in the cells of whole chunks; the lanes that are left."""
    addresses, mask, whole = w["addresses"], w["mask"], 1 << CHUNK_BITS
    inner, chunks = addresses & whole - 1, addresses >> CHUNK_BITS
    ones = w.spread(w.term(-1, I64) >> w.term(whole, I64) - w["size"], mask.type.count)
    bytes_, numbers = ones << inner, w.space(chunks.type)
    w.store(chunks, numbers)
    flags = Memory(w, block[Entry.TOUCHED].pointer(), I8)
    fits = ((inner + w["size"] <= whole) | ~mask).every()
    first = Memory(w, numbers)[mask.bits.lowest()]
    several = w.intrinsic("ctpop", ((chunks == first) & mask).bits) > 2
    left = w.variable(w.select(fits & several & ~flags[first].has(BEGUN), 0, mask.bits))
    with w.chain(mask.bits ^ left.value) as (lanes, slot):
        chunk = Memory(w, numbers)[lanes.lowest()]
        here = (chunks == chunk) & mask
        slot.value = lanes & ~here.bits
        told = _is_part_recorded(w, block, chunk, any_of(w, w.select(here, bytes_, 0)), owner)
        left.value |= w.select(told, 0, here.bits)
    rest.value = left.value


def _is_run_recorded(
    w: Checks, block: Memory, address: Value, nbytes: int, owner: Value
) -> Value:
    """Record so many bytes in a row in the cells of the one or two chunks; whether they can be."""
    inner, most = address & (1 << CHUNK_BITS) - 1, (1 << CHUNK_BITS) - 1
    ones, told = w.term((1 << nbytes) - 1, I64), w.variable(1, I1)
    rest = w.variable(ones << inner)
    chunk = w.variable(address >> CHUNK_BITS)
    with w.loop(lambda: told.value & (rest.value != 0)):
        told.value = _is_part_recorded(w, block, chunk.value, rest.value, owner)
        is_first = chunk.value == address >> CHUNK_BITS
        rest.value = w.select(is_first, ones >> 1 >> w.term(most, I64) - inner, 0)
        chunk.value += 1
    return told.value


def _is_part_recorded(
    w: Checks, block: Memory, chunk: Value, bytes_: Value, owner: Value
) -> Value:
    """Record an access of bytes of a chunk in the cells of all of it; whether these can tell.

    They tell of the last store and the last load, each of some bytes by one program at one place of
    the source.  What clashes, or would be one more, is left to the cells of dwords.
    """
    writes = bool(int(w["kind"].operand.integer_value() or 0) & Kind.WRITE)
    flags, told = Memory(w, block[Entry.TOUCHED].pointer(), I8), w.variable(0, I1)
    with w.when(~flags[chunk].has(BEGUN)):
        written, read = ([_Part(w, block, chunk, kind, k) for k in (0, 1)] for kind in (0, 1))
        no, yes = w.term(0, I1), w.term(1, I1)
        since, clear = unfenced_barriers(w, no), w.variable(1, I1)
        for part in written:
            ordered = _ordered(w, part.cell, owner, no, since, yes)
            clear.value &= ordered | ~part.bytes.has(bytes_)
        for part in read:
            part.replaced = _ordered(w, part.cell, owner, no, w.term(0, I64), yes)
            if writes:
                clear.value &= part.replaced | ~part.bytes.has(bytes_)
            else:
                part.replaced |= _earlier(part.cell, owner)
        with w.when(clear.value):
            told.value = _is_told(w, written if writes else read, bytes_, owner)
        with w.when(told.value):
            for part in read if writes else ():
                with w.when(part.bytes.has(bytes_)):
                    part.keep(part.bytes & ~bytes_)
    return told.value


def _is_told(w: Checks, parts: Sequence[_Part], bytes_: Value, owner: Value) -> Value:
    """Let one of two cells tell of an access of their kind; whether one can.

    It goes on with what it tells of the same place, or the same readers; or has nothing else to
    tell, as the access takes the place of what it told of.
    """
    new, told = owner | BYTES.full, w.variable(0, I1)
    whole = bytes_ & bytes_ >> 1 & bytes_ >> 2 & bytes_ >> 3 & 0x1111111111111111
    apart = whole * BYTES.full == bytes_
    for part, other in zip(parts, reversed(parts), strict=True):
        clear = (part.replaced & other.replaced) | ~(part.bytes | other.bytes).has(bytes_)
        shares = other.left(bytes_) == 0
        shares |= apart | (other.cell == new)
        same, empty = part.is_of(new), (part.left(bytes_) == 0) & shares
        merged = _merged_read(w, part.cell, new, owner, part.replaced)
        known = (part.bytes == bytes_) | (merged == part.cell) & (bytes_ & ~part.bytes == 0)
        own = (part.block[Entry.SYNC] == 0) | _of_group(part.cell, owner)
        joins = known & ~part.replaced & own & ~other.bytes.has(bytes_)
        with w.when(~told.value & (clear & (same | empty) | joins)):
            kept = w.select(joins, part.bytes, w.select(same, part.bytes | bytes_, bytes_))
            part.tell(w.select(joins, merged, new), kept)
            with w.when(other.bytes.has(bytes_)):
                other.keep(other.left(bytes_))
            told.value = 1
    return told.value


class _Part:
    """Of a chunk, the first or second cell of its stores (0) or loads (1), and its bytes."""

    def __init__(self, w: Checks, block: Memory, chunk: Value, kind: int, second: int) -> None:
        self.w, self.block, self.chunk = w, block, chunk
        self._words = kind + second * s.LINE_WORDS
        self._flag = (SECOND if second else ALIKE) * BEGUN_OF[kind]
        self._flags = Memory(w, block[Entry.TOUCHED].pointer(), I8)
        cell, bytes_ = w.variable(0), w.variable(0)
        with w.when(self._flags[chunk].has(self._flag)):
            cell.value = w.load(I64, self._at(Entry.LINE_WRITES, 8))
            bytes_.value = w.select(
                cell.value == 0, 0, w.load(I64, self._at(Entry.LINE_WRITE_BYTES, 8)))
        self.cell, self.bytes = cell.value, bytes_.value
        self.replaced = w.term(1, I1)
        """Whether an access of bytes that it tells of takes their place."""

    def _at(self, word: Entry, size: int) -> Value:
        return (self.block[word + self._words] + self.chunk * size).pointer()

    def is_of(self, new: Value) -> Value:
        """Whether it tells of the same accesses as a cell, of this place in the source."""
        site = self.w.load(I32, self._at(Entry.LINE_WRITE_SITES, 4))
        return (self.cell == new) & (site == self.w["site"])

    def left(self, bytes_: Value) -> Value:
        return self.bytes & ~bytes_

    def keep(self, bytes_: Value) -> None:
        """From now on it tells of these bytes."""
        self.w.store(bytes_, self._at(Entry.LINE_WRITE_BYTES, 8))

    def tell(self, cell: Value, bytes_: Value) -> None:
        """From now on it tells of this access, of these bytes."""
        self.w.store(cell, self._at(Entry.LINE_WRITES, 8))
        self.w.store(self.w["site"], self._at(Entry.LINE_WRITE_SITES, 4))
        self.keep(bytes_)
        self._flags[self.chunk] = self._flags[self.chunk] | self._flag


def _record_scattered(
    w: Checks, block: Memory, owner: Value, slm: Value, good: Variable, mask: Value
) -> None:
    size = w["size"]
    whole = size >= 4
    offsets = w["addresses"] - (block[Entry.LOW] & -4)
    inner, index = offsets & 3, offsets >> 2
    good.value = ((inner == 0) | ~mask).every() & ~size.has(3) | ~whole
    count = w.select(whole, size >> 2, w.term(4, I64) // size)
    part = (w.term(1, I64) << w.select(whole, 4, size)) - 1
    full = whole | _fill_dwords(mask, index, part << inner)
    mine, others = w.select(w.flag(Kind.WRITE), *BEGUN_OF, I8), w.variable(1, I1)
    with w.range(0, w.select(good.value, w.select(full & ~whole, 1, count), 0)) as k:
        shift = w.select(full, 0, k * size)
        scattered = _Scattered(w, index + w.select(whole, k, 0), mask & ((inner == shift) | full))
        with w.when(~slm):
            others.value = scattered.begin(block, mine)
        new = owner | w.select(full, 15, part << shift)
        _compare_and_record(w, block, scattered, new, owner, slm, good, others)


def _fill_dwords(mask: Value, index: Value, bytes_: Value) -> Value:
    """Whether each lane, with others a power of two away, fills the dword that they are in."""
    lanes, w = mask.type.count, mask.w
    found = w.select(mask, bytes_, 0)
    for step in (1 << k for k in range(lanes.bit_length() - 1)):
        across = [k ^ step for k in range(lanes)]
        same = index == index.shuffled(None, across)
        found |= w.select(same, found.shuffled(None, across), 0)
    return ((found == BYTES.full) | ~mask).every()


def _compare_and_record(
    w: Checks, block: Memory, cells: _Cells, new: Value, owner: Value, slm: Value, good: Variable,
    others: Variable,
) -> None:
    """Cells that nothing has accessed yet need no comparison."""
    writes, none = w.flag(Kind.WRITE), w.term(0, vector(cells.active.type.count, I64))
    written, read = (cells.place(block, word) for word in (Entry.WRITES, Entry.READS))
    own_at, other_at = w.select(writes, written, read), w.select(writes, read, written)
    mine = w.select(writes, *BEGUN_OF, I8)
    own, other = cells.known(cells.load(own_at, I64), mine), w.variable(none)
    with w.when(others.value):
        other.value = cells.known(cells.load(other_at, I64), mine ^ BEGUN)
    with w.when(~slm & (own | other.value == 0).every()):
        cells.store(none | new, own_at)
    with w.otherwise():
        old = w.select(writes, own, other.value), w.select(writes, other.value, own)
        _compare(w, block, cells, old, new, owner, slm, good)
    with w.when(good.value):
        sites = w.select(writes, cells.place(block, Entry.WRITE_SITES),
                         cells.place(block, Entry.READ_SITES))
        cells.store(w.spread(w["site"], cells.active.type.count), sites)


def _compare(
    w: Checks, block: Memory, cells: _Cells, old: tuple[Value, Value], new: Value, owner: Value,
    slm: Value, good: Variable,
) -> None:
    writes, idle = w.flag(Kind.WRITE), ~cells.active
    published, (old_write, old_read) = block[Entry.SYNC] != 0, old
    mixed = old_write & WARP.full == WARP.full
    after_write = _ordered(w, old_write, owner, slm, unfenced_barriers(w, slm), ~mixed)
    after_write |= _apart(old_write, new, slm)
    after_read = _ordered(w, old_read, owner, slm, w.term(0, I64), w.term(1, mixed.type))
    written_after = after_read | _apart(old_read, new, slm)
    # cells after whose write an atomic still finds what is published there
    goes_on = (old_write == 0) | old_write.has(ATOMIC.full) | ~owner.has(ATOMIC.full)
    plain = (after_write & (written_after | ~writes) & (goes_on | ~published) | idle).every()
    with w.when(~plain & slm & writes & w.flag(Kind.KEPT)):
        copies = _of_group(old_write, owner) & ~mixed & _changes_nothing(w)
        good.value &= ((after_write | copies) & written_after | idle).every()
    with w.when(~plain & ~(slm & writes & w.flag(Kind.KEPT))):
        _look_closer(w, cells, old, (after_write, written_after), new, goes_on | ~published, good)
    filled = _of_group(old_write, owner) & (old_write & BYTES.full == BYTES.full)
    fresh = slm & ~(filled | idle).every()
    fine = good.value & _first_use(w, cells, new, fresh)
    good.value = fine
    with w.when(fine):
        with w.when(writes):
            mine = (old_write ^ owner) & -16 == 0
            cells.store(w.select(mine, old_write | new, new), cells.place(block, Entry.WRITES))
            # in shared memory, what other work-groups left there tells nothing
            gone = (old_read == 0) | ~_of_group(old_read, owner) & slm
            with w.when(~(gone | idle).every()):
                cells.store(w.term(0, old_read.type), cells.place(block, Entry.READS))
        with w.otherwise():
            before = after_read | _earlier(old_read, owner)
            kept = w.variable(_merged_read(w, old_read, new, owner, before))
            joins = _crossing(old_read, owner, after_read) & cells.active
            joins &= published | (old_read ^ new).has(BYTES.full)
            with w.when(joins.bits != 0):
                with _distinct(w, old_read, joins) as (reader, alike):
                    one = w.call(s.MERGE, w["ctx"], block.base, reader, new, w["kind"])
                    kept.value = w.select(alike, one, kept.value)
            cells.store(kept.value, cells.place(block, Entry.READS))


def _look_closer(
    w: Checks, cells: _Cells, old: Sequence[Value], after: Sequence[Value], new: Value,
    goes_on: Value, good: Variable,
) -> None:
    """Where not all cells are plainly in order: whether what they tell of has been acquired."""
    writes, active = w.flag(Kind.WRITE), cells.active
    cross_write, cross_read = (
        _crossing(cell, new, ordered) & active for cell, ordered in zip(old, after, strict=True))
    # cells of which a store leaves nothing; all, for a load
    replaced = (old[0] & new).has(BYTES.full) | ~writes
    fine = (after[0] | cross_write & replaced) & (after[1] | cross_read | ~writes)
    every = (fine & goes_on | ~active).every()
    good.value &= every
    with w.when(every):
        for cell, which, read in ((old[0], cross_write, 0), (old[1], cross_read & writes, 1)):
            with _distinct(w, cell, which) as (one, _):
                found = w.call(s.CLASH, w["ctx"], one, new, w["kind"], read)
                good.value &= ~found


def _first_use(w: Checks, cells: _Cells, new: Value, fresh: Value) -> Value:
    """Shared memory whose bytes are not all known to be written: record which are; whether all
    that are read were."""
    result, active = w.variable(1, I1), cells.active
    here = w.spread(new.to(I32) & BYTES.full, active.type.count) << (cells.index.to(I32) & 1) * 4
    places = ((cells.index >> 1) + w.state[Word.SLM_KNOWN]).pointer()
    with w.chain(w.select(fresh & w.flag(Kind.WRITE), active.bits, 0)) as (rest, slot):
        k = rest.lowest()
        byte = Memory(w, places[k], I8)
        byte[0] = byte[0] | here[k].to(I8)
        slot.value = rest & rest - 1
    with w.when(fresh & ~w.flag(Kind.WRITE)):
        old = w.gather(I32, places, active)
        result.value = ((old & here == here) | ~active).every()
    return result.value


# --- vector forms of the arithmetic of `checks` ---------------------------------------------------


def _of_group(old: Value, owner: Value) -> Value:
    """Cells of the running work-group."""
    return old ^ owner < 1 << GROUP.first


def _of_subgroup(old: Value, owner: Value) -> Value:
    return (old ^ owner) & -1 << WARP.first == 0


def _ordered(
    w: Checks, old: Value, owner: Value, slm: Value, since: Value, phased: Value
) -> Value:
    """Cells that cannot clash: unused, atomic like the new access, of this subgroup, or, if they
    are `phased`, before one more barrier."""
    group = _of_group(old, owner)
    phase = (_age(old, owner) > since) & phased
    atomic = (old & owner).has(ATOMIC.full) & (group | ~w.flag(Kind.LOCAL))
    free = (old == 0) | _of_subgroup(old, owner) | atomic
    return free | group & phase | ~group & slm


def _apart(old: Value, new: Value, slm: Value) -> Value:
    """Cells of this work-group's accesses of other bytes."""
    return (old & new & BYTES.full == 0) & (_of_group(old, new) | slm)


def _changes_nothing(w: Checks) -> Value:
    """Whether a store of several lanes puts into shared memory what is there already."""
    addresses, mask, size = w["addresses"], w["mask"], w["size"]
    result = w.variable(w.term(int(mask.type.count > 1), I1))
    steps = Value(w, integers(I64, range(mask.type.count))) * size + w.state[Word.VALUES]
    part = w.select(size < 4, (w.term(1, I64) << (size << 3 & 31)) - 1, -1).to(I32)
    with w.range(0, w.select(result.value, size + 3 >> 2, 0)) as k:
        there, put = (w.gather(I32, (at + k * 4).pointer(), mask) for at in (addresses, steps))
        result.value &= (((there ^ put) & part == 0) | ~mask).every()
    return result.value


def _age(old: Value, owner: Value) -> Value:
    """Barriers since an access."""
    return (owner >> PHASE.first) - (old >> PHASE.first) & PHASE.most


def _earlier(old: Value, owner: Value) -> Value:
    """Cells of this work-group's reads before the last barrier, or of scalars."""
    return _of_group(old, owner) & (_age(old, owner) > 0)


def _crossing(old: Value, owner: Value, ordered: Value) -> Value:
    """Cells of other programs, which may clash."""
    return ~(ordered | _of_group(old, owner))


def _merged_read(w: Checks, old: Value, new: Value, owner: Value, ordered: Value) -> Value:
    mine, read = _of_subgroup(old, owner), old & BYTES.full
    several = read | new | WARP.full
    groups = (old | new) & BYTES.full | SEVERAL_OWNERS
    joined = w.select(_of_group(old, owner), several, groups)
    return w.select(ordered | mine, w.select(mine, read | new, new), joined)


@contextmanager
def _distinct(w: Checks, cells: Value, which: Value) -> Iterator[tuple[Value, Value]]:
    """For each value among the cells of some lanes: it, and the lanes that have it."""
    with w.chain(which.bits) as (rest, slot):
        one = cells[rest.lowest()]
        alike = cells == one
        yield one, alike & which
        slot.value = rest & ~alike.bits
