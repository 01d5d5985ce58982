"""Lowering of layout conversions, as `triton_xe.plan` plans them: nothing, a register permutation,
selects, shuffles between lanes, or a trip through shared local memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import VectorType
from xdsl.ir import BlockArgument

from triton_xe import llvm as ir
from triton_xe.dialects import ttg, xe
from triton_xe.dialects.layouts import encoding_of
from triton_xe.dialects.tt.memory import StoreOp
from triton_xe.dialects.xe import ROLLED
from triton_xe.dialects.xegpu.dpas import DpasOp
from triton_xe.layout import DotOperandEncoding, LinearLayout, f2
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths.halves import in_pairs
from triton_xe.lowering.emit.tensors.exchange import (
    Exchange,
    element_bytes,
    through_slm,
    write_block,
)
from triton_xe.lowering.emit.tensors.registers import (
    CHUNK,
    Part,
    Registers,
    Splat,
    concatenated,
    from_scalars,
    join,
    permuted,
)
from triton_xe.lowering.emit.tensors.shuffle import shuffle_index, shuffle_xor
from triton_xe.lowering.emit.types import I16, I32, bits_of, number, vector_of
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.facts.view import view_of, without_copies
from triton_xe.plan.conversion import plan_conversion
from triton_xe.plan.lane_shuffles import (
    LaneShuffle,
    Round,
    Swap,
    columns_by_dim,
    find_route,
    plan_lane_shuffle,
)
from triton_xe.plan.operand import EIGHT_LANES, takes_words
from triton_xe.plan.shared_swizzle import (
    Access,
    SharedTrip,
    plan_block_trip,
    plan_plain_trip,
    plan_rows_trip,
)
from triton_xe.plan.turns import Turns

Scalars = list[ir.Operand]


@lowers(ttg.ConvertLayoutOp)
def lower_convert_layout(em: Emitter, op: ttg.ConvertLayoutOp) -> None:
    old, new = em.layout(op.src.type), em.layout(op.result.type)
    loop = op.parent_op()
    em.bind(op.result, relaid(
        em, em.registers(op.src), old, new, pairs=_are_words(em, op), stays=op.shared is not None,
        short=isinstance(loop, scf.ForOp) and ROLLED.of(loop) is not None))


@lowers(xe.ReadSharedOp)
def lower_read_shared(em: Emitter, op: xe.ReadSharedOp) -> None:
    held = em.registers(op.tensor)
    if isinstance(held, SharedElements | SharedBlocks):
        held.read()


def _are_words(em: Emitter, op: ttg.ConvertLayoutOp) -> bool:
    """True if neighbouring elements share a dword where the result is used, or stored.

    With eight lanes, that includes the first operand of a dot in a loop, and excludes stored
    values.
    """
    held = encoding_of(op.result.type)
    if em.state.lanes == EIGHT_LANES:
        loop = op.parent_op()
        return isinstance(held, DotOperandEncoding) and isinstance(
            loop, scf.ForOp) and takes_words(em.target, _sum_bytes(loop, em.state.lanes))
    return in_pairs(op.result.type) or _is_stored(op)


def _is_stored(op: ttg.ConvertLayoutOp) -> bool:
    """True if all uses of the elements are stores."""
    users = [use.operation for use in op.result.uses]
    users = [user for user in users if not isinstance(user, xe.ReadSharedOp)]
    return bool(users) and all(isinstance(user, StoreOp) for user in users)


def _sum_bytes(loop: scf.ForOp, lanes: int) -> int:
    """Bytes of the accumulators that a loop carries or starts, in a subgroup."""
    sums = [v.type for v in loop.iter_args if isinstance(v.type, VectorType)]
    sums += [op.result.type for op in loop.body.block.ops if isinstance(op, DpasOp)
             and not isinstance(op.acc, BlockArgument)
             and not (op.acc is not None and isinstance(op.acc.owner, DpasOp))]
    return 4 * lanes * sum(prod(kind.get_shape()) for kind in sums)


def relaid(
    em: Emitter, source: Registers, old: LinearLayout, new: LinearLayout, *, pairs: bool = False,
    stays: bool = False, short: bool = False,
) -> Registers:
    """Convert a tensor to another layout; `pairs` is that of `halves.in_pairs`.

    If it `stays` in shared memory, uses read its elements.  If the code should be `short`, messages
    are few.
    """
    if isinstance(source, Splat):
        return Splat(len(view_of(new).registers), source.scalar)
    old, new = without_copies(old), without_copies(new)
    if old == new:
        return source
    plan = plan_conversion(old, new, bits_of(source.kind), em.target)
    if plan.lanes is not None:
        return _inside_warp(em, source, plan.lanes)
    assert plan.shared is not None
    if plan.turns is not None:
        return _in_turns(em, source, plan.shared, plan.turns)
    shared = _shared(em, source, old, new, plan.shared, pairs=pairs, short=short)
    if not stays:
        shared.read()
    return shared


def _shared(
    em: Emitter, source: Registers, old: LinearLayout, new: LinearLayout, trip: SharedTrip, *,
    pairs: bool, short: bool,
) -> SharedElements | SharedBlocks:
    """Write a tensor to shared memory, to be read in another layout."""
    blocks = _by_blocks(em, source, old, new, trip, pairs=pairs)
    if blocks is not None:
        return blocks
    if short or (em.loop_depth and _many_addresses(trip)):
        plain = plan_plain_trip(old, new, max(8, bits_of(source.kind)))
        if _many_addresses(trip) or _messages(plain) < _messages(trip):
            trip = plain
    return _by_plan(em, source, trip)


def _messages(trip: SharedTrip) -> int:
    return len(trip.store.groups) + len(trip.load.groups)


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


# -- inside a warp ---------------------------------------------------------------------------------


def _inside_warp(em: Emitter, source: Registers, plan: LaneShuffle) -> Registers:
    """Convert the layout of a tensor by exchanges between registers and lanes of a warp."""
    if plan.stays_in_lane and not plan.n_selects:
        return permuted(em, source, [r.source for r in plan.rounds])
    held = [source.register(em, r) for r in range(source.count)]
    for swap in plan.before:
        held = _swapped(em, held, swap)
    moved: dict[tuple[int, int], ir.Operand] = {}
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
    """Exchange the registers of a swap in the lanes where its condition is true."""
    applies = _applies(em, swap)
    return [
        em.b.select(applies, held[r ^ swap.registers], value) for r, value in enumerate(held)
    ]


def _applies(em: Emitter, swap: Swap) -> ir.Operand:
    """True if a swap's condition holds in this lane: an odd number of the bits it names is set."""

    def make() -> ir.Operand:
        parts = [
            em.bits_to_coordinate(value, [mask >> i & 1 for i in range(mask.bit_length())], what)
            for value, mask, what in (
                (em.lane_id(), swap.lanes, "lane"), (em.warp_id(), swap.warps, "warp"),
            )
        ]
        held = [p for p in parts if p is not None]
        total = held[0] if len(held) == 1 else em.b.xor(*held)
        return em.b.icmp("ne", em.b.and_(total, 1), 0)

    return em.remember(("swap", swap.lanes, swap.warps), make)


