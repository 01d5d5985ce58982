"""The sanitizer's check of one access of all lanes with addresses known relative to a base.

The accessed bytes are known too, except for masks and the alignment of the base in a chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise, takewhile
from operator import or_

import numpy as np

from triton_xe.llvm import (
    FALSE,
    I1,
    I8,
    I64,
    TRUE,
    VOID,
    Operand,
    constant,
    integers,
    vector,
)
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Memory, Value, Variable
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.checks import owner_of
from triton_xe.runtime.simulator.sanitizer.lanes import record_chunks, searched, try_lanes
from triton_xe.runtime.simulator.sanitizer.parts import in_memory
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import (
    CHUNK_BITS,
    MOST_BYTES,
    MOST_OF_BAND,
    WINDOW,
    Entry,
    Kind,
    Word,
)
from triton_xe.runtime.simulator.widen.values import Tabled
from triton_xe.runtime.simulator.widen.widener import Widener

_CHUNK = 1 << CHUNK_BITS
_OF_CELLS = int(Kind.WRITE) | -1 << 8
"""Bits of an access's kind that its cells depend on."""
_MOST_FLAGS = 256
"""Largest number of elements that are tested at once."""
_MOST_SHARED = 4
"""Largest number of elements at one address."""


def lines_of(span: int, align: int) -> int:
    """Largest number of chunks that so many bytes may touch."""
    return (span + _CHUNK - min(align, _CHUNK) - 1 >> CHUNK_BITS) + 1


@dataclass(frozen=True)
class Steps:
    """Positions of elements of `size` bytes: bit k of a lane's number adds `strides[k]`.

    A lane has `count` adjacent elements.
    """

    strides: tuple[int, ...]
    count: int
    size: int

    @property
    def lanes(self) -> int:
        return 1 << len(self.strides)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Offset of each element from that of lane 0; elements of all lanes are adjacent."""
        return tuple(e * self.size + sum(stride for k, stride in enumerate(self.strides)
                                         if lane >> k & 1)
                     for e in range(self.count) for lane in range(self.lanes))

    @property
    def low(self) -> int:
        return min(self.offsets)

    @property
    def span(self) -> int:
        """Bytes from the first element to the end of the last."""
        return max(self.offsets) + self.size - self.low

    @property
    def is_run(self) -> bool:
        """True if they fill their span."""
        return len({*self.offsets}) * self.size == self.span

    @property
    def fits_window(self) -> bool:
        """True if one window contains all of them, and no two of them overlap partly."""
        places = sorted({*self.offsets})
        apart = all(b - a >= self.size for a, b in pairwise(places))
        few = len(self.offsets) <= _MOST_SHARED * len(places)
        return apart and few and self.span <= WINDOW << CHUNK_BITS and self.chunks(1) <= WINDOW

    def chunks(self, align: int) -> int:
        """Largest number of chunks that they may touch."""
        return lines_of(self.span, align)

    def bytes_of(self, mask: Value) -> list[Value]:
        """Flags of the bytes of active elements, by chunk; the first element begins a chunk."""
        none = mask.w.term(0, mask.type)
        at: dict[int, list[int]] = {}
        for k, offset in enumerate(self.offsets):
            for byte in range(offset - self.low, offset - self.low + self.size):
                at.setdefault(byte, []).append(k)
        most = max(map(len, at.values()))
        absent = [len(self.offsets)] * most
        lines = []
        for first in range(0, self.span, _CHUNK):
            elements = [(at.get(byte, absent) * most)[:most]
                        for byte in range(first, first + _CHUNK)]
            lines.append(reduce(or_, (
                mask.shuffled(none, [who[k] for who in elements]) for k in range(most))))
        return lines


def steps_of(pointer: Tabled, lanes: int, count: int, size: int) -> Steps | None:
    """Positions of the elements, if bits of lane numbers determine them and they are close."""
    if pointer.table.shape[0] != 1 or size > MOST_BYTES:
        return None
    row = np.broadcast_to(pointer.table, (1, lanes))[0]
    strides = tuple(int(row[1 << k] - row[0]) for k in range(lanes.bit_length() - 1))
    steps = Steps(strides, count, size)
    known = all(int(x - row[0]) == at for x, at in zip(row, steps.offsets, strict=False))
    return steps if known and steps.fits_window else None


def are_disjoint(w: Widener, places: Sequence[Tabled], size: int) -> Operand:
    """True if all lanes access disjoint memory, `size` bytes each, at each of several addresses.

    False if that depends on the bases, and these are not in ascending order.
    """
    rows = [np.broadcast_to(p.table[:1], (1, w.lanes))[0] for p in places]
    bases = [p.base for p in places if p.base is not None]
    if len(bases) < len(places) or any(p.table.shape[0] > 1 for p in places):
        return FALSE
    shared = len({str(base) for base in bases}) == 1
    for some in ([np.concatenate(rows)] if shared else rows):
        if (np.diff(np.sort(some)) < size).any():
            return FALSE
    result = TRUE
    for k in range(0 if shared else len(places) - 1):
        ends, begins = (w.b.ptrtoint(w.b.at(base, at)) for base, at in (
            (bases[k], int(rows[k].max()) + size), (bases[k + 1], int(rows[k + 1].min()))))
        result = w.b.and_(result, w.b.icmp("ule", ends, begins))
    return result


def check_steps(w: Checks, *arguments: Value, steps: Steps, masked: bool) -> Value:
    """True if no active element's access has a fault; see `lanes.check_lanes`."""
    kind = int(w["kind"].operand.integer_value() or 0)
    flags = vector(len(steps.offsets), I1)
    mask = w.arguments.setdefault("mask", w.term(1, flags))
    w.arguments["size"] = w.term(steps.size, I64)
    w.arguments["addresses"] = Value(w, integers(I64, steps.offsets)) + w["base"]
    if masked:
        with w.when(mask.bits == 0):
            w.ret(1)
    with w.when(_try(w, steps, kind, masked)):
        w.state[Word.CHECKED] += w.intrinsic("ctpop", mask.bits).to(I64) if masked else len(
            steps.offsets)
        w.ret(1)
    lanes = Value(w, integers(I64, steps.offsets[: steps.lanes])) + w["base"]
    access = *(w[name] for name in ("ctx", "sg", "site", "row")), lanes
    shape = steps.lanes, steps.count, steps.size
    with w.when(~w["seen"]):
        w.ret(w.call(_checked_by(*shape, None), *access, steps.size, kind | Kind.UNSEEN, mask))
    return w.call(_checked_by(*shape, kind), *access, steps.size, kind, mask)


