"""Lower tt.scan: combine blocks from the smallest to the largest.

Consecutive bits of the position along the axis that all select registers, lanes or subgroups are
one level.  At each level, the totals of the smaller blocks are known.  Each of these blocks gets
its prefix within the larger block, and the larger block gets its total:

- a lane combines the totals in its registers in sequence;
- lanes combine prefixes by one shuffle or exchange for each bit, or by one function of all lanes,
  and pass them to the next lane;
- subgroups write their totals to shared local memory, and each scans all of them, register bits
  above included.

The lowest register bits are no level: a lane combines these runs of registers in sequence at the
beginning.  At the end it combines each element once with the prefix of its run.  Runs of int32, and
stored columns that a lane has completely, are scanned by functions in place (`scan_registers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from triton_xe import llvm as ir
from triton_xe.dialects.tt.structure import ScanOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.maths.lane_scans import (
    combine_with_prefix,
    from_previous_lane,
    moves_by_function,
    scan_lanes,
    scan_registers,
)
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.maths.wide import AT_ONCE
from triton_xe.lowering.emit.tensors.reduce import (
    Combine,
    Values,
    check_axis,
    combined_sources,
    combiner,
    narrowed_results,
    neutral_element,
)
from triton_xe.lowering.emit.tensors.registers import (
    CHUNK,
    eager,
    regrouped,
)
from triton_xe.lowering.emit.tensors.scan_totals import Cells
from triton_xe.lowering.emit.tensors.scan_values import (
    Bits,
    as_vector,
    bits_along,
    groups_of,
    moved_by,
    registers_beside,
    registers_of,
    runs_of,
    stored_chunks,
    wave_of,
)
from triton_xe.lowering.emit.tensors.shuffle import shuffle_in_runs, shuffle_index, shuffle_xor
from triton_xe.lowering.emit.types import FLOAT, HALF, TWO_HALVES, number
from triton_xe.lowering.facts.view import Coordinates, View, consecutive

MOST_TOTALS = 16
"""Largest number of totals that a lane reads for a row, because it keeps them in registers."""
MOST_CHAINED = 8
"""Largest number of totals that are combined in sequence instead of by lanes."""


@dataclass(frozen=True)
class Before:
    """Prefix of a block; `known` is an i1, true if it is not empty; None if it never is."""

    values: Values
    known: ir.Operand | None


Totals = Mapping[Coordinates, Values]
"""Totals of blocks by their first register, equal in all lanes and subgroups of the block."""
Level = tuple[dict[Coordinates, Before], Callable[[], dict[Coordinates, Values]]]
"""Prefixes of the blocks, and a function that emits the totals of the larger blocks."""


@lowers(ScanOp)
def lower_scan(em: Emitter, op: ScanOp) -> None:
    axis = int(op.axis.value.data)
    reverse = op.reverse is not None and bool(op.reverse.value.data)
    view = em.view(op.srcs[0])
    check_axis(view, axis, op.name)
    sources = combined_sources(em, op)
    wave = wave_of(op, sources)
    beside = registers_beside(em, op, sources, axis)
    scan = Scan(em, view, axis, bits_along(view, axis), reverse, combiner(em, op), wave,
                neutral_element(op), beside)
    chunks = stored_chunks(em, op, sources[0], scan.in_registers) if scan.in_registers else []
    if chunks:
        em.bind(op.res[0], regrouped(em, eager(
            sources[0].kind, scan.in_chunks(chunks), scan.in_registers)))
        return
    if runs := runs_of(em, op, sources[0], view, axis):
        vectors = replace(scan, in_runs=True).run(
            {c: [x] for c, x in zip(view.registers[::AT_ONCE], runs, strict=True)})
        em.bind(op.res[0], eager(sources[0].kind, [x for x, in vectors.values()], AT_ONCE))
        return
    groups = groups_of(view, beside)
    scanned = scan.run({view.registers[group[0]]: [as_vector(em, s, group) for s in sources]
                        for group in groups})
    for index, result in enumerate(op.res):
        column = narrowed_results(
            em, op, [scanned[view.registers[group[0]]][index] for group in groups], index)
        em.bind(result, registers_of(em, groups, column))


@dataclass(frozen=True)
class Scan:
    """The scan of one tensor along an axis; block numbers count in the scan's direction."""

    em: Emitter
    view: View
    axis: int
    bits: Bits
    reverse: bool
    combine: Combine
    wave: int | None
    """Number of the operation among `genisa.WAVE_OPERATIONS`, if it is one of them."""
    neutral: float | None
    """The value of an empty prefix, if the operation has a known one."""
    beside: tuple[Coordinates, ...]
    """Registers of one vector, which are at equal positions along the axis, from the first one."""
    in_runs: bool = False
    """True if values are runs of `AT_ONCE` positions, which functions scan."""

    def run(self, values: Totals) -> Totals:
        """The scanned values of all registers; those beside each other are one vector."""
        last = (self.view.shape[self.axis] - 1).bit_length()
        start = self._run_from(0, last, self.bits.register)
        if self.in_runs:
            start = AT_ONCE.bit_length() - 1
            values, found = self._scanned_runs(values)
        else:
            values, found = self._chained(values, 0, start)
        runs = list(found)
        totals: Totals = found
        before: dict[Coordinates, Before | None] = dict.fromkeys(totals)
        first, is_apart = start, False
        while first < last:
            if not is_apart and not self._moves_vectors(first, totals):
                totals, before, is_apart = self._columns(totals), self._apart(before), True
            count, (mine, larger) = self._next_level(totals, first, last)
            before = {c: self._joined(mine.get(self._block(c, first)), held)
                      for c, held in before.items()}
            first += count
            totals = larger() if first < last else {}
        prefixes = {c: [before[moved_by(c, other)] for other in self.beside]
                    if is_apart else [before[c]] for c in runs}
        return {c: self._taken(prefixes[self._block(c, start)], value)
                for c, value in values.items()}

    @property
    def in_registers(self) -> int:
        """The registers that a function scans, if each lane has all positions of the axis, or 0."""
        count = min(CHUNK, self.view.shape[self.axis])
        return count * (
            self.wave is not None and not self.bits.lane and not self.bits.warp
            and suits(self.em.state) and count >= AT_ONCE and consecutive(
                self.view, self.axis, count))

    def in_chunks(self, chunks: Sequence[ir.Operand]) -> list[ir.Operand]:
        """Scan chunks of `in_registers` registers one after the other."""
        assert self.wave is not None
        em, firsts, count = self.em, self.view.registers[:: self.in_registers], self.in_registers
        done, last = dict[Coordinates, ir.Operand](), dict[Coordinates, ir.Operand]()
        for c in sorted(firsts, reverse=self.reverse):
            column = (*c[: self.axis], 0, *c[self.axis + 1 :])
            done[c] = scan_registers(
                em, self.wave, chunks[firsts.index(c)], last.get(column), reverse=self.reverse)
            last[column] = em.b.extract(done[c], 0 if self.reverse else count - 1)
        return [done[c] for c in firsts]

    def _scanned_runs(
        self, values: Totals
    ) -> tuple[dict[Coordinates, Values], dict[Coordinates, Values]]:
        """Scan each run by a function; return the results, and their last values."""
        assert self.wave is not None
        last = 0 if self.reverse else AT_ONCE - 1
        done = {c: scan_registers(self.em, self.wave, x, None, reverse=self.reverse)
                for c, (x,) in values.items()}
        return ({c: [x] for c, x in done.items()},
                {c: [self.em.b.extract(x, last)] for c, x in done.items()})

    def _columns(self, totals: Totals) -> Totals:
        """The totals of each column, from vectors of columns."""
        if len(self.beside) == 1:
            return totals
        return {moved_by(c, other): [self.em.b.extract(x, i) for x in held]
                for c, held in totals.items() for i, other in enumerate(self.beside)}

    def _moves_vectors(self, first: int, totals: Totals) -> bool:
        """True if the next level moves vectors between lanes, as they are dwords."""
        return (first in self.bits.lane and self._by_functions(first) is None
                and all(x.type == TWO_HALVES for held in totals.values() for x in held))

    def _apart(self, before: Mapping[Coordinates, Before | None]) -> dict[
            Coordinates, Before | None]:
        """The prefixes of each column, from vectors of columns."""
        return {moved_by(c, other): held and Before(
            [self.em.b.extract(x, i) for x in held.values], held.known)
            for c, held in before.items() for i, other in enumerate(self.beside)}

    def _next_level(self, totals: Totals, first: int, last: int) -> tuple[int, Level]:
        """Emit the level that starts at bit `first`; return its number of bits, and the level."""
        count = self._run_from(first, last, self.bits.register)
        if count:
            chained, larger = self._chained(totals, first, count)
            return count, (self._shifted(chained, first, count), lambda: larger)
        if lanes := self._lanes(first):
            return len(lanes), self._across_lanes(totals, first, lanes)
        count = self._bits_across_warps(first, last)
        return count, self._across_warps(totals, first, count, ends=first + count == last)

    def _run_from(self, first: int, last: int, table: Mapping[int, int]) -> int:
        """Number of consecutive position bits from `first` on that are keys of `table`."""
        return next(n for n in range(last + 1) if first + n == last or first + n not in table)

    def _block(self, c: Coordinates, first: int) -> Coordinates:
        """First register of the block of `1 << first` positions that a register is in."""
        return (*c[: self.axis], c[self.axis] >> first << first, *c[self.axis + 1 :])

    def _number(self, c: Coordinates, first: int, count: int) -> int:
        """Number of a block among the `1 << count` of the next level, in the scan's direction."""
        mask = (1 << count) - 1
        return (c[self.axis] >> first ^ (mask if self.reverse else 0)) & mask

    # -- registers -----------------------------------------------------------------------------

    def _chained(
        self, totals: Totals, first: int, count: int
    ) -> tuple[dict[Coordinates, Values], dict[Coordinates, Values]]:
        """Combine a lane's blocks in sequence; return running values, and larger blocks' totals."""
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

    def _across_lanes(self, totals: Totals, first: int, lanes: Sequence[int]) -> Level:
        """Scan the totals of lanes."""
        em, wave, count = self.em, self._by_functions(first), len(lanes)
        scanned = None if wave is None else self._in_blocks(totals, wave, 1 << count)
        runs = scanned is not None or _are_runs(self.bits, range(first, first + count))
        if self.neutral is not None and not runs:
            exchanged, whole = self._by_exchanges(totals, lanes)
            return exchanged, lambda: whole
        before, inclusive = scanned or self._by_shuffles(totals, first, count)

        def larger() -> dict[Coordinates, Values]:
            bits = sum(1 << lane for lane in lanes)
            lane, end = em.lane_id(), number(0 if self.reverse else em.state.lanes - 1)
            if bits != em.state.lanes - 1:
                end = em.b.and_(lane, em.b.not_(number(bits))) if self.reverse else (
                    em.b.or_(lane, bits))
            return {c: [shuffle_index(em, x, end) for x in held] for c, held in inclusive.items()}

        return before, larger

    def _lanes(self, first: int) -> list[int]:
        """The lane bits that select the position bits of a level."""
        last = (self.view.shape[self.axis] - 1).bit_length()
        count = self._run_from(first, last, self.bits.lane)
        return [self.bits.lane[bit] for bit in range(first, first + count)]

    def _by_functions(self, first: int) -> int | None:
        """The operation, if functions scan the lanes of a level; they know the operation."""
        lanes, state = self._lanes(first), self.em.state
        is_whole = 1 << len(lanes) == state.lanes or suits(state)
        in_order = lanes == list(range(len(lanes))) and not self.reverse
        return self.wave if in_order and is_whole else None

    def _in_blocks(
        self, totals: Totals, wave: int, size: int
    ) -> tuple[dict[Coordinates, Before], dict[Coordinates, Values]]:
        """Scan values of blocks of lanes by functions.

        Lanes combine fp16 in fp32, and round each prefix once.
        """
        em, halves = self.em, next(iter(totals.values()))[0].type == HALF

        def resized(x: ir.Operand, kind: ir.Type) -> ir.Operand:
            return Term(em, x).resized(kind).value if halves else x

        found = scan_lanes(em, wave, [resized(x, FLOAT) for x, in totals.values()], size)
        exclusive, inclusive = ({c: [resized(x, HALF)] for c, x in zip(totals, each, strict=True)}
                                for each in found)
        known = None
        if self.neutral is None:
            known = em.b.icmp("ne", em.b.and_(em.lane_id(), size - 1), 0)
        return {c: Before(x, known) for c, x in exclusive.items()}, inclusive

    def _by_exchanges(
        self, totals: Totals, lanes: Sequence[int]
    ) -> tuple[dict[Coordinates, Before], dict[Coordinates, Values]]:
        """Scan values of lanes by exchanges of totals, which all lanes of a block then have.

        That takes fewer moves than shuffles whose source is not a region.  The operation must be
        commutative; those with a known neutral element are.
        """
        em, before, whole = self.em, dict[Coordinates, Before](), dict[Coordinates, Values]()
        takes = [self._takes(1 << lane) for lane in lanes]
        for c, held in totals.items():
            prefix: Values | None = None
            for lane, take in zip(lanes, takes, strict=True):
                other = [shuffle_xor(em, x, 1 << lane, apart=prefix is None) for x in held]
                earlier = self._before(other, take).values
                prefix = earlier if prefix is None else self.combine(earlier, prefix)
                held = self.combine(other, held)
            assert prefix is not None
            before[c], whole[c] = Before(prefix, None), held
        return before, whole

    def _by_shuffles(
        self, totals: Totals, first: int, count: int
    ) -> tuple[dict[Coordinates, Before], dict[Coordinates, Values]]:
        """Scan values of lanes by a shuffle for each bit, and one to the next lane."""
        inclusive = self._inclusive(totals, range(first, first + count))
        previous, known = self._previous_lane(first, count)
        values = [x for held in inclusive.values() for x in held]
        in_order = not self.reverse and all(
            self.bits.lane[first + i] == i for i in range(count))
        moved = iter(from_previous_lane(self.em, values) if in_order and moves_by_function(
            self.em, values) else [shuffle_index(self.em, x, previous) for x in values])
        return {c: self._before([next(moved) for _ in held], known)
                for c, held in inclusive.items()}, inclusive

    def _inclusive(self, totals: Totals, bits: range) -> dict[Coordinates, Values]:
        """Combine the values of lanes with all earlier ones of their block."""
        em = self.em
        moves = [_from_earlier(em, self.bits, bit, self.reverse) for bit in bits]
        takes = [self._takes(1 << self.bits.lane[bit]) for bit in bits]
        inclusive = {}
        for c, held in totals.items():
            for move, take in zip(moves, takes, strict=True):
                moved = [move(x) for x in held]
                held = [em.b.select(take, x, y)
                        for x, y in zip(self.combine(moved, held), held, strict=True)]
            inclusive[c] = held
        return inclusive

    def _takes(self, lane_bit: int) -> ir.Operand:
        """True if this lane is in the later of two blocks."""
        bit = self.em.b.and_(self.em.lane_id(), lane_bit)
        return self.em.b.icmp("eq" if self.reverse else "ne", bit, 0)

    def _previous_lane(self, first: int, count: int) -> tuple[ir.Operand, ir.Operand]:
        """The lane with the previous block, and an i1 that is true if there is such a block."""
        em, mask, lane = self.em, (1 << count) - 1, self.em.lane_id()
        own = self._own_number(self.bits.lane, lane, len(self.view.lanes), first, count)
        known = em.b.icmp("ne", own, mask if self.reverse else 0)
        before = em.b.and_(em.b.add(own, 1 if self.reverse else mask), mask)
        field = sum(1 << self.bits.lane[first + bit] for bit in range(count))
        bases = [1 << self.bits.lane[first + bit] for bit in range(count)]
        place = em.bits_to_coordinate(before, bases, ("scan", before))
        assert place is not None
        return em.b.or_(em.b.and_(lane, ~field & 0xFFFFFFFF), place), known

    def _own_number(
        self, table: Mapping[int, int], own: ir.Operand, length: int, first: int, count: int
    ) -> ir.Operand:
        """Number of the block of this lane or subgroup, `own`, in the order of positions."""
        bases = [0] * length
        for bit in range(count):
            bases[table[first + bit]] = 1 << bit
        number = self.em.bits_to_coordinate(own, bases, ("scan", own))
        assert number is not None
        return number

    # -- subgroups -----------------------------------------------------------------------------

    def _bits_across_warps(self, first: int, last: int) -> int:
        """Bits from `first` on that one exchange covers: warp bits, and register bits after them.

        Register bits are left to the next level if no lanes can share the totals of a row.
        """
        sharing = len(self._sharing(first))
        covered = self.bits.warp | (self.bits.register if sharing else {})
        most = sharing + MOST_TOTALS.bit_length() - 1
        return min(self._run_from(first, last, covered), most)

    def _sharing(self, first: int) -> tuple[int, ...]:
        """Lane bits that select equal totals of blocks of `1 << first` positions."""
        along = {lane for bit, lane in self.bits.lane.items() if bit < first}
        return tuple(i for i, c in enumerate(self.view.lanes) if i in along or not any(c))

    def _cells(self, totals: Totals, first: int, count: int) -> Cells:
        """The cells through which the totals are exchanged."""
        warps = {self.bits.warp[first + i]: 1 << i for i in range(count)
                 if first + i in self.bits.warp}
        sharing, mine = self._sharing(first), (1 << count) - 1 - sum(warps.values())
        rows = {c: i for i, c in enumerate(dict.fromkeys(
            self._block(c, first + count) for c in sorted(totals)))}
        registers = {c: rows[self._block(c, first + count)] << count
                     | self._number(c, first, count) & mine for c in totals}
        if len(totals) != len(rows) << count - len(warps):
            raise UnsupportedError("tt.scan along a swizzled dimension")
        return Cells(
            self.em, count, len(rows), registers, warps, self.reverse, sharing,
            tuple(i for i in range(len(self.view.lanes)) if i not in sharing),
            tuple(i for i, c in enumerate(self.view.warps) if any(c) and i not in warps))

    def _across_warps(self, totals: Totals, first: int, count: int, *, ends: bool) -> Level:
        """Scan the totals of warps, exchanged through shared local memory."""
        em, cells = self.em, self._cells(totals, first, count)
        read = cells.exchanged(totals)
        if len(totals) == 1 and cells.is_uniform and cells.blocks <= MOST_CHAINED:
            return self._by_chain(next(iter(totals)), cells, read.every(), first + count)
        some = min(cells.rows, max(1, 1 << len(cells.sharing) >> count))
        parts = [read.rows(row, some).scanned(self._nested) for row in range(0, cells.rows, some)]
        later = em.b.icmp("ne", cells.own, 0)
        before, whole = dict[Coordinates, Before](), dict[Coordinates, Values]()

        def unless_first(values: Values) -> Values:
            return self._before(values, later).values

        for c, cell in cells.registers.items():
            part, at = divmod(cell, some << count)
            known = None if cell & (1 << count) - 1 else later
            values = parts[part].before_own(at, unless_first if known else list)
            before[c] = Before(values, known if self.neutral is None else None)
            if not ends and known is not None:
                whole[self._block(c, first + count)] = parts[part].cell(at + (1 << count) - 1)
        return before, lambda: whole

    def _by_chain(self, c: Coordinates, cells: Cells, totals: list[Values], end: int) -> Level:
        """Combine the totals of warps in sequence in each lane, which takes scalar instructions."""
        em, running = self.em, list(accumulate(totals, self.combine))
        held = running[0]
        for last, values in enumerate(running[1:-1], 1):
            beyond = em.b.icmp("ugt", cells.own, last)
            held = [em.b.select(beyond, x, y) for x, y in zip(values, held, strict=True)]
        before = self._before(held, em.b.icmp("ne", cells.own, 0))
        return {c: before}, lambda: {self._block(c, end): running[-1]}

    def _nested(self, view: View, values: Totals) -> Totals:
        """Scan the rows of a tensor by the same operation; each subgroup has all of it."""
        bits = bits_along(view, 1)
        return Scan(self.em, view, 1, bits, False, self.combine, self.wave,
                    self.neutral, view.registers[:1]).run(values)

    # -- prefixes ------------------------------------------------------------------------------

    def _before(self, values: Values, known: ir.Operand | None) -> Before:
        """A prefix; an empty one becomes the neutral element, if the operation has one."""
        if known is None or self.neutral is None:
            return Before(values, known)
        return Before([self.em.b.select(known, x, self.neutral)
                       for x in values], None)

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

    def _taken(self, before: Sequence[Before | None], value: Values) -> Values:
        """Combine a value with its prefix, or with those of the elements of its vectors."""
        found, em = [held for held in before if held is not None], self.em
        if not found:
            return value
        prefix = [em.pack(each[0].type, each) for each in zip(
            *(held.values for held in found), strict=True)]
        taken = [combine_with_prefix(em, self.wave, *value, *prefix)] if (
            self.in_runs and self.wave is not None) else self.combine(prefix, value)
        if all(held.known is found[0].known for held in found):
            return [self._chosen(found[0].known, x, y) for x, y in zip(taken, value, strict=True)]
        return [em.pack(x.type.scalar, [
            self._chosen(held.known, em.b.extract(x, i), em.b.extract(y, i))
            for i, held in enumerate(found)]) for x, y in zip(taken, value, strict=True)]

    def _chosen(self, known: ir.Operand | None, yes: ir.Operand, no: ir.Operand) -> ir.Operand:
        """Select `yes` if a prefix is not empty; `known` is None if it never is."""
        return yes if known is None else self.em.b.select(known, yes, no)


def _lanes_below(bits: Bits, bit: int) -> int:
    """The lane bits that select lower bits of the position."""
    return sum(1 << lane for b, lane in bits.lane.items() if b < bit)


def _are_runs(bits: Bits, level: range) -> bool:
    """True if the blocks of all steps of a level are runs of lanes."""
    return all(_lanes_below(bits, bit) == (1 << bits.lane[bit]) - 1 for bit in level)


def _from_earlier(
    em: Emitter, bits: Bits, bit: int, reverse: bool
) -> Callable[[ir.Operand], ir.Operand]:
    """Function that moves the total of the earlier of two blocks to the lanes of the later one.

    If blocks are runs of lanes, Intel's compiler writes a move of a region, or for the halves of
    the subgroup none.
    """
    lower, mine = _lanes_below(bits, bit), 1 << bits.lane[bit]
    source = mine if reverse else lower
    if lower == mine - 1:
        return lambda x: shuffle_in_runs(em, x, 2 * mine, source)
    lane = em.b.and_(em.lane_id(), ~(lower if reverse else mine) & 0xFFFFFFFF)
    lane = em.b.or_(lane, source) if source else lane
    return lambda x: shuffle_index(em, x, lane)
