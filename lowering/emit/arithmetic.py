"""Lowering of arith operations, on scalars and on tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from xdsl.dialects import arith, ub
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects import arith_ext, xe
from triton_xe.dialects.tt import ops as tt
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.fusion import MARK
from triton_xe.lowering.emit.maths import divisors, halves, pairs, wide
from triton_xe.lowering.emit.maths.conversions import (
    constant,
    convert,
    in_float,
    narrowed,
    widened,
    widest,
)
from triton_xe.lowering.emit.maths.divisors import small_quotient
from triton_xe.lowering.emit.maths.terms import Term, where
from triton_xe.lowering.emit.maths.wide import floats_of, integers_of
from triton_xe.lowering.emit.tensors.registers import (
    CHUNK,
    NSW,
    Halves,
    InWords,
    Registers,
    Splat,
    mapped,
    permuted,
)
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    argument_type,
    bits_of,
    element,
    is_bf16,
    is_fp8,
    scalar_type,
    shaped,
)
from triton_xe.lowering.emit.values import elements_of, instruction_of, number_of, opcode_of
from triton_xe.lowering.emit.xegpu.vectors import vector_constant, vector_elementwise
from triton_xe.lowering.facts.divisors import fits
from triton_xe.lowering.facts.values import constant_of
from triton_xe.lowering.facts.view import consecutive
from triton_xe.spirv import RANGE_NODE

Write = Callable[..., ir.Operand]
MOST_EARLY = 64
"""Registers of quotients that may be live from their operation on, instead of from their use."""


def elementwise(em: Emitter, op: Operation, write: Write) -> None:
    """Bind the result of an elementwise operation; `write` emits it for one chunk or scalar."""
    (result,) = op.results
    if isinstance(result.type, TensorType):
        operands = [spread(em, v, result.type) for v in op.operands]
        em.bind(result, mapped(em, scalar_type(result.type), operands, write))
    elif isinstance(result.type, VectorType):
        vector_elementwise(em, op, write)
    else:
        em.bind(result, write(*_as_vectors(em, [em.scalar(v) for v in op.operands])))


def _as_vectors(em: Emitter, values: list[ir.Operand]) -> list[ir.Operand]:
    """Broadcast scalars next to vectors: in a combine region values may be vectors."""
    count = next((v.type.count for v in values if v.type.kind == "vec"), 0)
    if not count:
        return values
    return [v if v.type.kind == "vec" else em.splat(v, count) for v in values]


def spread(em: Emitter, value: Any, kind: TensorType[Any]) -> Registers:
    """Registers of an operand with the shape of tensor type `kind`; a scalar becomes a splat."""
    held = em.get(value)
    if isinstance(held, Registers):
        return held
    return Splat(len(em.view(kind).registers), held)


@lowers(arith.ConstantOp)
def lower_constant(em: Emitter, op: arith.ConstantOp) -> None:
    held, kind = op.value, op.result.type
    if isinstance(held, (IntegerAttr, FloatAttr)):
        em.bind(op.result, constant(kind, held.value.data))
        return
    assert isinstance(held, DenseIntOrFPElementsAttr)
    if isinstance(kind, VectorType):
        vector_constant(em, op, held)
    elif held.is_splat():
        one = constant(kind, held.get_values()[0])
        em.bind(op.result, Splat(len(em.view(op.result).registers), one))
    else:
        raise UnsupportedError(f"a constant tensor with different elements: {kind}")


_BINARY: dict[type[Operation], str] = {
    arith.AddiOp: "add", arith.SubiOp: "sub", arith.MuliOp: "mul", arith.AndIOp: "and",
    arith.OrIOp: "or", arith.XOrIOp: "xor",
}
_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)
_ON_BITS = {"add": "xor", "sub": "xor", "mul": "and"}
"""Equivalent operations on i1, which SPIR-V's arithmetic does not accept."""
_DIVISIONS: dict[type[Operation], str] = {
    arith.DivSIOp: "sdiv", arith.DivUIOp: "udiv", arith.RemSIOp: "srem", arith.RemUIOp: "urem",
}
_SHIFTS: dict[type[Operation], str] = {
    arith.ShLIOp: "shl", arith.ShRSIOp: "ashr", arith.ShRUIOp: "lshr",
}
_FLOAT_BINARY: dict[type[Operation], str] = {
    arith.AddfOp: "fadd", arith.SubfOp: "fsub", arith.MulfOp: "fmul",
}