def _fetched(em: Emitter, held: Scalars, plan: LaneShuffle, turn: Round) -> ir.Operand:
    """The value that each lane receives in one round."""
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


def _shuffled(em: Emitter, value: ir.Operand, plan: LaneShuffle, turn: Round) -> ir.Operand:
    """Read a value from the lane that holds it in a round."""
    if plan.is_xor:
        return shuffle_xor(em, value, turn.lane_xor) if turn.lane_xor else value
    lane = em.bits_to_coordinate(em.lane_id(), plan.lane_columns, "lane")
    warp = em.bits_to_coordinate(em.warp_id(), plan.warp_columns, "warp")
    from_ = lane if warp is None else warp if lane is None else em.b.xor(lane, warp)
    if from_ is None:
        return shuffle_index(em, value, number(turn.lane_xor))
    if turn.lane_xor:
        base = from_
        from_ = em.remember(
            ("source lane", base, turn.lane_xor), lambda: em.b.xor(base, turn.lane_xor)
        )
    return shuffle_index(em, value, from_)


# -- through shared local memory -------------------------------------------------------------------

FEW_ADDRESSES = 16
"""Swizzled addresses differ by xor, each takes a register, and Intel's compiler keeps those of a
loop from one iteration to the next.  Beyond this many it spills the accumulators of a matmul."""


def _many_addresses(trip: SharedTrip) -> bool:
    return sum(_needs_xor(access) for access in (trip.store, trip.load)) > FEW_ADDRESSES


