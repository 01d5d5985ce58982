"""Elementwise functions, exact or in fp64; the tests round the result and know the error bound.

Bounds are those of the OpenCL C specification, section 7.4, in units in the last place of fp32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics.definitions.dpas import add_once

Values = NDArray[Any]
Function = Callable[..., Any]


def _each(function: Function, at_poles: Function = lambda x: math.nan) -> Function:
    """Apply a function of one number to all elements; overflow gives infinity."""

    def safe(x: float) -> float:
        try:
            return float(function(x))
        except OverflowError:
            return math.inf
        except ValueError:
            return float(at_poles(x))

    return np.vectorize(safe, otypes=[np.float64])


def _gamma_at_pole(x: float) -> float:
    return math.nan if x else math.copysign(math.inf, x)


def fma(x: Values, y: Values, z: Values) -> Values:
    """x * y + z, rounded once: products of fp16 and fp32 are exact in fp64."""
    product = x.astype(np.float64) * y.astype(np.float64)
    return add_once(product, z.astype(np.float64))


def ldexp(x: Values, exponent: Values) -> Values:
    return np.ldexp(x, exponent)


def round_half_away(x: Values) -> Values:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def signed_high(x: Values, y: Values) -> Values:
    """The upper half of the product of integers."""
    bits = x.dtype.itemsize * 8
    exact = [int(a) * int(b) >> bits for a, b in zip(x.flat, y.flat, strict=True)]
    return np.array(exact, x.dtype).reshape(x.shape)


def popcount(x: Values) -> Values:
    return np.bitwise_count(x.view(_unsigned(x))).astype(x.dtype)


def clz(x: Values, poison: bool = False) -> Values:
    bits = x.dtype.itemsize * 8
    held = x.view(_unsigned(x))
    return np.array([bits - int(v).bit_length() for v in held.flat], x.dtype).reshape(x.shape)


def ctz(x: Values, poison: bool = False) -> Values:
    bits = x.dtype.itemsize * 8
    held = [int(v) for v in x.view(_unsigned(x)).flat]
    return np.array([(v & -v).bit_length() - 1 if v else bits for v in held], x.dtype)


def absolute(x: Values, poison: bool = False) -> Values:
    return np.abs(x)


def bit_reverse(x: Values) -> Values:
    bits = x.dtype.itemsize * 8
    held = [int(f"{int(v):0{bits}b}"[::-1], 2) for v in x.view(_unsigned(x)).flat]
    return np.array(held, _unsigned(x)).view(x.dtype)


def funnel_left(x: Values, y: Values, by: Values) -> Values:
    """The upper half of x:y shifted left by `by` modulo the width."""
    bits = x.dtype.itemsize * 8
    triples = zip(*(v.view(_unsigned(v)).flat for v in (x, y, by)), strict=True)
    held = [((int(a) << bits | int(b)) << int(n) % bits) >> bits for a, b, n in triples]
    return np.array([v % (1 << bits) for v in held], _unsigned(x)).view(x.dtype)


def funnel_right(x: Values, y: Values, by: Values) -> Values:
    """The lower half of x:y shifted right by `by` modulo the width."""
    bits = x.dtype.itemsize * 8
    triples = zip(*(v.view(_unsigned(v)).flat for v in (x, y, by)), strict=True)
    held = [(int(a) << bits | int(b)) >> int(n) % bits for a, b, n in triples]
    return np.array([v % (1 << bits) for v in held], _unsigned(x)).view(x.dtype)


def saturating(combine: Function, signed: bool) -> Function:
    """Addition or subtraction that saturates at the limits of the type."""

    def run(x: Values, y: Values) -> Values:
        t: Any = x.dtype if signed else _unsigned(x)
        ends = np.iinfo(t)
        exact = (combine(int(a), int(b)) for a, b in zip(x.view(t), y.view(t), strict=True))
        return np.array([min(max(v, ends.min), ends.max) for v in exact], t).view(x.dtype)

    return run


def isnan(x: Values) -> Values:
    return np.isnan(x).astype(np.int32)


def is_class(x: Values, classes: int) -> Values:
    """True for elements of one of the classes of `llvm.is.fpclass`, a sum of bits."""
    quiet = np.isnan(x)
    infinite, zero, negative = np.isinf(x), x == 0, np.signbit(x)
    tiny = (np.abs(x) < np.finfo(x.dtype).tiny) & ~zero
    normal = ~(quiet | infinite | zero | tiny)
    tests = [quiet, quiet, infinite & negative, normal & negative, tiny & negative,
             zero & negative, zero & ~negative, tiny & ~negative, normal & ~negative,
             infinite & ~negative]
    wanted = [held for bit, held in enumerate(tests) if classes >> bit & 1]
    return np.any(wanted, axis=0)


def convert(x: Values, dtype: Any) -> Values:
    """Convert to a type: floats round to nearest even; floats to integers round toward zero."""
    return x.astype(dtype)


def _unsigned(x: Values) -> Any:
    return np.dtype(f"u{x.dtype.itemsize}")


def _combine_as_unsigned(combine: Function) -> Function:
    return lambda x, y: combine(x.view(_unsigned(x)), y.view(_unsigned(y))).view(x.dtype)


FUNCTIONS: dict[str, Function] = {
    "fabs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "round": round_half_away, "sqrt": np.sqrt, "fma": fma, "mad": fma, "fmax": np.fmax,
    "fmin": np.fmin, "copysign": np.copysign, "exp": np.exp, "exp2": np.exp2,
    "exp10": lambda x: 10.0**x, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "cbrt": np.cbrt, "erf": _each(math.erf), "erfc": _each(math.erfc),
    "tgamma": _each(math.gamma, _gamma_at_pole), "lgamma": _each(math.lgamma, lambda x: math.inf),
    "pow": np.power, "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot,
    "rsqrt": lambda x: 1 / np.sqrt(x), "recip": lambda x: 1 / x, "divide": np.divide,
}
"""Functions of floats."""
INTEGER: dict[str, Function] = {
    "mul_hi": signed_high, "clz": clz, "popcount": popcount, "max": np.maximum, "min": np.minimum,
}
"""Functions of integers; the array's type gives the sign."""
LLVM: dict[str, Function] = FUNCTIONS | {
    "fmuladd": fma, "nearbyint": np.rint, "roundeven": np.rint, "maxnum": np.fmax,
    "minnum": np.fmin, "maximum": np.maximum, "minimum": np.minimum, "ctpop": popcount,
    "fshl": funnel_left, "fshr": funnel_right, "smax": np.maximum, "smin": np.minimum,
    "umax": _combine_as_unsigned(np.maximum), "umin": _combine_as_unsigned(np.minimum),
    "bswap": lambda x: x.byteswap(), "bitreverse": bit_reverse,
    "sadd.sat": saturating(int.__add__, True), "uadd.sat": saturating(int.__add__, False),
    "ssub.sat": saturating(int.__sub__, True), "usub.sat": saturating(int.__sub__, False),
}
"""Functions of LLVM, by the rest of their name."""


def _in_order(combine: Function) -> Function:
    """Reduce the last axis, the elements of a work-item's vector, after a start value if there is
    one.
    """

    def run(value: Values, start: Values | None = None) -> Values:
        parts = [*([] if start is None else [start]), *np.moveaxis(value, -1, 0)]
        return reduce(combine, parts)

    return run


_COMBINERS: dict[str, Function] = {
    "add": np.add, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "smax": np.maximum, "smin": np.minimum,
    "umax": _combine_as_unsigned(np.maximum), "umin": _combine_as_unsigned(np.minimum),
    "fadd": np.add, "fmul": np.multiply, "fmax": np.fmax, "fmin": np.fmin,
}
REDUCTIONS = {name: _in_order(combine) for name, combine in _COMBINERS.items()}
"""Definitions of `llvm.vector.reduce.*`."""
