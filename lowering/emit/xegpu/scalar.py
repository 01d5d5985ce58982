"""Lowering of XeGPU's accesses to single values: all lanes read one, the first lane writes it."""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.dialects.xegpu.scalar import LoadScalarOp, StoreScalarOp
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.lane_access import load, store
from triton_xe.lowering.emit.types import I64, bits_of, scalar_type
from triton_xe.lowering.emit.xegpu.blocks import scaled


def _address(em: Emitter, op: LoadScalarOp | StoreScalarOp, bits: int) -> ir.Operand:
    offset = em.scalar(op.offset)
    offset = offset if bits_of(offset.type) == 64 else em.b.sext(offset, I64)
    return em.b.add(em.address(em.get(op.base)), scaled(em, offset, bits))


@lowers(LoadScalarOp)
def lower_load_scalar(em: Emitter, op: LoadScalarOp) -> None:
    kind = scalar_type(op.value.type)
    bits = bits_of(kind)
    em.bind(op.value, load(
        em, _address(em, op, bits), kind, em.scalar(op.mask), em.scalar(op.other), bits // 8))


@lowers(StoreScalarOp)
def lower_store_scalar(em: Emitter, op: StoreScalarOp) -> None:
    value = em.scalar(op.value)
    bits = bits_of(value.type)
    first = em.b.icmp("eq", em.lane_id(), 0)
    store(em, _address(em, op, bits), value, em.b.and_(em.scalar(op.mask), first), bits // 8)
