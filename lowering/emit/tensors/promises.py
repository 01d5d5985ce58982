"""Test the program's promises in the kernel itself, for the simulator's checks.

A load or store of several registers of a lane uses the address and mask of the first, because the
others follow from it: by proof, or by the program's promise (`tl.max_contiguous`).
"""

from __future__ import annotations

from llvmlite import ir

from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.tensors.registers import Registers
from triton_xe.lowering.emit.types import I64
from triton_xe.spirv import PROMISE_NODE


def where_kept(
    em: Emitter, value: ir.Value, start: int, size: int, pointers: Registers,
    conditions: Registers | None,
) -> ir.Value:
    """The value of an access to the registers from `start` on, undefined where a register has
    another address, or another mask, than follows from the first one's; elements have `size` bytes.
    """
    kind = value.type
    assert isinstance(kind, ir.VectorType)
    first = em.address(pointers.register(em, start))
    mask = None if conditions is None else conditions.register(em, start)
    wanted = [em.b.add(first, I64(k * size)) for k in range(kind.count)]
    found = [_found(em, start + k, want, mask, pointers, conditions)
             for k, want in enumerate(wanted)]
    pair = (em.pack(I64, each) for each in (found, wanted))
    kept = em.b.icmp_unsigned("==", *pair)
    em.b.mark_fitting(kept, PROMISE_NODE)
    return em.b.select(kept, value, value)


def _found(
    em: Emitter, register: int, want: ir.Value, mask: ir.Value | None, pointers: Registers,
    conditions: Registers | None,
) -> ir.Value:
    """The address of a register; as wanted where it is masked off, none where its mask differs."""
    address = em.address(pointers.register(em, register))
    if mask is None or conditions is None:
        return address
    own = conditions.register(em, register)
    address = em.b.select(own, address, want)
    return em.b.select(em.b.xor(own, mask), em.b.add(want, I64(1)), address)
