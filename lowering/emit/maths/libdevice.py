"""Lowering of `tt.extern_elementwise`: the functions of `triton.language.extra.libdevice`.

`backend.libdevice` gives each function the symbol `__xe_<name>`.  A function here gets terms of
float, double, i32 or i64 and returns one of the declared type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from triton_xe import llvm as ir
from triton_xe.dialects.tt.structure import ExternElementwiseOp
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.rounding import to_float32
from triton_xe.lowering.emit.arithmetic import elementwise
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths import directed_rounding, elementary, floats, special
from triton_xe.lowering.emit.maths.conversions import widest
from triton_xe.lowering.emit.maths.functions import absolute, arcp_quotient, called, high_product
from triton_xe.lowering.emit.maths.terms import Term, exact_quotient, exact_root, where
from triton_xe.lowering.emit.types import DOUBLE, FLOAT, I1, I8, I32, I64, scalar_type
from triton_xe.lowering.module_facts import remark

Function = Callable[..., Term]
PREFIX = "__xe_"


@lowers(ExternElementwiseOp)
def lower_extern(em: Emitter, op: ExternElementwiseOp) -> None:
    symbol = op.symbol.data
    function = FUNCTIONS.get(symbol.removeprefix(PREFIX))
    if function is None or not symbol.startswith(PREFIX):
        raise UnsupportedError(
            f"external function {symbol} does not exist on Xe GPUs; use one of "
            "triton.language.extra.libdevice, or tl operations"
        )
    if op.libname.data:
        remark(op, f"{symbol.removeprefix(PREFIX)} of {op.libname.data}'s libdevice is that of "
                   "triton.language.extra.libdevice")
    chosen, kinds, into = function, [v.type for v in op.srcs], scalar_type(op.result.type)

    def write(*args: ir.Operand) -> ir.Operand:
        made = chosen(*(Term(em, widest(em, k, a)) for k, a in zip(kinds, args, strict=True)))
        return made.resized(into).value if made.kind == I1 else made.value

    elementwise(em, op, write)


_INTRINSICS = {
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "nearbyint": "rint",
    "round": "round", "sqrt": "sqrt", "fma": "fma", "fma_rn": "fma", "copysign": "copysign",
}
_SAME_BUILTINS = (
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc exp exp10 exp2 expm1 fmod hypot "
    "ldexp lgamma log log10 log1p log2 pow rsqrt sin sinh tan tanh tgamma"
).split()
_BUILTINS = {
    "scalbn": "ldexp", "fast_sinf": "native_sin", "fast_cosf": "native_cos",
    "fast_tanf": "native_tan", "fast_log2f": "native_log2", "fast_logf": "native_log",
    "fast_log10f": "native_log10", "fast_expf": "native_exp", "fast_exp10f": "native_exp10",
    "fast_tanhf": "tanh",
}


# -- floats ----------------------------------------------------------------------------------------


def _reciprocal_root(x: Term) -> Term:
    """1 / sqrt(x), improved by a Newton step on 1 - x y² in twice the precision."""
    y = exact_quotient(x.term(1.0), exact_root(x))
    product = x * y
    rest = x.fma(y, -product)
    lack = (-product).fma(y, 1.0) - rest * y
    better = (y * 0.5).fma(lack, y)
    return where(better.is_finite(), better, y)


def _remainder(x: Term, y: Term) -> Term:
    """x - n y for the n nearest to x / y, exactly: fmod by 2y, then at most two subtractions."""
    size = y.size
    rest = x.size.builtin("fmod", size + size)
    over = rest + rest > size
    once = rest - size
    twice = where(once + once >= size, once - size, once)
    result = where(over, twice, rest)
    negated = where(x.is_negative(), -result, result)
    return where(size.equals(0.0), math.nan, negated)


def _integer_power(x: Term, n: Term) -> Term:
    """x^n for integers n: pow of |x|, negated for odd n and negative x."""
    power = x.size.builtin("pow", n.to_float(x.kind))
    odd = (n & 1).differs(0)
    return where(odd & x.is_negative(), -power, power)


def _of_pi_x(x: Term, name: str) -> Term:
    """sin(pi x) or cos(pi x): (-1)^n times the function of pi (x - n), n the integer nearest to x.

    cos(pi r) = sin(pi (1/2 - |r|)) near its zeros, where r is the distance to an integer.
    """
    whole = x.intrinsic("rint")
    rest = x - whole
    if name == "cos":
        rest = rest.size
        near_zero = ((0.5 - rest) * math.pi).builtin("sin")
        value = where(rest > 0.25, near_zero, (rest * math.pi).builtin("cos"))
    else:
        value = (rest * math.pi).builtin("sin")
    half = whole * 0.5
    return where(half.intrinsic("floor").differs(half), -value, value)


def _normal_distribution(x: Term) -> Term:
    """erfc(-x / sqrt(2)) / 2, corrected to first order for the rounded argument."""
    factor = -math.sqrt(0.5)
    held = factor if x.is_double else to_float32(factor)
    z = x * held
    rest = x.fma(factor - held, x.fma(held, -z))
    slope = (-(z * z)).builtin("exp") * -math.sqrt(1 / math.pi)
    value = z.builtin("erfc").fma(0.5, slope * rest)
    far = x.size > 50.0
    return where(far, where(x < 0.0, x.term(0.0), x.term(1.0)), value)


def _norm(length: Term, *others: Term) -> Term:
    for other in others:
        length = length.builtin("hypot", other)
    return length


def _reciprocal_norm(*args: Term) -> Term:
    return 1.0 / _norm(*args)


# -- the bits of floats ----------------------------------------------------------------------------


def _next_after(x: Term, y: Term) -> Term:
    """The next number after x toward y, by a step of its bits."""
    bits = x.bits
    toward = (x < y) ^ (x > 0.0)
    moved = where(toward, bits - 1, bits + 1)
    smallest = bits.term(1).bitcast(x.kind).intrinsic("copysign", y)
    zero = x.equals(0.0)
    step = where(zero, smallest, moved.bitcast(x.kind))
    result = where(x.equals(y), y, step)
    return where(x.compare("uno", y), x + y, result)


def _exponent(x: Term) -> Term:
    """The exponent of a finite number that is not zero, as an integer of its width."""
    mantissa, bias = (52, 1023) if x.is_double else (23, 127)
    bits = x.size.bits
    normal = (bits >> mantissa) - bias
    leading = bits.count_bits("ctlz")
    tiny = x.width - mantissa - bias - leading
    return where(bits.compare("ult", 1 << mantissa), tiny, normal)


def _integer_logarithm(x: Term) -> Term:
    """ilogb: the exponent; the least integer for zero and NaN, the largest for infinities."""
    found = _exponent(x).resized(I32)
    found = where(x.is_infinite(), 0x7FFFFFFF, found)
    return where(x.compare("ueq", 0.0), -(1 << 31), found)


def _float_logarithm(x: Term) -> Term:
    """logb: the exponent as a float; -infinity for zero, and infinities and NaN by their size."""
    found = _exponent(x).to_float(x.kind)
    found = where(x.equals(0.0), -math.inf, found)
    return where(x.is_finite(), found, x.size)


def _from_words(high: Term, low: Term) -> Term:
    return (high.resized(I64) << 32 | low.resized(I64)).bitcast(DOUBLE)


# -- conversions -----------------------------------------------------------------------------------

_ROUNDINGS = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}
_INTEGERS = {"int": (I32, True), "uint": (I32, False), "ll": (I64, True), "ull": (I64, False)}
_BITS = {
    "float_as_int": I32, "float_as_uint": I32, "int_as_float": FLOAT, "uint_as_float": FLOAT,
    "double_as_longlong": I64, "longlong_as_double": DOUBLE,
}


def _to_integer(x: Term, rounding: str, kind: ir.Type, signed: bool) -> Term:
    return x.intrinsic(rounding).to_integer(kind, signed=signed)


def _from_integer(x: Term, kind: ir.Type, signed: bool) -> Term:
    return x.to_float(kind, signed=signed)


def _as_bits(x: Term, kind: ir.Type) -> Term:
    return x.bitcast(kind)


# -- integers --------------------------------------------------------------------------------------


def _first_set_bit(x: Term) -> Term:
    """Position of the lowest set bit, counted from 1; 0 if no bit is set."""
    first = x.count_bits("cttz") + 1
    return where(x.equals(0), 0, first).resized(I32)


def _product_of_24_bits(a: Term, b: Term) -> Term:
    """Product of the low 24 bits, taken as signed integers."""
    a, b = ((x << 8).arithmetic_shift(8) for x in (a, b))
    return a * b


def _average(a: Term, b: Term, signed: bool, up: bool) -> Term:
    """(a + b) / 2 without overflow, rounded down, or up."""
    differing = a ^ b
    half = differing.arithmetic_shift(1) if signed else differing >> 1
    return (a | b) - half if up else (a & b) + half


def _distance_plus(a: Term, b: Term, c: Term, signed: bool) -> Term:
    """|a - b| + c."""
    return where(a < b if signed else a.compare("ult", b), b - a, a - b) + c


def _picked_bytes(a: Term, b: Term, select: Term) -> Term:
    """Four of the eight bytes of a (low) and b, chosen by the nibbles of `select`, 3 bits each."""
    both = b.resized(I64) << 32 | a.resized(I64)
    result = a.term(0)
    for byte in range(4):
        nibble = select >> 4 * byte & 7
        picked = (both >> (nibble.resized(I64) << 3)).resized(I8)
        result = result | picked.resized(a.kind) << 8 * byte
    return result


FUNCTIONS: dict[str, Function] = {
    **{name: called("intrinsic", of) for name, of in _INTRINSICS.items()},
    **{name: elementary.function(name) for name in _SAME_BUILTINS},
    **{name: called("builtin", of) for name, of in _BUILTINS.items()},
    **special.FUNCTIONS,
    **directed_rounding.FUNCTIONS,
    "add_rn": lambda a, b: a + b, "sub_rn": lambda a, b: a - b, "mul_rn": lambda a, b: a * b,
    "div_rn": exact_quotient, "sqrt_rn": exact_root, "rsqrt_rn": _reciprocal_root,
    "rcp_rn": lambda x: exact_quotient(x.term(1.0), x),
    "fast_dividef": arcp_quotient,
    "fast_powf": lambda a, b: (b * a.builtin("native_log2")).builtin("native_exp2"),
    "rcbrt": lambda x: 1.0 / elementary.function("cbrt")(x),
    "saturatef": lambda x: x.intrinsic("maxnum", 0.0).intrinsic("minnum", 1.0),
    "fdim": lambda a, b: where(a <= b, 0.0, a - b),
    "remainder": _remainder, "pown": _integer_power,
    "sinpi": partial(_of_pi_x, name="sin"), "cospi": partial(_of_pi_x, name="cos"),
    "normcdf": _normal_distribution,
    "normcdfinv": lambda x: special.erfcinv(x * 2.0) * -math.sqrt(2.0),
    **dict.fromkeys(("norm3d", "norm4d"), _norm),
    **dict.fromkeys(("rhypot", "rnorm3d", "rnorm4d"), _reciprocal_norm),
    **dict.fromkeys(("signbit", "signbitf", "signbitd"), Term.is_negative),
    **dict.fromkeys(("isinf", "isinff", "isinfd"), Term.is_infinite),
    **dict.fromkeys(("isfinited", "finitef"), Term.is_finite),
    "isnan": Term.is_nan, "nextafter": _next_after,
    "ilogb": _integer_logarithm, "logb": _float_logarithm,
    **{name: partial(_as_bits, kind=kind) for name, kind in _BITS.items()},
    "double2loint": lambda x: x.bits.resized(I32),
    "double2hiint": lambda x: (x.bits >> 32).resized(I32),
    "hiloint2double": _from_words,
    **{
        f"{source}2{letters}_{short}":
            partial(_to_integer, rounding=rounding, kind=kind, signed=signed)
        for letters, (kind, signed) in _INTEGERS.items()
        for short, rounding in _ROUNDINGS.items() for source in ("float", "double")
    },
    **{
        f"{letters}2{into}_rn": partial(_from_integer, kind=kind, signed=signed)
        for letters, (_, signed) in _INTEGERS.items()
        for into, kind in (("float", FLOAT), ("double", DOUBLE))
    },
    "llrint": partial(_to_integer, rounding="rint", kind=I64, signed=True),
    "llround": partial(_to_integer, rounding="round", kind=I64, signed=True),
    "double2float_rn": lambda x: x.resized(FLOAT),
    "double2float_rz": lambda x: floats.truncated(x, FLOAT),
    "abs": lambda x: absolute(x) if x.is_integer else x.size,
    "clz": lambda x: x.count_bits("ctlz").resized(I32),
    "popc": lambda x: x.count_bits("ctpop").resized(I32),
    "ffs": _first_set_bit,
    "brev": called("intrinsic", "bitreverse"),
    "mulhi": partial(high_product, signed=True), "umulhi": partial(high_product, signed=False),
    "mul24": _product_of_24_bits,
    "umul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "hadd": partial(_average, signed=True, up=False),
    "uhadd": partial(_average, signed=False, up=False),
    "rhadd": partial(_average, signed=True, up=True),
    "urhadd": partial(_average, signed=False, up=True),
    "sad": partial(_distance_plus, signed=True), "usad": partial(_distance_plus, signed=False),
    "byte_perm": _picked_bytes,
}
