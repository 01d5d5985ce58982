"""Vector clocks: releases that interleaved programs know of each other.

They replace the lists of `acquired`.  A clock is immutable.  For each program it has the last known
release: bits of subgroups, phase and epoch from the lowest bit up.  Therefore the larger number is
the later release.  Programs below its floor have all ended, and all of their releases are known.
Programs from its end on are unknown.  Clock 0 knows nothing.  The list of a location
(`Entry.SYNC`), the acquisitions of a program, and a release are numbers of clocks.  The host finds
the clocks that none of these refers to.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from triton_xe.llvm import I1, I32, I64
from triton_xe.llvm.values import Memory, Value
from triton_xe.runtime.simulator.sanitizer import cells
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import Joined, Known, Release, Word

WARPS, EPOCHS = cells.Bits(0, 32), cells.Bits(50, 14)
PHASES = cells.Bits(32, cells.PHASE.count)
SPARE = 256
"""Largest number of clocks that one atomic of all lanes may create."""


class Clock(IntEnum):
    """Words of a clock."""

    FLOOR = 0
    END = 1
    BY = 2
    """The program whose release was published last; 0 for acquisitions."""
    FIRST = 4
    """The entry of program 0, which does not exist: programs count from 1."""


def clock_of(w: Checks, number: Value) -> Memory:
    return w.state.follow(Word.CLOCKS).row(number.to(I64) * w.state[Word.CLOCK_WORDS], 1)


def entry_of(clock: Memory, group: Value) -> Value:
    """The last release of a program that a clock knows."""
    return clock.w.select(group < clock[Clock.END], clock[group + Clock.FIRST], 0)


def _later(w: Checks, first: Value, second: Value) -> Value:
    """The later one of two releases of a program, with the subgroups of both."""
    newest = w.largest(first, second) & ~WARPS.full
    return newest | (first | second) & WARPS.full


def join(w: Checks, ctx: Value, first: Value, second: Value, by: Value) -> Value:
    """The clock that knows the releases of two clocks, last published by `by`."""
    hashed = (first.to(I64) * 0x9E3779B97F4A7C15 ^ second.to(I64)) * 0x9E3779B97F4A7C15 >> 56
    kept = w.state.follow(Word.CLOCKS_MADE).row(hashed, Joined.WORDS)
    key = second.to(I64) << 32 | by.to(I64)
    with w.when((kept[Joined.OLD] == first.to(I64)) & (kept[Joined.NEW] == key)):
        w.ret(kept[Joined.MADE].to(I32))
    made = _joined(w, first, second, by)
    for word, value in ((Joined.OLD, first), (Joined.NEW, key), (Joined.MADE, made)):
        kept[word] = value.to(I64)
    return made


def _joined(w: Checks, first: Value, second: Value, by: Value) -> Value:
    """The clock that knows what both clocks know; the first one itself if it does already."""
    one, other = clock_of(w, first), clock_of(w, second)
    floor = w.largest(one[Clock.FLOOR], other[Clock.FLOOR])
    end = w.largest(one[Clock.END], other[Clock.END])
    enough = w.variable((one[Clock.BY] == by.to(I64)) & (one[Clock.FLOOR] == floor))

    def merged(group: Value) -> Value:
        x, y = entry_of(one, group), entry_of(other, group)
        found = _later(w, x, y)
        enough.value &= found == x
        return found

    made = _begun(w, floor, end, by, merged)
    with w.when(enough.value):
        w.ret(first)
    return _keep_clock(w, made)


def _begun(
    w: Checks, floor: Value, end: Value, by: Value, entry: Callable[[Value], Value]
) -> Memory:
    """Write a clock to the memory of the next free one, which stays free until `_keep_clock`."""
    free = w.state.follow(Word.CLOCKS_FREE, I32)
    made = clock_of(w, free[w.state[Word.CLOCKS_LEFT] - 1])
    for word, value in ((Clock.FLOOR, floor), (Clock.END, end), (Clock.BY, by)):
        made[word] = value
    with w.range(floor + 1, end) as group:
        made[group + Clock.FIRST] = entry(group)
    return made


def _keep_clock(w: Checks, clock: Memory) -> Value:
    """Keep the new clock, whose floor rises over programs that have ended; return its number."""
    floor, going = w.variable(clock[Clock.FLOOR] + 1), w.variable(1, I1)
    with w.loop(lambda: going.value):
        group = floor.value
        known = w.known(group)
        has = entry_of(clock, group)
        whole = EPOCHS.extract(has) >= known[Known.LAST_EPOCH]
        every = known[Known.LAST_WARPS] & WARPS.most & ~has == 0
        ended = (group < w.state[Word.BEGUN]) & (known[Known.ENDED] != 0)
        going.value = ended & ((known[Known.LAST_EPOCH] == 0) | whole & every)
        floor.value = group + going.value.to(I64)
    clock[Clock.FLOOR] = floor.value - 1
    left = w.state[Word.CLOCKS_LEFT] - 1
    w.state[Word.CLOCKS_LEFT] = left
    return w.state.follow(Word.CLOCKS_FREE, I32)[left]


def stamp(w: Checks, ctx: Value, sg: Value, release: Value) -> Value:
    """The clock of a release: the program's acquisitions, and the release."""
    own = Memory(w, release)
    base = clock_of(w, own[Release.ACQUIRED].to(I32))
    epoch = w.select(own[Release.EPOCH] < EPOCHS.most, own[Release.EPOCH], EPOCHS.most)
    mine = epoch << EPOCHS.first | own[Release.PHASE] << PHASES.first | warp_bit_of(w, sg)
    end = w.largest(base[Clock.END], w.group + 1)

    def entry(group: Value) -> Value:
        has = entry_of(base, group)
        return w.select(group == w.group, _later(w, has, mine), has)

    return _keep_clock(w, _begun(w, base[Clock.FLOOR], end, w.group, entry))


