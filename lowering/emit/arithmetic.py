"""Lowering of arith operations, on scalars and on tensors alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    VectorType,
)
from xdsl.ir import Operation

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.fusion import MARK
from triton_xe.lowering.emit.maths import floats, fp8
from triton_xe.lowering.emit.tensors.registers import Registers, Splat, from_scalars, mapped
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I32,
    argument_type,
    bits_of,
    element,
    is_bf16,
    scalar_type,
)
from triton_xe.lowering.emit.xegpu.vectors import vector_constant, vector_elementwise
from triton_xe.lowering.surfaces.affine import attribute

Write = Callable[..., ir.Value]


def elementwise(em: Emitter, op: Operation, write: Write) -> None:
    """Bind the result of an operation that treats every element alike."""
    (result,) = op.results
    if isinstance(result.type, TensorType):
        operands = [spread(em, v, result.type) for v in op.operands]
        em.bind(result, mapped(em, scalar_type(result.type), operands, write))
    elif isinstance(result.type, VectorType):
        vector_elementwise(em, op, write)
    else:
        em.bind(result, write(*_alike(em, [em.scalar(v) for v in op.operands])))


def _alike(em: Emitter, values: list[ir.Value]) -> list[ir.Value]:
    """In a combine region values may be vectors; scalars next to them are spread."""
    count = next((v.type.count for v in values if isinstance(v.type, ir.VectorType)), 0)
    if not count:
        return values
    return [v if isinstance(v.type, ir.VectorType) else em.splat(v, count) for v in values]


def spread(em: Emitter, value: Any, kind: TensorType[Any]) -> Registers:
    """A tensor's registers; a scalar operand of a tensor operation is a splat."""
    held = em.get(value)
    if isinstance(held, Registers):
        return held
    return Splat(len(em.view(kind).registers), held)


@lowers("arith.constant")
def lower_constant(em: Emitter, op: Operation) -> None:
    held = attribute(op, "value")
    (result,) = op.results
    if isinstance(held, DenseIntOrFPElementsAttr):
        _dense(em, op, held)
        return
    assert isinstance(held, (IntegerAttr, FloatAttr))
    em.bind(result, constant(result.type, held.value.data))


def _dense(em: Emitter, op: Operation, held: DenseIntOrFPElementsAttr[Any]) -> None:
    (result,) = op.results
    values = held.get_values()
    if isinstance(result.type, VectorType):
        if not vector_constant(em, op, held):
            _fragment_constant(em, result, values)
        return
    view = em.view(result)
    if held.is_splat():
        em.bind(result, Splat(len(view.registers), constant(result.type, values[0])))
        return
    raise UnsupportedError(f"a constant tensor with different elements: {result.type}")


def _fragment_constant(em: Emitter, result: Any, values: Any) -> None:
    """A constant fragment: every element the same, values packed as the fragment's type says."""
    from triton_xe.lowering.emit.xegpu.messages import FragmentValue

    elements, parts = result.type.get_shape()
    one = constant(result.type.element_type, values[0])
    if parts > 1:
        bits = bits_of(one.type)
        held = int(one.constant) if isinstance(one.type, ir.IntType) else 0
        if not isinstance(one.type, ir.IntType) and values[0] != 0:
            raise UnsupportedError(f"a constant operand of DPAS that is not zero: {values[0]}")
        one = ir.Constant(ir.IntType(bits * parts), sum(held << (bits * p) for p in range(parts)))
    em.bind(result, FragmentValue(em.splat(one, elements)))


def constant(kind: Any, value: Any) -> ir.Constant:
    """An LLVM constant of one element of `kind`."""
    held = scalar_type(kind)
    if is_bf16(kind):
        return ir.Constant(held, floats.bf16_bits(float(value)))
    if floats.is_fp8(kind):
        return ir.Constant(held, fp8.constant_bits(element(kind).name, float(value)))
    if isinstance(held, ir.IntType):
        return ir.Constant(held, int(value) & ((1 << held.width) - 1))
    return ir.Constant(held, float(value))


_BINARY: dict[str, str] = {
    "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.divsi": "sdiv",
    "arith.divui": "udiv", "arith.remsi": "srem", "arith.remui": "urem", "arith.andi": "and_",
    "arith.ori": "or_", "arith.xori": "xor",
}
_OF_BITS = {"arith.addi": "xor", "arith.subi": "xor", "arith.muli": "and_"}
"""The same on i1, which SPIR-V's arithmetic does not take."""
_SHIFTS = {"arith.shli": "shl", "arith.shrsi": "ashr", "arith.shrui": "lshr"}
_FLOAT_BINARY: dict[str, str] = {"arith.addf": "fadd", "arith.subf": "fsub", "arith.mulf": "fmul"}


def is_bit(value: ir.Value) -> bool:
    """Whether the value is of i1."""
    return bool(floats.scalar_of(value.type) == I1)


