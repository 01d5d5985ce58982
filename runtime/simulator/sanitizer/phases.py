"""Shared memory between two barriers: the bytes written and read there, chunk by chunk.

A barrier orders all accesses before it, so that accesses can only conflict within a phase.
Accesses that overlap none of another subgroup are only logged, and the log is dropped at the next
barrier.  Loads need no chunks while no other store is in their region, a 64th of shared memory.
When an access may conflict, the log is replayed: its accesses are recorded in the cells.  The
cells are then used for the rest of the phase, because they have the site of each access.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from triton_xe.llvm import I1, I32, I64, integers, vector
from triton_xe.llvm.values import Memory, Value
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.cells import GROUP, PHASE, WARP
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import (
    CHUNK_BITS,
    LOG_WORDS,
    LOGGED_LANES,
    Chunk,
    Entry,
    Kind,
    Word,
)

_MOST = 1 << CHUNK_BITS
_LEAST_APART, _MOST_APART = 4, 32
"""Lanes that are tested at once, if each is in a chunk of its own."""
_MOST_GATHERED = 16
"""Largest number of bytes of a lane whose bits are in 32 bits from a byte boundary on."""


class Logged(IntEnum):
    """Words of a logged access; the addresses of its lanes follow."""

    SITE = 0
    SUBGROUP = 1
    SIZE = 2
    KIND = 3
    MASK = 4
    LANES = 5
    ADDRESSES = 8


def try_log(w: Checks, block: Memory, owner: Value) -> Value:
    """Log an access of shared memory if it overlaps no other subgroup's; return whether it did."""
    nbytes, kind = (w[name].operand.integer_value() for name in ("size", "kind"))
    if nbytes is None or kind is None or kind & Kind.ATOMIC or nbytes > _MOST:
        return w.term(0, I1)
    places, state = w["addresses"] - block[Entry.LOW], w.state
    exact = state[Word.SLM_EXACT] != 0
    if w["mask"].type.count == 1:
        # programs that take turns may communicate by scalars: the log would not last
        exact |= w.clocked()
    fine, asks, copies = w.variable(0, I1), w.variable(~exact), w.variable(0, I1)
    regions = _regions(w, places, nbytes)
    if not kind & Kind.WRITE and nbytes <= _MOST_GATHERED:
        with w.when(~exact & ~state[Word.SLM_WRITTEN].has(regions)):
            fine.value = _are_known(w, places, nbytes)
            state[Word.SLM_READ] |= regions
            asks.value = 0
    with w.when(asks.value):
        with w.when(w.unlikely(state[Word.SLM_READ].has(regions))):
            w.call(s.NOTE_READS, w["ctx"])
        if kind & Kind.WRITE:
            state[Word.SLM_WRITTEN] |= regions
        fine.value, copies.value = _note(w, places, w["mask"], owner)
        with w.when(fine.value & copies.value):
            fine.value = (changing_nothing(w) | ~w["mask"]).every()
    with w.when(fine.value):
        _log(w, copies.value)
        with w.when(state[Word.SLM_READ] == 0):
            state[Word.SLM_NOTED] = state[Word.SLM_LOGGED]
    return fine.value


def _regions(w: Checks, places: Value, nbytes: int) -> Value:
    """Parts of shared memory, a bit each, that the lanes access."""
    one, shift = w.spread(w.term(1, I64), places.type.count), w.state[Word.SLM_REGION]
    bits = one << (places >> shift)
    if may_cross(w, nbytes):
        bits |= one << (places + (nbytes - 1) >> shift)
    return any_of(w, w.select(w["mask"], bits, 0))


def may_cross(w: Checks, nbytes: int) -> bool:
    """True if so many bytes may cross the end of a chunk."""
    align = (w["kind"].operand.integer_value() or 0) >> 8
    return nbytes.bit_count() != 1 or align < nbytes


def _are_known(w: Checks, places: Value, nbytes: int) -> Value:
    """True if this work-group has written all bytes that the lanes read."""
    mask, known = w["mask"], w.state[Word.SLM_KNOWN]
    found = w.gather(I32, ((places >> 3) + known).pointer(), mask) >> (places & 7).to(I32)
    return (((found ^ -1) & (1 << nbytes) - 1 == 0) | ~mask).every()


def note_reads(w: Checks, ctx: Value) -> None:
    """Add the logged reads that are not in the chunks yet."""
    low, phase = w.block(w.state[Word.SLM_ENTRY])[Entry.LOW], w.state[Word.SLM_PHASE]
    group = w.group << GROUP.first | (phase & PHASE.most) << PHASE.first
    w.arguments["kind"] = w.term(int(Kind.SLM), I64)
    with _logged(w, w.state[Word.SLM_NOTED]) as (entry, addresses, mask):
        w.arguments["size"] = entry[Logged.SIZE]
        with w.when(~entry[Logged.KIND].has(Kind.WRITE)):
            _note(w, addresses - low, mask, group | entry[Logged.SUBGROUP] << WARP.first)
    w.state[Word.SLM_NOTED] = w.state[Word.SLM_LOGGED]
    w.state[Word.SLM_READ] = 0


