"""Lowering of `xe.repeat`: elements that several registers, or several lanes, have copies of."""

from __future__ import annotations

from collections.abc import Sequence

from triton_xe import llvm as ir
from triton_xe.dialects.xe import RepeatOp
from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.tensors.registers import CHUNK, Registers, permuted
from triton_xe.lowering.emit.tensors.shape import rearranged
from triton_xe.lowering.emit.types import I8, I32, number
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.facts.view import Coordinates, View


@lowers(RepeatOp)
def lower_repeat(em: Emitter, op: RepeatOp) -> None:
    axis, times = op.axis.value.data, op.times.value.data

    def origin(c: Coordinates) -> Coordinates:
        return tuple(x // times if d == axis else x for d, x in enumerate(c))

    old, new, source = em.view(op.source), em.view(op.result), em.registers(op.source)
    wanted = View(
        old.shape, *(tuple(map(origin, part)) for part in (new.registers, new.lanes, new.warps)))
    order = _rows_in_lanes(old, wanted)
    if order and source.kind == I32:
        em.bind(op.result, RowsInLanes(em, source, order))
    elif (wanted.lanes, wanted.warps) == (old.lanes, old.warps) and all(
            c in old.index for c in wanted.registers):
        em.bind(op.result, Repeated(em, source, [old.index[c] for c in wanted.registers]))
    else:
        rearranged(em, op.source, op.result, origin)


def _rows_in_lanes(old: View, wanted: View) -> list[int]:
    """Source registers of eight rows each, for every eight registers; [] if the layout differs.

    Lane 2 * k + n has row k of columns 8 * n to 8 * n + 7.
    """
    if len(old.lanes) != 4 or len(wanted.registers) % CHUNK or old.warps != wanted.warps:
        return []
    zero = (0,) * len(old.shape)
    if wanted.lanes != (zero, zero, zero, old.lanes[0]):
        return []
    rows = [zero]
    for lane in old.lanes[1:]:
        rows += [_moved(row, lane) for row in rows]
    firsts = wanted.registers[::CHUNK]
    expected = tuple(_moved(first, row) for first in firsts for row in rows)
    if wanted.registers != expected or any(first not in old.index for first in firsts):
        return []
    return [old.index[first] for first in firsts]


def _moved(one: Coordinates, other: Coordinates) -> Coordinates:
    """The xor of two coordinates."""
    return tuple(a ^ b for a, b in zip(one, other, strict=True))


class Repeated(Registers):
    """Registers in which several consecutive ones are the same register of the source."""

    def __init__(self, em: Emitter, source: Registers, order: Sequence[int]) -> None:
        same = permuted(em, source, order)
        super().__init__(len(order), source.kind, lambda i: same.chunk(em, i),
                         needs=lambda i: same.parts(i), single=same.single)
        self.source, self.order = source, tuple(order)

    def four(self, index: int) -> int | None:
        """Index of the first byte of a word if the chunk has its bytes twice each, in order."""
        mine = self.order[index * self.width : (index + 1) * self.width]
        wanted = tuple(mine[0] + i // 2 for i in range(CHUNK))
        return mine[0] if self.source.kind == I8 and mine[0] % 4 == 0 and mine == wanted else None


class RowsInLanes(Registers):
    """Registers of eight rows each; a lane of the source has one of the rows."""

    def __init__(self, em: Emitter, source: Registers, order: Sequence[int]) -> None:
        super().__init__(CHUNK * len(order), source.kind, self._spread,
                         needs=lambda i: source.parts_of([order[i]]))
        self._em, self._source, self._order = em, source, order

    def packed(self, index: int) -> ir.Operand:
        """The source register in whose lanes the eight rows of a chunk are."""
        return self._source.register(self._em, self._order[index])

    def _spread(self, index: int) -> ir.Operand:
        return rows_of(self._em, self.packed(index))


def rows_of(em: Writer, word: ir.Operand) -> ir.Operand:
    """The eight rows of a word, from the lanes that have them."""
    column = em.b.lshr(em.lane_id(), 3)
    lanes = [em.b.add(column, 2 * row) for row in range(CHUNK)]
    return em.pack(I32, [em.call(genisa.WAVE_SHUFFLE_INDEX, [word, lane, number(0)])
                         for lane in lanes])
