"""Lowering of mathematical operations: LLVM intrinsics and OpenCL builtins.

half and bf16 are computed in float and rounded once.  exp and exp2 are the device's own
instruction, as accurate as Triton promises them; the other functions are OpenCL builtins with the
error bounds of the OpenCL C specification, section 7.4.  Functions are called on whole vectors,
which Intel's compiler takes apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir
from xdsl.ir import Operation

from triton_xe.lowering.emit.arithmetic import elementwise, is_bit
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths import floats
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I32,
    bits_of,
    is_bf16,
    scalar_type,
    suffix,
)
from triton_xe.lowering.surfaces.affine import attribute

LOG2_E = 1.4426950408889634
Write = Callable[..., ir.Value]


def through_float(em: Emitter, op: Operation, write: Write) -> None:
    """Element-wise on float or double; half, bf16 and fp8 are computed in float."""
    kind, into = op.operands[0].type, op.results[0].type

    def outer(*args: ir.Value) -> ir.Value:
        made = write(*(widest(em, kind, a) for a in args))
        if scalar_type(into) == HALF:
            return em.b.fptrunc(made, floats.shaped(made.type, HALF))
        return floats.narrowed(em, into, made)

    elementwise(em, op, outer)


def widest(em: Emitter, kind: object, value: ir.Value) -> ir.Value:
    """A value of Triton type `kind` as float, or as double if it is one."""
    value = floats.widened(em, kind, value)
    if floats.scalar_of(value.type) == HALF:
        return em.b.fpext(value, floats.shaped(value.type, FLOAT))
    return value


_LETTER = {"float": "f", "double": "d", "i32": "i", "i64": "l"}


def builtin(
    em: Emitter, name: str, *args: ir.Value, result: ir.Type | None = None, unsigned: bool = False
) -> ir.Value:
    """Call an OpenCL builtin on scalars or vectors; `result` is its type, else the first's."""
    mangled, seen = f"_Z{len(name)}{name}", ""
    for arg in args:
        letter = _LETTER[str(floats.scalar_of(arg.type))]
        letter = {"i": "j", "l": "m"}[letter] if unsigned else letter
        if not isinstance(arg.type, ir.VectorType):
            mangled += letter
        elif letter == seen:
            mangled += "S_"
        else:
            mangled += f"Dv{arg.type.count}_{letter}"
            seen = seen or letter
    return em.call(mangled, result or args[0].type, list(args))


def intrinsic(em: Emitter, name: str, *args: ir.Value) -> ir.Value:
    """Call an LLVM intrinsic that is overloaded on its one type."""
    return em.call(f"llvm.{name}.{suffix(args[0].type)}", args[0].type, list(args))


_INTRINSICS = {
    "math.floor": "floor", "math.ceil": "ceil", "math.trunc": "trunc",
    "math.roundeven": "rint", "math.round": "round", "math.sqrt": "sqrt",
}
_BUILTINS = {
    "math.log": "log", "math.log2": "log2", "math.sin": "sin", "math.cos": "cos",
    "math.erf": "erf", "math.erfc": "erfc", "math.tanh": "tanh", "math.tan": "tan",
    "math.atan": "atan", "math.atan2": "atan2", "math.powf": "pow", "math.log1p": "log1p",
    "math.expm1": "expm1", "math.log10": "log10", "math.rsqrt": "rsqrt", "math.cbrt": "cbrt",
    "math.sinh": "sinh", "math.cosh": "cosh", "math.asin": "asin", "math.acos": "acos",
    "math.asinh": "asinh", "math.acosh": "acosh", "math.atanh": "atanh", "arith.remf": "fmod",
}


@lowers(*_INTRINSICS)
def lower_intrinsic(em: Emitter, op: Operation) -> None:
    name = _INTRINSICS[op.name]
    through_float(em, op, lambda a: intrinsic(em, name, a))


@lowers(*_BUILTINS)
def lower_builtin(em: Emitter, op: Operation) -> None:
    name = _BUILTINS[op.name]
    through_float(em, op, lambda *args: builtin(em, name, *args))


@lowers("math.absf")
def lower_absf(em: Emitter, op: Operation) -> None:
    kind = op.operands[0].type
    if not is_bf16(kind) and not floats.is_fp8(kind):
        elementwise(em, op, lambda a: floats.magnitude(em, a))
        return
    rest = (1 << (bits_of(scalar_type(kind)) - 1)) - 1
    elementwise(em, op, lambda a: em.b.and_(a, floats.filled(a.type, rest)))


@lowers("math.copysign")
def lower_copysign(em: Emitter, op: Operation) -> None:
    through_float(em, op, lambda a, b: intrinsic(em, "copysign", a, b))


@lowers("math.exp2", "math.exp")
def lower_exp(em: Emitter, op: Operation) -> None:
    def write(a: ir.Value) -> ir.Value:
        if floats.scalar_of(a.type) == DOUBLE:
            return builtin(em, op.name.split(".")[1], a)
        if op.name == "math.exp":
            a = em.b.fmul(a, floats.filled(a.type, LOG2_E))
        return builtin(em, "native_exp2", a)

    through_float(em, op, write)


