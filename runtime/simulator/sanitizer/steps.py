"""The sanitizer's check of one access of all lanes with addresses known relative to a base.

The accessed bytes are known too, except for masks and the alignment of the base in a chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from operator import or_

import numpy as np

from triton_xe.llvm import (
    FALSE,
    I1,
    I8,
    I32,
    I64,
    TRUE,
    Operand,
    integer,
    integers,
    vector,
)
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Memory, Value, Variable
from triton_xe.runtime.simulator.analysis.shapes import Table
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.checks import owner_of
from triton_xe.runtime.simulator.sanitizer.lanes import searched
from triton_xe.runtime.simulator.sanitizer.parts import record_parts
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import (
    CHUNK_BITS,
    MOST_BYTES,
    WINDOW,
    Entry,
    Kind,
    Word,
)
from triton_xe.runtime.simulator.widen.values import Tabled
from triton_xe.runtime.simulator.widen.widener import Widener

_CHUNK = 1 << CHUNK_BITS
_MOST_FLAGS = 32
"""Largest number of flags that LLVM converts at once for AVX2."""
_MOST_SHARED = 4
"""Largest number of elements at one address."""


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
    def fits_window(self) -> bool:
        """True if one window contains all of them, and no two of them overlap partly."""
        places = sorted({*self.offsets})
        apart = all(b - a >= self.size for a, b in pairwise(places))
        few = len(self.offsets) <= _MOST_SHARED * len(places)
        return apart and few and self.span <= WINDOW << CHUNK_BITS and self.chunks(1) <= WINDOW

    def chunks(self, align: int) -> int:
        """Largest number of chunks that they may touch."""
        return (self.span + _CHUNK - min(align, _CHUNK) - 1 >> CHUNK_BITS) + 1

    def width(self, align: int) -> int:
        """The power of two at which `chunks` is rounded up."""
        return 1 << (self.chunks(align) - 1).bit_length()

    def bytes_of(self, mask: Value) -> list[Value]:
        """Bytes of active elements, by chunk: -1, others 0; the first element begins a chunk.

        The mask has such a byte for each element, see `_in_bytes`.
        """
        none = mask.w.term(0, mask.type)
        at: dict[int, list[int]] = {}
        for k, offset in enumerate(self.offsets):
            for byte in range(offset - self.low, offset - self.low + self.size):
                at.setdefault(byte, []).append(k)
        most = max(map(len, at.values()))
        absent = [mask.type.count] * most
        lines = []
        for first in range(0, self.span, _CHUNK):
            elements = [(at.get(byte, absent) * most)[:most]
                        for byte in range(first, first + _CHUNK)]
            lines.append(reduce(or_, (
                mask.shuffled(none, [who[k] for who in elements]) for k in range(most))))
        return lines


def steps_of(table: Table, lanes: int, count: int, size: int) -> Steps | None:
    """Positions of the elements, if bits of lane numbers determine them and they are close."""
    if table.shape[0] != 1 or size > MOST_BYTES:
        return None
    row = np.broadcast_to(table, (1, lanes))[0]
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


def check_steps(w: Checks, *arguments: Value, steps: Steps) -> Value:
    """True if no active element's access has a fault; see `lanes.check_lanes`."""
    kind = int(w["kind"].operand.integer_value() or 0)
    mask = w.arguments.setdefault("mask", w.term(1, vector(len(steps.offsets), I1)))
    with w.when(mask.bits == 0):
        w.ret(1)
    row = w.variable(w["row"])
    with w.when(w["row"].compare("slt", 0)):
        row.value = searched(w, w.in_memory(_addresses(w, steps))[mask.bits.lowest()])
    with w.when(_fine(w, steps, row.value, w["base"]) != 0):
        w.ret(1)
    access = *(w[name] for name in ("ctx", "sg", "site", "row")), _addresses(w, steps, steps.lanes)
    shape = steps.lanes, steps.count, steps.size
    with w.when(~w["seen"]):
        fine = w.call(_checked_by(*shape, None), *access, steps.size, kind | Kind.UNSEEN, mask)
        w.ret(fine.to(I1))
    return w.call(_checked_by(*shape, kind), *access, steps.size, kind, mask).to(I1)


