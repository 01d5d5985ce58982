"""Lowering of tt.dot on tensors: by fused multiply-adds, and by DPAS for batches of matrices.

By FMA, in the order of K: operands have the layout `#ttg.dot_op` of a blocked result.  Thus every
lane has all of K for its rows and columns, and nothing moves between lanes.  K is the outer loop:
operands that come from shared local memory are then read a few at a time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from xdsl.dialects.builtin import IntegerType, TensorType, f32, f64
from xdsl.ir import SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects import xe
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.dpas import SYSTOLIC_DEPTH, Dpas
from triton_xe.intrinsics import genisa, llvm
from triton_xe.layout import DpasEncoding
from triton_xe.lowering.emit.arithmetic import elementwise
from triton_xe.lowering.emit.emitter import Emitter, encoding_of, lowers
from triton_xe.lowering.emit.maths.conversions import convert, narrowed, widened
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.maths.wide import in_pairs_of_registers
from triton_xe.lowering.emit.tensors.registers import Registers, eager, join, mapped
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    bits_of,
    element,
    is_bf16,
    number,
    scalar_type,
    shaped,
)
from triton_xe.lowering.emit.xegpu.vectors import packed
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.layouts.dpas_choice import instruction_of


@lowers(DotOp)
def lower_dot(em: Emitter, op: DotOp) -> None:
    if isinstance(encoding_of(op.d.type), DpasEncoding):
        _by_dpas(em, op)
        return
    a, b, c = (em.registers(v) for v in (op.a, op.b, op.c))
    a_view, b_view, view = (em.view(v) for v in (op.a, op.b, op.d))
    depth, kind = shape_of(op.a)[-1], scalar_type(op.d.type)
    if any(x != (*y[:-1], 0) for x, y in zip(a_view.lanes, view.lanes, strict=True)):
        raise UnsupportedError("a dot whose first operand is spread over lanes along K")
    wide = _wide(em, op, op.a, a), _wide(em, op, op.b, b)
    a_index, b_index = a_view.index, b_view.index
    width = min(len(view.registers), 8)
    starts = range(0, len(view.registers), width)
    totals = [_start(em, op, c, start, width) for start in starts]
    for k in range(depth):
        for i, start in enumerate(starts):
            some = view.registers[start : start + width]
            left = join(em, wide[0], [a_index[(*r[:-1], k)] for r in some])
            right = join(em, wide[1], [b_index[(*r[:-2], k, r[-1])] for r in some])
            totals[i] = _multiply_add(em, totals[i], left, right)
    chunks = [narrowed(em, op.d.type, _end(em, total, kind)) for total in totals]
    em.bind(op.d, eager(kind, chunks, width))


def _by_dpas(em: Emitter, op: DotOp) -> None:
    """Write one DPAS for each instruction's block of rows, columns and K of each matrix."""
    dpas = instruction_of(op, em.target)
    assert isinstance(dpas, Dpas)
    dpas = replace(dpas, repeat_count=encoding_of(op.d.type).repeat_count)
    sources = [em.registers(v) for v in (op.a, op.b, op.c)]
    units = {"a": dpas.a_element_bits, "b": 32}
    starts: dict[str, dict[tuple[int, ...], int]] = {}
    for value, name in zip((op.a, op.b, op.c), "abc", strict=True):
        per = dpas.fragment(name).registers
        places = em.view(value).registers[::per]
        starts[name] = {place: i * per for i, place in enumerate(places)}

    @cache
    def piece(name: str, place: tuple[int, ...]) -> ir.Operand:
        source, start = sources["abc".index(name)], starts[name][place]
        per = dpas.fragment(name).registers
        if name == "c":
            return source.slice(em, start, per)
        return packed(em, source, units[name], start, per)

    depth = shape_of(op.a)[-1]
    totals: dict[tuple[int, ...], ir.Operand | None] = dict.fromkeys(starts["c"])
    for one in dict.fromkeys(batch for batch, _, _ in totals):
        mine = [(m, n) for batch, m, n in totals if batch == one]
        for k in range(0, depth, dpas.k):
            for m, n in mine:
                total = totals[one, m, n] or piece("c", (one, m, n))
                left, right = piece("a", (one, m, k)), piece("b", (one, k, n))
                totals[one, m, n] = multiply(em, dpas, total, left, right)
    chunks = [total for total in totals.values() if total is not None]
    em.bind(op.d, eager(sources[2].kind, chunks, dpas.repeat_count))


def multiply(em: Emitter, dpas: Dpas, acc: ir.Operand, a: ir.Operand, b: ir.Operand) -> ir.Operand:
    """One DPAS: the accumulator plus A times B."""
    em.state.dpas += 1
    constants = [number(n) for n in (*dpas.precision, SYSTOLIC_DEPTH, dpas.repeat_count)]
    return em.call(genisa.DPAS, [acc, a, b, *constants, ir.constant(I1, 0)])


def _accumulator(kind: ir.Type) -> ir.Type:
    """The type of the sums: float if the result is narrower."""
    return FLOAT if kind is HALF else kind


def _start(em: Emitter, op: DotOp, c: Registers, start: int, width: int) -> ir.Operand:
    held = widened(em, op.d.type, c.slice(em, start, width))
    scalar = held.type.scalar
    into = _accumulator(scalar)
    return held if into == scalar else em.b.fpext(held, shaped(held.type, into))


def _end(em: Emitter, total: ir.Operand, kind: ir.Type) -> ir.Operand:
    if kind is HALF:
        return em.b.fptrunc(total, shaped(total.type, kind))
    return total


def _wide(em: Emitter, op: DotOp, operand: SSAValue, source: Registers) -> Registers:
    """An operand in the type that is multiplied: that of the sum."""
    kind, result = operand.type, op.d.type
    assert isinstance(kind, TensorType)
    into = FLOAT if is_bf16(result) else _accumulator(scalar_type(result))

    def wide(value: ir.Operand) -> ir.Operand:
        if isinstance(kind.element_type, IntegerType):
            have = bits_of(value.type.scalar)
            if have == bits_of(into):
                return value
            return em.b.sext(value, shaped(value.type, into))
        target = f64 if into == DOUBLE else f32
        return convert(em, element(kind), target, value, None)

    return mapped(em, into, [source], wide)


def _multiply_add(em: Emitter, total: ir.Operand, a: ir.Operand, b: ir.Operand) -> ir.Operand:
    if total.type.scalar.kind == "int":
        return em.b.add(total, em.b.mul(a, b))
    return em.call(llvm.named("fma"), [a, b, total])


@lowers(xe.RoundTf32Op)
def lower_round_tf32(em: Emitter, op: xe.RoundTf32Op) -> None:
    elementwise(em, op, lambda value: in_pairs_of_registers(
        "tf32", Term(em, value), _rounded_to_tf32, as_bits=True).value)


def _rounded_to_tf32(x: Term) -> Term:
    return x.with_value(x.em.call(genisa.FLOAT_TO_TF32, [x.value, number(0)], x.value.type))
