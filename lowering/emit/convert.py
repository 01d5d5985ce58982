"""Lowering of layout conversions, as `triton_xe.plan` plans them: nothing, a register permutation,
selects, shuffles between lanes, or a trip through shared local memory."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from xdsl.ir import Operation

from triton_xe.layout import LinearLayout, f2
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.exchange import Exchange, element_bytes
from triton_xe.lowering.emit.registers import Registers, Splat, from_scalars, join, permuted
from triton_xe.lowering.emit.shape import coordinate
from triton_xe.lowering.emit.shuffle import shuffle_index, shuffle_xor
from triton_xe.lowering.emit.types import I32, bits_of
from triton_xe.lowering.emit.view import View, view_of
from triton_xe.plan.conversion import plan_conversion
from triton_xe.plan.lane_shuffles import (
    LaneShuffle,
    Round,
    Swap,
    columns_by_dim,
    find_route,
    plan_lane_shuffle,
)
from triton_xe.plan.shared_swizzle import Access, SharedTrip, plan_plain_trip

Scalars = list[ir.Value]


@lowers("ttg.convert_layout")
def lower_convert_layout(em: Emitter, op: Operation) -> None:
    (result,) = op.results
    source = em.registers(op.operands[0])
    old, new = em.layout(op.operands[0].type), em.layout(result.type)
    em.bind(result, relaid(em, source, old, new))


def relaid(em: Emitter, source: Registers, old: LinearLayout, new: LinearLayout) -> Registers:
    """The same tensor in another layout."""
    if isinstance(source, Splat):
        return Splat(len(view_of(new).registers), source.scalar)
    old, new = without_copies(old), without_copies(new)
    if old == new:
        return source
    plan = plan_conversion(old, new, bits_of(source.kind), em.target)
    if plan.shared is not None:
        if em.loop_depth and _many_addresses(plan.shared):
            bits = max(8, bits_of(source.kind))
            return _through_slm(em, source, plan_plain_trip(old, new, bits))
        return _through_slm(em, source, plan.shared)
    assert plan.lanes is not None
    return _inside_warp(em, source, plan.lanes)


def inside_warp(
    em: Emitter, source: Registers, old: LinearLayout, new: LinearLayout
) -> Registers:
    """`relaid` without shared memory, for layouts whose warps hold the same elements."""
    old, new = without_copies(old), without_copies(new)
    if old == new:
        return source
    route = find_route(old, new)
    assert route is not None
    return _inside_warp(em, source, plan_lane_shuffle(route))


def without_copies(layout: LinearLayout) -> LinearLayout:
    """The layout of the registers that a `View` keeps: bases that add nothing are left out."""
    independent: list[int] = []
    kept = []
    flat = columns_by_dim(layout)["register"]
    for column, basis in zip(flat, layout.bases["register"], strict=True):
        if f2.rank([*independent, column]) > len(independent):
            independent.append(column)
            kept.append(basis)
    if len(kept) == len(flat):
        return layout
    return LinearLayout(
        {**layout.bases, "register": kept}, layout.out_dims, require_surjective=False
    )


# -- inside a warp ---------------------------------------------------------------------------------


def _inside_warp(em: Emitter, source: Registers, plan: LaneShuffle) -> Registers:
    if plan.stays_in_lane and not plan.n_selects:
        return permuted(em, source, [r.source for r in plan.rounds])
    held = [source.register(em, r) for r in range(source.count)]
    for swap in plan.before:
        held = _swapped(em, held, swap)
    moved: dict[tuple[int, int], ir.Value] = {}
    out = []
    for turn in plan.rounds:
        key = (turn.source, turn.lane_xor)
        if key not in moved:
            moved[key] = _fetched(em, held, plan, turn)
        out.append(moved[key])
    for swap in plan.after:
        out = _swapped(em, out, swap)
    return from_scalars(em, source.kind, out)


def _swapped(em: Emitter, held: Scalars, swap: Swap) -> Scalars:
    applies = _applies(em, swap)
    return [
        em.b.select(applies, held[r ^ swap.registers], value) for r, value in enumerate(held)
    ]


def _applies(em: Emitter, swap: Swap) -> ir.Value:
    """Whether a swap's condition holds in this lane: an odd number of the bits it names."""

    def make() -> ir.Value:
        parts = [
            em.bits_to_coordinate(value, [mask >> i & 1 for i in range(mask.bit_length())], what)
            for value, mask, what in (
                (em.lane_id(), swap.lanes, "lane"), (em.warp_id(), swap.warps, "warp"),
            )
        ]
        held = [p for p in parts if p is not None]
        total = held[0] if len(held) == 1 else em.b.xor(*held)
        return em.b.icmp_unsigned("!=", em.b.and_(total, I32(1)), I32(0))

    return em.remember(("swap", swap.lanes, swap.warps), make)