def check_batch(w: Checks, *arguments: Value, steps: Steps) -> Value:
    """Bits of the accesses that certainly have no fault; these are recorded.

    Their windows must be in ascending order.
    """
    number = w["bases"].type.count
    mask = w.arguments.setdefault("mask", w.term(1, vector(number * len(steps.offsets), I1)))
    with w.when(mask.bits == 0):
        w.ret((1 << number) - 1)
    return _fine(w, steps, w["row"], w["bases"]).to(I32)


def _addresses(w: Checks, steps: Steps, count: int | None = None) -> Value:
    """Addresses of the first elements, computed where rare cases need them."""
    return Value(w, integers(I64, steps.offsets[:count])) + w["base"]


def _checked_by(lanes: int, count: int, nbytes: int, kind: int | None) -> Routine:
    """The check of the same access that reports faults; for any kind if `kind` is None."""
    known = s.ANY if kind is None else kind
    if count > 1:
        return s.check_elements(lanes, count, nbytes, known)
    return s.check_lanes(lanes, nbytes, known)


def _fine(w: Checks, steps: Steps, row: Value, bases: Value) -> Value:
    """Bits of the accesses from one or several bases on that have no fault; record these."""
    kind, mask = int(w["kind"].operand.integer_value() or 0), w["mask"]
    first, block = bases + steps.low, w.block(row)
    number, each = first.type.lanes, len(steps.offsets)
    words = [(mask.bits >> k * each & (1 << each) - 1) for k in range(number)]
    fits = (first >= block[Entry.LOW]) & (first < block[Entry.HIGH]) & (
        first + steps.span <= block[Entry.HIGH]) & (first & (kind >> 8) - 1 == 0)
    if number > 1:
        fits = (fits | (w.pack(first.type, [word.to(I64) for word in words]) == 0)).bits
    fine = w.variable(fits.to(I64))
    lines = [steps.bytes_of(_in_bytes(word, each)) for word in words]
    record = _record if number > 1 else _record_one
    with w.when((fine.value != 0) & (block[Entry.WRITES] != 0) & w["seen"]):
        record(w, steps, block, first, lines, fine)
    if kind & Kind.WRITE:
        with w.when(w.unlikely(block[Entry.UNWRITTEN] != 0)):
            for k, some in enumerate(lines):
                with w.when(fine.value.has(1 << k)):
                    one = first[k] if number > 1 else first
                    _mark(w, one + block[Entry.UNWRITTEN], some, steps.span)
    for k, word in enumerate(words):
        count = w.intrinsic("ctpop", word).to(I64)
        w.state[Word.CHECKED] += w.select(fine.value.has(1 << k), count, 0)
    return fine.value


