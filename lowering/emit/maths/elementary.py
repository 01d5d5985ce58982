"""erf, logarithms and cube roots of fp32 in plain arithmetic.

Intel's OpenCL library looks these up in tables, with up to 64 gathers for 16 elements of a lane.
Here they are polynomials with an error of at most 1.5 units in the last place.  They take a fifth
to a third of the instructions; erf takes as many as before, without its 16 gathers.  log stays with
OpenCL, which has no table for it.  So does fp64.

The coefficients were fitted here with 40 digits (mpmath): weighted minimax by Lawson's iteration.
`python/test/language/maths/test_elementary.py` measures the errors over all exponents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from triton_xe.lowering.emit.maths.terms import Term, where

LEAST_NORMAL = 2.0**-126

_ERF_NEAR = (
    0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853810995817184,
    0.005188327748328447, -0.0008010192541405559, 7.853857823647559e-05,
)
"""erf(x) / x - 1 in x², for |x| below 1."""
_ERFC_FAR = (
    -0.0004926990368403494, -1.626046061515808, -0.9206482768058777, -0.14875169098377228,
    0.03150571137666702, -0.004252583719789982, 0.0002688895910978317,
)
"""log2(erfc(x)) in x, from 1 to `_ERF_IS_ONE`."""
_ERF_IS_ONE = 3.95
"""From here on erf rounds to 1."""
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
    made = x.of(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        made = made.fma(x, coefficient)
    return made


def erf(x: Term) -> Term:
    """The error function: x + x p(x²) near zero, else 1 - 2^q(|x|) with the sign of x."""
    size = x.size
    near = x.fma(polynomial(_ERF_NEAR, x * x), x)
    held = size.intrinsic("minnum", _ERF_IS_ONE)
    far = 1.0 - polynomial(_ERFC_FAR, held).builtin("native_exp2")
    return where(size >= 1.0, far.intrinsic("copysign", x), near)


def _parts(value: float, bits: int) -> tuple[float, float]:
    """Split a number into one of `bits` significant bits, and the rest."""
    scale = 2.0 ** (bits - math.frexp(value)[1])
    high = math.floor(value * scale) / scale
    return high, value - high


def logarithm(x: Term, base: float) -> Term:
    """The logarithm to a base."""
    tiny = x < LEAST_NORMAL
    exponent, f = _split(where(tiny, x * 2.0**24, x))
    value = _logarithm(exponent - where(tiny, exponent.of(24), 0), f, base)
    special = where(x.equals(0.0), -math.inf, where(x.equals(math.inf), x, x.of(math.nan)))
    return where((x > 0.0) & (x < math.inf), value, special)


def log1p(x: Term) -> Term:
    """Logarithm of 1 + x, corrected for the rounding of that sum."""
    total = x + 1.0
    exponent, f = _split(total)
    scale = ((127 - exponent) << 23).bitcast(x.kind)
    f = (x - (total - 1.0)).fma(where(exponent < 64, scale, 0.0), f)
    value = _logarithm(exponent, f, math.e)
    special = where(x.equals(-1.0), -math.inf, where(x < -1.0, math.nan, x))
    return where((x > -1.0) & (x < math.inf) & x.differs(0.0), value, special)


def _split(x: Term) -> tuple[Term, Term]:
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
    high, low = _parts(math.log(2.0) * unit, 12)
    near, rest = float(np.float32(unit)), unit - float(np.float32(unit))
    if low:
        value = e.fma(low, value)
    if rest:
        value = f.fma(rest, value)
    value = f.fma(near, value) if near != 1.0 else f + value
    return e.fma(high, value)


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


ELEMENTARY: dict[str, Callable[[Term], Term]] = {
    "erf": erf, "cbrt": cube_root, "log1p": log1p, "log2": partial(logarithm, base=2.0),
    "log10": partial(logarithm, base=10.0),
}
"""Functions of fp32 that are written here, by the name of OpenCL's builtin."""


def function(name: str) -> Callable[..., Term]:
    """The function called `name` in OpenCL: its own formula in fp32, else the builtin."""
    own = ELEMENTARY.get(name)

    def write(x: Term, *others: Term) -> Term:
        return x.builtin(name, *others) if own is None or x.is_double else own(x)

    return write