def changing_nothing(w: Checks) -> Value:
    """Lanes for which a store writes the value that memory has already."""
    addresses, mask, size = w["addresses"], w["mask"], w["size"]
    lanes = mask.type.count
    same = w.variable(w.term(int(lanes > 1), mask.type))
    steps = Value(w, integers(I64, range(lanes))) * size + w.state[Word.VALUES]
    whole = size >= 4
    part = w.select(whole, -1, (w.term(1, I64) << (size << 3 & 31)) - 1).to(I32)
    inner = w.select(whole, 0, addresses & 3)
    with w.range(0, w.select(same.value.every(), size + 3 >> 2, 0)) as k:
        there, put = (w.gather(I32, (at + k * 4).pointer(), mask)
                      for at in (addresses - inner, steps))
        same.value &= ((there >> (inner << 3).to(I32)) ^ put) & part == 0
    return same.value


def _note(w: Checks, places: Value, mask: Value, owner: Value) -> tuple[Value, Value]:
    """Add an access to the chunks.

    Return true if it overlaps no other and its reads are written.  Also return true if values must
    be compared with those that other subgroups have stored.
    """
    inner, chunks, size = places & _MOST - 1, places >> CHUNK_BITS, w["size"]
    bytes_ = w.spread(w.term(-1, I64) >> w.term(_MOST, I64) - size, mask.type.count) << inner
    fine, copies = w.variable(((inner + size <= _MOST) | ~mask).every()), w.variable(0, I1)
    mine = owner & (GROUP.full | PHASE.full | WARP.full)
    todo = w.variable(w.select(fine.value, mask.bits, 0))
    if _LEAST_APART <= mask.type.count <= _MOST_APART:
        with w.when(_are_distinct_chunks(w, chunks, todo.value, mask)):
            alone, copy = _note_chunks(w, chunks, bytes_, mine, mask)
            fine.value &= alone
            copies.value = copy
            todo.value = 0
    numbers = w.in_memory(chunks)
    with w.chain(todo.value) as (rest, slot):
        chunk = numbers[rest.lowest()]
        here = (chunks == chunk) & mask
        slot.value = rest & ~here.bits
        alone, copy = _note_chunks(w, chunk, any_of(w, w.select(here, bytes_, 0)), mine)
        fine.value &= alone
        copies.value |= copy
    return fine.value, copies.value


