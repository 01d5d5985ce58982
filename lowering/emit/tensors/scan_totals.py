"""Totals of blocks in shared local memory, from which each subgroup scans all of them.

Lanes that have equal totals share the work.  Each writes another register's total, and reads
another part of a row of totals.  A row is stored consecutively, so that an exchange takes few
messages, and the rest is a scan of a few values per lane.  If no lanes share totals, the rows of a
lane are stored side by side, so that messages take several of its registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from triton_xe import llvm as ir
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.tensors.exchange import Exchange, element_bytes
from triton_xe.lowering.emit.tensors.reduce import Values
from triton_xe.lowering.emit.tensors.shuffle import shuffle_index
from triton_xe.lowering.emit.types import number
from triton_xe.lowering.facts.view import Coordinates, View

Scanner = Callable[[View, Mapping[Coordinates, Values]], Mapping[Coordinates, Values]]
"""Function that scans the rows of a tensor."""
MOST_BYTES = 16
"""Largest part of a lane in a message to addresses that differ by lane: four dwords.

Source: Xe LSC, vector sizes of messages that do not transpose.
"""


@dataclass(frozen=True)
class Cells:
    """Cells of totals: cell `row << count | block` of the lanes and warps that have the same rows.

    Blocks are numbered in the direction of the scan.
    """

    em: Emitter
    count: int
    rows: int
    registers: Mapping[Coordinates, int]
    """The part of the cell that the register determines."""
    warps: Mapping[int, int]
    """Bits of the block's number by the warp bit that determines them."""
    reverse: bool
    sharing: tuple[int, ...]
    """Lane bits that select equal totals."""
    lanes_apart: tuple[int, ...]
    """Lane bits that select rows."""
    warps_apart: tuple[int, ...]
    """Warp bits that select rows."""

    @property
    def blocks(self) -> int:
        return 1 << self.count

    def place(self, cell: int) -> int:
        """The address of a cell, in elements; linear in the bits of the cell."""
        row, block = divmod(cell, self.blocks)
        return cell if self.sharing else block * self.rows + row

    @property
    def is_uniform(self) -> bool:
        """True if all lanes have the same row of totals."""
        return self.rows == 1 and not self.lanes_apart

    @property
    def own_numbers(self) -> list[int]:
        """All values of `own`."""
        found = [0]
        for part in self.warps.values():
            found += [n + part for n in found]
        return found

    @cached_property
    def own(self) -> ir.Operand:
        """The part of a block's number that the warp determines."""
        own = self.by_warp(self.warps)
        return self.em.b.xor(own, sum(self.warps.values())) if self.reverse else own

    @cached_property
    def base(self) -> ir.Operand:
        """The first cell of this lane's rows."""
        size, lanes = self.rows * self.blocks, len(self.lanes_apart)
        return self.plus(
            self.by_lane({bit: size << i for i, bit in enumerate(self.lanes_apart)}),
            self.by_warp({bit: size << lanes + i for i, bit in enumerate(self.warps_apart)}))

    def by_lane(self, parts: Mapping[int, int]) -> ir.Operand:
        """The sum of the parts of the bits that are set in the lane's number."""
        return self.spread(self.em.lane_id(), self.em.state.lanes, parts)

    def by_warp(self, parts: Mapping[int, int]) -> ir.Operand:
        """The sum of the parts of the bits that are set in the warp's number."""
        return self.spread(self.em.warp_id(), self.em.state.num_warps, parts)

    def spread(self, value: ir.Operand, end: int, parts: Mapping[int, int]) -> ir.Operand:
        """The sum of the parts of the bits that are set in a value below `end`."""
        bases = [parts.get(bit, 0) for bit in range(end.bit_length() - 1)]
        found = self.em.bits_to_coordinate(value, bases, ("cells", value))
        return number(0) if found is None else found

    def plus(self, *parts: ir.Operand) -> ir.Operand:
        """The sum of numbers, without those that are known to be 0."""
        total: ir.Operand | None = None
        for part in parts:
            if not part.is_zero:
                total = part if total is None else self.em.b.add(total, part)
        return number(0) if total is None else total

    def exchanged(self, totals: Mapping[Coordinates, Values]) -> Totals:
        """Write all totals and synchronise; return the reader of them."""
        kinds = [x.type for x in next(iter(totals.values()))]
        size = self.rows * self.blocks << len(self.lanes_apart) + len(self.warps_apart)
        offsets, nbytes = [], 0
        for kind in kinds:
            offsets.append(nbytes)
            nbytes += element_bytes(kind) * size
            nbytes += -nbytes % MOST_BYTES
        exchange = Exchange(self.em, nbytes)
        for place, values in self._writes(totals):
            for value, offset in zip(values, offsets, strict=True):
                exchange.write(place, value, offset)
        exchange.wait_for_writes()
        return Totals(self, exchange, kinds, offsets)

    def _writes(self, totals: Mapping[Coordinates, Values]) -> list[tuple[ir.Operand, Values]]:
        """A cell of each lane and its total; lanes that share totals write different ones."""
        order = sorted(totals, key=self.registers.__getitem__)
        cells = [self.registers[c] for c in order]
        lanes = self.sharing[: len(order).bit_length() - 1]
        step = 1 << len(lanes)
        own = self.em.b.mul(self.own, self.place(1))
        first = self.plus(self.base, own,
                          self.by_lane({b: cells[1 << i] for i, b in enumerate(lanes)}))
        return [(self.plus(first, number(self.place(cells[start]))),
                 [self._of_lane(column, lanes)
                  for column in zip(*(totals[c] for c in order[start : start + step]),
                                    strict=True)])
                for start in range(0, len(order), step)]

    def _of_lane(self, values: Sequence[ir.Operand], lanes: Sequence[int]) -> ir.Operand:
        """The value of this lane: the bits `lanes` of its number are the index into `values`."""
        for bit in lanes:
            flag = self.em.b.and_(self.em.lane_id(), 1 << bit)
            flag = self.em.b.icmp("ne", flag, 0)
            values = [self.em.b.select(flag, y, x)
                      for x, y in zip(values[::2], values[1::2], strict=True)]
        return values[0]


