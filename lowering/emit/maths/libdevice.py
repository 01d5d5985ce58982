"""Lowering of `tt.extern_elementwise`: the functions of `triton.language.extra.libdevice`.

`backend.libdevice` gives each function the symbol `__xe_<name>`.  A lowering here gets values of
float, double, i32 or i64 (vectors of them, or scalars) and returns one of the declared type.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial

from llvmlite import ir
from xdsl.ir import Operation

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.arithmetic import elementwise
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths import directed_rounding, floats, special
from triton_xe.lowering.emit.maths.floats import filled, scalar_of, shaped
from triton_xe.lowering.emit.maths.functions import (
    builtin,
    count_bits,
    exact_quotient,
    exact_root,
    high_product,
    intrinsic,
    widest,
)
from triton_xe.lowering.emit.maths.special import Formula
from triton_xe.lowering.emit.types import (
    DOUBLE,
    FLOAT,
    I1,
    I8,
    I32,
    I64,
    bits_of,
    scalar_type,
    suffix,
)
from triton_xe.lowering.surfaces.affine import attribute

Function = Callable[..., ir.Value]
"""Writes a function of (emitter, operands)."""
PREFIX = "__xe_"


@lowers("tt.extern_elementwise")
def lower_extern(em: Emitter, op: Operation) -> None:
    symbol = attribute(op, "symbol").data
    function = FUNCTIONS.get(symbol.removeprefix(PREFIX))
    if function is None or not symbol.startswith(PREFIX):
        raise UnsupportedError(
            f"external function {symbol} does not exist on Xe GPUs; use one of "
            "triton.language.extra.libdevice, or tl operations"
        )
    chosen, kinds = function, [v.type for v in op.operands]
    result = op.results[0].type

    def write(*args: ir.Value) -> ir.Value:
        wide = [widest(em, k, a) for k, a in zip(kinds, args, strict=True)]
        made = chosen(em, *wide)
        if scalar_of(made.type) == I1:
            into = scalar_type(result)
            return made if into == I1 else em.b.zext(made, shaped(made.type, into))
        return made

    elementwise(em, op, write)


FUNCTIONS: dict[str, Function] = {}


def named(*names: str) -> Callable[[Function], Function]:
    def enter(function: Function) -> Function:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return enter


def _intrinsic(name: str) -> Function:
    return lambda em, *args: intrinsic(em, name, *args)


def _builtin(name: str) -> Function:
    return lambda em, *args: builtin(em, name, *args)


for _name, _llvm in {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "nearbyint": "rint",
    "round": "round", "sqrt": "sqrt", "fma": "fma", "fma_rn": "fma", "copysign": "copysign",
}.items():
    FUNCTIONS[_name] = _intrinsic(_llvm)
for _name in (
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1 fmod hypot "
    "ldexp lgamma log log10 log1p log2 pow rsqrt sin sinh tan tanh tgamma"
).split():
    FUNCTIONS[_name] = _builtin(_name)
FUNCTIONS["scalbn"] = _builtin("ldexp")
for _name, _native in {
    "fast_sinf": "native_sin", "fast_cosf": "native_cos", "fast_tanf": "native_tan",
    "fast_log2f": "native_log2", "fast_logf": "native_log", "fast_log10f": "native_log10",
    "fast_expf": "native_exp", "fast_exp10f": "native_exp10", "fast_tanhf": "tanh",
}.items():
    FUNCTIONS[_name] = _builtin(_native)
for _name in special.BESSEL:
    FUNCTIONS[_name] = partial(lambda em, x, name: special.bessel(em, name, x), name=_name)
FUNCTIONS["erfcx"] = special.erfcx
FUNCTIONS["erfinv"] = special.erfinv


# -- arithmetic with a given rounding --------------------------------------------------------------


def _rounded(name: str) -> Function:
    """Without `contract`, so that it is rounded on its own."""

    def write(em: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        return getattr(em.b, name)(a, b)

    return write


FUNCTIONS["add_rn"], FUNCTIONS["sub_rn"], FUNCTIONS["mul_rn"] = map(
    _rounded, ("fadd", "fsub", "fmul")
)
FUNCTIONS |= directed_rounding.FUNCTIONS
FUNCTIONS["div_rn"] = exact_quotient
FUNCTIONS["sqrt_rn"] = exact_root


@named("rcp_rn")
def _reciprocal(em: Emitter, x: ir.Value) -> ir.Value:
    return exact_quotient(em, filled(x.type, 1.0), x)


@named("rsqrt_rn")
def _reciprocal_root(em: Emitter, x: ir.Value) -> ir.Value:
    """1 / sqrt(x), improved by a Newton step on 1 - x y² in twice the precision."""
    f = Formula(em, x)
    y = exact_quotient(em, f.of(1.0), exact_root(em, x))
    product = f.mul(x, y)
    rest = f.fma(x, y, f.neg(product))
    lack = f.sub(f.fma(f.neg(product), y, 1.0), f.mul(rest, y))
    better = f.fma(f.mul(y, 0.5), lack, y)
    return em.b.select(_is_finite(em, better), better, y)


@named("fast_dividef")
def _fast_quotient(em: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return em.b.fdiv(a, b, flags=("arcp",))


@named("fast_powf")
def _fast_power(em: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return builtin(em, "native_exp2", em.b.fmul(b, builtin(em, "native_log2", a)))


@named("rcbrt")
def _reciprocal_cube_root(em: Emitter, x: ir.Value) -> ir.Value:
    return em.b.fdiv(filled(x.type, 1.0), builtin(em, "cbrt", x))


@named("saturatef")
def _saturate(em: Emitter, x: ir.Value) -> ir.Value:
    """Between 0 and 1; NaN becomes 0."""
    low = intrinsic(em, "maxnum", x, filled(x.type, 0.0))
    return intrinsic(em, "minnum", low, filled(x.type, 1.0))


@named("fdim")
def _positive_difference(em: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    smaller = em.b.fcmp_ordered("<=", a, b)
    return em.b.select(smaller, filled(a.type, 0.0), em.b.fsub(a, b))


@named("remainder")
def _remainder(em: Emitter, x: ir.Value, y: ir.Value) -> ir.Value:
    """x - n y for the n nearest to x / y, exactly: fmod by 2y, then at most two subtractions."""
    f = Formula(em, x)
    size = floats.magnitude(em, y)
    rest = f.call("fmod", floats.magnitude(em, x), f.add(size, size))
    over = f.test(">", f.add(rest, rest), size)
    once = f.sub(rest, size)
    twice = em.b.select(f.test(">=", f.add(once, once), size), f.sub(once, size), once)
    result = em.b.select(over, twice, rest)
    negated = em.b.select(_sign(em, x), f.neg(result), result)
    return em.b.select(f.test("==", size, 0.0), f.of(math.nan), negated)


@named("pown")
def _integer_power(em: Emitter, x: ir.Value, n: ir.Value) -> ir.Value:
    power = builtin(em, "pow", floats.magnitude(em, x), em.b.sitofp(n, x.type))
    odd = em.b.icmp_signed("!=", em.b.and_(n, filled(n.type, 1)), filled(n.type, 0))
    return em.b.select(em.b.and_(odd, _sign(em, x)), em.b.fneg(power), power)


@named("sinpi")
def _sine_of_half_turns(em: Emitter, x: ir.Value) -> ir.Value:
    return _of_half_turns(em, x, "sin")


@named("cospi")
def _cosine_of_half_turns(em: Emitter, x: ir.Value) -> ir.Value:
    """cos(pi x) = sin(pi (1/2 - |r|)) near its zeros, where r is the distance to an integer."""
    return _of_half_turns(em, x, "cos")


def _of_half_turns(em: Emitter, x: ir.Value, name: str) -> ir.Value:
    """The sign of (-1)^n times a function of pi (x - n), n the nearest integer."""
    f = Formula(em, x)
    whole = f.intrinsic("rint", x)
    rest = f.sub(x, whole)
    if name == "cos":
        rest = floats.magnitude(em, rest)
        near_zero = f.call("sin", f.mul(f.sub(0.5, rest), math.pi))
        value = f.where(f.test(">", rest, 0.25), near_zero, f.call("cos", f.mul(rest, math.pi)))
    else:
        value = f.call("sin", f.mul(rest, math.pi))
    half = f.mul(whole, 0.5)
    odd = f.test("!=", f.intrinsic("floor", half), half)
    return em.b.select(odd, f.neg(value), value)


@named("erfcinv")
def _inverse_erfc(em: Emitter, x: ir.Value) -> ir.Value:
    return special.erfcinv(em, x)


@named("normcdf")
def _normal_distribution(em: Emitter, x: ir.Value) -> ir.Value:
    """erfc(-x / sqrt(2)) / 2, corrected to first order for the rounded argument."""
    f = Formula(em, x)
    factor = -math.sqrt(0.5)
    held = factor if f.is_double else struct.unpack("f", struct.pack("f", factor))[0]
    z = f.mul(x, held)
    rest = f.fma(x, factor - held, f.fma(x, held, f.neg(z)))
    slope = f.mul(f.call("exp", f.neg(f.mul(z, z))), -math.sqrt(1 / math.pi))
    value = f.fma(f.call("erfc", z), 0.5, f.mul(slope, rest))
    far = f.test(">", floats.magnitude(em, x), 50.0)
    return f.where(far, f.where(f.test("<", x, 0.0), 0.0, 1.0), value)


@named("normcdfinv")
def _normal_quantile(em: Emitter, x: ir.Value) -> ir.Value:
    f = Formula(em, x)
    return f.mul(special.erfcinv(em, f.mul(x, 2.0)), -math.sqrt(2.0))


def _norm(em: Emitter, *args: ir.Value) -> ir.Value:
    length = args[0]
    for arg in args[1:]:
        length = builtin(em, "hypot", length, arg)
    return length


def _reciprocal_norm(em: Emitter, *args: ir.Value) -> ir.Value:
    return em.b.fdiv(filled(args[0].type, 1.0), _norm(em, *args))


FUNCTIONS["norm3d"] = FUNCTIONS["norm4d"] = _norm
FUNCTIONS["rhypot"] = FUNCTIONS["rnorm3d"] = FUNCTIONS["rnorm4d"] = _reciprocal_norm


# -- the bits of floats ----------------------------------------------------------------------------


def _bits(em: Emitter, x: ir.Value) -> ir.Value:
    return em.b.bitcast(x, shaped(x.type, ir.IntType(bits_of(scalar_of(x.type)))))


@named("signbit", "signbitf", "signbitd")
def _sign(em: Emitter, x: ir.Value) -> ir.Value:
    bits = _bits(em, x)
    return em.b.icmp_signed("<", bits, filled(bits.type, 0))


@named("isnan")
def _is_nan(em: Emitter, x: ir.Value) -> ir.Value:
    return em.b.fcmp_unordered("uno", x, x)


@named("isinf", "isinff", "isinfd")
def _is_infinite(em: Emitter, x: ir.Value) -> ir.Value:
    return em.b.fcmp_ordered("==", floats.magnitude(em, x), filled(x.type, math.inf))


@named("isfinited", "finitef")
def _is_finite(em: Emitter, x: ir.Value) -> ir.Value:
    return em.b.fcmp_ordered("<", floats.magnitude(em, x), filled(x.type, math.inf))


@named("nextafter")
def _next_after(em: Emitter, x: ir.Value, y: ir.Value) -> ir.Value:
    bits = _bits(em, x)
    one = filled(bits.type, 1)
    toward = em.b.xor(
        em.b.fcmp_ordered("<", x, y), em.b.fcmp_ordered(">", x, filled(x.type, 0.0))
    )
    moved = em.b.select(toward, em.b.sub(bits, one), em.b.add(bits, one))
    smallest = intrinsic(em, "copysign", em.b.bitcast(one, x.type), y)
    zero = em.b.fcmp_ordered("==", x, filled(x.type, 0.0))
    step = em.b.select(zero, smallest, em.b.bitcast(moved, x.type))
    result = em.b.select(em.b.fcmp_ordered("==", x, y), y, step)
    return em.b.select(em.b.fcmp_unordered("uno", x, y), em.b.fadd(x, y), result)


def _exponent(em: Emitter, x: ir.Value) -> ir.Value:
    """The exponent of a finite number that is not zero, as an integer of its width."""
    width = bits_of(scalar_of(x.type))
    mantissa, bias = (52, 1023) if width == 64 else (23, 127)
    bits = _bits(em, floats.magnitude(em, x))
    normal = em.b.sub(em.b.lshr(bits, filled(bits.type, mantissa)), filled(bits.type, bias))
    leading = count_bits(em, "ctlz", bits)
    tiny = em.b.sub(filled(bits.type, width - mantissa - bias), leading)
    is_tiny = em.b.icmp_unsigned("<", bits, filled(bits.type, 1 << mantissa))
    return em.b.select(is_tiny, tiny, normal)


@named("ilogb")
def _integer_logarithm(em: Emitter, x: ir.Value) -> ir.Value:
    """Of zero and NaN the least integer, of infinities the largest."""
    found = _exponent(em, x)
    words = shaped(x.type, I32)
    found = em.b.trunc(found, words) if found.type != words else found
    found = em.b.select(_is_infinite(em, x), filled(words, 0x7FFFFFFF), found)
    none = em.b.fcmp_unordered("==", x, filled(x.type, 0.0))
    return em.b.select(none, filled(words, -(1 << 31)), found)


@named("logb")
def _float_logarithm(em: Emitter, x: ir.Value) -> ir.Value:
    found = em.b.sitofp(_exponent(em, x), x.type)
    zero = em.b.fcmp_ordered("==", x, filled(x.type, 0.0))
    found = em.b.select(zero, filled(x.type, -math.inf), found)
    return em.b.select(_is_finite(em, x), found, floats.magnitude(em, x))


for _name, _kind in {
    "float_as_int": I32, "float_as_uint": I32, "int_as_float": FLOAT, "uint_as_float": FLOAT,
    "double_as_longlong": I64, "longlong_as_double": DOUBLE,
}.items():
    FUNCTIONS[_name] = partial(
        lambda em, x, kind: em.b.bitcast(x, shaped(x.type, kind)), kind=_kind
    )


@named("double2loint")
def _low_word(em: Emitter, x: ir.Value) -> ir.Value:
    return em.b.trunc(_bits(em, x), shaped(x.type, I32))


@named("double2hiint")
def _high_word(em: Emitter, x: ir.Value) -> ir.Value:
    bits = _bits(em, x)
    return em.b.trunc(em.b.lshr(bits, filled(bits.type, 32)), shaped(x.type, I32))


@named("hiloint2double")
def _from_words(em: Emitter, high: ir.Value, low: ir.Value) -> ir.Value:
    wide = shaped(high.type, I64)
    bits = em.b.or_(em.b.shl(em.b.zext(high, wide), filled(wide, 32)), em.b.zext(low, wide))
    return em.b.bitcast(bits, shaped(high.type, DOUBLE))


# -- conversions -----------------------------------------------------------------------------------

_ROUNDINGS = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}
_INTEGERS = {"int": (I32, True), "uint": (I32, False), "ll": (I64, True), "ull": (I64, False)}


def _to_integer(em: Emitter, x: ir.Value, rounding: str, kind: ir.Type, signed: bool) -> ir.Value:
    whole = intrinsic(em, rounding, x)
    into = shaped(x.type, kind)
    return em.b.fptosi(whole, into) if signed else em.b.fptoui(whole, into)


def _from_integer(em: Emitter, x: ir.Value, kind: ir.Type, signed: bool) -> ir.Value:
    into = shaped(x.type, kind)
    return em.b.sitofp(x, into) if signed else em.b.uitofp(x, into)


for _letters, (_kind, _signed) in _INTEGERS.items():
    for _short, _llvm in _ROUNDINGS.items():
        for _source in ("float", "double"):
            FUNCTIONS[f"{_source}2{_letters}_{_short}"] = partial(
                _to_integer, rounding=_llvm, kind=_kind, signed=_signed
            )
    for _source, _into in (("float", FLOAT), ("double", DOUBLE)):
        FUNCTIONS[f"{_letters}2{_source}_rn"] = partial(_from_integer, kind=_into, signed=_signed)

FUNCTIONS["llrint"] = partial(_to_integer, rounding="rint", kind=I64, signed=True)
FUNCTIONS["llround"] = partial(_to_integer, rounding="round", kind=I64, signed=True)


@named("double2float_rn")
def _to_float(em: Emitter, x: ir.Value) -> ir.Value:
    return em.b.fptrunc(x, shaped(x.type, FLOAT))


@named("double2float_rz")
def _to_float_toward_zero(em: Emitter, x: ir.Value) -> ir.Value:
    return floats.truncated(em, x, FLOAT)


# -- integers --------------------------------------------------------------------------------------


@named("abs")
def _absolute(em: Emitter, x: ir.Value) -> ir.Value:
    if not isinstance(scalar_of(x.type), ir.IntType):
        return floats.magnitude(em, x)
    zero = filled(x.type, 0)
    return em.b.select(em.b.icmp_signed("<", x, zero), em.b.sub(zero, x), x)


def _as_i32(em: Emitter, x: ir.Value) -> ir.Value:
    words = shaped(x.type, I32)
    return x if x.type == words else em.b.trunc(x, words)


@named("clz")
def _leading_zeros(em: Emitter, x: ir.Value) -> ir.Value:
    return _as_i32(em, count_bits(em, "ctlz", x))


@named("popc")
def _set_bits(em: Emitter, x: ir.Value) -> ir.Value:
    return _as_i32(em, count_bits(em, "ctpop", x))


@named("ffs")
def _first_set_bit(em: Emitter, x: ir.Value) -> ir.Value:
    """Counted from 1; 0 when no bit is set."""
    first = em.b.add(count_bits(em, "cttz", x), filled(x.type, 1))
    zero = em.b.icmp_signed("==", x, filled(x.type, 0))
    return _as_i32(em, em.b.select(zero, filled(x.type, 0), first))


@named("brev")
def _reversed_bits(em: Emitter, x: ir.Value) -> ir.Value:
    return em.call(f"llvm.bitreverse.{suffix(x.type)}", x.type, [x])


FUNCTIONS["mulhi"] = partial(high_product, signed=True)
FUNCTIONS["umulhi"] = partial(high_product, signed=False)


@named("mul24")
def _product_of_24_bits(em: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    eight = filled(a.type, 8)
    a, b = (em.b.ashr(em.b.shl(x, eight), eight) for x in (a, b))
    return em.b.mul(a, b)


@named("umul24")
def _unsigned_product_of_24_bits(em: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    low = filled(a.type, 0xFFFFFF)
    return em.b.mul(em.b.and_(a, low), em.b.and_(b, low))


def _average(em: Emitter, a: ir.Value, b: ir.Value, signed: bool, up: bool) -> ir.Value:
    """(a + b) / 2 without overflow, rounded down, or up."""
    shift = em.b.ashr if signed else em.b.lshr
    half = shift(em.b.xor(a, b), filled(a.type, 1))
    return em.b.sub(em.b.or_(a, b), half) if up else em.b.add(em.b.and_(a, b), half)


for _name, _signed, _up in (
    ("hadd", True, False), ("uhadd", False, False), ("rhadd", True, True), ("urhadd", False, True),
):
    FUNCTIONS[_name] = partial(_average, signed=_signed, up=_up)


def _distance_plus(em: Emitter, a: ir.Value, b: ir.Value, c: ir.Value, signed: bool) -> ir.Value:
    """|a - b| + c."""
    less = (em.b.icmp_signed if signed else em.b.icmp_unsigned)("<", a, b)
    return em.b.add(em.b.select(less, em.b.sub(b, a), em.b.sub(a, b)), c)


FUNCTIONS["sad"] = partial(_distance_plus, signed=True)
FUNCTIONS["usad"] = partial(_distance_plus, signed=False)


@named("byte_perm")
def _picked_bytes(em: Emitter, a: ir.Value, b: ir.Value, select: ir.Value) -> ir.Value:
    """Four of the eight bytes of b:a, by the low three bits of each nibble of `select`."""
    wide = shaped(a.type, I64)
    both = em.b.or_(em.b.shl(em.b.zext(b, wide), filled(wide, 32)), em.b.zext(a, wide))
    result = filled(a.type, 0)
    for byte in range(4):
        nibble = em.b.and_(em.b.lshr(select, filled(a.type, 4 * byte)), filled(a.type, 7))
        distance = em.b.shl(em.b.zext(nibble, wide), filled(wide, 3))
        picked = em.b.trunc(em.b.lshr(both, distance), shaped(a.type, I8))
        placed = em.b.shl(em.b.zext(picked, a.type), filled(a.type, 8 * byte))
        result = em.b.or_(result, placed)
    return result


__all__ = ["FUNCTIONS"]
