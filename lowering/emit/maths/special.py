"""Special functions from Chebyshev series: Bessel functions, scaled and inverse error functions.

Every function is split where its behaviour changes.  Each part is a factor in closed form times a
smooth one, whose series is in `chebyshev.SERIES`.  The argument of a series is mapped to [-1, 1].
Both parts are computed and one is selected, so that lanes do not diverge.

Sources of the splits:

- Abramowitz and Stegun 9.1.13: the logarithm in Y0 and Y1;
- Abramowitz and Stegun 9.2.5 and 9.2.6: modulus and phase for large arguments; 9.7.1: I0 and I1;
- Shepherd and Laframboise 1981: the variable in which (1 + 2x) exp(x²) erfc(x) is smooth;
- Giles 2012: log(1 - x²) in erfinv.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from triton_xe.lowering.emit.maths import elementary
from triton_xe.lowering.emit.maths.chebyshev import SERIES
from triton_xe.lowering.emit.maths.terms import Term, where

_log1p = elementary.function("log1p")
SPLIT = 8.0
_ERFCX_CENTRE = 3.75


def series(name: str, t: Term) -> Term:
    """The Chebyshev series at t in [-1, 1], by Clenshaw's recurrence."""
    terms = SERIES[name]
    least = max(map(abs, terms)) * (2.0**-54 if t.is_double else 2.0**-26)
    while abs(terms[-1]) < least:
        terms = terms[:-1]
    twice = t + t
    ahead, further = t.term(terms[-1]), t.term(0.0)
    for term in reversed(terms[1:-1]):
        ahead, further = twice.fma(ahead, term) - further, ahead
    return t.fma(ahead, terms[0]) - further


def _small(size: Term) -> tuple[Term, Term]:
    """min(size, 8), and its square mapped from [0, 64]."""
    held = size.intrinsic("minnum", SPLIT)
    return held, (held * held).fma(1 / 32, -1.0)


def _large(size: Term) -> tuple[Term, Term]:
    """8 / max(size, 8), and its square mapped from [0, 1]."""
    ratio = SPLIT / size.intrinsic("maxnum", SPLIT)
    return ratio, (ratio * ratio).fma(2.0, -1.0)


def _waves(size: Term, order: int, second_kind: bool) -> Term:
    """J or Y of a large argument: sqrt(2 / pi x) (P cos - Q sin), or (P sin + Q cos)."""
    ratio, t = _large(size)
    p, q = series(f"p{order}", t), series(f"q{order}", t) * ratio
    sine, cosine = size.builtin("sin"), size.builtin("cos")
    total, difference = sine + cosine, sine - cosine
    along, across = (total, difference) if order == 0 else (difference, -total)
    wave = p * across + q * along if second_kind else p * along - q * across
    wave = wave * (size * math.pi).builtin("rsqrt")
    return where(size.equals(math.inf), 0.0, wave)


def bessel_j(x: Term, order: int) -> Term:
    """J0 or J1."""
    size = x.size
    held, t = _small(size)
    near = series(f"j{order}", t)
    if order == 1:
        near = near * held
    value = where(size < SPLIT, near, _waves(size, order, second_kind=False))
    if order == 1:
        value = where(x < 0.0, -value, value)
    return _keep_nan(x, value)


def bessel_y(x: Term, order: int) -> Term:
    """Y0 or Y1; minus infinity at zero, NaN below."""
    held, t = _small(x)
    logarithm = held.builtin("log") * (2 / math.pi)
    regular, first = series(f"y{order}", t), series(f"j{order}", t)
    if order == 0:
        near = logarithm.fma(first, regular)
    else:
        near = held.fma(logarithm.fma(first, regular), -2 / math.pi / held)
    value = where(x < SPLIT, near, _waves(x, order, second_kind=True))
    value = where(x.equals(0.0), -math.inf, value)
    return _keep_nan(x, where(x < 0.0, math.nan, value))


def bessel_i(x: Term, order: int) -> Term:
    """I0 or I1: exp(|x|) times a series.

    A large |x| takes exp(|x| / 2) twice, because exp(|x|) overflows before the result does.
    """
    size = x.size
    held = size.intrinsic("minnum", SPLIT)
    near = series(f"i{order}_small", held.fma(0.25, -1.0))
    if order == 1:
        near = near * held
    near = near * held.builtin("exp")
    ratio = SPLIT / size.intrinsic("maxnum", SPLIT)
    far = series(f"i{order}_large", ratio.fma(2.0, -1.0)) * size.builtin("rsqrt")
    root = (size * 0.5).builtin("exp")
    far = far * root * root
    far = where(size.equals(math.inf), math.inf, far)
    value = where(size < SPLIT, near, far)
    if order == 1:
        value = where(x < 0.0, -value, value)
    return _keep_nan(x, value)