def is_bit(value: ir.Operand) -> bool:
    """True if the value is of i1."""
    return bool(value.type.scalar == I1)


def through_i8(em: Emitter, write: Write, signed: bool, *args: ir.Operand) -> ir.Operand:
    """Apply `write` to bits as bytes, and return the lowest bit of its result."""
    wide = shaped(args[0].type, I8)
    extend = em.b.sext if signed else em.b.zext
    return em.b.trunc(write(*(extend(a, wide) for a in args)), args[0].type)


@lowers(*_BINARY)
def lower_integer_binary(em: Emitter, op: Operation) -> None:
    name = _BINARY[type(op)]
    on_bits = _ON_BITS.get(name, name)
    flags = NSW if isinstance(op, _SUMS) and not em.proven.wraps(op) else ()
    shares = isinstance(op, arith.MuliOp) and isinstance(op.result.type, TensorType) and any(
        any(c) for c in em.view(op.result).lanes)

    def written(a: ir.Operand, b: ir.Operand) -> ir.Operand:
        if is_bit(a):
            return em.b.binary(on_bits, a, b)
        shared = (_by_one_product(em, a, b) or _by_one_product(em, b, a)) if shares else None
        return em.b.binary(name, a, b, flags) if shared is None else shared

    elementwise(em, op, written)


def _by_one_product(em: Emitter, sums: ir.Operand, factor: ir.Operand) -> ir.Operand | None:
    """The products of a scalar and sums of a number and known offsets; None for others.

    One product differs by lane; those of the scalar and of steps between the offsets do not.
    Intel's compiler writes two instructions for each product of 32-bit integers.
    """
    scalar, terms = _scalar_of(factor), _terms_of(sums)
    numbers = [x for x in map(_scalar_of, terms) if x is not None]
    known = [[n for x in elements_of(term) if isinstance(n := number_of(x), int)]
             for term in terms if term.is_constant]
    if scalar is None or not numbers or not known or len(numbers) + len(known) < len(terms) or (
            any(len(each) < sums.type.count for each in known)):
        return None
    offsets = [sum(each) for each in zip(*known, strict=True)]
    first = reduce(em.b.add, numbers)
    found = [em.b.mul(em.b.add(first, offsets[0]) if offsets[0] else first, scalar)]
    for i, offset in enumerate(offsets[1:], 1):
        before = i & i - 1
        step = offset - offsets[before]
        found.append(em.b.add(found[before], em.remember(
            ("step", scalar, step), partial(em.b.mul, scalar, step))) if step else found[before])
    return em.pack(scalar.type, found)


def _terms_of(value: ir.Operand) -> list[ir.Operand]:
    """The terms of a sum."""
    added = instruction_of(value, "add")
    return [value] if added is None else [t for x in added.operands for t in _terms_of(x)]


def _scalar_of(value: ir.Operand) -> ir.Operand | None:
    """The scalar in all elements of a vector; None if there is none."""
    repeated = instruction_of(value, "shufflevector")
    if repeated is None or set(repeated.indices) != {0}:
        return None
    first = instruction_of(repeated.operands[0], "insertelement")
    return None if first is None else first.operands[1]


@lowers(*_DIVISIONS)
def lower_division(em: Emitter, op: Operation) -> None:
    """Lower a division or remainder.

    Quotients of tensors are emitted here instead of at their first use, which may be in a loop:
    Intel's compiler does not hoist divisions.
    """
    _divide(em, op)
    made = em.get(op.results[0])
    if (isinstance(made, Registers) and not isinstance(made, Splat) and made.count <= MOST_EARLY
            and constant_of(op.operands[1]) is None):
        made.all_chunks(em)


