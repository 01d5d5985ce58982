"""The sanitizer's check of one access of all lanes at once."""

from __future__ import annotations

from collections.abc import Sequence

from triton_xe.llvm import I1, I8, I32, I64, array, integers, vector
from triton_xe.llvm.values import Memory, Value, Variable
from triton_xe.runtime.simulator.sanitizer import phases
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.cells import (
    ATOMIC,
    BYTES,
    PHASE,
    WARP,
)
from triton_xe.runtime.simulator.sanitizer.checks import owner_of, unfenced_barriers
from triton_xe.runtime.simulator.sanitizer.parts import (
    Dwords,
    Elements,
    can_record_whole,
    distinct,
    earlier,
    fill_dwords,
    flags_of,
    is_list,
    left_over,
    merged_read,
    of_group,
    of_subgroup,
    ordered,
    smallest,
)
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import (
    BEGUN,
    BEGUN_OF,
    CHUNK_BITS,
    MOST_VALUES,
    WINDOW,
    Entry,
    Form,
    Kind,
    Word,
)


def check_lanes(w: Checks, *arguments: Value) -> Value:
    """Bit 0: no active lane's access has a fault.

    Bit 1: the lanes store to distinct elements that the launch has not stored to before, for
    certain.  All lanes are tested at once; accesses that may have a fault are left to `CHECK_ONE`.
    """
    addresses, mask = w["addresses"], w["mask"].bits
    result = w.variable(1, I8)
    if _stores_elements(w):
        w.first_stores = w.variable(0, mask.type)
    fine = try_lanes(w)
    with w.when(fine):
        w.state[Word.CHECKED] += w.intrinsic("ctpop", mask).to(I64)
        if w.first_stores is not None:
            with w.when(w.first_stores.value == mask):
                result.value += _are_distinct(w["mask"], addresses // w["size"]).to(I8) << 1
    with w.otherwise():
        memory = w.in_memory(addresses)
        with w.range(0, addresses.type.count) as k:
            active = (mask >> k.to(mask.type)).to(I1)
            fine = w.call(s.CHECK_ONE, w["ctx"], w["sg"], w["site"], k.to(I32), w["row"],
                          memory[k], w["size"], w["kind"], active)
            result.value &= fine.to(I8)
    return result.value


def _stores_elements(w: Checks) -> bool:
    """True for stores of one element per lane to global memory."""
    nbytes, kind = (w[name].operand.integer_value() for name in ("size", "kind"))
    return nbytes is not None and kind is not None and nbytes == kind >> 8 and (
        kind & (Kind.WRITE | Kind.SLM | Kind.ATOMIC) == Kind.WRITE)


def check_elements(w: Checks, *arguments: Value, count: int) -> Value:
    """True if no active element of any lane has a fault.

    If each lane's elements are all active or none, they are one access.  Accesses that may have a
    fault are left to the checks of each element.
    """
    addresses, size, kind = w["addresses"], w["size"], w["kind"]
    lanes, result = addresses.type.count, w.variable(1, I1)
    masks = [w["mask"].shuffled(None, range(e * lanes, (e + 1) * lanes)) for e in range(count)]
    site = [w[name] for name in ("ctx", "sg", "site", "row")]
    every, some = masks[0], masks[0]
    for mask in masks[1:]:
        every, some = every & mask, some | mask
    whole = size * count
    nbytes = size.operand.integer_value()
    if nbytes is not None:
        whole = w.term(nbytes * count, I64)
    with w.when((every ^ some).bits == 0):
        tried = s.try_lanes(lanes, whole.operand, kind.operand)
        with w.when(w.call(tried, *site, addresses, whole, kind, every)):
            w.state[Word.CHECKED] += w.intrinsic("ctpop", every.bits).to(I64) * count
            w.ret(1)
    values = Memory(w, w.state[Word.VALUES].pointer(), I8)
    copied = w.space(array(MOST_VALUES, I8))
    with w.when(w.flag(Kind.KEPT)):
        # at most `MOST_VALUES`, or they are not kept
        w.copy(copied, values.base, whole * lanes)
    for e, mask in enumerate(masks):
        with w.range(0, lanes) as k, w.when(w.flag(Kind.KEPT)):
            w.copy(values.address(k * size), copied + (k * whole + size * e), size)
        fine = w.call(s.check_lanes(lanes, size.operand, kind.operand), *site,
                      addresses + size * e, size, kind, mask)
        result.value &= fine.to(I1)
    return result.value


def try_lanes(w: Checks, *arguments: Value) -> Value:
    """True if no active lane's access has a fault; if one may have, nothing is recorded."""
    if w["mask"].type.count == 1:
        w.arguments["mask"] = w.term(1, w["mask"].type)  # it is called for active lanes only
    addresses, mask = w["addresses"], w["mask"].bits
    good = w.variable(mask == 0)
    with w.when(~good.value):
        slm = w.flag(Kind.SLM)
        row = w.variable(w.select(slm, w.state[Word.SLM_ENTRY], w["row"]))
        with w.when(w["row"].compare("slt", 0) & ~slm):
            row.value = searched(w, addresses[mask.lowest()])
        block = w.block(row.value)
        good.value = _inside(w, block)
        with w.when(good.value & (block[Entry.WRITES] != 0) & ~w.flag(Kind.UNSEEN)):
            with w.when(slm):
                good.value = phases.try_log(w, block, owner_of(w, slm))
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
                good.value = w.call(s.NOTE_LANES, w["ctx"], block.base, w.in_memory(addresses).base,
                                    mask.to(I64), w["size"], w["kind"])
    return good.value


def replay(w: Checks, *arguments: Value) -> Value:
    """Record a valid access of shared memory in the cells."""
    slm, good = w.flag(Kind.SLM), w.variable(1, I1)
    block = w.block(w.state[Word.SLM_ENTRY])
    _record_scattered(w, block, owner_of(w, slm), slm, good, w["mask"])
    return good.value


def _is_run(w: Checks) -> Value:
    """True if all lanes are active and contiguous."""
    addresses, mask = w["addresses"], w["mask"]
    steps = Value(w, integers(I64, range(mask.type.count))) * w["size"]
    return ((addresses == steps + addresses[0]) & mask).every()


def searched(w: Checks, address: Value) -> Value:
    """Row of the block that contains an address; an empty one if none does."""
    block = w.block(w.state[Word.SEARCHED_ROW])
    with w.when(~w.holds(block, address)):
        w.look_up(Word.SEARCHED_ROW, address)
    return w.state[Word.SEARCHED_ROW]


def _inside(w: Checks, block: Memory) -> Value:
    """True if every active lane is in the block, and aligned."""
    addresses = w["addresses"]
    fits = (addresses >= block[Entry.LOW]) & (addresses + w["size"] <= block[Entry.HIGH])
    even = addresses & (w["kind"] >> 8) - 1 == 0
    return (fits & even | ~w["mask"]).every()


def _record(w: Checks, block: Memory, slm: Value, good: Variable) -> None:
    """Compare with the cells and record the access: by chunks if possible, else by dwords."""
    owner, rest = owner_of(w, slm), w.variable(w["mask"].bits)
    if not can_record_whole(w):
        _record_scattered(w, block, owner, slm, good, w["mask"])
        return
    nbytes, count = w["size"].operand.integer_value() or 0, w["mask"].type.count
    least, crosses = count // 2 + 1, phases.may_cross(w, nbytes)
    window = _is_window(w, block, nbytes, crosses=crosses)
    chunks, tries = w["addresses"] >> CHUNK_BITS, w.variable(1, I1)
    first, flags = w.variable(chunks[0]), w.variable(w.term(0, vector(count, I32)))
    with w.when(~window):
        form = block.follow(Entry.FORM)
        flags.value = w.spread(form[Form.FLAGS].to(I32), count)
        with w.when(form[Form.LEFT] != 0):
            flags.value = flags_of(w, block, chunks, w["mask"])
        tries.value = w.intrinsic("ctpop", flags.value.has(BEGUN).bits).to(I32) < least
        with w.when(tries.value):
            first.value = smallest(w, w.select(w["mask"], chunks, -1))
    with w.when(tries.value):
        rest.value = left_over(w, block, first.value, nbytes, owner, least=least, crosses=crosses)
    with w.when(rest.value != 0):
        with w.when(window):
            flags.value = flags_of(w, block, chunks, w["mask"])
        mask = _lanes_of(rest.value, count)
        _record_scattered(w, block, owner, slm, good, mask, flags.value)


def _lanes_of(bits: Value, count: int) -> Value:
    """The bits of an integer as flags; LLVM may convert them one by one."""
    w = bits.w
    if count == 1:
        return Value(w, w.b.bitcast(bits.operand, vector(1, I1)))
    return w.spread(bits, count).has(Value(w, integers(bits.type, [1 << k for k in range(count)])))


def _is_window(w: Checks, block: Memory, nbytes: int, *, crosses: bool) -> Value:
    """True if the chunks from that of lane 0 on have all accesses, and no cells of dwords."""
    addresses, mask = w["addresses"], w["mask"]
    first = addresses[0] >> CHUNK_BITS
    most = min(WINDOW, (1 + crosses) * mask.type.count)
    flags = w.load(I64, (first + block[Entry.TOUCHED]).pointer(), align=1)
    last = addresses + nbytes - 1 if crosses else addresses
    inside = ((last >> CHUNK_BITS) - first < most) & (addresses >= addresses[0])
    near = mask[0] & (inside | ~mask).every()
    return near & ~flags.has(sum(BEGUN << 8 * k for k in range(most)))


def _record_scattered(
    w: Checks, block: Memory, owner: Value, slm: Value, good: Variable, mask: Value,
    flags: Value | None = None,
) -> None:
    """Compare and record an access in cells of elements, or of dwords where there are none.

    `flags` are those of the lanes' chunks, if they are known.
    """
    nbytes = w["size"].operand.integer_value()
    if nbytes is None or nbytes > 4 or flags is None:
        _record_in_dwords(w, block, owner, slm, good, mask)
        return
    left = mask
    if nbytes < 4:
        left = _record_elements(w, block, nbytes, owner, good, mask, flags)
    with w.when(good.value & (left.bits != 0)):
        _record_in_dwords(w, block, owner, slm, good, left, flags)


def _record_elements(
    w: Checks, block: Memory, nbytes: int, owner: Value, good: Variable, mask: Value, flags: Value
) -> Value:
    """Compare and record accesses of elements with cells of their own; return the lanes without."""
    addresses = w["addresses"]
    bytes_ = w.term((1 << nbytes) - 1, I64) << (addresses & 3)
    here, others = w.variable(w.term(0, mask.type)), w.variable(0, I1)
    with w.when(((addresses & nbytes - 1 == 0) | ~mask).every()):
        here.value, others.value = Elements.begun(w, block, flags, bytes_, mask)
    with w.when(here.value.bits != 0):
        elements = Elements(w, block, nbytes, here.value)
        _compare_and_record(
            w, block, elements, bytes_ | owner, owner, w.term(0, I1), good, others)
    return mask & ~here.value


def _record_in_dwords(
    w: Checks, block: Memory, owner: Value, slm: Value, good: Variable, mask: Value,
    flags: Value | None = None,
) -> None:
    """Compare and record an access in the cells of its dwords."""
    size, nbytes = w["size"], w["size"].operand.integer_value()
    whole, narrow = size >= 4, nbytes is not None and nbytes < 4
    offsets = w["addresses"] - (block[Entry.LOW] & -4)
    inner, index = offsets & 3, offsets >> 2
    good.value = ((inner == 0) | ~mask).every() & ~size.has(3) | ~whole
    count = w.select(whole, size >> 2, w.term(4, I64) // size)
    part = (w.term(1, I64) << w.select(whole, 4, size)) - 1
    full = whole | fill_dwords(mask, index, part << inner)
    alone = _are_distinct(mask, index) if narrow else w.term(0, I1)
    if narrow:
        good.value = ((inner & size - 1 == 0) | ~mask).every()
    once = full & ~whole | alone
    mine, others = w.select(w.flag(Kind.WRITE), *BEGUN_OF, I8), w.variable(1, I1)
    with w.range(0, w.select(good.value, w.select(once, 1, count), 0)) as k:
        shift = w.select(full, 0, k * size)
        here = mask & ((inner == shift) | full | alone)
        dwords = Dwords(w, index + w.select(whole, k, 0), here)
        new = owner | w.select(full, 15, part << shift)
        if narrow:
            dwords.alone = alone
            new = w.select(alone & ~full, part << inner | owner, new)
        with w.when(~slm):
            others.value = dwords.begin(block, mine, flags)
        _compare_and_record(w, block, dwords, new, owner, slm, good, others)


def _are_distinct(mask: Value, index: Value) -> Value:
    """True if no two active lanes have the same number."""
    lanes, w = mask.type.count, mask.w
    unlike = Value(w, integers(I32, range(-lanes, 0)))
    numbers, same = w.select(mask, index.to(I32), unlike), w.term(0, mask.type)
    for step in range(1, lanes // 2 + 1):
        same |= numbers == numbers.shuffled(None, [(k + step) % lanes for k in range(lanes)])
    return same.bits == 0


def _compare_and_record(
    w: Checks, block: Memory, cells: Dwords, new: Value, owner: Value, slm: Value, good: Variable,
    others: Variable,
) -> None:
    """Compare with the cells, unless nothing has accessed them yet, and record the access."""
    writes, none = w.flag(Kind.WRITE), w.term(0, vector(cells.active.type.count, I64))
    written, read = (cells.place(block, word) for word in (Entry.WRITES, Entry.READS))
    own_at, other_at = w.select(writes, written, read), w.select(writes, read, written)
    own, other = cells.load(own_at, I64), w.variable(none)
    if w.first_stores is not None:
        w.first_stores.value |= ((own == 0) & cells.active).bits
    with w.when(others.value):
        other.value = cells.load(other_at, I64)
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
    w: Checks, block: Memory, cells: Dwords, old: tuple[Value, Value], new: Value, owner: Value,
    slm: Value, good: Variable,
) -> None:
    """Compare with the last write and the reads in the cells; record the access if valid."""
    writes, idle = w.flag(Kind.WRITE), ~cells.active
    published, (old_write, old_read) = block[Entry.SYNC] != 0, old
    mixed = old_write & WARP.full == WARP.full
    after_write = ordered(w, old_write, owner, slm, unfenced_barriers(w, slm), ~mixed)
    after_write |= _of_other_bytes(old_write, new, slm)
    after_read = ordered(w, old_read, owner, slm, w.term(0, I64), w.term(1, mixed.type))
    written_after = after_read | _of_other_bytes(old_read, new, slm)
    joined = _other_cells(cells, old_write, new, owner, slm)
    after_write |= joined
    written_after |= _other_cells(cells, old_read, new, owner, slm)
    # cells whose published releases an atomic may still acquire after the last write
    goes_on = (old_write == 0) | old_write.has(ATOMIC.full) | ~owner.has(ATOMIC.full)
    plain = (after_write & (written_after | ~writes) & (goes_on | ~published) | idle).every()
    may_copy = writes & w.flag(Kind.KEPT) & (slm | (block[Entry.UNREAD] != 0))
    with w.when(~plain & may_copy):
        copies = of_group(old_write, owner) & ~mixed | ~slm & _keeps_recording(
            cells, old_write, new, writes)
        copies &= _changing_nothing(w)
        good.value &= ((after_write | copies) & written_after | idle).every()
    with w.when(~plain & ~may_copy):
        _look_closer(w, cells, old, (after_write, written_after), new, goes_on | ~published, good)
    filled = of_group(old_write, owner) & (old_write & BYTES.full == BYTES.full)
    fresh = slm & ~(filled | idle).every()
    fine = good.value & _first_use(w, cells, new, fresh)
    good.value = fine
    with w.when(fine):
        with w.when(writes):
            mine = (old_write ^ owner) & -16 == 0
            stored = w.select(mine, old_write | new, new)
            if cells.alone is not None:
                joined |= _has_others(old_write, new, owner, slm) & cells.active
            place = cells.place(block, Entry.WRITES)
            cells.store(stored, place)
            if cells.alone is not None:
                with w.when(joined.bits != 0):
                    _join(w, old_write, new, joined, cells.index, Memory(w, place.pointer()))
            # cells of shared memory that other work-groups left mean nothing
            gone = (old_read == 0) | ~of_group(old_read, owner) & slm
            with w.when(~(gone | idle).every()):
                rest = old_read & ~(new & BYTES.full)
                place = cells.place(block, Entry.READS)
                cells.store(w.select(rest.has(BYTES.full), rest, 0), place)
        with w.otherwise():
            before = after_read | earlier(old_read, owner)
            differs = (old_read ^ new).has(BYTES.full)
            merged = w.variable(merged_read(w, old_read, new, owner, before))
            joins = _crossing(old_read, owner, after_read) & cells.active
            joins &= published | differs | is_list(old_read)
            since = earlier(old_read, owner) & of_subgroup(old_read, owner)
            apart = ~before | since | (old_read & PHASE.full == PHASE.full)
            joins |= of_group(old_read, owner) & apart & differs & cells.active
            with w.when(joins.bits != 0):
                with distinct(w, old_read, new, joins) as (reader, mine, alike):
                    one = w.call(s.MERGE, w["ctx"], block.base, reader, mine, w["kind"])
                    merged.value = w.select(alike, one, merged.value)
            cells.store(merged.value, cells.place(block, Entry.READS))


def _look_closer(
    w: Checks, cells: Dwords, old: Sequence[Value], after: Sequence[Value], new: Value,
    goes_on: Value, good: Variable,
) -> None:
    """Test whether accesses in cells that are not plainly ordered have been acquired."""
    writes, active = w.flag(Kind.WRITE), cells.active
    cross_write, cross_read = (
        _crossing(cell, new, ordered) & active for cell, ordered in zip(old, after, strict=True))
    fine = (after[0] | cross_write & _keeps_recording(cells, old[0], new, writes)) & (
        after[1] | cross_read | ~writes)
    every = (fine & goes_on | ~active).every()
    good.value &= every
    with w.when(every):
        for cell, which, read in ((old[0], cross_write, 0), (old[1], cross_read & writes, 1)):
            with distinct(w, cell, new, which) as (one, mine, _):
                found = w.call(s.CLASH, w["ctx"], one, mine, w["kind"], read)
                good.value &= ~found


def _first_use(w: Checks, cells: Dwords, new: Value, fresh: Value) -> Value:
    """Record the written bytes of shared memory; true if all bytes that are read were written."""
    result, active = w.variable(1, I1), cells.active
    here = w.spread(new.to(I32) & BYTES.full, active.type.count) << (cells.index.to(I32) & 1) * 4
    places = ((cells.index >> 1) + w.state[Word.SLM_KNOWN]).pointer()
    with w.each(w.select(fresh & w.flag(Kind.WRITE), active.bits, 0)) as k:
        byte = Memory(w, places[k], I8)
        byte[0] = byte[0] | here[k].to(I8)
    with w.when(fresh & ~w.flag(Kind.WRITE)):
        old = w.gather(I32, places, active)
        result.value = ((old & here == here) | ~active).every()
    return result.value


# --- vector forms of the arithmetic of `checks` ---------------------------------------------------


def _of_other_bytes(old: Value, new: Value, slm: Value) -> Value:
    """Cells of this work-group's accesses of other bytes."""
    return (old & new & BYTES.full == 0) & (of_group(old, new) | slm)


def _other_cells(cells: Dwords, old: Value, new: Value, owner: Value, slm: Value) -> Value:
    """Cells of other programs' accesses of other bytes, which remain recorded."""
    if cells.alone is None:
        return cells.active & ~cells.active
    apart = ~(old & new).has(BYTES.full) & ~(old | new).has(ATOMIC.full) & (old != 0)
    return apart & ~of_group(old, owner) & cells.active & ~slm & cells.alone


def _keeps_recording(cells: Dwords, old: Value, new: Value, writes: Value) -> Value:
    """Cells that can record both another program's store and a new one of some of its bytes.

    For a load, all cells.
    """
    if cells.alone is None:
        return (old & ~new & BYTES.full == 0) | ~writes
    return (old & new).has(BYTES.full) | ~writes


def _has_others(old: Value, new: Value, owner: Value, slm: Value) -> Value:
    """Cells of other programs' stores of more bytes than a new one has."""
    plain = ~(old | new).has(ATOMIC.full)
    return (old & ~new).has(BYTES.full) & ~of_group(old, owner) & plain & ~slm


def _join(
    w: Checks, old: Value, new: Value, which: Value, index: Value, written: Memory
) -> None:
    """Make some cells record both stores."""
    ones, mine, places = (w.in_memory(x) for x in (old, w.spread(new, old.type.count), index))
    with w.each(which.bits) as k:
        written[places[k]] = w.call(s.JOIN, w["ctx"], ones[k], mine[k], 1)


def _changing_nothing(w: Checks) -> Value:
    """Lanes whose store writes the values that memory has already."""
    if w.routine in (s.REPLAY, s.REPLAY_ONE):
        return w.term(1, w["mask"].type)
    return phases.changing_nothing(w)


def _crossing(old: Value, owner: Value, ordered: Value) -> Value:
    """Cells of other programs that may conflict."""
    return ~(ordered | of_group(old, owner))