def _needs_xor(access: Access) -> int:
    """Number of messages whose address is not a sum of the thread's part and a constant."""
    columns = columns_by_dim(access.offsets)
    used = 0
    for column in (*columns["lane"], *columns["warp"]):
        used |= column
    return sum(bool(f2.apply(columns["register"], g[0]) & used) for g in access.groups)


def _by_blocks(
    em: Emitter, source: Registers, old: LinearLayout, new: LinearLayout, usual: SharedTrip,
    *, pairs: bool,
) -> SharedBlocks | None:
    """A trip that ends in block reads of eight registers, if that takes fewer messages."""
    lanes, count = em.state.lanes, 1 << len(new.bases["register"])
    width = _block_width(lanes)
    if bits_of(source.kind) != 16 or count % width or not (
            lanes == 16 or (pairs and lanes == EIGHT_LANES)):
        return None
    if lanes == 16:
        rows = plan_rows_trip(old, new, 16, CHUNK, pairs=pairs)
        if rows is not None:
            written = _written_by_blocks(em, source, rows, pairs=pairs)
            return SharedBlocks(em, written, rows, source.kind, pairs=pairs)
    paired = plan_block_trip(old, new, 16, pairs=True) if pairs else None
    trip = plan_block_trip(old, new, 16) if paired is None and lanes == 16 else paired
    if trip is None or len(trip.store.groups) + count // width > len(usual.store.groups) + len(
            usual.load.groups):
        return None
    return SharedBlocks(em, _written(em, source, trip), trip, source.kind,
                       pairs=paired is not None)


def _block_width(lanes: int) -> int:
    """Number of 16-bit elements of a lane in a block read of eight hardware registers."""
    return CHUNK * 16 // lanes


def _by_plan(em: Emitter, source: Registers, trip: SharedTrip) -> SharedElements:
    # eight lanes have half the registers, so exchanges do not overlap: a barrier follows at once
    written = _written(em, source, trip, alone=em.state.lanes == EIGHT_LANES)
    return SharedElements(em, written, trip, source.kind)


def _written(
    em: Emitter, source: Registers, trip: SharedTrip, *, alone: bool = False
) -> Exchange:
    """Write the exchange by all lanes; unless it is `alone`, others may precede its read."""
    size = element_bytes(source.kind)
    exchange = Exchange(em, trip.bytes)
    addresses = _Addresses(em, exchange, trip.store, size)
    for group in trip.store.groups:
        exchange.write_at(addresses.address(group), _gathered(em, source, group), size * len(group))
    if alone:
        exchange.wait_for_writes()
    else:
        exchange.wait_before_reads()
    return exchange


def _gathered(em: Emitter, source: Registers, group: tuple[int, ...]) -> ir.Operand:
    """The value of a store message: its registers, packed into words if they fill whole words."""
    if bits_of(source.kind) == 16 and len(group) % 2 == 0 and _is_run(group):
        return source.words(em, group[0], len(group))
    if em.state.lanes == EIGHT_LANES and bits_of(source.kind) == 16 and len(group) % 4 == 0 and all(
            _is_run(half) for half in (group[::2], group[1::2])):
        return _mingled(em, *(
            source.words(em, half[0], len(half)) for half in (group[::2], group[1::2])))
    return join(em, source, list(group))


def _mingled(em: Emitter, first: ir.Operand, second: ir.Operand) -> ir.Operand:
    """Interleave the halves of words of two vectors, as words.

    Intel's compiler would move each half twice.
    """
    b, kind = em.b, first.type
    low = b.or_(b.and_(first, 0xffff), b.shl(second, 16))
    high = b.or_(b.lshr(first, 16), b.and_(second, 0xffff0000))
    count = kind.lanes
    if count == 1:
        return em.pack(I32, [low, high])
    return em.shuffle(low, high, [half * count + i for i in range(count) for half in (0, 1)])


def _written_by_blocks(
    em: Emitter, source: Registers, trip: SharedTrip, *, pairs: bool
) -> Exchange:
    """Write the exchange with block messages of eight registers."""
    exchange, size = Exchange(em, trip.bytes), element_bytes(source.kind)
    columns = columns_by_dim(trip.store.offsets)
    mine = em.bits_to_coordinate(em.warp_id(), columns["warp"], "warp")
    for i in range(source.chunks):
        place: ir.Operand = number(f2.apply(columns["register"], i * CHUNK))
        place = place if mine is None else em.b.add(mine, place)
        value = source.words(em, i * CHUNK, CHUNK) if pairs else em.b.bitcast(
            source.chunk(em, i), vector_of(I16, CHUNK))
        write_block(em, exchange.pointer(place, size), value)
    exchange.wait_before_reads()
    return exchange


