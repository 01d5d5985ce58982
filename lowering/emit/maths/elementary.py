"""Inverse of erf, logarithms, cube roots, tangents and lgamma of fp32 in plain arithmetic.

Intel's OpenCL library looks these up in tables, with up to 72 gathers for 4 elements of a lane.
Here they are polynomials with an error of at most 3 units in the last place, and a fifth to a half
of the instructions.  OpenCL keeps log, for which it has no table, and all functions of fp64.

Calls of `erf` and `fmod` are replaced by `triton_xe.lowering.spirv.library_calls`.

The coefficients were fitted here with 40 digits (mpmath): weighted minimax by Lawson's iteration.
`python/test/language/maths/test_elementary.py` measures the errors over all exponents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from triton_xe.hardware.rounding import to_float32
from triton_xe.lowering.emit.maths.terms import Term, where

LEAST_NORMAL = 2.0**-126

_LOG1P = (
    -0.49999989255424027, 0.3333330832503888, -0.25001515414793196, 0.20003011613545776,
    -0.1661127976269318, 0.1416358545192715, -0.1320795619496385, 0.13003943229800646,
    -0.07824257560924755,
)
"""(log(1 + x) - x) / x² in x, from sqrt(1/2) - 1 to sqrt(2) - 1."""
_ROOT_OF_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""


def polynomial(coefficients: Sequence[float], x: Term) -> Term:
    """The sum of coefficients times powers of x, lowest first, by Horner's rule."""
    made = x.term(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        made = made.fma(x, coefficient)
    return made


def inverted(x: Term) -> Term:
    """1 / x by one instruction, within 1 unit in the last place."""
    return x.with_value(x.em.b.binary("fdiv", x.term(1.0).value, x.value, ("arcp",)))


def _split_constant(value: float, bits: int) -> tuple[float, float]:
    """Split a number into one of `bits` significant bits, and the rest."""
    scale = 2.0 ** (bits - math.frexp(value)[1])
    high = math.floor(value * scale) / scale
    return high, value - high


def logarithm(x: Term, base: float) -> Term:
    """The logarithm to a base."""
    tiny = x < LEAST_NORMAL
    exponent, f = _exponent_and_fraction(where(tiny, x * 2.0**24, x))
    value = _logarithm(exponent - where(tiny, exponent.term(24), 0), f, base)
    special = where(x.equals(0.0), -math.inf, where(x.equals(math.inf), x, x.term(math.nan)))
    return where((x > 0.0) & (x < math.inf), value, special)


def log1p(x: Term) -> Term:
    """Logarithm of 1 + x, corrected for the rounding of that sum."""
    total = x + 1.0
    exponent, f = _exponent_and_fraction(total)
    scale = ((127 - exponent) << 23).bitcast(x.kind)
    f = (x - (total - 1.0)).fma(where(exponent < 64, scale, 0.0), f)
    value = _logarithm(exponent, f, math.e)
    special = where(x.equals(-1.0), -math.inf, where(x < -1.0, math.nan, x))
    return where((x > -1.0) & (x < math.inf) & x.differs(0.0), value, special)


def _exponent_and_fraction(x: Term) -> tuple[Term, Term]:
    """e and f of a normal x = 2^e (1 + f), with f between sqrt(1/2) - 1 and sqrt(2) - 1."""
    exponent = (x.bits - _ROOT_OF_HALF).arithmetic_shift(23)
    return exponent, (x.bits - (exponent << 23)).bitcast(x.kind) - 1.0


def _logarithm(exponent: Term, f: Term, base: float) -> Term:
    """e log(2) + f + f² q(f), from the smallest term to the largest.

    The factors log(2) and, for other bases than e, 1 / log(base) have two parts.  e times the
    larger one is exact.
    """
    unit, e = 1.0 / math.log(base), exponent.to_float(f.kind)
    value = f * f * polynomial([c * unit for c in _LOG1P], f)
    high, low = _split_constant(math.log(2.0) * unit, 12)
    near = to_float32(unit)
    rest = unit - near
    if low:
        value = e.fma(low, value)
    if rest:
        value = f.fma(rest, value)
    value = f.fma(near, value) if near != 1.0 else f + value
    return e.fma(high, value)


_ERFINV_FROM = 6.25
"""-log(1 - x²) where the second polynomial begins."""
_ERFINV_NEAR, _NEAR_CENTRE = (
    1.6536545753479004, 0.24015817046165466, -0.0060337302275002, -0.0007406877120956779,
    0.00018679964705370367, -1.3891452908865176e-05, -1.3919494676883915e-06,
    4.263095547685225e-07, -2.420914846368305e-08, -4.638616157848219e-09, 6.377788297484699e-10,
), 3.125
_ERFINV_FAR, _FAR_CENTRE = (
    3.150883674621582, 0.15164926648139954, -0.0033402047120034695, 0.00014101725537329912,
    -6.8421950345509686e-06, 2.993332373080193e-07, -7.602081630864177e-09,
    -9.554863567018401e-10, 3.0877475576396307e-10, -2.7864544005495873e-11,
), 11.0
"""erfinv(x) / x in -log(1 - x²), from its centre; to 15.95, which is that of 1 - 2^-24."""


def inverse_erf(x: Term) -> Term:
    """The inverse of erf: x p(-log(1 - x²)), a smooth factor (Giles 2012)."""
    inside = (-x).fma(x, 1.0)
    w = -_logarithm(*_exponent_and_fraction(inside), math.e)
    near = polynomial(_ERFINV_NEAR, w - _NEAR_CENTRE)
    far = polynomial(_ERFINV_FAR, w - _FAR_CENTRE)
    value = x * where(w < _ERFINV_FROM, near, far)
    return where(inside > 0.0, value, where(inside.equals(0.0), x * math.inf, math.nan))


def cube_root(x: Term) -> Term:
    """The cube root: 2^(log2(x) / 3), improved by one Newton step; the sign is that of x."""
    size = x.size
    tiny = size < LEAST_NORMAL
    held = where(tiny, size * 2.0**24, size)
    log = held.builtin("native_log2")
    root = (log * (1 / 3)).builtin("native_exp2")
    slope = (log * (-2 / 3)).builtin("native_exp2") * (1 / 3)
    excess = (root * root).fma(root, -held)
    root = (-excess).fma(slope, root)
    root = where(tiny, root * 2.0**-8, root).intrinsic("copysign", x)
    return where((size > 0.0) & (size < math.inf), root, x)


_LGAMMA_AT_1 = (
    -0.5772156715393066, 0.8224669098854065, -0.4006858766078949, 0.27059441804885864,
    -0.20738230645656586, 0.1691313236951828, -0.14392037689685822, 0.13112594187259674,
    -0.1145394891500473, 0.06518366932868958, -0.06548703461885452, 0.1799265444278717,
    -0.15779292583465576,
)
"""lgamma(1 + x) / x in x, from -1/2 to 1/2."""
_LGAMMA_AT_2 = (
    0.42278432846069336, 0.32246702909469604, -0.06735222041606903, 0.020581601187586784,
    -0.007387427147477865, 0.002879060572013259, -0.0011778445914387703, 0.0005698133609257638,
    -0.00026984448777511716,
)
"""lgamma(2 + x) / x in x, from -1/2 to 1/2."""
_SINE_OF_HALF_TURNS = (
    1.0, -1.6449331045150757, 0.811712384223938, -0.19042637944221497, 0.024688273668289185,
)
"""sin(pi x) / (pi x) in x², from 0 to 1/4."""
_STIRLING = (0.5 * math.log(2 * math.pi) - 0.5, 1 / 12, -1 / 360, 1 / 1260)
_STIRLING_FROM = 8.0


def log_gamma(x: Term) -> Term:
    """The logarithm of |gamma(x)|; of negative numbers by reflection.

    For x < 0: log(pi / |x sin(pi x)|) - lgamma(|x|), which has no relative accuracy next to the
    zeros of lgamma.
    """
    size = x.size
    value = _log_gamma(size)
    rest = size - size.intrinsic("rint")
    sine = rest.size * polynomial(_SINE_OF_HALF_TURNS, rest * rest)
    mirrored = -(logarithm(size * sine, math.e) + value)
    value = where((x < 0.0) & (size > 2.0**-30), mirrored, value)
    value = where(size.equals(math.inf), size, value)
    return where(x.is_nan(), x, value)


def _log_gamma(x: Term) -> Term:
    """lgamma of a positive number.

    By polynomials around 1 and 2, to which the rules gamma(x + 1) = x gamma(x) lead, and from 8 on
    by Stirling's series.
    """
    factor, at = x.term(1.0), x
    for _ in range(round(_STIRLING_FROM - 2.5 + 0.5)):
        above = at >= 2.5
        at = where(above, at - 1.0, at)
        factor = where(above, factor * at, factor)
    low, far = x < 0.5, x >= _STIRLING_FROM
    log = logarithm(where(low | far, x, factor), math.e)
    near = at - where(at >= 1.5, at.term(2.0), 1.0)
    near = where(low, x, near)
    ratio = where(at >= 1.5, polynomial(_LGAMMA_AT_2, near), polynomial(_LGAMMA_AT_1, near))
    value = near.fma(ratio, where(low, -log, log))
    inverse = inverted(where(far, x, 1.0))
    series = inverse.fma(polynomial(_STIRLING[1:], inverse * inverse), _STIRLING[0])
    return where(far, (x - 0.5).fma(log - 1.0, series), value)


_TANGENT = (
    0.3333333432674408, 0.13333231210708618, 0.05399450287222862, 0.02162083424627781,
    0.009963114745914936, 0.001183853019028902, 0.0038439733907580376,
)
"""(tan(x) / x - 1) / x² in x², for |x| below pi / 4."""
_QUARTERS = (0x51, 0x7CC1B727, 0x220A94FE, 0x13ABE8FA, 0x9A6EE06D, 0xB14ACC9E, 0x21C820FF)
"""2 / pi in binary, with 25 zeros before the point."""


def tangent(x: Term) -> Term:
    """The tangent, for all numbers of fp32: -1 / tan(r) in odd quarters."""
    size = x.size
    odd, rest = _quarters(size)
    small = size < math.pi / 4
    r = where(small, size, rest)
    square = r * r
    value = (r * square).fma(polynomial(_TANGENT, square), r)
    value = where(odd & ~small, -inverted(value), value)
    value = where(x.is_negative(), -value, value)
    return where(size < math.inf, value, math.nan)


def _quarters(x: Term) -> tuple[Term, Term]:
    """True if the quarter turn next to x >= 1/2 is odd, and x minus it (Payne and Hanek).

    x = m 2^(i - 24) with an integer m.  Only bits of 2 / pi from bit i on count modulo 2.
    """
    exponent = (x.bits >> 23) - 127
    m = (x.bits & 0x7FFFFF) | 0x800000
    m = where(exponent < 0, m, m << 1)
    i = where(exponent < 0, exponent.term(0), exponent)
    words = [i.term(word) for word in _QUARTERS]
    for bit in (2, 1):
        skipped = (i & 32 * bit).differs(0)
        words = [where(skipped, b, a) for a, b in zip(words, words[bit:], strict=False)]
    shift = i & 31
    high, middle, low = (
        (a << shift) | (b >> 1 >> (31 - shift)) for a, b in pairwise(words))
    second, carried = middle * m, low.builtin("mul_hi", m, unsigned=True)
    last = second + carried
    first = high * m + middle.builtin("mul_hi", m, unsigned=True)
    first = first + where(last.compare("ult", second), first.term(1), 0)
    turns = (first << 1) | (last >> 31)
    part = turns.to_float(x.kind)
    lack = (turns - part.to_integer(turns.kind)).to_float(x.kind)
    lack = (last << 1).to_float(x.kind, signed=False).fma(2.0**-32, lack)
    part = part + lack
    unit = math.pi / 2 * 2.0**-32
    near = to_float32(unit)
    odd = ((first >> 31) ^ ((first >> 30) & 1)).differs(0)
    return odd, part.fma(near, part * (unit - near))


ELEMENTARY: dict[str, Callable[[Term], Term]] = {
    "cbrt": cube_root, "log1p": log1p, "log2": partial(logarithm, base=2.0),
    "log10": partial(logarithm, base=10.0), "lgamma": log_gamma, "tan": tangent,
    "erfinv": inverse_erf,
}
"""Functions of fp32 that are written here, by the name of OpenCL's builtin."""


def function(name: str) -> Callable[..., Term]:
    """The function called `name` in OpenCL: its own formula in fp32, else the builtin."""
    def write(x: Term, *others: Term) -> Term:
        own = ELEMENTARY.get(name)
        return x.builtin(name, *others) if own is None or x.is_double else own(x)

    return write
