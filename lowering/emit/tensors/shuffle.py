"""Move values between the lanes of a subgroup."""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.intrinsics import genisa, opencl
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I8,
    I16,
    I32,
    I64,
    TWO_HALVES,
    bits_of,
    number,
)
from triton_xe.lowering.emit.writer import Writer

_MOST_LANES_OF_XOR = 16


def _pieces(em: Writer, value: ir.Operand) -> list[ir.Operand]:
    """Split a scalar into pieces of 16 or 32 bits, low one first.

    16 bits are not extended: IGC 2.40 crashes on reductions by shuffles of such integers.
    """
    bits = bits_of(value.type)
    if bits == 64:
        wide = em.b.bitcast(value, I64) if value.type == DOUBLE else value
        return [em.b.trunc(wide, I32), em.b.trunc(em.b.lshr(wide, 32), I32)]
    if value.type in (FLOAT, TWO_HALVES):
        return [em.b.bitcast(value, I32)]
    if value.type is HALF:
        return [em.b.bitcast(value, I16)]
    return [value if bits in (16, 32) else em.b.zext(value, I32)]


def _whole(em: Writer, pieces: list[ir.Operand], kind: ir.Type) -> ir.Operand:
    """The inverse of `_pieces`."""
    if len(pieces) == 2:
        high = em.b.shl(em.b.zext(pieces[1], I64), 32)
        wide = em.b.or_(em.b.zext(pieces[0], I64), high)
        return em.b.bitcast(wide, kind) if kind == DOUBLE else wide
    if kind in (FLOAT, HALF, TWO_HALVES):
        return em.b.bitcast(pieces[0], kind)
    return pieces[0] if bits_of(kind) in (16, 32) else em.b.trunc(pieces[0], kind)


def shuffle_xor(em: Writer, value: ir.Operand, mask: int, *, apart: bool = False) -> ir.Operand:
    """The value of lane (own lane ^ mask).

    For 32 lanes and a mask of 16 and more IGC 2.40 emits nothing for `simdShuffleXor`: the result
    is a register that nothing wrote.  With `apart`, IGC does not recognize a step of a reduction of
    32-bit integers.  Where two with different operations follow each other, it crashes, or computes
    other numbers.
    """
    if apart and value.type == I32:
        return em.b.bitcast(shuffle_xor(em, em.b.bitcast(value, FLOAT), mask, apart=True), I32)
    if mask >= _MOST_LANES_OF_XOR:
        return shuffle_index(em, value, em.b.xor(em.lane_id(), mask))
    pieces = [value] if apart and value.type == FLOAT else _pieces(em, value)
    moved = [em.call(genisa.SIMD_SHUFFLE_XOR, [p, number(mask)]) for p in pieces]
    return moved[0] if pieces[0] is value else _whole(em, moved, value.type)


def shuffle_index(em: Writer, value: ir.Operand, lane: ir.Operand) -> ir.Operand:
    """The value of the given lane.

    For a known lane, Intel's compiler reads a `sub_group_broadcast` at its use; for the general
    instruction it leaves a dead move.
    """
    if lane.is_constant:
        if value.type is I8:
            return em.call(opencl.BROADCAST, [value, lane])
        moved = [em.call(opencl.BROADCAST, [p, lane]) for p in _pieces(em, value)]
    else:
        moved = [em.call(genisa.WAVE_SHUFFLE_INDEX, [p, lane, number(0)])
                 for p in _pieces(em, value)]
    return _whole(em, moved, value.type)


def shuffle_in_runs(em: Writer, value: ir.Operand, size: int, lane: int) -> ir.Operand:
    """The value of one lane of each run of `size` lanes."""
    if size == em.state.lanes:
        return shuffle_index(em, value, number(lane))
    extra = [number(size), number(lane), number(0)]
    moved = [em.call(genisa.WAVE_CLUSTERED_BROADCAST, [p, *extra]) for p in _pieces(em, value)]
    return _whole(em, moved, value.type)


def uniform(em: Writer, value: ir.Operand) -> ir.Operand:
    """Broadcast lane 0, so that Intel's compiler knows that all lanes have an equal value."""
    return shuffle_index(em, value, number(0))