@lowers("math.fma")
def lower_fma(em: Emitter, op: Operation) -> None:
    """One rounding.  half stays half: float would round twice."""
    kind = op.operands[0].type
    elementwise(em, op, floats.in_float(em, kind, lambda a, b, c: intrinsic(em, "fma", a, b, c)))


@lowers("math.absi")
def lower_absi(em: Emitter, op: Operation) -> None:
    def write(a: ir.Value) -> ir.Value:
        if is_bit(a):
            return a
        zero = floats.filled(a.type, 0)
        return em.b.select(em.b.icmp_signed("<", a, zero), em.b.sub(zero, a), a)

    elementwise(em, op, write)


@lowers("math.ctpop", "math.ctlz", "math.cttz")
def lower_bit_count(em: Emitter, op: Operation) -> None:
    name = op.name.split(".")[1]
    elementwise(em, op, lambda a: count_bits(em, name, a))


def count_bits(em: Emitter, name: str, value: ir.Value) -> ir.Value:
    """ctpop, ctlz or cttz; of zero the latter two are the width."""
    extra = [] if name == "ctpop" else [I1(0)]
    return em.call(f"llvm.{name}.{suffix(value.type)}", value.type, [value, *extra])


_EXTREMA = {
    "arith.maxnumf": ("maxnum", False), "arith.minnumf": ("minnum", False),
    "arith.maximumf": ("maxnum", True), "arith.minimumf": ("minnum", True),
}


@lowers(*_EXTREMA)
def lower_float_extremum(em: Emitter, op: Operation) -> None:
    name, keeps_nan = _EXTREMA[op.name]
    kind = op.operands[0].type
    elementwise(em, op, floats.in_float(em, kind, lambda a, b: extremum(em, name, keeps_nan, a, b)))


def extremum(em: Emitter, name: str, keeps_nan: bool, a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger or smaller; a NaN is dropped, or kept when asked for.

    Intel's compiler makes one `sel` of LLVM's maximum and loses the NaN, hence the extra test.
    """
    best = intrinsic(em, name, a, b)
    if not keeps_nan:
        return best
    nan = floats.filled(a.type, math.nan)
    return em.b.select(em.b.fcmp_unordered("uno", a, b), nan, best)


@lowers("tt.clampf")
def lower_clampf(em: Emitter, op: Operation) -> None:
    """min(max(x, low), high); a NaN in x is dropped, or kept when asked for."""
    keeps = attribute(op, "propagateNan").data == "all"
    kind = op.operands[0].type

    def write(x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
        held = intrinsic(em, "minnum", intrinsic(em, "maxnum", x, low), high)
        return em.b.select(em.b.fcmp_unordered("uno", x, x), x, held) if keeps else held

    elementwise(em, op, floats.in_float(em, kind, write))


def precise(em: Emitter, value: ir.Value) -> None:
    """Note that fp32 divisions and roots of this module must be correctly rounded."""
    if floats.scalar_of(value.type) == FLOAT:
        em.state.facts["precise"] = True


@lowers("tt.precise_sqrt")
def lower_precise_sqrt(em: Emitter, op: Operation) -> None:
    through_float(em, op, lambda a: exact_root(em, a))


def exact_root(em: Emitter, value: ir.Value) -> ir.Value:
    """The correctly rounded square root."""
    precise(em, value)
    return intrinsic(em, "sqrt", value)


@lowers("tt.precise_divf")
def lower_precise_divf(em: Emitter, op: Operation) -> None:
    through_float(em, op, lambda a, b: exact_quotient(em, a, b))


def exact_quotient(em: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    """The correctly rounded quotient."""
    precise(em, a)
    return em.b.fdiv(a, b)


@lowers("arith.divf")
def lower_divf(em: Emitter, op: Operation) -> None:
    through_float(em, op, lambda a, b: em.b.fdiv(a, b))


@lowers("tt.approx_divf")
def lower_approx_divf(em: Emitter, op: Operation) -> None:
    through_float(em, op, lambda a, b: em.b.fdiv(a, b, flags=("arcp",)))


@lowers("tt.mulhiui")
def lower_mulhiui(em: Emitter, op: Operation) -> None:
    elementwise(em, op, lambda a, b: high_product(em, a, b, signed=False))


def high_product(em: Emitter, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    """The upper half of the product of integers of 8 to 64 bits."""
    bits = bits_of(floats.scalar_of(a.type))
    if bits >= 32:
        return builtin(em, "mul_hi", a, b, unsigned=not signed)
    wide = floats.shaped(a.type, I32)
    extend = em.b.sext if signed else em.b.zext
    product = em.b.mul(extend(a, wide), extend(b, wide))
    return em.b.trunc(em.b.lshr(product, floats.filled(wide, bits)), a.type)


__all__ = [
    "builtin", "count_bits", "exact_quotient", "exact_root", "extremum",
    "high_product", "intrinsic", "through_float", "widest",
]