def _keep_nan(x: Term, value: Term) -> Term:
    return where(x.is_nan(), x, value)


def exp_of_square(x: Term) -> Term:
    """exp(x²), corrected for the rounding of x², which exp would multiply by x²."""
    square = x * x
    rest = x.fma(x, -square)
    grown = square.builtin("exp")
    exact = grown.fma(rest, grown)
    return where(grown.equals(math.inf), math.inf, exact)


def erfcx(x: Term) -> Term:
    """exp(x²) erfc(x)."""
    size = x.size
    t = (size - _ERFCX_CENTRE) / (size + _ERFCX_CENTRE)
    t = where(size.equals(math.inf), 1.0, t)
    value = series("erfcx", t) / size.fma(2.0, 1.0)
    mirrored = exp_of_square(size) * 2.0 - value
    return _keep_nan(x, where(x < 0.0, mirrored, value))


def _inverse_error(w: Term, middle_factor: Term) -> Term:
    """erfinv(x) from w = -log(1 - x²); `middle_factor` is |x|."""
    central = w.intrinsic("minnum", 5.0)
    middle = series("erfinv_middle", central.fma(0.4, -1.0)) * middle_factor
    low, high = math.sqrt(5.0), 6.1
    root = w.intrinsic("maxnum", 5.0).intrinsic("sqrt")
    t = root.fma(2 / (high - low), -(high + low) / (high - low))
    return where(w < 5.0, middle, series("erfinv_tail", t) * root)


def erfinv(x: Term) -> Term:
    """The inverse of erf; infinite at -1 and 1, NaN beyond."""
    if not x.is_double:
        return elementary.inverse_erf(x)
    size = x.size
    inside = (1.0 - size) * (1.0 + size)
    w = where(size < 0.25, -_log1p(-(size * size)), -inside.builtin("log"))
    value = _inverse_error(w, size)
    value = where(size.equals(1.0), math.inf, value)
    value = where(size > 1.0, math.nan, value)
    return _keep_nan(x, value.intrinsic("copysign", x))


def erfcinv(x: Term) -> Term:
    """The inverse of erfc: infinite at 0 and 2, NaN outside.

    Near zero w = -log(1 - (1 - x)²) = -log(x (2 - x)), without cancellation.  Beyond the
    range of `erfinv_tail` Newton's method solves for log(erfc), whose error is relative.
    """
    folded = x.intrinsic("minnum", 2.0 - x)
    distance = 1.0 - folded
    w = -(folded * (2.0 - folded)).builtin("log")
    near = -(-(distance * distance)).builtin("log1p")
    w = where(distance < 0.25, near, w)
    value = _inverse_error(w.intrinsic("minnum", 37.0), distance)
    value = where(w > 37.0, _far_tail(folded, w), value)
    value = where(folded.equals(0.0), math.inf, value)
    value = where(folded < 0.0, math.nan, value)
    return _keep_nan(x, where(x > 1.0, -value, value))


def _far_tail(x: Term, w: Term) -> Term:
    """y with erfc(y) = x for tiny x: y² + log(y sqrt(pi)) = -log x, then Newton steps.

    With erfc(y) = exp(-y²) erfcx(y), log erfc has the slope -2 / (sqrt(pi) erfcx(y)).
    """
    target = -x.builtin("log")
    y = (target - (target * math.pi).builtin("log") * 0.5).intrinsic("sqrt")
    for _ in range(3):
        scaled = erfcx(y)
        lack = (y * y - target) + -scaled.builtin("log")
        y = y - lack * scaled * (math.sqrt(math.pi) / 2)
    return y


FUNCTIONS: dict[str, Callable[..., Term]] = {
    "j0": partial(bessel_j, order=0), "j1": partial(bessel_j, order=1),
    "y0": partial(bessel_y, order=0), "y1": partial(bessel_y, order=1),
    "cyl_bessel_i0": partial(bessel_i, order=0), "cyl_bessel_i1": partial(bessel_i, order=1),
    "erfcx": erfcx, "erfinv": erfinv, "erfcinv": erfcinv,
}