def warp_bit_of(w: Checks, warp: Value) -> Value:
    return w.term(1, I64) << (warp & 31).to(I64)


def knows(
    w: Checks, ctx: Value, group: Value, epoch: Value, phase: Value, warp: Value, lenient: Value
) -> Value:
    """True if the running program has acquired an access of another one."""
    clock = clock_of(w, w.known(w.group)[Known.CLOCK].to(I32))
    has = entry_of(clock, group)
    fresh = epoch.compare("slt", EPOCHS.extract(has))
    own = (has >> (warp & 31)).has(1)
    direct = fresh & (own | (phase != PHASES.extract(has)) | lenient)
    last = epoch.compare("slt", w.known(group)[Known.LAST_EPOCH])
    below = group <= clock[Clock.FLOOR]
    return ~below & direct | below & last


def read(w: Checks, listed: Value) -> None:
    """Note a list that a later acquire fence acquires."""
    known = w.known(w.group)
    known[Known.READ] = w.call(s.JOIN_CLOCKS, w["ctx"], known[Known.READ].to(I32), listed, 0)


def acquire(w: Checks, listed: Value) -> None:
    """Acquire the clock of a location for the running program."""
    known = w.known(w.group)
    w.state[Word.ACQUIRED] = 1
    known[Known.CLOCK] = w.call(s.JOIN_CLOCKS, w["ctx"], known[Known.CLOCK].to(I32), listed, 0)


def acquire_read(w: Checks) -> None:
    """Acquire all noted reads."""
    known = w.known(w.group)
    with w.when(known[Known.READ] != 0):
        acquire(w, known[Known.READ].to(I32))
        known[Known.READ] = 0


def published(
    w: Checks, listed: Value, node: Value, reads: Value, writes: Value, waits: Value
) -> Value:
    """Clock that is published at a location after an atomic, which releases `node`, or 0.

    An atomic that has acquired the old clock, and so does not wait for a fence, includes it.
    """
    with w.when(reads & waits & (listed != 0)):
        read(w, listed)
    with w.when(node == 0):
        mine = clock_of(w, listed)[Clock.BY] == w.group
        w.ret(w.select(reads | ~writes | mine, listed, 0))
    with w.when(reads & waits & (listed != 0)):
        w.ret(w.call(s.JOIN_CLOCKS, w["ctx"], listed, node, w.stamp))
    return node


def make_room(w: Checks) -> None:
    """Ensure free clocks before an atomic; without any, the order is no longer tracked."""
    with w.when(w.clocked() & (w.state[Word.CLOCKS_LEFT] < SPARE)):
        w.call(s.ROOM)
        with w.when(w.state[Word.CLOCKS_LEFT] < SPARE):
            w.state[Word.TOGETHER] = 1