@dataclass(frozen=True)
class Totals:
    """Totals that all subgroups have written, to be read."""

    cells: Cells
    exchange: Exchange
    kinds: Sequence[ir.Type]
    offsets: Sequence[int]

    def every(self) -> list[Values]:
        """The totals of the only row, all of which each lane reads."""
        columns = [self._consecutive(self.cells.base, kind, offset, self.cells.blocks)
                   for kind, offset in zip(self.kinds, self.offsets, strict=True)]
        return [list(values) for values in zip(*columns, strict=True)]

    def rows(self, first: int, count: int) -> Rows:
        """Some rows, shared among the lanes with equal totals."""
        cells, blocks = self.cells, count * self.cells.blocks
        lanes = cells.sharing[: blocks.bit_length() - 1]
        each = blocks >> len(lanes)
        place = cells.plus(
            cells.base, cells.by_lane({b: each << i for i, b in enumerate(lanes)}),
            number(cells.place(first * cells.blocks)))
        columns = [self._consecutive(place, kind, offset, each)
                   for kind, offset in zip(self.kinds, self.offsets, strict=True)]
        return Rows(cells, lanes, count, [list(v) for v in zip(*columns, strict=True)])

    def _consecutive(self, place: ir.Operand, kind: ir.Type, offset: int, count: int) -> Values:
        """Totals of one operand in consecutive cells."""
        em, size = self.cells.em, element_bytes(kind)
        width = min(count, MOST_BYTES // size) if self.cells.sharing else 1
        found = []
        for start in range(0, count, width):
            at = offset + self.cells.place(start) * size
            pointer = self.exchange.pointer(place, size, at)
            value = self.exchange.read_at(pointer, kind, width, width * size)
            found += [value] if width == 1 else [
                em.b.extract(value, i) for i in range(width)]
        return found


@dataclass(frozen=True)
class Rows:
    """Some rows' values: cell n is value `n % each` of lane `n / each` among `lanes`."""

    cells: Cells
    lanes: tuple[int, ...]
    count: int
    values: Sequence[Values]
    found: dict[tuple[int, Callable[[Values], Values]], Values] = field(default_factory=dict)
    """Values of all lanes, one of which `before_own` selects."""

    def scanned(self, scan: Scanner) -> Rows:
        """Scan each row."""
        blocks, each = self.cells.blocks, len(self.values)
        bases = {bit: divmod(each << i, blocks) for i, bit in enumerate(self.lanes)}
        lanes = range(self.cells.em.state.lanes.bit_length() - 1)
        view = View((self.count, blocks), tuple(divmod(i, blocks) for i in range(each)),
                    tuple(bases.get(bit, (0, 0)) for bit in lanes), ())
        found = scan(view, dict(zip(view.registers, self.values, strict=True)))
        return Rows(self.cells, self.lanes, self.count, [found[c] for c in view.registers])

    def cell(self, cell: int) -> Values:
        """The values of a cell."""
        lane, value = divmod(cell, len(self.values))
        return self._moved(self.values[value], number(lane))

    def before_own(self, cell: int, change: Callable[[Values], Values]) -> Values:
        """`change` applied to the values of cell `cell + own - 1`; `own` is the subgroup's number.

        If a lane's value is needed for several cells, the values of all lanes are first moved by
        the subgroup's number.  The lane of each cell is then a constant.
        """
        step, start = divmod(cell - 1, len(self.values))
        if (start, change) not in self.found:
            picked = self._picked(start)
            if self._moves_all:
                mine = self.cells.by_lane({bit: 1 << i for i, bit in enumerate(self.lanes)})
                picked = self._moved(picked, self.cells.plus(mine, self._lane_of_own(start)))
            self.found[start, change] = change(picked)
        there = number(step & (1 << len(self.lanes)) - 1)
        if not self._moves_all:
            there = self.cells.plus(self._lane_of_own(start), there)
        return self._moved(self.found[start, change], there)

    @cached_property
    def _moves_all(self) -> bool:
        """True if `before_own` moves the values of all lanes at once."""
        cells = set(self.cells.registers.values()) & set(range(self.count * self.cells.blocks))
        starts = {(cell - 1) % len(self.values) for cell in cells}
        return len(cells) > len(starts) and 1 << len(self.lanes) == self.cells.em.state.lanes

    def _lane_of_own(self, start: int) -> ir.Operand:
        """The number of the lane with cell `start` plus the subgroup's own number."""
        cell, each = self.cells.plus(self.cells.own, number(start)), len(self.values)
        return cell if each == 1 else self.cells.em.b.lshr(cell, each.bit_length() - 1)

    def _picked(self, start: int) -> Values:
        """The lane's value `(start + own) % each`."""
        em, each = self.cells.em, len(self.values)
        first, *others = sorted({(start + n) % each for n in self.cells.own_numbers})
        cell = self.cells.plus(self.cells.own, number(start))
        held = self.values[first]
        for i in others:
            here = em.b.icmp("eq", em.b.and_(cell, each - 1), i)
            held = [em.b.select(here, x, y) for x, y in zip(self.values[i], held, strict=True)]
        return held

    def _moved(self, values: Values, cell: ir.Operand) -> Values:
        """The values of the lane whose bits `lanes` are the lowest bits of `cell`."""
        if not self.lanes:
            return values
        em, parts = self.cells.em, {i: 1 << bit for i, bit in enumerate(self.lanes)}
        known = cell.integer_value()
        if known is not None:
            lane = number(sum(part for i, part in parts.items() if known >> i & 1))
        else:
            lane = self.cells.spread(cell, 1 << 32, parts)
        if 1 << len(self.cells.sharing) < em.state.lanes:
            others = em.b.and_(em.lane_id(), ~sum(parts.values()) & 0xFFFFFFFF)
            lane = em.b.or_(others, lane)
        return [shuffle_index(em, x, lane) for x in values]