def _checked_by(lanes: int, count: int, nbytes: int, kind: int | None) -> Routine:
    """The check of the same access that reports faults; for any kind if `kind` is None."""
    known = s.ANY if kind is None else kind
    if count > 1:
        return s.check_elements(lanes, count, nbytes, known)
    return s.check_lanes(lanes, nbytes, known)


def _try(
    w: Checks, steps: Steps, kind: int, masked: bool, *, written: bool = False
) -> Value:
    """True if the access certainly has no fault; it is recorded then.

    `written`: succeed only if no byte of the block is unwritten.
    """
    first, mask, align = w["base"] + steps.low, w["mask"], kind >> 8
    row = w.variable(w["row"])
    with w.when(w["row"].compare("slt", 0)):
        active = in_memory(w,w["addresses"])[mask.bits.lowest()]
        row.value = searched(w, active)
    block = w.block(row.value)
    inside = (first >= block[Entry.LOW]) & (first < block[Entry.HIGH])
    fits = inside & (first + steps.span <= block[Entry.HIGH])
    good = w.variable((first & align - 1 == 0) & (fits | w.term(int(masked), I1)))
    if masked:
        with w.when(good.value & ~fits):
            addresses = w["addresses"]
            inside = (addresses >= block[Entry.LOW]) & (
                addresses + steps.size <= block[Entry.HIGH])
            good.value = (inside | ~mask).every()
    if written:
        good.value &= block[Entry.UNWRITTEN] == 0
    lines = steps.bytes_of(mask)
    with w.when(good.value & (block[Entry.WRITES] != 0) & w["seen"]):
        _record(w, steps, block, first, lines, good, masked, align)
    if kind & Kind.WRITE:
        with w.when(w.unlikely(good.value & (block[Entry.UNWRITTEN] != 0))):
            _mark(w, first + block[Entry.UNWRITTEN], lines)
    return good.value


