"""Convert bytes to fp16, two per lane and instruction.

A vector of 16-bit elements occupies whole registers, in which one instruction works on two elements
of each lane.  Intel's compiler uses one instruction per element.  The conversions are therefore
functions of the module.  Their body in LLVM IR is the definition, and runs on the simulator.
`triton_xe.lowering.spirv.halves_visa` replaces it by equivalent vISA for the hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import TensorType, VectorType

from triton_xe import llvm as ir
from triton_xe.dialects.layouts import encoding_of
from triton_xe.layout import DotOperandEncoding
from triton_xe.lowering.emit.helpers import call_internal
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.tensors.registers import concatenated
from triton_xe.lowering.emit.types import HALF, I8, I32, bits_of, shaped, vector_of
from triton_xe.lowering.emit.values import instruction_of
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


def _places(em: Writer, value: ir.Operand) -> list[tuple[ir.Operand, int]]:
    """(sixteen bytes, first of the eight) for each eight elements of a vector of bytes."""
    kind = value.type
    if kind == vector_of(I8, AT_ONCE):
        return [(value, 0), (value, 8)]
    if kind != vector_of(I8, 8):
        return []
    picked = instruction_of(value, "shufflevector")
    first = None if picked is None else _slice(picked)
    if picked is None or first is None or first % 8:
        return [(value, 0)]
    start = first - first % AT_ONCE
    whole = _sliced(em, picked.operands[0], start, AT_ONCE)
    return [(value, 0)] if whole is None else [(whole, first - start)]


def _slice(shuffle: ir.Instruction) -> int | None:
    """The first of consecutive elements that a shuffle picks of its first operand."""
    first, count = shuffle.indices[0], len(shuffle.indices)
    is_slice = shuffle.indices == tuple(range(first, first + count))
    return first if is_slice and first + count <= shuffle.operands[0].type.count else None


def _sliced(em: Writer, vector: ir.Operand, first: int, count: int) -> ir.Operand | None:
    """`count` elements of a vector, written once; None if it has fewer."""
    if count == vector.type.lanes:
        return None if first else vector
    return None if first + count > vector.type.lanes else em.remember(
        (vector, "slice", first, count),
        lambda: em.shuffle(vector, vector, range(first, first + count)))


def _dwords(em: Writer, whole: ir.Operand) -> ir.Operand | None:
    """Sixteen bytes as the four dwords that they are cast from; None if they are not."""
    value, start = whole, 0
    while (made := instruction_of(value, "bitcast", "shufflevector")) is not None:
        if made.opcode == "shufflevector":
            first = _slice(made)
            if first is None:
                return None
            start += first * bits_of(value.type.scalar) // 8
        value = made.operands[0]
    if value.type.scalar is not I32 or start % AT_ONCE:
        return None
    return _sliced(em, value, start // 4, AT_ONCE // 4)


def _call_conversion(
    em: Writer, name: str, plain: Callable[[Term], Term], whole: ir.Operand, first: int, pairs: bool
) -> ir.Operand:
    """Call the function that converts eight bytes from element `first` on, by `plain`."""
    result = vector_of(I32, 4) if pairs else vector_of(HALF, 8)
    source, arguments = _arguments(em, whole, pairs)
    symbol = f"{name}.{'pairs' if pairs else 'rows'}_of_{source}.{first}"

    def body(inner: Writer, *args: ir.Operand) -> ir.Operand:
        given = args[0] if len(args) == 1 else inner.pack(I32, args)
        if source != "bytes":
            given = inner.b.bitcast(given, whole.type)
        eight = given if given.type.count == 8 else inner.shuffle(
            given, given, list(range(first, first + 8)))
        made = plain(Term(inner, eight)).value
        return inner.b.bitcast(made, result) if pairs else made

    return call_internal(em, HALVES + symbol, result, arguments, body)


def _arguments(em: Writer, whole: ir.Operand, pairs: bool) -> tuple[str, list[ir.Operand]]:
    """Form of the operand and its values: consecutive bytes, four dwords, or two."""
    if whole.type.count == 8:
        words = em.b.bitcast(whole, vector_of(I32, 2))
        return "words", [em.b.extract(words, i) for i in range(2)]
    dwords = _dwords(em, whole) if pairs else None
    return ("bytes", [whole]) if dwords is None else ("dwords", [dwords])