def _in_bytes(bits: Value, count: int) -> Value:
    """The lowest bits of an integer as bytes, -1 or 0, and further zeros up to a power of two.

    If the CPU has no registers for masks, LLVM shuffles single flags, and converts more than 32
    of them, one by one.
    """
    w, total = bits.w, 1 << (count - 1).bit_length()
    each = min(total, _MOST_FLAGS)
    whole, t = bits.to(integer(max(total, bits.type.bits))), vector(each, I1)
    parts = [Value(w, w.b.bitcast((whole >> first).to(integer(each)).operand, t)).signed(I8)
             for first in range(0, total, each)]
    while len(parts) > 1:
        both = range(2 * parts[0].type.count)
        parts = [a.shuffled(b, both) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _flags(w: Checks, bits: Value, places: Sequence[int]) -> Value:
    """Some bits of an integer, by number, as a vector of flags."""
    return w.spread(bits, len(places)).has(Value(w, integers(I64, [1 << k for k in places])))


def _mark(w: Checks, at: Value, lines: Sequence[Value], span: int) -> None:
    """Mark some of `span` bytes as written in the map of unwritten bytes, from `at` on."""
    for k, line in enumerate(lines):
        count = min(_CHUNK, span - k * _CHUNK)
        place = (at + k * _CHUNK).pointer()
        old, written = w.load(vector(count, I8), place, align=1), line.shuffled(None, range(count))
        w.store(old & ~written, place, align=1)


def _record_one(
    w: Checks, steps: Steps, block: Memory, first: Value, lines: Sequence[Sequence[Value]],
    fine: Variable,
) -> None:
    """Record one access in the cells of chunks; it is not fine if that is impossible."""
    width = steps.width(int(w["kind"].operand.integer_value() or 0) >> 8)
    bytes_ = _bytes_of_chunks(w, lines, w.spread(first & _CHUNK - 1, width), width)
    owner = owner_of(w, w.term(0, I1))
    recorded = record_parts(w, block, first >> CHUNK_BITS, bytes_, owner)
    fine.value = (recorded == (bytes_ != 0).bits.to(I64)).to(I64)


def _record(
    w: Checks, steps: Steps, block: Memory, first: Value, lines: Sequence[Sequence[Value]],
    fine: Variable,
) -> None:
    """Record accesses in the cells of chunks; those that cannot be recorded are not fine.

    If one window has the chunks of all accesses, they are recorded as one access of it.
    """
    number, owner = first.type.count, owner_of(w, w.term(0, I1))
    width = steps.width(int(w["kind"].operand.integer_value() or 0) >> 8)
    begin, far = first >> CHUNK_BITS, w.term(1 << 60, first.type)
    apart = begin.shuffled(far, range(1, number + 1)) - begin
    near = begin[number - 1] - begin[0] <= WINDOW - width
    with w.when(w.unlikely((apart.compare("slt", 0)).bits != 0)):
        fine.value = 0
    with w.when(~near):
        # two accesses of a chunk cannot be recorded in it at once
        fine.value &= ~(apart < width).bits.to(I64)
    with w.when(fine.value != 0):
        places = [k for k in range(number) for _ in range(width)]
        shift = (first & _CHUNK - 1).shuffled(None, places)
        own = _bytes_of_chunks(w, lines, shift, width)
        bytes_ = w.select(_flags(w, fine.value, places), own, 0)
        done, every = w.variable(0), (1 << width) - 1
        at = w.variable(Value(w, integers(I64, range(0, len(places), width))))
        with w.when(near):
            at.value = begin - begin[0]
            steps_ = Value(w, integers(I64, [*range(width)] * number))
            joined = _joined(w, bytes_, at.value.shuffled(None, places) + steps_)
            recorded = record_parts(w, block, begin[0], joined, owner)
            done.value = recorded | (joined == 0).bits.to(I64)
        with w.otherwise():
            recorded = record_parts(w, block, begin, bytes_, owner)
            done.value = recorded | (bytes_ == 0).bits.to(I64)
        found = w.spread(done.value, number) >> at.value
        fine.value &= (found & every == every).bits.to(I64)


def _joined(w: Checks, bytes_: Value, places: Value) -> Value:
    """Flags of the bytes of a window's chunks, from those of chunks by number in the window."""
    found, chunks = w.term(0, vector(WINDOW, I64)), Value(w, integers(I64, range(WINDOW)))
    for k in range(bytes_.type.count):
        here = places.shuffled(None, [k] * WINDOW) == chunks
        found |= w.select(here, bytes_.shuffled(None, [k] * WINDOW), 0)
    return found


def _bytes_of_chunks(
    w: Checks, lines: Sequence[Sequence[Value]], shift: Value, width: int
) -> Value:
    """Flags of the accessed bytes of each access's `width` chunks, moved by `shift` bytes."""
    zero = w.term(0, I64)
    bits = [[line.compare("slt", 0).bits for line in each] + [zero] * (width - len(each))
            for each in lines]
    here = w.pack(shift.type, [x for each in bits for x in each])
    before = w.pack(shift.type, [x for each in bits for x in (zero, *each[:-1])])
    return w.intrinsic("fshl", here, before, shift)
