"""Coordinates and row-major positions of the elements of a tensor, per register."""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.lowering.emit.emitter import Emitter, disjoint
from triton_xe.lowering.emit.tensors.registers import NSW, Registers
from triton_xe.lowering.emit.types import I32, number, numbers
from triton_xe.lowering.facts.view import Coordinates, View


def coordinate(em: Emitter, view: View, dim: int) -> Registers:
    """The coordinate `dim` of every element, as i32 registers."""
    parts = [c[dim] for c in view.registers]
    apart = disjoint(view, dim)
    thread = em.thread_part(view, dim)
    count = len(parts)
    if count == 1 and parts[0] == 0 and thread is not None:
        return Registers(1, I32, lambda _: thread)

    def make(i: int) -> ir.Operand:
        width = min(count, 8)
        mine = parts[i * width : (i + 1) * width]
        fixed = numbers(tuple(mine))
        if thread is None:
            return fixed
        base = em.splat(thread, width)
        if not any(mine):
            return base
        return em.b.binary("add", base, fixed, NSW) if apart else em.b.xor(base, fixed)

    return Registers(count, I32, make)


def positions(em: Emitter, view: View) -> list[ir.Operand]:
    """The row-major position of each register's element."""
    held = [coordinate(em, view, d) for d in range(len(view.shape))]
    out = []
    for register in range(len(view.registers)):
        place: ir.Operand | None = None
        for dim, size in enumerate(view.shape):
            at = held[dim].register(em, register)
            place = at if place is None else em.b.add(em.b.mul(place, size), at)
        out.append(number(0) if place is None else place)
    return out


def flatten_index(c: Coordinates, shape: Coordinates) -> int:
    """Row-major position of coordinates."""
    total = 0
    for x, size in zip(c, shape, strict=True):
        total = total * size + x
    return total


def unflatten(position: int, shape: Coordinates) -> Coordinates:
    """Coordinates of a row-major position."""
    out = []
    for size in reversed(shape):
        out.append(position % size)
        position //= size
    return tuple(reversed(out))