def through_i8(em: Emitter, write: Write, signed: bool, *args: ir.Value) -> ir.Value:
    """`write` on bits as bytes, and the lowest bit of what it makes."""
    wide = floats.shaped(args[0].type, I8)
    extend = em.b.sext if signed else em.b.zext
    return em.b.trunc(write(*(extend(a, wide) for a in args)), args[0].type)


@lowers(*_BINARY)
def lower_integer_binary(em: Emitter, op: Operation) -> None:
    name, on_bits = _BINARY[op.name], _OF_BITS.get(op.name, _BINARY[op.name])
    divides = name in ("sdiv", "udiv", "srem", "urem")

    def write(a: ir.Value, b: ir.Value) -> ir.Value:
        if not is_bit(a):
            return getattr(em.b, name)(a, b)
        if divides:
            return through_i8(em, getattr(em.b, name), name[0] == "s", a, b)
        return getattr(em.b, on_bits)(a, b)

    elementwise(em, op, write)


@lowers(*_SHIFTS)
def lower_shift(em: Emitter, op: Operation) -> None:
    """Shifts by the width and more: zero, or the sign, as if the bits were moved one by one."""
    name = _SHIFTS[op.name]

    def write(a: ir.Value, by: ir.Value) -> ir.Value:
        if is_bit(a):
            return through_i8(em, write, name == "ashr", a, by)
        shift, width = getattr(em.b, name), bits_of(floats.scalar_of(a.type))
        if _all_below(by, width):
            return shift(a, by)
        fits = em.b.icmp_unsigned("<", by, floats.filled(by.type, width))
        if name == "ashr":
            return shift(a, em.b.select(fits, by, floats.filled(by.type, width - 1)))
        moved = shift(a, em.b.and_(by, floats.filled(by.type, width - 1)))
        return em.b.select(fits, moved, floats.filled(a.type, 0))

    elementwise(em, op, write)


def _all_below(value: ir.Value, limit: int) -> bool:
    """Whether this is a constant whose elements are all below `limit`."""
    if not isinstance(value, ir.Constant):
        return False
    held = value.constant if isinstance(value.constant, (list, tuple)) else [value.constant]
    numbers = [getattr(x, "constant", x) for x in held]
    return all(isinstance(x, int) and 0 <= x < limit for x in numbers)


@lowers(*_FLOAT_BINARY)
def lower_float_binary(em: Emitter, op: Operation) -> None:
    """Marked as fusible; `triton_xe.lowering.emit.fusion` fuses."""
    write = getattr(em.b, _FLOAT_BINARY[op.name])
    flags = (MARK,) if em.state.contract else ()
    elementwise(em, op, floats.in_float(em, op.results[0].type,
                                        lambda a, b: write(a, b, flags=flags)))


@lowers("arith.negf")
def lower_negate(em: Emitter, op: Operation) -> None:
    kind = op.results[0].type
    if is_bf16(kind) or floats.is_fp8(kind):
        sign = 1 << (bits_of(scalar_type(kind)) - 1)
        elementwise(em, op, lambda a: em.b.xor(a, floats.filled(a.type, sign)))
        return
    elementwise(em, op, lambda a: em.b.fneg(a))


_INTEGER_PREDICATES = (
    ("==", True), ("!=", True), ("<", True), ("<=", True), (">", True), (">=", True),
    ("<", False), ("<=", False), (">", False), (">=", False),
)


@lowers("arith.cmpi")
def lower_compare(em: Emitter, op: Operation) -> None:
    sign, signed = _INTEGER_PREDICATES[attribute(op, "predicate").value.data]
    elementwise(em, op, lambda a, b: compare(em, sign, signed, a, b))


def compare(em: Emitter, sign: str, signed: bool, a: ir.Value, b: ir.Value) -> ir.Value:
    """Compare integers; bits are compared by logic, where true is 1 unsigned and -1 signed."""
    if isinstance(a.type, ir.PointerType):
        a, b = em.address(a), em.address(b)
    if not is_bit(a):
        return (em.b.icmp_signed if signed else em.b.icmp_unsigned)(sign, a, b)
    if sign in ("==", "!="):
        differ = em.b.xor(a, b)
        return differ if sign == "!=" else em.b.not_(differ)
    if (sign[0] == ">") != signed:
        a, b = b, a
    return em.b.or_(em.b.not_(a), b) if sign.endswith("=") else em.b.and_(em.b.not_(a), b)


_FLOAT_PREDICATES = (
    None, "o==", "o>", "o>=", "o<", "o<=", "o!=", "ord", "u==", "u>", "u>=", "u<", "u<=", "u!=",
    "uno", None,
)


@lowers("arith.cmpf")
def lower_compare_floats(em: Emitter, op: Operation) -> None:
    number = attribute(op, "predicate").value.data
    text = _FLOAT_PREDICATES[number]
    if text is None:
        (result,) = op.results
        always = I1(1 if number else 0)
        em.bind(result, always if not isinstance(result.type, TensorType)
                else Splat(len(em.view(result).registers), always))
        return
    ordered = text[0] == "o"
    sign = text if text in ("ord", "uno") else text[1:]
    test = em.b.fcmp_ordered if ordered else em.b.fcmp_unordered
    kind = op.operands[0].type
    elementwise(em, op, lambda a, b: test(sign, floats.widened(em, kind, a),
                                          floats.widened(em, kind, b)))


