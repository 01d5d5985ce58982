"""Lowering of tl.histogram: counters in shared local memory, one atomic addition per element."""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.dialects.tt.ops import HistogramOp
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.helpers import call_lane, conditional
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.tensors.coordinates import positions
from triton_xe.lowering.emit.tensors.exchange import Exchange
from triton_xe.lowering.emit.tensors.memory import owns_copy
from triton_xe.lowering.emit.tensors.registers import from_scalars
from triton_xe.lowering.emit.types import I32, bits_of, number, scalar_type
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.facts.values import shape_of


def _count(w: Writer, counter: ir.Operand, active: ir.Operand) -> None:
    conditional(w, active, lambda _: w.b.atomic("add", counter, number(1), "workgroup"))


@lowers(HistogramOp)
def lower_histogram(em: Emitter, op: HistogramOp) -> None:
    """Count by atomic additions; elements outside the bins are not counted."""
    (bins,) = shape_of(op.result)
    exchange = Exchange(em, 4 * bins)
    into = em.view(op.result)
    for place in positions(em, into):
        exchange.write(place, number(0))
    exchange.wait_for_writes()
    view, source = em.view(op.src), em.registers(op.src)
    mask = None if op.mask is None else em.registers(op.mask)
    once = owns_copy(em, view)
    for register in range(len(view.registers)):
        value = source.register(em, register)
        counted = em.b.icmp("ult", value, bins) if (
            bits_of(value.type) > 8 or bins < 256) else em.b.icmp("eq", value, value)
        for condition in (None if mask is None else mask.register(em, register), once):
            if condition is not None:
                counted = em.b.and_(counted, condition)
        pointer = exchange.pointer(Term(em, value).resized(I32).value, 4)
        call_lane(em, "count", ir.VOID, [pointer, counted], _count)
    exchange.wait_for_writes()
    kind = scalar_type(op.result.type)
    counts = [exchange.read(place, I32) for place in positions(em, into)]
    counts = [Term(em, c).resized(kind).value for c in counts]
    em.bind(op.result, from_scalars(em, kind, counts))