def _divide(em: Emitter, op: Operation) -> None:
    """Bind quotients or remainders, computed in the cheapest way that is exact."""
    name, how = _DIVISIONS[type(op)], xe.QUICK.of(op)
    if _try_shared_divisor(em, op):
        return
    if how is not None and not isinstance(op.results[0].type, TensorType):
        em.bind(op.results[0], _divide_unsigned(em, op, name, how))
        return
    write, is_signed = getattr(em.b, name), name[0] == "s"
    elementwise(em, op, lambda a, b: through_i8(em, write, is_signed, a, b) if is_bit(a)
                else write(a, b))


@lowers(xe.DivisorOp)
def lower_divisor(em: Emitter, op: xe.DivisorOp) -> None:
    divisors.Divisor.for_scalar(em, em.scalar(op.value), op.signed is not None)


def _try_shared_divisor(em: Emitter, op: Operation) -> bool:
    """Bind quotients by a scalar if a shared `Divisor` is cheaper; return True if it did."""
    numbers, by = (em.get(v) for v in op.operands)
    by = by.scalar if isinstance(by, Splat) else by
    if (isinstance(numbers, Splat) or isinstance(op.results[0].type, VectorType)
            or not isinstance(by, ir.Operand) or by.is_constant
            or not fits(op, em.proven)):
        return False
    name = _DIVISIONS[type(op)]
    is_signed, is_tensor = name[0] == "s", isinstance(numbers, Registers)
    pays = is_tensor and (numbers.count >= divisors.FEWEST or numbers.kind != I32)
    is_known = divisors.is_known(em, by, is_signed) and (is_tensor or numbers.type == I32)
    if not pays and not is_known:
        return False
    natural = is_signed and em.proven.range(op.operands[0])[0] >= 0
    divisor = divisors.Divisor.for_scalar(em, by, is_signed)
    em.bind(op.results[0], mapped(
        em, numbers.kind, [numbers], divisor.division(em, name, natural=natural)
    ) if is_tensor else divisor.divide(em, name, numbers, natural=natural))
    return True


def _divide_unsigned(em: Emitter, op: Operation, name: str, how: Attribute) -> ir.Operand:
    """Divide a non-negative scalar by a positive one; `how` is the mark by `reciprocals`."""
    a, b = (em.scalar(v) for v in op.operands)
    name = f"u{name[1:]}"
    return getattr(em.b, name)(a, b) if how == StringAttr("unsigned") else small_quotient(
        em, name, a, b)


@lowers(*_SHIFTS)
def lower_shift(em: Emitter, op: Operation) -> None:
    """Lower shifts; an amount of at least the width gives 0, or the sign for `shrsi`."""
    name = _SHIFTS[type(op)]

    def write(a: ir.Operand, by: ir.Operand) -> ir.Operand:
        if is_bit(a):
            return through_i8(em, write, name == "ashr", a, by)
        shift, width = getattr(em.b, name), bits_of(a.type.scalar)
        if _all_below(by, width):
            return shift(a, by)
        fits = em.b.icmp("ult", by, width)
        em.b.mark_fitting(fits)
        if name == "ashr":
            return shift(a, em.b.select(fits, by, width - 1))
        moved = shift(a, em.b.and_(by, width - 1))
        return em.b.select(fits, moved, 0)

    elementwise(em, op, write)


def _all_below(value: ir.Operand, limit: int) -> bool:
    """True if this is a constant whose elements are all below `limit`."""
    numbers = [number_of(each) for each in elements_of(value)]
    return bool(numbers) and all(isinstance(x, int) and 0 <= x < limit for x in numbers)