def _mark(w: Checks, at: Value, lines: Sequence[Value]) -> None:
    """Mark bytes as written in the map of unwritten bytes, from `at` on."""
    none = constant(vector(_CHUNK, I8), 0)
    for k, line in enumerate(lines):
        w.b.call(f"llvm.masked.store.v{_CHUNK}i8.p0", VOID,
                 [none, (at + k * _CHUNK).pointer().operand, line.operand], aligns=(0, 1, 0))


def _record(
    w: Checks, steps: Steps, block: Memory, first: Value, lines: Sequence[Value], good: Variable,
    masked: bool, align: int,
) -> None:
    """Compare with the cells of the chunks, and record the access; false if that is impossible."""
    no, mask = w.term(0, I1), w["mask"]
    owner, done = owner_of(w, no), w.variable(0, I1)
    inner = first & _CHUNK - 1
    if steps.is_run and steps.span % _CHUNK == 0:
        whole = inner == 0
        with w.when(whole & mask.every() if masked else whole):
            done.value = record_chunks(w, block, first, steps.span >> CHUNK_BITS, owner, no, good)
    with w.when(~done.value & good.value):
        width = 1 << (steps.chunks(align) - 1).bit_length()
        t = vector(width, I64)
        bits = [line.bits for line in lines] + [w.term(0, I64)] * (width - len(lines))
        here, before = w.pack(t, bits), w.pack(t, [w.term(0, I64), *bits[:-1]])
        bytes_ = w.intrinsic("fshl", here, before, w.spread(inner, width))
        writes = int(w["kind"].operand.integer_value() or 0) & Kind.WRITE
        recorded = w.call(s.record_parts(width, writes), w["ctx"], w["site"], block.base,
                          first >> CHUNK_BITS, bytes_, owner)
        some = (bytes_ != 0).bits.to(I64)
        good.value = recorded == some
        with w.when(~good.value):
            _record_dwords(w, steps, block, first, recorded, owner, good)


