"""What of device memory was written: maps with a byte for each byte, 0xff where nothing has been.

torch's allocator makes a map for each fresh block, and its operators and the stores of checked
launches mark what they write.  A load of bytes that were never written is followed like one that is
masked off (`definedness`): its *shadow* is what the same load finds in the map.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_xe.runtime.simulator.ir import I1, I8, I32, I64
from triton_xe.runtime.simulator.ir.values import Memory, Term, Value
from triton_xe.runtime.simulator.sanitizer import state as s
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import Entry, Kind

NOWHERE = -1000000
"""A row above every surface."""


def mark(w: Checks, ctx: Value, block: Value, address: Value, size: Value) -> None:
    """A range of bytes has been written."""
    moved = address + Memory(w, block)[Entry.UNWRITTEN]
    w.fill(moved.pointer(), 0, size)


def fresh(w: Checks, ctx: Value, block: Value, address: Value, size: Value) -> Value:
    """Whether any of a range of bytes was never written."""
    start = address + Memory(w, block)[Entry.UNWRITTEN]
    found = w.variable(0, I1)
    with w.range(start, start + size) as k:
        found.value |= w.load(I8, k.pointer()) != 0
    return found.value


def note_lanes(
    w: Checks, ctx: Value, block: Value, addresses: Value, mask: Value, size: Value, kind: Value
) -> Value:
    """Mark what the lanes of a good access write; false if they need what was never written."""
    result, memory = w.variable(1, I1), Memory(w, addresses)
    with w.when(w.flag(Kind.NEEDS)), w.chain(mask) as (rest, slot):
        slot.value = rest & rest - 1
        result.value &= ~w.call(s.FRESH, ctx, block, memory[rest.lowest()], size)
    with w.chain(w.select(result.value & w.flag(Kind.WRITE), mask, 0)) as (rest, slot):
        slot.value = rest & rest - 1
        w.call(s.MARK, ctx, block, memory[rest.lowest()], size)
    return result.value


def clipped(w: Checks, first: Value, count: Value, limit: Value) -> tuple[Value, Value]:
    """The part of a range that is inside of what begins at 0."""
    end = first + count
    return (w.select(first.compare("sgt", 0), first, 0),
            w.select(end.compare("slt", limit), end, limit))


def surface_part(
    w: Checks, width: Value, height: Value, place: Sequence[Value], shape: Sequence[Value]
) -> tuple[Value, Value, Value, Value, Value]:
    """The bytes of a row, and the rows, of a 2D block that are in its surface; if any are."""
    x0, x1 = clipped(w, place[0], shape[0], width)
    y0, y1 = clipped(w, place[1], shape[1], height)
    return x0, x1, y0, y1, x0.compare("slt", x1) & y0.compare("slt", y1)


def surface_y(
    w: Checks, ctx: Value, row: Value, base: Value, w1: Value, h1: Value, p1: Value, x: Value,
    y: Value, row_bytes: Value, rows: Value,
) -> Value:
    """The row at which a 2D block may be read from the map: `y` where all of it is in the block."""
    width, height, pitch = (n.to(I64) + 1 for n in (w1, h1, p1))
    x0, x1, y0, y1, _ = surface_part(w, width, height, (x.signed(I64), y.signed(I64)),
                                     (row_bytes, rows))
    block = w.block(row)
    inside = (base + y0 * pitch + x0 >= block[Entry.LOW]) & (
        base + (y1 - 1) * pitch + x1 <= block[Entry.HIGH])
    nowhere: Term = w.term(NOWHERE, I32)
    return w.select(inside, y, nowhere)