@lowers(*_FLOAT_BINARY)
def lower_float_binary(em: Emitter, op: Operation) -> None:
    """Write operations that are marked as fusible; `triton_xe.lowering.emit.fusion` fuses them."""
    name, (result,) = _FLOAT_BINARY[type(op)], op.results
    kind = result.type
    if isinstance(kind, TensorType) and pairs.uses_pairs(em, kind, op.operands):
        sides = [spread(em, v, kind) for v in op.operands]
        fused = _fused_in_pairs(em, op, kind)
        em.bind(result, pairs.arithmetic(em, name[1:], *sides) if fused is None else fused)
        return
    flags = (MARK,) if em.state.contract and not xe.ROUNDED.of(op) else ()
    is_wide = name == "fsub" and wide.is_never_rounded(op)

    def written(a: ir.Operand, b: ir.Operand) -> ir.Operand:
        if name == "fsub" and _is_positive_zero(a):
            # Intel's compiler computes 0 - x as -x, which is -0 for +0
            return Term(em, b).fma(-1.0, 0.0).value
        is_fusible = opcode_of(a) == "fmul"
        made = wide.combine_with_uniform(em, "less", a, b) if is_wide and not is_fusible else None
        return em.b.binary(name, a, b, flags) if made is None else made

    elementwise(em, op, in_float(em, op.results[0].type, written))


def _is_positive_zero(value: ir.Operand) -> bool:
    """True for a constant whose elements are all +0.0."""
    numbers = [number_of(each) for each in elements_of(value)]
    return bool(numbers) and all(str(each) == "0.0" for each in numbers)


def _fused_in_pairs(em: Emitter, op: Operation, kind: TensorType[Any]) -> Registers | None:
    """Fuse a product and the sum that uses it into FMAs on pairs of fp16; None if not possible.

    `fusion` does the same for single values.
    """
    if isinstance(op, arith.MulfOp) or not em.state.contract:
        return None
    place = next((i for i, v in enumerate(op.operands) if isinstance(v.owner, arith.MulfOp)
                  and v.owner.parent is op.parent and v.has_one_use()
                  and not xe.ROUNDED.of(v.owner)), None)
    if place is None:
        return None
    product, other = op.operands[place].owner, op.operands[1 - place]
    assert isinstance(product, arith.MulfOp)
    how = "plus" if isinstance(op, arith.AddfOp) else "from" if place else "less"
    left, right, third = (spread(em, v, kind) for v in (*product.operands, other))
    return pairs.fused(em, how, left, right, third)


@lowers(arith.NegfOp)
def lower_negate(em: Emitter, op: arith.NegfOp) -> None:
    kind = op.result.type
    sign = 1 << (bits_of(scalar_type(kind)) - 1)
    in_bits = is_bf16(kind) or is_fp8(kind)
    elementwise(em, op, lambda a: em.b.xor(a, sign) if in_bits else em.b.fneg(a))


_INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


@lowers(arith_ext.CmpiOp)
def lower_compare(em: Emitter, op: arith_ext.CmpiOp) -> None:
    predicate = _INTEGER_PREDICATES[op.predicate.value.data]
    elementwise(em, op, lambda a, b: compare(em, predicate, a, b))
    group = _same_in_groups(em, op.result)
    if group > 1:
        held = em.registers(op.result)
        em.bind(op.result, permuted(em, held, [r - r % group for r in range(held.count)]))


def _same_in_groups(em: Emitter, value: SSAValue) -> int:
    """Number of consecutive registers in which a comparison is proved to be equal."""
    if not em.target.has_block_2d or not isinstance(value.type, TensorType):
        return 1  # other devices are not measured
    view = em.view(value)
    constancy = em.proven.of(value).constancy
    groups = (group for group in (CHUNK, CHUNK // 2) if len(view.registers) >= CHUNK and any(
        size >= group and consecutive(view, dim, group) for dim, size in enumerate(constancy)))
    return next(groups, 1)


def compare(em: Emitter, predicate: str, a: ir.Operand, b: ir.Operand) -> ir.Operand:
    """Compare integers; bits are compared by logic, where true is 1 unsigned and -1 signed."""
    if a.type.kind == "ptr":
        a, b = em.address(a), em.address(b)
    if not is_bit(a):
        return em.b.icmp(predicate, a, b)
    if predicate in ("eq", "ne"):
        differ = em.b.xor(a, b)
        return differ if predicate == "ne" else em.b.not_(differ)
    if predicate[:2] in ("ug", "sl"):
        a, b = b, a
    return (em.b.or_ if predicate[2] == "e" else em.b.and_)(em.b.not_(a), b)