@lowers("arith.select")
def lower_select(em: Emitter, op: Operation) -> None:
    elementwise(em, op, lambda c, a, b: em.b.select(c, a, b))


_EXTREMA = {
    "arith.maxsi": ">", "arith.minsi": "<", "arith.maxui": ">", "arith.minui": "<",
}


@lowers(*_EXTREMA)
def lower_integer_extremum(em: Emitter, op: Operation) -> None:
    sign, signed = _EXTREMA[op.name], op.name.endswith("si")

    def write(a: ir.Value, b: ir.Value) -> ir.Value:
        if is_bit(a):
            return em.b.or_(a, b) if (sign == ">") != signed else em.b.and_(a, b)
        return em.b.select(compare(em, sign, signed, a, b), a, b)

    elementwise(em, op, write)


@lowers("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def lower_integer_cast(em: Emitter, op: Operation) -> None:
    into = scalar_type(op.results[0].type)

    def write(a: ir.Value) -> ir.Value:
        kind = floats.shaped(a.type, into)
        have = bits_of(floats.scalar_of(a.type))
        if have == bits_of(into):
            return a
        if have > bits_of(into):
            return em.b.trunc(a, kind)
        if op.name in ("arith.extui", "arith.index_castui"):
            return em.b.zext(a, kind)
        return em.b.sext(a, kind)

    elementwise(em, op, write)


@lowers("arith.extf", "arith.truncf", "tt.fp_to_fp")
def lower_float_cast(em: Emitter, op: Operation) -> None:
    source, target = element(op.operands[0].type), element(op.results[0].type)
    rounding = attribute(op, "roundingmode" if op.name == "arith.truncf" else "rounding")
    elementwise(em, op, lambda a: floats.convert(em, source, target, a, rounding))


@lowers("arith.sitofp", "arith.uitofp")
def lower_integer_to_float(em: Emitter, op: Operation) -> None:
    """Integers that fp32 cannot hold are beyond fp16's range, so that fp16 is made from fp32.

    LLVM's SPIR-V target ends the process on conversions of bits to vectors of 32 bytes and more.
    """
    target = op.results[0].type
    signed = op.name == "arith.sitofp"
    through = DOUBLE if scalar_type(target) == DOUBLE else FLOAT

    def write(a: ir.Value) -> ir.Value:
        kind = floats.shaped(a.type, through)
        if is_bit(a):
            one = floats.filled(kind, -1.0 if signed else 1.0)
            made = em.b.select(a, one, floats.filled(kind, 0.0))
        else:
            made = em.b.sitofp(a, kind) if signed else em.b.uitofp(a, kind)
        if scalar_type(target) == HALF:
            return em.b.fptrunc(made, floats.shaped(a.type, HALF))
        return floats.narrowed(em, target, made)

    elementwise(em, op, write)


@lowers("arith.fptosi", "arith.fptoui")
def lower_float_to_integer(em: Emitter, op: Operation) -> None:
    """Toward zero.  What the integer type cannot hold becomes an unspecified value.

    Types below 32 bits are cut out of an i32, as C does and other devices too.
    """
    source, into = op.operands[0].type, scalar_type(op.results[0].type)
    signed = op.name == "arith.fptosi"

    def write(a: ir.Value) -> ir.Value:
        wide = floats.widened(em, source, a)
        if floats.scalar_of(wide.type) == HALF:
            wide = em.b.fpext(wide, floats.shaped(a.type, FLOAT))
        kind = floats.shaped(wide.type, into)
        if bits_of(into) < 32:
            return em.b.trunc(em.b.fptosi(wide, floats.shaped(wide.type, I32)), kind)
        return em.b.fptosi(wide, kind) if signed else em.b.fptoui(wide, kind)

    elementwise(em, op, write)


@lowers("arith.bitcast", "tt.bitcast")
def lower_bitcast(em: Emitter, op: Operation) -> None:
    into = scalar_type(op.results[0].type)
    (result,) = op.results
    if not isinstance(result.type, TensorType) and isinstance(
        em.scalar(op.operands[0]).type, ir.PointerType
    ):
        em.bind(result, em.scalar(op.operands[0]))
        return
    elementwise(
        em, op, lambda a: a if floats.scalar_of(a.type) == into
        else em.b.bitcast(a, floats.shaped(a.type, into))
    )


@lowers("ub.poison")
def lower_poison(em: Emitter, op: Operation) -> None:
    (result,) = op.results
    if isinstance(result.type, TensorType):
        zero = ir.Constant(scalar_type(result.type), None)
        em.bind(result, Splat(len(em.view(result).registers), zero))
    else:
        em.bind(result, ir.Constant(argument_type(result.type), None))


__all__ = ["compare", "constant", "elementwise", "from_scalars", "is_bit", "spread"]
