"""Lower tl.device_print and tl.device_assert to records in a buffer that the launcher reads.

The buffer is the last parameter of kernels that report anything.  Its first two 32-bit words are
the number of records requested and the number that fit.  From byte 32 on each record has eight
words: site, program id (3), element, unused, value (64 bits, low word first).  A kernel continues
after a failed assertion, because Intel GPUs have no instruction to end a program.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from triton_xe.dialects.text.locations import source_of
from triton_xe.dialects.tt.structure import AssertOp, PrintOp
from triton_xe.intrinsics import opencl
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.helpers import call_lane, conditional
from triton_xe.lowering.emit.instructions import atomic_rmw
from triton_xe.lowering.emit.tensors.coordinates import positions
from triton_xe.lowering.emit.tensors.memory import owns_copy
from triton_xe.lowering.emit.tensors.registers import Registers
from triton_xe.lowering.emit.types import I1, I8, I32, I64, POINTER, bits_of, element, is_pointer
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


def record(em: Emitter, site: int, index: ir.Value, bits: ir.Value, active: ir.Value) -> None:
    """Write a record in each lane for which `active` holds."""
    buffer = em.address(em.function.args[-1])
    pids = [_program_id(em, d) for d in range(3)]
    arguments = [buffer, I32(site), *pids, index, bits, active]
    call_lane(em, "report", ir.VoidType(), arguments, _write_record)


def _write_record(w: Writer, buffer: ir.Value, *words: ir.Value) -> None:
    """Reserve a record in the buffer and, if there was room, fill it."""
    *fields, bits, active = words
    b = w.b

    def advanced(base: ir.Value, offset: ir.Value) -> ir.Value:
        return b.gep(base, [offset], source_etype=I8)

    def take(done: ir.Block) -> None:
        pointer = b.inttoptr(buffer, POINTER)
        slot = atomic_rmw(b, "add", pointer, I32(1), "device")
        count = b.load(advanced(pointer, I64(4)), typ=I32)
        count.align = 4
        write = b.append_basic_block("write")
        b.cbranch(b.icmp_unsigned("<", slot, count), write, done)
        b.position_at_end(write)
        start = b.add(b.mul(b.zext(slot, I64), I64(RECORD_BYTES)), I64(RECORD_BYTES))
        place = advanced(pointer, start)
        for number, field in enumerate(fields):
            b.store(field, advanced(place, I64(4 * number)) if number else place).align = 4
        b.store(bits, advanced(place, I64(24))).align = 8

    conditional(w, active, take)


def _program_id(em: Emitter, dim: int) -> ir.Value:
    wide = em.call(opencl.GROUP_ID, [I32(dim)])
    return em.remember(("id", str(wide)), lambda: em.b.trunc(wide, I32))


def _as_i64(em: Emitter, value: ir.Value) -> ir.Value:
    """The bits of a scalar, extended by zeros."""
    if isinstance(value.type, ir.PointerType):
        return em.address(value)
    if not isinstance(value.type, ir.IntType):
        value = em.b.bitcast(value, ir.IntType(bits_of(value.type)))
    return value if value.type == I64 else em.b.zext(value, I64)


def _reported_elements(em: Emitter, value: SSAValue) -> list[tuple[ir.Value, ir.Value, ir.Value]]:
    """(row-major index, value, whether this lane reports it) of every element of a lane.

    A scalar has index -1; every lane reports it.
    """
    held = em.get(value)
    if not isinstance(held, Registers):
        return [(I32(-1), held, I1(1))]
    view = em.view(value)
    once = owns_copy(em, view)
    active = I1(1) if once is None else once
    return [
        (place, held.register(em, r), active) for r, place in enumerate(positions(em, view))
    ]


@lowers(PrintOp)
def lower_print(em: Emitter, op: PrintOp) -> None:
    prefix, as_hex = op.prefix.data, bool(op.hex.value.data)
    signed = [bool(v) for v in op.is_signed.get_values()]
    if not op.arguments:
        site = _site(em, what="print", text=prefix, type="none", where=location_of(op))
        record(em, site, I32(-1), I64(0), I1(1))
    for number, value in enumerate(op.arguments):
        kind = element(value.type)
        site = _site(em,
            what="print", text=prefix, where=location_of(op), hex=as_hex, signed=signed[number],
            type="ptr" if is_pointer(kind) else str(kind),
            shape=list(value.type.get_shape()) if isinstance(value.type, TensorType) else None,
            operand=number if len(op.arguments) > 1 else None,
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
            held = em.b.icmp_unsigned("!=", held, ir.Constant(held.type, 0))
        record(em, site, index, I64(0), em.b.and_(active, em.b.not_(held)))