def _fetched(em: Emitter, held: Scalars, plan: LaneShuffle, turn: Round) -> ir.Value:
    """What each lane receives in one round."""
    candidates = [
        _shuffled(em, held[turn.source ^ _registers(plan.choices, number)], plan, turn)
        for number in range(1 << len(plan.choices))
    ]
    for swap in plan.choices:
        applies = _applies(em, swap)
        candidates = [
            em.b.select(applies, b, a)
            for a, b in zip(candidates[::2], candidates[1::2], strict=True)
        ]
    return candidates[0]


def _registers(choices: Sequence[Swap], number: int) -> int:
    """The xor of the registers of the choices whose bit is set."""
    total = 0
    for bit, swap in enumerate(choices):
        if number >> bit & 1:
            total ^= swap.registers
    return total


def _shuffled(em: Emitter, value: ir.Value, plan: LaneShuffle, turn: Round) -> ir.Value:
    if plan.is_xor:
        return shuffle_xor(em, value, turn.lane_xor) if turn.lane_xor else value
    lane = em.bits_to_coordinate(em.lane_id(), plan.lane_columns, "lane")
    warp = em.bits_to_coordinate(em.warp_id(), plan.warp_columns, "warp")
    from_ = lane if warp is None else warp if lane is None else em.b.xor(lane, warp)
    if from_ is None:
        return shuffle_index(em, value, I32(turn.lane_xor))
    if turn.lane_xor:
        base = from_
        from_ = em.remember(
            ("source lane", base, turn.lane_xor), lambda: em.b.xor(base, I32(turn.lane_xor))
        )
    return shuffle_index(em, value, from_)


# -- through shared local memory -------------------------------------------------------------------

FEW_ADDRESSES = 16
"""Swizzled addresses differ by xor, each takes a register, and Intel's compiler keeps those of a
loop from one iteration to the next.  Beyond this many it spills the accumulators of a matmul."""


def _many_addresses(trip: SharedTrip) -> bool:
    return sum(_needs_xor(access) for access in (trip.store, trip.load)) > FEW_ADDRESSES


def _needs_xor(access: Access) -> int:
    """Messages whose address is not a sum of the thread's part and a constant."""
    columns = columns_by_dim(access.offsets)
    used = 0
    for column in (*columns["lane"], *columns["warp"]):
        used |= column
    return sum(bool(f2.apply(columns["register"], g[0]) & used) for g in access.groups)


def _through_slm(em: Emitter, source: Registers, trip: SharedTrip) -> Registers:
    size = element_bytes(source.kind)
    exchange = Exchange(em, trip.bytes)
    for group, pointer in _messages(em, exchange, trip.store, size):
        exchange.write_at(pointer, join(em, source, list(group)), size * len(group))
    exchange.meet()
    read: dict[int, ir.Value] = {}
    for group, pointer in _messages(em, exchange, trip.load, size):
        value = exchange.read_at(pointer, source.kind, trip.vector, size * trip.vector)
        for i, register in enumerate(group):
            read[register] = value if trip.vector == 1 else em.b.extract_element(value, I32(i))
    for register, same in trip.load.copies:
        read[register] = read[same]
    return from_scalars(em, source.kind, [read[r] for r in range(len(read))])


def _messages(
    em: Emitter, exchange: Exchange, access: Access, size: int
) -> list[tuple[tuple[int, ...], ir.Value]]:
    """(registers, address) of each message of one side."""
    columns = columns_by_dim(access.offsets)
    lane = em.bits_to_coordinate(em.lane_id(), columns["lane"], "lane")
    warp = em.bits_to_coordinate(em.warp_id(), columns["warp"], "warp")
    thread = lane if warp is None else warp if lane is None else em.b.xor(lane, warp)
    used = 0
    for column in (*columns["lane"], *columns["warp"]):
        used |= column
    out = []
    for group in access.groups:
        fixed = f2.apply(columns["register"], group[0])
        if thread is None:
            place: ir.Value = I32(fixed)
        elif not fixed:
            place = thread
        else:
            place = (em.b.xor if fixed & used else em.b.add)(thread, I32(fixed))
        out.append((group, exchange.pointer(place, size)))
    return out


def through_places(
    em: Emitter, kind: ir.Type, count: int, writes: Sequence[tuple[ir.Value, ir.Value]],
    reads: Sequence[ir.Value],
) -> Registers:
    """Write scalars to numbered places of `count`, meet, and read others: any rearrangement."""
    exchange = Exchange(em, count * element_bytes(kind))
    for place, value in writes:
        exchange.write(place, value)
    exchange.meet()
    return from_scalars(em, kind, [exchange.read(place, kind) for place in reads])


def places(em: Emitter, view: View) -> list[ir.Value]:
    """The row-major position of each register's element."""
    held = [coordinate(em, view, d) for d in range(len(view.shape))]
    out = []
    for register in range(len(view.registers)):
        place: ir.Value | None = None
        for dim, size in enumerate(view.shape):
            at = held[dim].register(em, register)
            place = at if place is None else em.b.add(em.b.mul(place, I32(size)), at)
        out.append(I32(0) if place is None else place)
    return out
