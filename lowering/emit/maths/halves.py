"""Convert bytes to fp16, two per lane and instruction.

A vector of 16-bit elements occupies whole registers, in which one instruction works on two elements
of each lane.  Intel's compiler uses one instruction per element.  The conversions are therefore
functions of the module.  Their body in LLVM IR is the definition, and runs on the simulator.
`triton_xe.lowering.spirv.halves_visa` replaces it by equivalent vISA for the hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import TensorType, VectorType

from triton_xe.dialects.layouts import encoding_of
from triton_xe.layout import DotOperandEncoding
from triton_xe.lowering.emit.helpers import call_internal
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.tensors.registers import concatenated
from triton_xe.lowering.emit.types import HALF, I8, I32, bits_of, scalar_of, shaped, vector_of
from triton_xe.lowering.emit.writer import ModuleState, Writer
from triton_xe.spirv import HALVES

AT_ONCE = 16
"""Bytes that a function receives, of which it converts eight."""


def in_pairs(kind: Any) -> bool:
    """True if neighbouring elements share a dword in the uses of a type."""
    if isinstance(kind, VectorType):
        return kind.get_num_dims() > 1 and kind.get_shape()[-1] == 2
    held = encoding_of(kind) if isinstance(kind, TensorType) else None
    return isinstance(held, DotOperandEncoding) and held.op_idx == 1


def suits(state: ModuleState) -> bool:
    """True if a module can use the functions: subgroups of 16 lanes, and registers of 64 bytes."""
    return state.lanes == 16 and state.target.grf_bytes == 64


def from_bytes(
    name: str, x: Term, plain: Callable[[Term], Term], *, pairs: bool
) -> Term | None:
    """`plain(x)`, fp16 of bytes, by the functions of a name; None if they do not fit.

    `pairs` is the result of `in_pairs`.
    """
    em = x.em
    places = _places(em, x.value) if suits(em.state) else []
    if not places:
        return None
    made = concatenated(em, [_call_conversion(em, name, plain, *place, pairs) for place in places])
    return x.with_value(em.b.bitcast(made, shaped(x.value.type, HALF)) if pairs else made)


def _places(em: Writer, value: ir.Value) -> list[tuple[ir.Value, int]]:
    """(sixteen bytes, first of the eight) for each eight elements of a vector of bytes."""
    kind = value.type
    if kind == vector_of(I8, AT_ONCE):
        return [(value, 0), (value, 8)]
    if kind != vector_of(I8, 8):
        return []
    if isinstance(value, ir.ShuffleVector):
        whole, first = value.operands[0], _slice(value)
        if whole.type == vector_of(I8, AT_ONCE) and first in (0, 8):
            return [(whole, first)]
    found = _in_memory(value)
    if found is None or found[1] % 8:
        return [(value, 0)]
    start = found[1] - found[1] % AT_ONCE
    whole = _read(em, found[0], start, vector_of(I8, AT_ONCE))
    return [(value, 0)] if whole is None else [(whole, found[1] - start)]


def _slice(value: ir.ShuffleVector) -> int | None:
    """The first of consecutive elements that a shuffle picks."""
    picked = [one.constant for one in value.operands[2].constant]
    return picked[0] if picked == list(range(picked[0], picked[0] + len(picked))) else None


def _in_memory(value: ir.Value) -> tuple[ir.AllocaInstr, int] | None:
    """The private memory that a value is loaded from, and the byte offset."""
    if not isinstance(value, ir.LoadInstr):
        return None
    pointer, first = value.operands[0], 0
    if isinstance(pointer, ir.GEPInstr) and pointer.source_etype == I8:
        pointer, index = pointer.operands
        first = index.constant if isinstance(index, ir.Constant) else -1
    return (pointer, first) if isinstance(pointer, ir.AllocaInstr) and first >= 0 else None


def _read(em: Writer, memory: ir.AllocaInstr, start: int, kind: ir.VectorType) -> ir.Value | None:
    """Sixteen bytes of private memory, read once; None where it ends before."""
    held = memory.allocated_type
    if 8 * (start + AT_ONCE) > bits_of(scalar_of(held)) * getattr(held, "count", 1):
        return None

    def load() -> ir.Value:
        at = em.b.gep(memory, [I32(start)], source_etype=I8) if start else memory
        whole = em.b.load(at, typ=kind)
        whole.align = AT_ONCE
        return whole

    made: ir.Value = em.remember(("sixteen", memory, start, str(kind)), load)
    return made


def _dwords(em: Writer, whole: ir.Value) -> ir.Value | None:
    """Sixteen bytes as the four dwords that they are cast from; None if they are not."""
    value, start = whole, 0
    while isinstance(value, ir.CastInstr | ir.ShuffleVector):
        if isinstance(value, ir.ShuffleVector):
            first = _slice(value)
            if first is None:
                return None
            start += first * bits_of(scalar_of(value.type)) // 8
        elif value.opname != "bitcast":
            return None
        value = value.operands[0]
    if scalar_of(value.type) != I32 or start % AT_ONCE:
        return None
    if value.type == vector_of(I32, 4):
        return value
    found = _in_memory(value)
    return None if found is None else _read(em, found[0], found[1] + start, vector_of(I32, 4))


def _call_conversion(
    em: Writer, name: str, plain: Callable[[Term], Term], whole: ir.Value, first: int, pairs: bool
) -> ir.Value:
    """Call the function that converts eight bytes from element `first` on, by `plain`."""
    result = vector_of(I32, 4) if pairs else vector_of(HALF, 8)
    source, arguments = _arguments(em, whole, pairs)
    symbol = f"{name}.{'pairs' if pairs else 'rows'}_of_{source}.{first}"

    def body(inner: Writer, *args: ir.Value) -> ir.Value:
        given = args[0] if len(args) == 1 else inner.pack(I32, args)
        if source != "bytes":
            given = inner.b.bitcast(given, whole.type)
        eight = given if given.type.count == 8 else inner.shuffle(
            given, given, list(range(first, first + 8)))
        made = plain(Term(inner, eight)).value
        return inner.b.bitcast(made, result) if pairs else made

    return call_internal(em, HALVES + symbol, result, arguments, body)


def _arguments(em: Writer, whole: ir.Value, pairs: bool) -> tuple[str, list[ir.Value]]:
    """Form of the operand and its values: consecutive bytes, four dwords, or two."""
    if whole.type.count == 8:
        words = em.b.bitcast(whole, vector_of(I32, 2))
        return "words", [em.b.extract_element(words, I32(i)) for i in range(2)]
    dwords = _dwords(em, whole) if pairs else None
    return ("bytes", [whole]) if dwords is None else ("dwords", [dwords])