_FLOAT_PREDICATES = (
    None, "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une",
    "uno", None,
)


@lowers(arith_ext.CmpfOp)
def lower_compare_floats(em: Emitter, op: arith_ext.CmpfOp) -> None:
    code, kind = op.predicate.value.data, op.lhs.type
    predicate = _FLOAT_PREDICATES[code]
    if predicate is None:
        elementwise(em, op, lambda a, b: ir.constant(shaped(a.type, I1), 1 if code else 0))
        return
    elementwise(em, op, lambda a, b: em.b.fcmp(
        predicate, widened(em, kind, a), widened(em, kind, b)))


@lowers(arith_ext.SelectOp)
def lower_select(em: Emitter, op: arith_ext.SelectOp) -> None:
    elementwise(em, op, lambda c, a, b: em.b.select(c, a, b))


_EXTREMA: dict[type[Operation], str] = {
    arith.MaxSIOp: "sgt", arith.MinSIOp: "slt", arith.MaxUIOp: "ugt", arith.MinUIOp: "ult"}


@lowers(*_EXTREMA)
def lower_integer_extremum(em: Emitter, op: Operation) -> None:
    predicate = _EXTREMA[type(op)]

    def write(a: ir.Operand, b: ir.Operand) -> ir.Operand:
        if is_bit(a):
            return em.b.or_(a, b) if predicate in ("ugt", "slt") else em.b.and_(a, b)
        return em.b.select(compare(em, predicate, a, b), a, b)

    elementwise(em, op, write)


_INTEGER_CASTS: dict[type[Operation], bool] = {
    arith_ext.ExtSIOp: True, arith_ext.ExtUIOp: False, arith_ext.TruncIOp: True,
    arith_ext.IndexCastOp: True, arith_ext.IndexCastUIOp: False,
}
"""Casts of integers; True if the operand is signed."""


@lowers(*_INTEGER_CASTS)
def lower_integer_cast(em: Emitter, op: Operation) -> None:
    into, signed = scalar_type(op.results[0].type), _INTEGER_CASTS[type(op)]
    held = em.get(op.operands[0])
    integers = integers_of(held, signed=signed) if (
        isinstance(held, InWords) and into == I32) else None
    if integers is not None:
        em.bind(op.results[0], integers)
        return
    if isinstance(op, arith_ext.ExtSIOp) and em.proven.range(op.input)[0] >= 0:
        elementwise(em, op, lambda a: em.b.cast("zext", a, shaped(a.type, into), ("nneg",)))
        return
    elementwise(em, op, lambda a: Term(em, a).resized(into, signed=signed).value)


@lowers(arith_ext.ExtFOp, arith_ext.TruncFOp, tt.FpToFpOp)
def lower_float_cast(em: Emitter, op: Operation) -> None:
    source, target = element(op.operands[0].type), element(op.results[0].type)
    rounding = op.rounding_mode if isinstance(op, arith_ext.TruncFOp) else (
        op.rounding if isinstance(op, tt.FpToFpOp) else None)
    held = em.get(op.operands[0])
    floats = floats_of(held) if isinstance(held, Halves) and scalar_type(target) == FLOAT else None
    if floats is not None:
        em.bind(op.results[0], floats)
        return
    if isinstance(held, Halves) and is_bf16(source) and scalar_type(target) == FLOAT:
        em.bind(op.results[0], mapped(
            em, FLOAT, [held.upper()], lambda a: Term(em, a).bitcast(FLOAT).value))
        return
    pairs = halves.in_pairs(op.results[0].type)
    elementwise(em, op, lambda a: convert(em, source, target, a, rounding, pairs=pairs))


MAGIC = 0x6400
"""Bits of fp16's 1024: adding n < 1024 to them gives the fp16 number 1024 + n."""