def _in_turns(em: Emitter, source: Registers, trip: SharedTrip, turns: Turns) -> Registers:
    """One trip for the registers of each turn; every lane keeps its own elements."""
    found = []
    for turn in range(turns.count):
        order = [turns.register(turn, r) for r in range(source.count // turns.count)]
        read = _by_plan(em, permuted(em, source, order), trip)
        read.read()
        found.append({r: read.register(em, r) for r in range(read.count)
                      if _may_hold(turns, turn, r)})
    return from_scalars(em, source.kind, [
        _of_turn(em, turns, [held.get(r) for held in found], r) for r in range(read.count)])


def _may_hold(turns: Turns, turn: int, register: int) -> bool:
    """True if a register of the result gets its element in this turn, in some lane."""
    return all(
        w.lanes or w.warps or (register & w.registers).bit_count() & 1 == turn >> i & 1
        for i, w in enumerate(turns.where)
    )


def _of_turn(
    em: Emitter, turns: Turns, found: list[ir.Operand | None], register: int
) -> ir.Operand:
    """The value that a register reads in its lane's turn, selected from the values of all turns."""
    for where in turns.where:
        pairs = list(zip(found[::2], found[1::2], strict=True))
        if (register & where.registers).bit_count() & 1:
            pairs = [(b, a) for a, b in pairs]
        applies = _applies(em, where) if where.lanes or where.warps else None
        found = [a if applies is None or a is None or b is None else em.b.select(applies, b, a)
                 for a, b in pairs]
    assert found[0] is not None
    return found[0]


def _is_run(group: tuple[int, ...]) -> bool:
    return group == tuple(range(group[0], group[0] + len(group)))


class SharedElements(Registers):
    """Registers that a conversion leaves in shared memory, as `keep-in-shared-memory` decides.

    As all registers, they are written (read from the memory) at their first use, one message each.
    """

    def __init__(
        self, em: Emitter, exchange: Exchange, trip: SharedTrip, kind: ir.Type
    ) -> None:
        copies = dict(trip.load.copies)
        super().__init__(sum(map(len, trip.load.groups)) + len(copies), kind, self._pack)
        self._em, self._exchange, self._trip = em, exchange, trip
        self._addresses = _Addresses(em, exchange, trip.load, element_bytes(kind))
        self._message = {r: group for group in trip.load.groups for r in group}
        self._copies = copies
        self._by_words = element_bytes(kind) == 2 and trip.vector % 2 == 0
        exchange.keep(is_open=True)

    def read(self) -> None:
        """Read all registers that were not read."""
        for group in self._trip.load.groups:
            self._message_read(group)
        self._exchange.keep(is_open=False)

    def register(self, em: Writer, index: int) -> ir.Operand:
        index = self._copies.get(index, index)
        return em.remember((self, "register", index), partial(self._split, em, index))

    def words(self, em: Writer, start: int, length: int) -> ir.Operand:
        groups = self._whole_messages(start, length)
        if not groups:
            return super().words(em, start, length)
        return concatenated(em, [self._message_read(group) for group in groups])

    def parts_of_words(self, start: int, length: int) -> list[Part]:
        return [] if self._whole_messages(start, length) else super().parts_of_words(start, length)

    def _whole_messages(self, start: int, length: int) -> list[tuple[int, ...]]:
        """The messages, by words, that load exactly these registers in order."""
        wanted = range(start, start + length)
        groups = list(dict.fromkeys(self._message.get(r, ()) for r in wanted))
        return groups if self._by_words and sum(groups, ()) == tuple(wanted) else []

    def _message_read(self, group: tuple[int, ...]) -> ir.Operand:
        """The result of a message; two 16-bit elements are in a word."""
        vector, size = self._trip.vector, element_bytes(self.kind)
        kind, count = (I32, vector // 2) if self._by_words else (self.kind, vector)
        return self._em.remember((self, group), lambda: self._exchange.read_at(
            self._addresses.address(group), kind, count, size * vector))

    def _split(self, em: Writer, index: int) -> ir.Operand:
        """Extract the elements of a message for use in this scope; return one of them."""
        group = self._message[index]
        value = self._message_read(group)
        if self._by_words:
            value = em.b.bitcast(value, vector_of(self.kind, len(group)))
        if len(group) == 1:
            return value
        taken = [em.b.extract(value, i) for i in range(len(group))]
        for register, one in zip(group, taken, strict=True):
            em.remember((self, "register", register), partial(_identity, one))
        return taken[group.index(index)]

    def _pack(self, index: int) -> ir.Operand:
        first = index * self.width
        scalars = [self.register(self._em, r) for r in range(first, first + self.width)]
        return self._em.pack(self.kind, scalars)


class SharedBlocks(Registers):
    """Registers that a conversion leaves in shared memory, read in blocks of eight.

    They are read at their first use, and again at each `xe.to_fragment`.
    """

    def __init__(
        self, em: Emitter, exchange: Exchange, trip: SharedTrip, kind: ir.Type, *, pairs: bool
    ) -> None:
        count = 1 << len(trip.load.offsets.bases["register"])
        super().__init__(count, kind, self._read, _block_width(em.state.lanes))
        self._row = vector_of(I32, self.width // 2) if pairs else vector_of(I16, self.width)
        self._em, self._exchange, self._columns = em, exchange, columns_by_dim(trip.load.offsets)
        self._turns = Counter[int]()
        self._is_read = False
        exchange.keep(is_open=True)

    def write(self, em: Writer, index: int) -> ir.Operand:
        return em.remember((self, index, self._turns[index]), lambda: self._read(index))

    def read_again(self, first: int, count: int) -> None:
        """Read whole chunks of these registers at their next use, unless all were read."""
        if not self._is_read:
            self._turns.update(range(first // self.width, (first + count) // self.width))

    def read(self) -> None:
        """Read all registers that were not read."""
        self._is_read = True
        self.all_chunks(self._em)
        self._exchange.keep(is_open=False)

    def _read(self, index: int) -> ir.Operand:
        """Read a chunk from shared local memory."""
        em, first = self._em, f2.apply(self._columns["register"], index * self.width)
        mine = em.bits_to_coordinate(em.warp_id(), self._columns["warp"], "warp")
        at = number(first) if mine is None else em.b.add(mine, first)
        read = self._exchange.read_block(at, self._row, element_bytes(self.kind))
        return em.b.bitcast(read, vector_of(self.kind, self.width))


def _identity(value: ir.Operand) -> ir.Operand:
    return value


class _Addresses:
    """Addresses of the messages of one side of a trip."""

    def __init__(self, em: Emitter, exchange: Exchange, access: Access, size: int) -> None:
        self._em, self._exchange, self._size = em, exchange, size
        self._columns = columns_by_dim(access.offsets)
        self._used = 0
        for column in (*self._columns["lane"], *self._columns["warp"]):
            self._used |= column

    def address(self, group: tuple[int, ...]) -> ir.Operand:
        """The address of the message of these registers."""
        thread, fixed = self._thread(), f2.apply(self._columns["register"], group[0])
        if thread is None:
            place: ir.Operand = number(fixed)
        elif not fixed:
            place = thread
        else:
            b = self._em.b
            place = (b.xor if fixed & self._used else b.add)(thread, number(fixed))
        return self._exchange.pointer(place, self._size)

    def _thread(self) -> ir.Operand | None:
        em = self._em
        lane = em.bits_to_coordinate(em.lane_id(), self._columns["lane"], "lane")
        warp = em.bits_to_coordinate(em.warp_id(), self._columns["warp"], "warp")
        if lane is None or warp is None:
            return lane if warp is None else warp
        return em.remember(("slot", lane, warp), lambda: em.b.xor(lane, warp))


def through_positions(
    em: Emitter, kind: ir.Type, count: int, writes: Sequence[tuple[ir.Operand, ir.Operand]],
    reads: Sequence[ir.Operand],
) -> Registers:
    """Rearrange scalars in any way through shared memory.

    Write them to numbered positions of `count`, synchronise, and read others.
    """
    read = through_slm(em, [kind], count, ((position, [x]) for position, x in writes))
    return from_scalars(em, kind, [read(position)[0] for position in reads])
