"""Lowering of tt.scan: for the bits of the position along the axis, lowest first, every element
takes in the total of what lies before its block and agrees with it in the higher bits.

A bit that is one of lane or subgroup is a step of its own: elements whose bit is set take in the
block whose bit is clear.  Bits of registers that follow each other are one step: a lane adds up the
totals of its blocks one after the other.  A block's total is held by its last element (the first
when scanning in reverse): in a register, in another lane, or in another subgroup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod

from llvmlite import ir

from triton_xe.dialects.tt.structure import ScanOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.tensors.coordinates import coordinate, positions
from triton_xe.lowering.emit.tensors.exchange import through_slm
from triton_xe.lowering.emit.tensors.reduce import (
    Combine,
    Values,
    combined_sources,
    combiner,
    narrowed_results,
    without,
)
from triton_xe.lowering.emit.tensors.registers import from_scalars
from triton_xe.lowering.emit.tensors.shuffle import shuffle_index
from triton_xe.lowering.emit.tensors.view import Coordinates, View
from triton_xe.lowering.emit.types import I32

Fetch = Callable[[Coordinates], Values]


@dataclass(frozen=True)
class Bits:
    """Which register, lane and warp bits make the position along the axis, by position bit."""

    register: dict[int, int]
    lane: dict[int, int]
    warp: dict[int, int]


def bits_along(view: View, axis: int) -> Bits:
    """Raises UnsupportedError for a swizzled layout."""
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
    values = [[s.register(em, r) for s in sources] for r in range(len(view.registers))]
    combine = combiner(em, op)
    bits = bits_along(view, axis)
    bit, last = 0, (view.shape[axis] - 1).bit_length()
    while bit < last:
        count = next(n for n in range(last + 1) if bit + n == last or bit + n not in bits.register)
        block = Block(view, axis, bits, bit, max(count, 1), reverse)
        values = (_across_registers if count else _across_lanes)(em, values, block, combine)
        bit += block.count
    for index, result in enumerate(op.res):
        scalars = narrowed_results(em, op, [v[index] for v in values], index)
        em.bind(result, from_scalars(em, scalars[0].type, scalars))


@dataclass(frozen=True)
class Block:
    """A step: `count` bits of the position from bit `first` on say which block an element is in."""

    view: View
    axis: int
    bits: Bits
    first: int
    count: int
    reverse: bool

    def number(self, c: Coordinates) -> int:
        """The block of a register, in the order of the scan."""
        mask = (1 << self.count) - 1
        return (c[self.axis] >> self.first ^ (mask if self.reverse else 0)) & mask

    def row(self, c: Coordinates) -> tuple[int, ...]:
        """Sorts registers so that those of one chain of blocks stand together, in its order."""
        place = c[self.axis]
        others = (*without(c, self.axis), place >> self.first + self.count)
        return (*others, self.number(c), place)

    def total(self, c: Coordinates) -> Coordinates:
        """The register that holds the total of a register's block."""
        low = sum(1 << b for b in self.bits.register if b < self.first)
        return self._at(c, c[self.axis] & ~low if self.reverse else c[self.axis] | low)

    def before(self, c: Coordinates) -> Coordinates:
        """The same register one block earlier."""
        step = 1 << self.first
        return self._at(c, c[self.axis] + (step if self.reverse else -step))

    def _at(self, c: Coordinates, place: int) -> Coordinates:
        return (*c[: self.axis], place, *c[self.axis + 1 :])

    def reaches(self, table: dict[int, int]) -> bool:
        """Whether totals are in another lane, or another warp."""
        return any(b < self.first + self.count for b in table)


def _across_registers(
    em: Emitter, values: list[Values], block: Block, combine: Combine
) -> list[Values]:
    """Blocks are registers: what is before each is added up serially."""
    number, registers = block.number, block.view.registers
    order = sorted((r for r, c in enumerate(registers) if number(c)),
                   key=lambda r: block.row(registers[r]))
    wanted = {r: block.before(block.total(registers[r])) for r in order}
    out, index = list(values), block.view.index
    if not block.reaches(block.bits.lane) and not block.reaches(block.bits.warp):
        for register, source in wanted.items():
            out[register] = combine(out[index[source]], values[register])
        return out
    fetch = _fetching(em, values, block, wanted)
    prefix: dict[Coordinates, Values] = {}
    for register, source in wanted.items():
        if source not in prefix:
            first, total = number(source) == 0, fetch(source)
            prefix[source] = total if first else combine(prefix[block.before(source)], total)
        out[register] = combine(prefix[source], values[register])
    return out


def _across_lanes(
    em: Emitter, values: list[Values], block: Block, combine: Combine
) -> list[Values]:
    """Lanes, or warps, with the bit set (clear in reverse) take in those without."""
    wanted = {r: block.total(c) for r, c in enumerate(block.view.registers)}
    fetch = _fetching(em, values, block, wanted)
    out = []
    for register, source in wanted.items():
        mine = coordinate(em, block.view, block.axis).register(em, register)
        bit = em.b.and_(em.b.lshr(mine, I32(block.first)), I32(1))
        takes = em.b.icmp_unsigned("==", bit, I32(0 if block.reverse else 1))
        pairs = zip(combine(fetch(source), values[register]), values[register], strict=True)
        out.append([em.b.select(takes, total, value) for total, value in pairs])
    return out


def _fetching(
    em: Emitter, values: list[Values], block: Block, wanted: dict[int, Coordinates]
) -> Fetch:
    """Brings a total that registers want to this lane, when it is asked for first."""
    one_of = {source: register for register, source in wanted.items()}
    if block.reaches(block.bits.warp):
        return cache(_from_slm(em, values, block, one_of))
    lane = _source_lane(em, block.bits, block.first, block.reverse)
    index = block.view.index
    return cache(lambda source: [shuffle_index(em, x, lane) for x in values[index[source]]])


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


def _from_slm(
    em: Emitter, values: list[Values], block: Block, one_of: dict[Coordinates, int]
) -> Fetch:
    """By way of SLM; `one_of` has, for every register that holds totals, one that takes them."""
    view, axis = block.view, block.axis
    count, stride = prod(view.shape), prod(view.shape[axis + 1 :])
    at = cache(lambda: positions(em, view))
    written = (view.index[source] for source in one_of)
    read = through_slm(em, [x.type for x in values[0]], count,
                       ((at()[register], values[register]) for register in written))
    held = coordinate(em, view, axis)

    def fetch(source: Coordinates) -> Values:
        mine = held.register(em, one_of[source])
        apart = em.b.mul(em.b.sub(_place(em, block, mine), mine), I32(stride))
        return read(em.b.add(at()[one_of[source]], apart))

    return fetch


def _place(em: Emitter, block: Block, mine: ir.Value) -> ir.Value:
    """The place along the axis of the total before place `mine`; any place where there is none."""
    low, step = (1 << block.first) - 1, 1 << block.first
    within_lane = block.first in block.bits.register
    if block.reverse:
        start = em.b.and_(mine, I32(~low & 0xFFFFFFFF))
        return em.b.add(start, I32(step)) if within_lane else em.b.or_(start, I32(step))
    end = em.b.or_(mine, I32(low))
    return em.b.sub(end, I32(step)) if within_lane else em.b.and_(end, I32(~step & 0xFFFFFFFF))
