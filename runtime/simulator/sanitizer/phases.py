"""Shared memory between two barriers: which bytes were written and read there, chunk by chunk.

A barrier orders all that was before it, so that accesses can only clash within a phase.  Those that
meet nothing of another subgroup are only logged, and the log is forgotten at the next barrier.  As
soon as one may clash, it is settled: the cells have what it tells, and are asked for the rest of
the phase, as they say which access was where.
"""

from __future__ import annotations

from enum import IntEnum

from triton_xe.runtime.simulator.ir import I1, I32, I64, vector
from triton_xe.runtime.simulator.ir.values import Memory, Value
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


class Logged(IntEnum):
    """Words of an access in the log; then the addresses of its lanes."""

    SITE = 0
    SUBGROUP = 1
    SIZE = 2
    KIND = 3
    MASK = 4
    LANES = 5
    ADDRESSES = 8


def is_noted(w: Checks, block: Memory, owner: Value) -> Value:
    """Whether an access of shared memory meets nothing it may clash with; it is logged, then."""
    nbytes, kind = (w[name].operand.integer_value() for name in ("size", "kind"))
    if nbytes is None or kind is None or kind & Kind.ATOMIC or nbytes > _MOST:
        return w.term(0, I1)
    mask, places = w["mask"], w["addresses"] - block[Entry.LOW]
    inner, chunks = places & _MOST - 1, places >> CHUNK_BITS
    bytes_ = w.spread(w.term((1 << nbytes) - 1, I64), mask.type.count) << inner
    fine = w.variable(((inner <= _MOST - nbytes) | ~mask).every() & (w.state[Word.SLM_EXACT] == 0))
    numbers = w.space(chunks.type)
    w.store(chunks, numbers)
    mine = owner & (GROUP.full | PHASE.full | WARP.full)
    with w.chain(w.select(fine.value, mask.bits, 0)) as (rest, slot):
        chunk = Memory(w, numbers)[rest.lowest()]
        here = (chunks == chunk) & mask
        slot.value = rest & ~here.bits
        fine.value &= _is_alone(w, chunk, _any(w, w.select(here, bytes_, 0)), mine)
    with w.when(fine.value):
        _log(w)
    return fine.value


def _any(w: Checks, bits: Value) -> Value:
    count = bits.type.count
    return bits[0] if count == 1 else w.call(f"llvm.vector.reduce.or.v{count}i64", bits, result=I64)


def _is_alone(w: Checks, chunk: Value, bytes_: Value, mine: Value) -> Value:
    """Note an access of bytes of a chunk; whether no other subgroup's meets it in this phase."""
    writes = w.flag(Kind.WRITE)
    entry = w.state.follow(Word.SLM_CHUNKS).row(chunk, Chunk.WORDS)
    known = w.state.follow(Word.SLM_KNOWN)
    owner = entry[Chunk.OWNER]
    new = (owner ^ mine).has(GROUP.full | PHASE.full)
    alone = new | (owner == mine)
    written, read = (w.select(new, 0, entry[k]) for k in (Chunk.WRITTEN, Chunk.READ))
    meets = bytes_.has(w.select(writes, written | read, written)) & ~alone
    before = known[chunk]
    entry[Chunk.OWNER] = w.select(alone, mine, mine | WARP.full)
    entry[Chunk.WRITTEN] = written | w.select(writes, bytes_, 0)
    entry[Chunk.READ] = read | w.select(writes, 0, bytes_)
    known[chunk] = before | w.select(writes & ~meets, bytes_, 0)
    return ~meets & (writes | (bytes_ & ~before == 0))


def _log(w: Checks) -> None:
    lanes = w["mask"].type.count
    with w.when(w.unlikely(w.state[Word.SLM_LOGGED] + (Logged.ADDRESSES + lanes) > LOG_WORDS)):
        w.call(s.SETTLE, w["ctx"])
    used = w.state[Word.SLM_LOGGED]
    entry = Memory(w, w.state.follow(Word.SLM_LOG).address(used))
    for word, value in ((Logged.SITE, w["site"]), (Logged.SUBGROUP, w["sg"]),
                        (Logged.SIZE, w["size"]), (Logged.KIND, w["kind"] & ~int(Kind.KEPT)),
                        (Logged.MASK, w["mask"].bits), (Logged.LANES, w.term(lanes, I64))):
        entry[word] = value.to(I64)
    w.store(w["addresses"], entry.address(Logged.ADDRESSES), align=8)
    w.state[Word.SLM_LOGGED] = used + (Logged.ADDRESSES + lanes)


def settle(w: Checks, ctx: Value) -> None:
    """Let the cells tell of the accesses in the log, and empty it."""
    lanes, at = vector(LOGGED_LANES, I64), w.variable(0)
    with w.loop(lambda: at.value < w.state[Word.SLM_LOGGED]):
        entry = Memory(w, w.state.follow(Word.SLM_LOG).address(at.value))
        sg, site = (entry[word].to(I32) for word in (Logged.SUBGROUP, Logged.SITE))
        addresses = w.load(lanes, entry.address(Logged.ADDRESSES), align=8)
        mask = Value(w, w.b.bitcast(entry[Logged.MASK].to(I32).operand, vector(LOGGED_LANES, I1)))
        w.call(s.REPLAY, ctx, sg, site, -1, addresses, entry[Logged.SIZE], entry[Logged.KIND], mask)
        at.value += entry[Logged.LANES] + Logged.ADDRESSES
    w.state[Word.SLM_LOGGED] = 0


def ask_cells(w: Checks) -> None:
    """From now on in this phase, the cells tell of all accesses."""
    with w.when(w.state[Word.SLM_LOGGED] != 0):
        w.call(s.SETTLE, w["ctx"])
    w.state[Word.SLM_EXACT] = 1


def begin_phase(w: Checks) -> None:
    """All before a barrier is ordered; bytes that several subgroups left are still asked for."""
    w.state[Word.SLM_LOGGED] = 0
    w.state[Word.SLM_EXACT] = w.state[Word.SLM_MIXED]


def begin_group(w: Checks) -> None:
    """Nothing of a work-group's shared memory is known."""
    for word in (Word.SLM_LOGGED, Word.SLM_EXACT, Word.SLM_MIXED):
        w.state[word] = 0
    w.fill(w.state[Word.SLM_KNOWN].pointer(), 0, (w.state[Word.SLM_BYTES] >> CHUNK_BITS << 3) + 8)
