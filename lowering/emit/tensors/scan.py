"""Lower tt.scan: combine blocks from the smallest to the largest.

At the end each element is combined once with the prefix of its run of registers.

Consecutive bits of the position along the axis that all select registers, lanes or subgroups are
one level.  At each level, the totals of the smaller blocks are known.  Each of these blocks gets
its prefix within the larger block, and the larger block gets its total:

- a lane combines the totals in its registers in sequence;
- lanes combine prefixes by one shuffle for each bit, and pass them to the next lane;
- subgroups write their totals to shared local memory, and combine those of up to four in order.

The lowest register bits are no level: a lane combines them in sequence at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from llvmlite import ir

from triton_xe.dialects.tt.structure import ScanOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.tensors.coordinates import positions
from triton_xe.lowering.emit.tensors.exchange import through_slm
from triton_xe.lowering.emit.tensors.reduce import (
    Combine,
    Values,
    combined_sources,
    combiner,
    narrowed_results,
)
from triton_xe.lowering.emit.tensors.registers import from_scalars
from triton_xe.lowering.emit.tensors.shuffle import shuffle_index
from triton_xe.lowering.emit.tensors.view import Coordinates, View
from triton_xe.lowering.emit.types import I32

MOST_BITS_OF_WARPS = 2
"""Largest number of warp bits of a level, because every subgroup reads all totals of it."""


@dataclass(frozen=True)
class Before:
    """Prefix of a block; `known` is true if it is not empty, None if that is certain."""

    values: Values
    known: ir.Value | None


Totals = Mapping[Coordinates, Values]
"""Totals of blocks by their first register, equal in all lanes and subgroups of the block."""
Level = tuple[dict[Coordinates, Before], Callable[[], dict[Coordinates, Values]]]
"""Prefixes of the blocks, and a function for the totals of the larger blocks."""


@dataclass(frozen=True)
class Bits:
    """Register, lane and warp bits that select the position along the axis, by position bit."""

    register: dict[int, int]
    lane: dict[int, int]
    warp: dict[int, int]


def bits_along(view: View, axis: int) -> Bits:
    """Bits of the position along an axis; `UnsupportedError` for a swizzled layout."""
    found: tuple[dict[int, int], ...] = ({}, {}, {})
    for table, bases in zip(found[1:], (view.lanes, view.warps), strict=True):
        for bit, c in enumerate(bases):
            if c[axis]:
                table[_position(c[axis])] = bit
    reached = 0
    for c in view.registers:
        reached |= c[axis]
    for bit in range(reached.bit_length()):
        if reached >> bit & 1:
            found[0][bit] = 1 << bit
    return Bits(*found)


def _position(value: int) -> int:
    if value & (value - 1):
        raise UnsupportedError("tt.scan along a swizzled dimension")
    return value.bit_length() - 1


@lowers(ScanOp)
def lower_scan(em: Emitter, op: ScanOp) -> None:
    axis = int(op.axis.value.data)
    reverse = op.reverse is not None and bool(op.reverse.value.data)
    view = em.view(op.srcs[0])
    sources = combined_sources(em, op)
    values = {c: [s.register(em, r) for s in sources] for r, c in enumerate(view.registers)}
    scan = Scan(em, view, axis, bits_along(view, axis), reverse, combiner(em, op))
    scanned = scan.run(values)
    for index, result in enumerate(op.res):
        column = [scanned[c][index] for c in view.registers]
        scalars = narrowed_results(em, op, column, index)
        em.bind(result, from_scalars(em, scalars[0].type, scalars))


@dataclass(frozen=True)
class Scan:
    """The scan of one tensor along an axis; numbers of blocks count in its direction."""

    em: Emitter
    view: View
    axis: int
    bits: Bits
    reverse: bool
    combine: Combine

    def run(self, values: Totals) -> Totals:
        """The scanned values of all registers."""
        last = (self.view.shape[self.axis] - 1).bit_length()
        start = self._run_from(0, last, self.bits.register)
        values, totals = self._chained(values, 0, start)
        before: dict[Coordinates, Before | None] = dict.fromkeys(totals)
        first = start
        while first < last:
            count, (mine, larger) = self._next_level(totals, first, last)
            before = {c: self._joined(mine.get(self._block(c, first)), held)
                      for c, held in before.items()}
            first += count
            totals = larger() if first < last else {}
        return {c: self._taken(before[self._block(c, start)], value)
                for c, value in values.items()}

    def _next_level(self, totals: Totals, first: int, last: int) -> tuple[int, Level]:
        """The level from bit `first` on, and how many bits it has."""
        count = self._run_from(first, last, self.bits.register)
        if count:
            chained, larger = self._chained(totals, first, count)
            return count, (self._shifted(chained, first, count), lambda: larger)
        count = self._run_from(first, last, self.bits.lane)
        if count:
            return count, self._across_lanes(totals, first, count)
        count = min(self._run_from(first, last, self.bits.warp), MOST_BITS_OF_WARPS)
        return count, self._across_warps(totals, first, count, ends=first + count == last)

    def _run_from(self, first: int, last: int, table: Mapping[int, int]) -> int:
        """How many bits from `first` on are of one kind."""
        return next(n for n in range(last + 1) if first + n == last or first + n not in table)

    def _block(self, c: Coordinates, first: int) -> Coordinates:
        """The first register of a register's block, in which the lowest bits of positions
        differ.
        """
        return (*c[: self.axis], c[self.axis] >> first << first, *c[self.axis + 1 :])

    def _number(self, c: Coordinates, first: int, count: int) -> int:
        mask = (1 << count) - 1
        return (c[self.axis] >> first ^ (mask if self.reverse else 0)) & mask

    # -- registers -----------------------------------------------------------------------------

    def _chained(
        self, totals: Totals, first: int, count: int
    ) -> tuple[dict[Coordinates, Values], dict[Coordinates, Values]]:
        """Blocks combined with their predecessors, and the totals of the larger blocks."""
        order = sorted(totals, key=lambda c: self._number(c, first, count))
        chained, whole = dict[Coordinates, Values](), dict[Coordinates, Values]()
        for c in order:
            larger = self._block(c, first + count)
            chained[c] = self.combine(whole[larger], totals[c]) if larger in whole else totals[c]
            whole[larger] = chained[c]
        return chained, {self._block(c, first + count): whole[self._block(c, first + count)]
                         for c in totals}

    def _shifted(self, chained: Totals, first: int, count: int) -> dict[Coordinates, Before]:
        """Prefix of each block: the running value of the previous block."""
        step = -(1 << first) if self.reverse else 1 << first
        found = {}
        for c, value in chained.items():
            following = (*c[: self.axis], c[self.axis] + step, *c[self.axis + 1 :])
            if self._number(c, first, count) < (1 << count) - 1:
                found[following] = Before(value, None)
        return found

    # -- lanes ---------------------------------------------------------------------------------

    def _across_lanes(self, totals: Totals, first: int, count: int) -> Level:
        em, bits = self.em, range(first, first + count)
        sources = [_source_lane(em, self.bits, bit, self.reverse) for bit in bits]
        takes = [self._takes(1 << self.bits.lane[bit]) for bit in bits]
        inclusive = {}
        for c, held in totals.items():
            for source, take in zip(sources, takes, strict=True):
                moved = [shuffle_index(em, x, source) for x in held]
                held = [em.b.select(take, x, y)
                        for x, y in zip(self.combine(moved, held), held, strict=True)]
            inclusive[c] = held
        previous, known = self._previous_lane(first, count)
        before = {c: Before([shuffle_index(em, x, previous) for x in held], known)
                  for c, held in inclusive.items()}

        def larger() -> dict[Coordinates, Values]:
            field = I32(sum(1 << self.bits.lane[bit] for bit in bits))
            lane = em.lane_id()
            end = em.b.and_(lane, em.b.not_(field)) if self.reverse else em.b.or_(lane, field)
            return {c: [shuffle_index(em, x, end) for x in held] for c, held in inclusive.items()}

        return before, larger

    def _takes(self, lane_bit: int) -> ir.Value:
        """True if this lane is in the later of two blocks."""
        bit = self.em.b.and_(self.em.lane_id(), I32(lane_bit))
        return self.em.b.icmp_unsigned("==" if self.reverse else "!=", bit, I32(0))

    def _previous_lane(self, first: int, count: int) -> tuple[ir.Value, ir.Value]:
        """The lane with the previous block, and a flag that is true if there is one."""
        em, mask, lane = self.em, (1 << count) - 1, self.em.lane_id()
        number = self._own_number(self.bits.lane, lane, len(self.view.lanes), first, count)
        known = em.b.icmp_unsigned("!=", number, I32(mask if self.reverse else 0))
        number = em.b.and_(em.b.add(number, I32(1 if self.reverse else mask)), I32(mask))
        field = sum(1 << self.bits.lane[first + bit] for bit in range(count))
        bases = [1 << self.bits.lane[first + bit] for bit in range(count)]
        place = em.bits_to_coordinate(number, bases, ("scan", number))
        assert place is not None
        return em.b.or_(em.b.and_(lane, I32(~field & 0xFFFFFFFF)), place), known

    def _own_number(
        self, table: Mapping[int, int], own: ir.Value, length: int, first: int, count: int
    ) -> ir.Value:
        """Number of this lane's, or subgroup's, block in the order of positions."""
        bases = [0] * length
        for bit in range(count):
            bases[table[first + bit]] = 1 << bit
        number = self.em.bits_to_coordinate(own, bases, ("scan", own))
        assert number is not None
        return number

    # -- subgroups -----------------------------------------------------------------------------

    def _across_warps(self, totals: Totals, first: int, count: int, *, ends: bool) -> Level:
        em, mask, view = self.em, (1 << count) - 1, self.view
        size, stride = prod(view.shape), prod(view.shape[self.axis + 1 :]) << first
        registers = {c: view.index[c] for c in totals}
        read = through_slm(em, [x.type for x in next(iter(totals.values()))], size,
                           ((self._positions[registers[c]], x) for c, x in totals.items()))
        own = self._own_number(self.bits.warp, em.warp_id(), len(view.warps), first, count)
        number = em.b.xor(own, I32(mask)) if self.reverse else own
        later = [em.b.icmp_unsigned(">", number, I32(j)) for j in range(mask)]
        before, whole = dict[Coordinates, Before](), dict[Coordinates, Values]()
        for c, register in registers.items():
            start = em.b.sub(self._positions[register], em.b.mul(own, I32(stride)))
            taken = held = None
            for j in range(mask if ends else mask + 1):
                place = (j ^ mask if self.reverse else j) * stride
                found = read(em.b.add(start, I32(place)))
                taken = found if taken is None else self.combine(taken, found)
                if j < mask:
                    held = taken if held is None else [
                        em.b.select(later[j], x, y) for x, y in zip(taken, held, strict=True)]
            assert taken is not None
            assert held is not None
            before[c], whole[c] = Before(held, later[0]), taken
        return before, lambda: whole

    @cached_property
    def _positions(self) -> list[ir.Value]:
        return positions(self.em, self.view)

    # -- what is before ------------------------------------------------------------------------

    def _joined(self, outer: Before | None, inner: Before | None) -> Before | None:
        """Combine the prefix of a block in its level with those of lower levels."""
        if outer is None or inner is None:
            return inner or outer
        both = self.combine(outer.values, inner.values)
        values = [self._chosen(outer.known, self._chosen(inner.known, x, y), z)
                  for x, y, z in zip(both, outer.values, inner.values, strict=True)]
        if outer.known is None or inner.known is None:
            return Before(values, None)
        return Before(values, self.em.b.or_(outer.known, inner.known))

    def _taken(self, before: Before | None, value: Values) -> Values:
        """Combine a value with its prefix."""
        if before is None:
            return value
        taken = self.combine(before.values, value)
        return [self._chosen(before.known, x, y) for x, y in zip(taken, value, strict=True)]

    def _chosen(self, known: ir.Value | None, yes: ir.Value, no: ir.Value) -> ir.Value:
        return yes if known is None else self.em.b.select(known, yes, no)


def _source_lane(em: Emitter, bits: Bits, bit: int, reverse: bool) -> ir.Value:
    set_mask = clear_mask = 0
    for b, lane_bit in bits.lane.items():
        if b < bit:
            set_mask |= 0 if reverse else 1 << lane_bit
            clear_mask |= 1 << lane_bit if reverse else 0
        elif b == bit:
            set_mask |= 1 << lane_bit if reverse else 0
            clear_mask |= 0 if reverse else 1 << lane_bit
    lane = em.b.or_(em.lane_id(), I32(set_mask)) if set_mask else em.lane_id()
    return em.b.and_(lane, I32(~clear_mask & 0xFFFFFFFF)) if clear_mask else lane