def _are_distinct_chunks(w: Checks, chunks: Value, todo: Value, mask: Value) -> Value:
    """True if several lanes are active, each in a chunk of its own."""
    lanes = mask.type.count
    numbers = w.select(mask, chunks.to(I32), Value(w, integers(I32, range(-lanes, 0))))

    def same(step: int) -> Value:
        return numbers == numbers.shuffled(None, [(k + step) % lanes for k in range(lanes)])

    apart = w.variable((same(1).bits == 0) & (w.intrinsic("ctpop", todo).to(I32) >= _LEAST_APART))
    with w.when(apart.value):
        again = same(2)
        for step in range(3, lanes // 2 + 1):
            again |= same(step)
        apart.value = again.bits == 0
    return apart.value


def _note_chunks(
    w: Checks, chunks: Value, bytes_: Value, mine: Value, mask: Value | None = None
) -> tuple[Value, Value]:
    """Add an access of bytes of a chunk; with a mask, of a different chunk in each lane.

    Return true if it overlaps no other subgroup's in this phase, and what it reads is written.
    A store with known values may overlap other stores: then the second result is true.
    """
    words, writes = w.state.follow(Word.SLM_CHUNKS), w.flag(Kind.WRITE)
    at_owner, at_written, at_read = (words.address(chunks * Chunk.WORDS + k)
                                     for k in (Chunk.OWNER, Chunk.WRITTEN, Chunk.READ))
    at_known = w.state.follow(Word.SLM_KNOWN).address(chunks)

    def load(at: Value) -> Value:
        return w.load(I64, at) if mask is None else w.gather(I64, at, mask)

    def store(value: Value, at: Value) -> None:
        if mask is None:
            w.store(value, at)
        else:
            w.scatter(value, at, mask)

    owner, known = load(at_owner), load(at_known)
    new = (owner ^ mine) & (GROUP.full | PHASE.full) != 0
    alone = new | (owner == mine)
    written, read = (w.select(new, 0, load(at)) for at in (at_written, at_read))
    copies = (w.flag(Kind.KEPT) & writes) & bytes_.has(written) & ~bytes_.has(read) & ~alone
    meets = bytes_.has(w.select(writes, written | read, written)) & ~alone & ~copies
    store(w.select(alone, mine, mine | WARP.full), at_owner)
    store(written | w.select(writes, bytes_, 0), at_written)
    store(read | w.select(writes, 0, bytes_), at_read)
    with w.when(writes):
        store(known | w.select(meets, 0, bytes_), at_known)
    fine = ~meets & (writes | (bytes_ & ~known == 0))
    return (fine, copies) if mask is None else (
        (fine | ~mask).every(), (copies & mask).bits != 0)


def any_of(w: Checks, bits: Value) -> Value:
    """The bits of all elements of a vector, or-ed."""
    count = bits.type.count
    return bits[0] if count == 1 else w.call(f"llvm.vector.reduce.or.v{count}i64", bits, result=I64)


def _log(w: Checks, copies: Value) -> None:
    """Log an access; `KEPT` there marks stores of values that others had stored."""
    lanes = w["mask"].type.count
    with w.when(w.unlikely(w.state[Word.SLM_LOGGED] + (Logged.ADDRESSES + lanes) > LOG_WORDS)):
        w.call(s.NOTE_READS, w["ctx"])
        w.call(s.REPLAY_LOG, w["ctx"])
    used = w.state[Word.SLM_LOGGED]
    entry = Memory(w, w.state.follow(Word.SLM_LOG).address(used))
    for word, value in ((Logged.SITE, w["site"]), (Logged.SUBGROUP, w["sg"]),
                        (Logged.SIZE, w["size"]),
                        (Logged.KIND, w["kind"] & w.select(copies, -1, ~int(Kind.KEPT))),
                        (Logged.MASK, w["mask"].bits), (Logged.LANES, w.term(lanes, I64))):
        entry[word] = value.to(I64)
    w.store(w["addresses"], entry.address(Logged.ADDRESSES), align=8)
    w.state[Word.SLM_LOGGED] = used + (Logged.ADDRESSES + lanes)


@contextmanager
def _logged(w: Checks, first: Value) -> Iterator[tuple[Memory, Value, Value]]:
    """Yield each logged access from a word on: its entry, addresses, mask."""
    at = w.variable(first)
    with w.loop(lambda: at.value < w.state[Word.SLM_LOGGED]):
        entry = Memory(w, w.state.follow(Word.SLM_LOG).address(at.value))
        mask = w.b.bitcast(entry[Logged.MASK].to(I32).operand, vector(LOGGED_LANES, I1))
        yield entry, w.load(vector(LOGGED_LANES, I64), entry.address(Logged.ADDRESSES),
                            align=8), Value(w, mask)
        at.value += entry[Logged.LANES] + Logged.ADDRESSES


def replay_log(w: Checks, ctx: Value) -> None:
    """Record the logged accesses in the cells, and empty the log."""
    with _logged(w, w.term(0, I64)) as (entry, addresses, mask):
        sg, site = (entry[word].to(I32) for word in (Logged.SUBGROUP, Logged.SITE))
        access = ctx, sg, site, -1
        what = entry[Logged.SIZE], entry[Logged.KIND]
        with w.when(entry[Logged.LANES] == 1):
            first = w.load(vector(1, I64), entry.address(Logged.ADDRESSES), align=8)
            w.call(s.REPLAY_ONE, *access, first, *what, w.term(1, vector(1, I1)))
        with w.otherwise():
            w.call(s.REPLAY, *access, addresses, *what, mask)
    for word in (Word.SLM_LOGGED, Word.SLM_NOTED, Word.SLM_READ):
        w.state[word] = 0


def ask_cells(w: Checks) -> None:
    """Use the cells for all accesses in the rest of this phase."""
    with w.when(w.state[Word.SLM_LOGGED] != 0):
        w.call(s.REPLAY_LOG, w["ctx"])
    w.state[Word.SLM_EXACT] = 1


def begin_phase(w: Checks) -> None:
    """Begin a phase; the cells are still used for bytes that several subgroups have stored."""
    for word in (Word.SLM_LOGGED, Word.SLM_NOTED, Word.SLM_READ, Word.SLM_WRITTEN):
        w.state[word] = 0
    w.state[Word.SLM_EXACT] = w.state[Word.SLM_MIXED]


def begin_group(w: Checks) -> None:
    """Make all of a work-group's shared memory unknown."""
    w.state[Word.SLM_MIXED] = 0
    begin_phase(w)
    w.fill(w.state[Word.SLM_KNOWN].pointer(), 0, (w.state[Word.SLM_BYTES] >> CHUNK_BITS << 3) + 8)