@lowers(arith_ext.SIToFPOp, arith_ext.UIToFPOp)
def lower_integer_to_float(em: Emitter, op: arith_ext.SIToFPOp | arith_ext.UIToFPOp) -> None:
    """Convert integers to floats; fp16 goes through fp32.

    Integers that fp32 cannot represent exactly are beyond fp16's range, so that this rounds once.
    """
    target, signed = op.result.type, isinstance(op, arith_ext.SIToFPOp)
    paired = pairs.from_integer(em, op.input, target)
    if paired is not None:
        em.bind(op.result, paired)
        return
    through = DOUBLE if scalar_type(target) == DOUBLE else FLOAT
    low, high = em.proven.range(op.input)
    is_small = (scalar_type(target) == HALF and bits_of(scalar_type(op.input.type)) == 32
                and high - low < 1024 and -1024 <= low and high <= 2048 and (signed or low >= 0))

    def write(a: ir.Operand) -> ir.Operand:
        if is_small:
            return _convert_small(Term(em, a), low).value
        made = _convert_bytes(em, a, target, signed) if scalar_type(target) == HALF else None
        if made is not None:
            return made.value
        kind = shaped(a.type, through)
        if is_bit(a):
            one = ir.constant(kind, -1.0 if signed else 1.0)
            wide = em.b.select(a, one, 0.0)
        else:
            wide = Term(em, a).to_float(through, signed=signed).value
        if scalar_type(target) == HALF:
            return em.b.fptrunc(wide, shaped(a.type, HALF))
        return narrowed(em, target, wide)

    elementwise(em, op, write)


def _convert_bytes(em: Emitter, value: ir.Operand, target: Attribute, signed: bool) -> Term | None:
    """Convert bytes to fp16; None for other integers."""
    return halves.from_bytes(
        "s8" if signed else "u8", Term(em, value),
        lambda x: x.to_float(FLOAT, signed=signed).resized(HALF), pairs=halves.in_pairs(target))


def _convert_small(x: Term, low: int) -> Term:
    """Convert an integer of [low, low + 1024) to fp16: 1024 + x - low, minus 1024 - low."""
    return (x + (MAGIC - low)).resized(I16).bitcast(HALF) - (1024.0 - low)


@lowers(arith_ext.FPToSIOp, arith_ext.FPToUIOp)
def lower_float_to_integer(em: Emitter, op: arith_ext.FPToSIOp | arith_ext.FPToUIOp) -> None:
    """Convert toward zero; numbers outside the integer type's range give an unspecified value.

    Types below 32 bits are truncated from an i32, as in C and on other devices.
    """
    source, into = op.input.type, scalar_type(op.result.type)
    signed = isinstance(op, arith_ext.FPToSIOp)

    def write(a: ir.Operand) -> ir.Operand:
        wide = Term(em, widest(em, source, a))
        if bits_of(into) < 32:
            made = wide.to_integer(I32).resized(into)
            return _mark_range(em, wide, made, signed=signed).value
        return wide.to_integer(into, signed=signed).value

    elementwise(em, op, write)


def _mark_range(em: Emitter, x: Term, converted: Term, *, signed: bool) -> Term:
    """Mark a converted integer for the sanitizer: undefined if its type cannot represent `x`."""
    if not em.state.tests_promises or converted.width == 1:
        return converted
    bits = converted.width
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    inside = (x > low - 1.0) & (x < float(high))
    em.b.mark_fitting(inside.value, RANGE_NODE)
    return where(inside, converted, converted)


@lowers(arith.BitcastOp, tt.BitcastOp)
def lower_bitcast(em: Emitter, op: Operation) -> None:
    (source,), (result,) = op.operands, op.results
    into = scalar_type(result.type)
    if not isinstance(result.type, TensorType) and em.scalar(source).type.kind == "ptr":
        em.bind(result, em.scalar(source))
        return
    elementwise(em, op, lambda a: Term(em, a).bitcast(into).value)


@lowers(ub.PoisonOp)
def lower_poison(em: Emitter, op: ub.PoisonOp) -> None:
    kind = op.result.type
    if isinstance(kind, TensorType):
        zero = ir.zero(scalar_type(kind))
        em.bind(op.result, Splat(len(em.view(op.result).registers), zero))
    else:
        em.bind(op.result, ir.zero(argument_type(kind)))
