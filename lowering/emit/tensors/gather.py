"""Lowering of tl.gather: the source goes to shared local memory, elements are read by index."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from triton_xe import llvm as ir
from triton_xe.dialects.tt.ops import GatherOp
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.tensors.coordinates import coordinate, positions
from triton_xe.lowering.emit.tensors.exchange import through_slm
from triton_xe.lowering.emit.tensors.registers import Splat, from_scalars
from triton_xe.lowering.emit.types import I32, number
from triton_xe.lowering.facts.values import shape_of
from triton_xe.spirv import INSIDE_NODE


def _tested(em: Emitter, index: ir.Operand, size: int) -> tuple[ir.Operand, ir.Operand | None]:
    """Clamp an index to the range for the checks; also return a flag, true if it was inside."""
    if not em.state.tests_promises:
        return index, None
    limit = ir.constant(index.type, size)
    near = em.b.select(em.b.icmp("ult", index, limit), index, 0)
    inside = em.b.icmp("ult", index, limit)
    em.b.mark_fitting(inside, INSIDE_NODE)
    return near, inside


@lowers(GatherOp)
def lower_gather(em: Emitter, op: GatherOp) -> None:
    """result[i, j] = source[index[i, j], j] along axis 0, and so on."""
    axis = int(op.axis.value.data)
    source, indices = em.registers(op.src), em.registers(op.indices)
    if isinstance(source, Splat):
        em.bind(op.result, Splat(len(em.view(op.result).registers), source.scalar))
        return
    shape = shape_of(op.src)

    def writes() -> Iterator[tuple[ir.Operand, list[ir.Operand]]]:
        for register, at in enumerate(positions(em, em.view(op.src))):
            yield at, [source.register(em, register)]

    read = through_slm(em, [source.kind], prod(shape), writes())
    view = em.view(op.indices)
    held = [coordinate(em, view, d) for d in range(len(shape))]
    out = []
    for register in range(len(view.registers)):
        index = Term(em, indices.register(em, register))
        index = index if index.width > I32.bits else index.resized(I32)
        near, inside = _tested(em, index.value, shape[axis])
        at = [
            Term(em, near).resized(I32).value if d == axis
            else held[d].register(em, register) for d in range(len(shape))
        ]
        wanted: ir.Operand = number(0)
        for coord, size in zip(at, shape, strict=True):
            wanted = em.b.add(em.b.mul(wanted, size), coord)
        values = read(wanted)
        out += [em.b.select(inside, v, v) for v in values] if inside is not None else values
    em.bind(op.result, from_scalars(em, source.kind, out))
