"""Lowering of tt.scan: for each bit of the position along the axis, lowest first, every element
whose bit is set takes in the total of the block before it.

That total is held by the element whose bit is clear and whose lower bits are all set (all clear
when scanning in reverse).  It is in another register, in another lane, or in another subgroup,
whatever the layout says; the steps are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import Operation

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.affine import attribute
from triton_xe.lowering.emit.convert import places
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.exchange import Exchange, layout_bytes
from triton_xe.lowering.emit.reduce import (
    Combine,
    Values,
    combined_sources,
    combiner,
    narrowed_results,
)
from triton_xe.lowering.emit.registers import from_scalars
from triton_xe.lowering.emit.shape import coordinate
from triton_xe.lowering.emit.shuffle import shuffle_index
from triton_xe.lowering.emit.types import I32
from triton_xe.lowering.emit.view import Coordinates, View


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


@lowers("tt.scan")
def lower_scan(em: Emitter, op: Operation) -> None:
    axis = int(attribute(op, "axis").value.data)
    held = attribute(op, "reverse")
    reverse = held is not None and bool(held.value.data)
    view = em.view(op.operands[0])
    sources = combined_sources(em, op)
    values = [[s.register(em, r) for s in sources] for r in range(len(view.registers))]
    combine = combiner(em, op)
    bits = bits_along(view, axis)
    for bit in range((view.shape[axis] - 1).bit_length()):
        values = _step(em, values, view, axis, bits, bit, reverse, combine)
    for index, result in enumerate(op.results):
        scalars = narrowed_results(em, op, [v[index] for v in values], index)
        em.bind(result, from_scalars(em, scalars[0].type, scalars))


def _step(
    em: Emitter, values: list[Values], view: View, axis: int, bits: Bits, bit: int, reverse: bool,
    combine: Combine,
) -> list[Values]:
    """Elements with position bit `bit` set (clear in reverse) take in the block before them."""
    lower = range(bit)
    index = view.index
    takes = 0 if reverse else 1
    by_warp = bit in bits.warp or any(b in bits.warp for b in lower)
    fetched = _fetch_slm(em, values, view, axis, bit, reverse) if by_warp else None
    out: list[Values] = []
    for register, c in enumerate(view.registers):
        if bit in bits.register and (c[axis] >> bit & 1) != takes:
            out.append(values[register])
            continue
        if fetched is not None:
            before = fetched[register]
        else:
            source = index[_source(c, axis, bit, bits, reverse)]
            before = values[source]
            if any(b in bits.lane for b in (*lower, bit)):
                lane = _source_lane(em, bits, bit, reverse)
                before = [shuffle_index(em, x, lane) for x in before]
        total = combine(before, values[register])
        if bit in bits.register:
            out.append(total)
            continue
        mine = coordinate(em, view, axis).register(em, register)
        test = em.b.icmp_unsigned(
            "==", em.b.and_(em.b.lshr(mine, I32(bit)), I32(1)), I32(takes)
        )
        out.append([em.b.select(test, t, v) for t, v in zip(total, values[register], strict=True)])
    return out


def _source(c: Coordinates, axis: int, bit: int, bits: Bits, reverse: bool) -> Coordinates:
    """The register coordinates of the element that holds the total of the block before."""
    at = c[axis]
    for b in bits.register:
        if b < bit:
            at = at & ~(1 << b) if reverse else at | 1 << b
        elif b == bit:
            at = at | 1 << b if reverse else at & ~(1 << b)
    return (*c[:axis], at, *c[axis + 1:])


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


def _fetch_slm(
    em: Emitter, values: list[Values], view: View, axis: int, bit: int, reverse: bool
) -> list[Values]:
    """For every register the total of the block before, by way of SLM."""
    count = stride = 1
    for dim, size in enumerate(view.shape):
        count *= size
        if dim > axis:
            stride *= size
    kinds = [x.type for x in values[0]]
    offsets, total = layout_bytes(kinds, count)
    exchange = Exchange(em, total)
    at = places(em, view)
    for place, value in zip(at, values, strict=True):
        for x, offset in zip(value, offsets, strict=True):
            exchange.write(place, x, offset)
    exchange.meet()
    held = coordinate(em, view, axis)
    out = []
    low = (1 << bit) - 1
    for register, place in enumerate(at):
        mine = held.register(em, register)
        if reverse:
            wanted = em.b.or_(em.b.and_(mine, I32(~low & 0xFFFFFFFF)), I32(1 << bit))
        else:
            wanted = em.b.and_(em.b.or_(mine, I32(low)), I32(~(1 << bit) & 0xFFFFFFFF))
        moved = em.b.add(place, em.b.mul(em.b.sub(wanted, mine), I32(stride)))
        out.append([exchange.read(moved, kind, offset)
                    for kind, offset in zip(kinds, offsets, strict=True)])
    return out
