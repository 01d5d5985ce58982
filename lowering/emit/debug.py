"""Lower tl.device_print and tl.device_assert to records in a buffer that the launcher reads.

The buffer is the last parameter of kernels that report anything.  Its first two 32-bit words are
the number of records requested and the number that fit.  From byte 32 on each record has eight
words: site, program id (3), element, unused, value (64 bits, low word first).  A kernel continues
after a failed assertion, because Intel GPUs have no instruction to end a program.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.text.locations import source_of
from triton_xe.dialects.tt.structure import AssertOp, PrintOp
from triton_xe.intrinsics import opencl
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.helpers import call_lane, conditional
from triton_xe.lowering.emit.tensors.coordinates import positions
from triton_xe.lowering.emit.tensors.memory import owns_copy
from triton_xe.lowering.emit.tensors.registers import Registers
from triton_xe.lowering.emit.types import (
    I1,
    I8,
    I32,
    I64,
    POINTER,
    bits_of,
    element,
    is_pointer,
    number,
)
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.rewriting import all_of

REPORTING = (PrintOp, AssertOp)
RECORD_BYTES = 32


def uses_debug_buffer(module: Operation) -> bool:
    """True if kernels of this module report to the host."""
    return bool(all_of(module, *REPORTING))


def location_of(op: Operation) -> str:
    """The source location of an operation."""
    return str(source_of(op) or "")


def _site(em: Emitter, **site: Any) -> int:
    """Add the site of a print or assertion, with the information for the host; return its index.

    It is a JSON object with `what` ("print" or "assert"), `text`, `shape`, `type`, `signed`, `hex`,
    `operand` and `where`.  `shape` is None for a scalar, and `operand` if it is the only one.
    """
    em.state.debug_sites.append(site)
    return len(em.state.debug_sites) - 1


def record(em: Emitter, site: int, index: ir.Operand, bits: ir.Operand, active: ir.Operand) -> None:
    """Write a record in each lane for which `active` holds."""
    buffer = em.address(em.function.arguments[-1])
    pids = [_program_id(em, d) for d in range(3)]
    arguments = [buffer, number(site), *pids, index, bits, active]
    call_lane(em, "report", ir.VOID, arguments, _write_record)


def _write_record(w: Writer, buffer: ir.Operand, *words: ir.Operand) -> None:
    """Reserve a record in the buffer and, if there was room, fill it."""
    *fields, bits, active = words
    b = w.b

    def take(done: ir.Block) -> None:
        pointer = b.inttoptr(buffer, POINTER)
        slot = b.atomic("add", pointer, number(1), "device")
        count = b.load(I32, b.at(pointer, 4), align=4)
        write = b.append_block("write")
        b.branch_if(b.icmp("ult", slot, count), write, done)
        b.at_end(write)
        start = b.add(b.mul(b.zext(slot, I64), RECORD_BYTES), RECORD_BYTES)
        place = b.gep(I8, pointer, start)
        for index, field in enumerate(fields):
            b.store(field, b.at(place, 4 * index), align=4)
        b.store(bits, b.at(place, 24), align=8)

    conditional(w, active, take)


def _program_id(em: Emitter, dim: int) -> ir.Operand:
    wide = em.call(opencl.GROUP_ID, [number(dim)])
    return em.remember(("id", str(wide)), lambda: em.b.trunc(wide, I32))


def _as_i64(em: Emitter, value: ir.Operand) -> ir.Operand:
    """The bits of a scalar, extended by zeros."""
    if value.type.kind == "ptr":
        return em.address(value)
    if value.type.kind != "int":
        value = em.b.bitcast(value, ir.integer(bits_of(value.type)))
    return value if value.type == I64 else em.b.zext(value, I64)


def _reported_elements(
    em: Emitter, value: SSAValue
) -> list[tuple[ir.Operand, ir.Operand, ir.Operand]]:
    """(row-major index, value, whether this lane reports it) of every element of a lane.

    A scalar has index -1; every lane reports it.
    """
    held = em.get(value)
    if not isinstance(held, Registers):
        return [(number(-1), held, ir.constant(I1, 1))]
    view = em.view(value)
    once = owns_copy(em, view)
    active = ir.constant(I1, 1) if once is None else once
    return [
        (place, held.register(em, r), active) for r, place in enumerate(positions(em, view))
    ]


@lowers(PrintOp)
def lower_print(em: Emitter, op: PrintOp) -> None:
    prefix, as_hex = op.prefix.data, bool(op.hex.value.data)
    signed = [bool(v) for v in op.is_signed.get_values()]
    if not op.arguments:
        site = _site(em, what="print", text=prefix, type="none", where=location_of(op))
        record(em, site, number(-1), ir.constant(I64, 0), ir.constant(I1, 1))
    for place, value in enumerate(op.arguments):
        kind = element(value.type)
        site = _site(em,
            what="print", text=prefix, where=location_of(op), hex=as_hex, signed=signed[place],
            type="ptr" if is_pointer(kind) else str(kind),
            shape=list(value.type.get_shape()) if isinstance(value.type, TensorType) else None,
            operand=place if len(op.arguments) > 1 else None,
        )
        for index, held, active in _reported_elements(em, value):
            record(em, site, index, _as_i64(em, held), active)


@lowers(AssertOp)
def lower_assert(em: Emitter, op: AssertOp) -> None:
    kind = op.condition.type
    shape = list(kind.get_shape()) if isinstance(kind, TensorType) else None
    site = _site(em,
        what="assert", text=op.message.data, shape=shape, where=location_of(op)
    )
    for index, held, active in _reported_elements(em, op.condition):
        if held.type != I1:
            held = em.b.icmp("ne", held, 0)
        record(em, site, index, ir.constant(I64, 0), em.b.and_(active, em.b.not_(held)))
