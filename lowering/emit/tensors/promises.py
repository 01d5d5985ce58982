"""Test the program's promises in the kernel itself, for the simulator's checks.

A load or store of several registers of a lane uses the address and mask of the first, because the
others follow from it.  That is proved, or stated by the program (`tl.max_contiguous`).  The
alignment of the address may be promised too (`tl.multiple_of`).  A report names the source line of
the value that the promise is about.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.tensors.registers import Registers
from triton_xe.lowering.emit.types import I64
from triton_xe.lowering.facts.analysis import HINTS
from triton_xe.spirv import PROMISE_NODE


def where_kept(
    em: Emitter, op: LoadOp | StoreOp, value: ir.Operand, start: int, size: int, align: int,
    pointers: Registers, conditions: Registers | None,
) -> ir.Operand:
    """The value of an access, undefined in registers for which a promise is broken.

    Addresses and masks must follow from those of register `start`, for elements of `size` bytes.
    The first address must be a multiple of `align`.
    """
    outer = em.b.enter_location(_stated_in(op.ptr, op.mask) or op)
    kind = value.type
    assert kind.kind == "vec"
    first = em.address(pointers.register(em, start))
    mask = None if conditions is None else conditions.register(em, start)
    wanted = [em.b.add(first, k * size) for k in range(kind.count)]
    found = [_wanted_address(em, start + k, want, mask, pointers, conditions)
             for k, want in enumerate(wanted)]
    rest = em.b.and_(first, align - 1)
    rest = rest if mask is None else em.b.select(mask, rest, 0)
    found[0] = em.b.add(found[0], rest)
    kept = em.b.icmp("eq", em.pack(I64, found), em.pack(I64, wanted))
    em.b.mark_fitting(kept, PROMISE_NODE)
    value = em.b.select(kept, value, value)
    em.b.location = outer
    return value


def _stated_in(*values: SSAValue | None) -> Operation | None:
    """The nearest operation that the values are computed from, and the program states a fact of."""
    known, todo = set[SSAValue](), [v for v in values if v is not None]
    for value in todo:
        op = value.owner
        if isinstance(op, Operation) and value not in known:
            known.add(value)
            if not op.attributes.keys().isdisjoint(HINTS):
                return op
            todo += op.operands
    return None


def _wanted_address(
    em: Emitter, register: int, want: ir.Operand, mask: ir.Operand | None, pointers: Registers,
    conditions: Registers | None,
) -> ir.Operand:
    """The address of a register; as wanted where it is masked off, none where its mask differs."""
    address = em.address(pointers.register(em, register))
    if mask is None or conditions is None:
        return address
    own = conditions.register(em, register)
    address = em.b.select(own, address, want)
    return em.b.select(em.b.xor(own, mask), em.b.add(want, 1), address)