def _record_dwords(
    w: Checks, steps: Steps, block: Memory, first: Value, recorded: Value, owner: Value,
    good: Variable,
) -> None:
    """Compare with the cells of dwords, and record there the parts that cells of chunks do not."""
    kind, mask = int(w["kind"].operand.integer_value() or 0), w["mask"]
    count = len(steps.offsets)
    done = w.variable(0, I1)
    if steps.is_run and steps.span % 4 == 0:
        with w.when((recorded == 0) & (first & 3 == 0) & mask.every()):
            good.value = w.call(s.record_run(steps.span // 4, kind & _OF_CELLS), w["ctx"],
                                w["site"], block.base, first, owner)
            done.value = 1
    with w.when(~done.value):
        places = w["addresses"] - (first & -_CHUNK)
        lines = places >> CHUNK_BITS, places + steps.size - 1 >> CHUNK_BITS
        known = [(w.spread(recorded, count) >> line).has(1) for line in lines]
        good.value = w.call(s.record_cells(count, steps.size, kind & _OF_CELLS), w["ctx"],
                            w["site"], block.base, w["addresses"],
                            mask & ~(known[0] & known[1]), owner)


# --- several accesses that are so many bytes apart ------------------------------------------------


@dataclass(frozen=True)
class Band:
    """`times` accesses, with a distance of `apart` bytes from each to the next."""

    steps: Steps
    times: int
    apart: int

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Offset of each access from the first byte of all."""
        return tuple(k * self.apart - min(0, (self.times - 1) * self.apart)
                     for k in range(self.times))

    @property
    def low(self) -> int:
        """Offset of the first byte from lane 0 of the first access."""
        return self.steps.low - self.starts[0]

    @property
    def offsets(self) -> tuple[int, ...]:
        """Offset of each element from lane 0 of the first access."""
        return tuple(k * self.apart + at for k in range(self.times) for at in self.steps.offsets)

    @property
    def span(self) -> int:
        return max(self.starts) + self.steps.span

    @property
    def is_run(self) -> bool:
        """True if they fill their span."""
        return sum((word % (1 << _CHUNK)).bit_count() for word in self.lines) == self.span

    def chunks(self, align: int) -> int:
        """Largest number of chunks that they may touch."""
        return lines_of(self.span, align)

    @cached_property
    def lines(self) -> list[int]:
        """Bytes of all accesses, by chunk, as if the first one began a chunk."""
        whole = reduce(or_, ((1 << self.steps.size) - 1 << at - self.low for at in self.offsets))
        return [_signed(whole >> at & (1 << _CHUNK) - 1) for at in range(0, self.span, _CHUNK)]

    def lines_under(self, mask: Value) -> list[Value]:
        """Bytes of active elements, by chunk."""
        w, count = mask.w, len(self.steps.offsets)
        found = [w.term(0, I64)] * -(-self.span // _CHUNK)
        for k, start in enumerate(self.starts):
            own = mask.shuffled(None, range(k * count, (k + 1) * count))
            for number, line in enumerate(self.steps.bytes_of(own)):
                at, shift = divmod(start + number * _CHUNK, _CHUNK)
                found[at] |= line.bits << shift
                if shift and at + 1 < len(found):
                    found[at + 1] |= line.bits >> _CHUNK - shift
        return found


def longest_band(steps: Steps, pointers: Sequence[Tabled], align: int) -> Band | None:
    """The longest band that the accesses begin with, a power of two; None for a single access."""
    first = pointers[0]
    alike = takewhile(lambda p: p.base == first.base, pointers)
    moved = takewhile(lambda m: (m == m.flat[0]).all(), (p.table - first.table for p in alike))
    apart = [int(m.flat[0]) for m in moved]
    most, found = min(len(apart), _MOST_FLAGS // len(steps.offsets)), None
    times = 2
    while times <= most:
        band = Band(steps, times, apart[1])
        steady = apart[:times] == [k * apart[1] for k in range(times)]
        if not steady or apart[1] % align or band.chunks(align) > MOST_OF_BAND:
            break
        found, times = band, 2 * times
    return found


def _signed(word: int) -> int:
    return word - (word >> 63 << 64)


def check_band(
    w: Checks, *arguments: Value, band: Band, masked: bool, in_place: bool
) -> Value:
    """True if the accesses certainly have no fault; they are recorded then."""
    kind = int(w["kind"].operand.integer_value() or 0)
    count = len(band.offsets)
    mask = w.arguments.setdefault("mask", w.term(1, vector(count, I1)))
    align, first = kind >> 8, w["base"] + band.low
    if masked:
        with w.when(mask.bits == 0):
            w.ret(1)
    row = w.variable(w["row"])
    with w.when(w["row"].compare("slt", 0)):
        row.value = searched(w, first)
    block = w.block(row.value)
    inside = (first >= block[Entry.LOW]) & (first < block[Entry.HIGH])
    good = w.variable(
        inside & (first + band.span <= block[Entry.HIGH]) & (first & align - 1 == 0))
    if in_place:
        good.value &= (block[Entry.UNWRITTEN] == 0) & w["seen"]
    width = 1 << (band.chunks(align) - 1).bit_length()
    t, full = vector(width, I64), band.lines
    here = w.variable(Value(w, integers(I64, full + [0] * (width - len(full)))))
    if masked:
        with w.when(good.value & ~mask.every()):
            lines = band.lines_under(mask)
            here.value = w.pack(t, lines + [w.term(0, I64)] * (width - len(lines)))
    with w.when(good.value & (block[Entry.WRITES] != 0) & w["seen"]):
        _record_band(w, band, block, first, here.value, good)
    if kind & Kind.WRITE and not in_place:
        with w.when(w.unlikely(good.value & (block[Entry.UNWRITTEN] != 0))):
            bits = [here.value[k].operand for k in range(len(full))]
            _mark(w, first + block[Entry.UNWRITTEN],
                  [Value(w, w.b.bitcast(x, vector(_CHUNK, I1))) for x in bits])
    with w.when(good.value):
        active = w.intrinsic("ctpop", mask.bits).to(I64) if masked else w.term(count, I64)
        w.state[Word.CHECKED] += active * (1 + in_place)
    return good.value


def _record_band(
    w: Checks, band: Band, block: Memory, first: Value, here: Value, good: Variable
) -> None:
    """Compare and record the accesses of a band, by whole chunks if it consists of them."""
    no, done = w.term(0, I1), w.variable(0, I1)
    owner, inner = owner_of(w, no), first & _CHUNK - 1
    if band.is_run and band.span % _CHUNK == 0:
        w.arguments["addresses"] = Value(w, integers(I64, band.offsets)) + w["base"]
        with w.when((inner == 0) & w["mask"].every()):
            done.value = record_chunks(w, block, first, band.span >> CHUNK_BITS, owner, no, good)
    with w.when(~done.value & good.value):
        width = here.type.count
        before = here.shuffled(w.term(0, here.type), [width, *range(width - 1)])
        bytes_ = w.intrinsic("fshl", here, before, w.spread(inner, width))
        writes = int(w["kind"].operand.integer_value() or 0) & Kind.WRITE
        recorded = w.call(s.record_parts(width, writes), w["ctx"], w["site"], block.base,
                          first >> CHUNK_BITS, bytes_, owner)
        good.value = recorded == (bytes_ != 0).bits.to(I64)


# --- a load, and a store of the same elements that follows ----------------------------------------


def load_in_place(w: Checks, *arguments: Value, count: int) -> Value:
    """Check loads, and a later store of the same elements: bits `LOADED`, `STORED` of valid ones.

    If the store is certainly valid, so is the load, and the store is recorded at once.  That is not
    observable, because no other access is between them.  If the store may have a fault, or may be
    the first, the load is checked alone.
    """
    size, kind = w["size"], int(w["kind"].operand.integer_value() or 0)
    lanes, nbytes = w["addresses"].type.count, int(size.operand.integer_value() or 0)
    flags, access = w["mask"], [w[name] for name in ("ctx", "sg", "load", "row", "addresses")]
    masks = [flags.shuffled(None, range(e * lanes, (e + 1) * lanes)) for e in range(count)]
    alike = w.term(1, I1)
    for mask in masks[1:]:
        alike &= (mask ^ masks[0]).bits == 0
    with w.when(alike):
        w.arguments.update(mask=masks[0], size=w.term(nbytes * count, I64))
        with w.when(try_lanes(w, written=True)):
            w.state[Word.CHECKED] += w.intrinsic("ctpop", masks[0].bits).to(I64) * (2 * count)
            w.ret(s.LOADED | s.STORED)
    return _checked_alone(w, access, nbytes, kind, flags, lanes, count)


def _checked_alone(
    w: Checks, access: Sequence[Value], nbytes: int, kind: int, mask: Value, lanes: int, count: int
) -> Value:
    """Check a load, and leave the store to its own check."""
    alone, fine = kind & ~int(Kind.WRITE), w.variable(0, I1)
    plain, any_ = (_checked_by(lanes, count, nbytes, known) for known in (alone, None))
    with w.when(w["seen"]):
        fine.value = w.call(plain, *access, nbytes, alone, mask)
    with w.otherwise():
        fine.value = w.call(any_, *access, nbytes, alone | Kind.UNSEEN, mask)
    return w.select(fine.value, w.term(s.LOADED, I8), 0)


def steps_in_place(w: Checks, *arguments: Value, steps: Steps, masked: bool) -> Value:
    """Check a load, and a later store of the same elements; see `load_in_place`."""
    kind = int(w["kind"].operand.integer_value() or 0)
    mask = w.arguments.setdefault("mask", w.term(1, vector(len(steps.offsets), I1)))
    w.arguments["size"] = w.term(steps.size, I64)
    w.arguments["addresses"] = Value(w, integers(I64, steps.offsets)) + w["base"]
    if masked:
        with w.when(mask.bits == 0):
            w.ret(s.LOADED | s.STORED)
    with w.when(w["seen"]), w.when(_try(w, steps, kind, masked, written=True)):
        count = w.intrinsic("ctpop", mask.bits).to(I64) if masked else w.term(
            len(steps.offsets), I64)
        w.state[Word.CHECKED] += count * 2
        w.ret(s.LOADED | s.STORED)
    lanes = Value(w, integers(I64, steps.offsets[: steps.lanes])) + w["base"]
    access = *(w[name] for name in ("ctx", "sg", "load", "row")), lanes
    return _checked_alone(w, access, steps.size, kind, mask, steps.lanes, steps.count)
