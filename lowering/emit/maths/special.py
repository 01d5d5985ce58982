"""Special functions from Chebyshev series: Bessel functions, scaled and inverse error functions.

Every function is split where its behaviour changes; each part is a factor known in closed form
times a smooth one, whose series is in `chebyshev.SERIES`.  The argument of a series is mapped to
[-1, 1].  Both parts are computed and one is selected, so that lanes stay together.

Sources of the splits: Abramowitz and Stegun 9.1.13 (the logarithm in Y0 and Y1), 9.2.5 and 9.2.6
(modulus and phase for large arguments), 9.7.1 (I0 and I1); Shepherd and Laframboise 1981 for the
variable in which (1 + 2x) exp(x²) erfc(x) is smooth; Giles 2012 for log(1 - x²) in erfinv.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.maths import floats
from triton_xe.lowering.emit.maths.chebyshev import SERIES
from triton_xe.lowering.emit.maths.functions import builtin, intrinsic
from triton_xe.lowering.emit.types import DOUBLE

SPLIT = 8.0
_ERFCX_CENTRE = 3.75


class Formula:
    """Writes float or double formulas; numbers may be given where values are expected."""

    def __init__(self, em: Emitter, like: ir.Value) -> None:
        self.em, self.b, self.kind = em, em.b, like.type
        self.is_double = floats.scalar_of(like.type) == DOUBLE

    def of(self, value: Any) -> ir.Value:
        return value if isinstance(value, ir.Value) else floats.filled(self.kind, float(value))

    def add(self, a: Any, b: Any) -> ir.Value:
        return self.b.fadd(self.of(a), self.of(b))

    def sub(self, a: Any, b: Any) -> ir.Value:
        return self.b.fsub(self.of(a), self.of(b))

    def mul(self, a: Any, b: Any) -> ir.Value:
        return self.b.fmul(self.of(a), self.of(b))

    def div(self, a: Any, b: Any) -> ir.Value:
        return self.b.fdiv(self.of(a), self.of(b))

    def fma(self, a: Any, b: Any, c: Any) -> ir.Value:
        return intrinsic(self.em, "fma", self.of(a), self.of(b), self.of(c))

    def neg(self, a: ir.Value) -> ir.Value:
        return self.b.fneg(a)

    def call(self, name: str, *args: ir.Value) -> ir.Value:
        return builtin(self.em, name, *args)

    def intrinsic(self, name: str, *args: ir.Value) -> ir.Value:
        return intrinsic(self.em, name, *args)

    def test(self, sign: str, a: Any, b: Any) -> ir.Value:
        """An ordered comparison."""
        return self.b.fcmp_ordered(sign, self.of(a), self.of(b))

    def where(self, test: ir.Value, a: Any, b: Any) -> ir.Value:
        return self.b.select(test, self.of(a), self.of(b))

    def series(self, name: str, t: ir.Value) -> ir.Value:
        """The Chebyshev series at t in [-1, 1], by Clenshaw's recurrence."""
        terms = SERIES[name]
        least = max(map(abs, terms)) * (2.0**-54 if self.is_double else 2.0**-26)
        while abs(terms[-1]) < least:
            terms = terms[:-1]
        twice = self.add(t, t)
        ahead, further = self.of(terms[-1]), self.of(0.0)
        for term in reversed(terms[1:-1]):
            ahead, further = self.sub(self.fma(twice, ahead, term), further), ahead
        return self.sub(self.fma(t, ahead, terms[0]), further)


def _small(f: Formula, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """min(size, 8), and its square mapped from [0, 64]."""
    held = f.intrinsic("minnum", size, f.of(SPLIT))
    return held, f.fma(f.mul(held, held), 1 / 32, -1.0)


def _large(f: Formula, size: ir.Value) -> tuple[ir.Value, ir.Value]:
    """8 / max(size, 8), and its square mapped from [0, 1]."""
    ratio = f.div(SPLIT, f.intrinsic("maxnum", size, f.of(SPLIT)))
    return ratio, f.fma(f.mul(ratio, ratio), 2.0, -1.0)


def _waves(f: Formula, size: ir.Value, order: int, second_kind: bool) -> ir.Value:
    """J or Y of a large argument: sqrt(2 / pi x) (P cos - Q sin), or (P sin + Q cos)."""
    ratio, t = _large(f, size)
    p, q = f.series(f"p{order}", t), f.mul(f.series(f"q{order}", t), ratio)
    sine, cosine = f.call("sin", size), f.call("cos", size)
    total, difference = f.add(sine, cosine), f.sub(sine, cosine)
    along, across = (total, difference) if order == 0 else (difference, f.neg(total))
    if second_kind:
        wave = f.add(f.mul(p, across), f.mul(q, along))
    else:
        wave = f.sub(f.mul(p, along), f.mul(q, across))
    wave = f.mul(wave, f.call("rsqrt", f.mul(size, math.pi)))
    return f.where(f.test("==", size, math.inf), 0.0, wave)


def bessel_j(em: Emitter, order: int, x: ir.Value) -> ir.Value:
    """J0 or J1."""
    f = Formula(em, x)
    size = floats.magnitude(em, x)
    held, t = _small(f, size)
    near = f.series(f"j{order}", t)
    if order == 1:
        near = f.mul(near, held)
    value = f.where(f.test("<", size, SPLIT), near, _waves(f, size, order, second_kind=False))
    if order == 1:
        value = f.where(f.test("<", x, 0.0), f.neg(value), value)
    return _keep_nan(f, x, value)


def bessel_y(em: Emitter, order: int, x: ir.Value) -> ir.Value:
    """Y0 or Y1; minus infinity at zero, NaN below."""
    f = Formula(em, x)
    held, t = _small(f, x)
    logarithm = f.mul(f.call("log", held), 2 / math.pi)
    regular, first = f.series(f"y{order}", t), f.series(f"j{order}", t)
    if order == 0:
        near = f.fma(logarithm, first, regular)
    else:
        near = f.fma(held, f.fma(logarithm, first, regular), f.div(-2 / math.pi, held))
    value = f.where(f.test("<", x, SPLIT), near, _waves(f, x, order, second_kind=True))
    value = f.where(f.test("==", x, 0.0), -math.inf, value)
    return _keep_nan(f, x, f.where(f.test("<", x, 0.0), math.nan, value))


def bessel_i(em: Emitter, order: int, x: ir.Value) -> ir.Value:
    """I0 or I1: exp(x) times a series; exp is taken in two factors, which overflow later."""
    f = Formula(em, x)
    size = floats.magnitude(em, x)
    held = f.intrinsic("minnum", size, f.of(SPLIT))
    near = f.series(f"i{order}_small", f.fma(held, 0.25, -1.0))
    if order == 1:
        near = f.mul(near, held)
    near = f.mul(near, f.call("exp", held))
    ratio = f.div(SPLIT, f.intrinsic("maxnum", size, f.of(SPLIT)))
    far = f.mul(f.series(f"i{order}_large", f.fma(ratio, 2.0, -1.0)), f.call("rsqrt", size))
    root = f.call("exp", f.mul(size, 0.5))
    far = f.mul(f.mul(far, root), root)
    far = f.where(f.test("==", size, math.inf), math.inf, far)
    value = f.where(f.test("<", size, SPLIT), near, far)
    if order == 1:
        value = f.where(f.test("<", x, 0.0), f.neg(value), value)
    return _keep_nan(f, x, value)


def _keep_nan(f: Formula, x: ir.Value, value: ir.Value) -> ir.Value:
    return f.b.select(f.b.fcmp_unordered("uno", x, x), x, value)


def square_in_two(f: Formula, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """x² as a number and what rounding took off."""
    square = f.mul(x, x)
    return square, f.fma(x, x, f.neg(square))


def exp_of_square(f: Formula, x: ir.Value) -> ir.Value:
    """exp(x²) with the relative error of exp, not x² times it."""
    square, rest = square_in_two(f, x)
    grown = f.call("exp", square)
    exact = f.fma(grown, rest, grown)
    return f.where(f.test("==", grown, math.inf), math.inf, exact)


def erfcx(em: Emitter, x: ir.Value) -> ir.Value:
    """exp(x²) erfc(x)."""
    f = Formula(em, x)
    size = floats.magnitude(em, x)
    t = f.div(f.sub(size, _ERFCX_CENTRE), f.add(size, _ERFCX_CENTRE))
    t = f.where(f.test("==", size, math.inf), 1.0, t)
    value = f.div(f.series("erfcx", t), f.fma(size, 2.0, 1.0))
    mirrored = f.sub(f.mul(exp_of_square(f, size), 2.0), value)
    return _keep_nan(f, x, f.where(f.test("<", x, 0.0), mirrored, value))


def _inverse_error(f: Formula, w: ir.Value, middle_factor: ir.Value) -> ir.Value:
    """erfinv(x) from w = -log(1 - x²); `middle_factor` is |x|."""
    central = f.intrinsic("minnum", w, f.of(5.0))
    middle = f.mul(f.series("erfinv_middle", f.fma(central, 0.4, -1.0)), middle_factor)
    low, high = math.sqrt(5.0), 6.1
    root = f.intrinsic("sqrt", f.intrinsic("maxnum", w, f.of(5.0)))
    t = f.fma(root, 2 / (high - low), -(high + low) / (high - low))
    return f.where(f.test("<", w, 5.0), middle, f.mul(f.series("erfinv_tail", t), root))


def erfinv(em: Emitter, x: ir.Value) -> ir.Value:
    """The inverse of erf; infinite at -1 and 1, NaN beyond."""
    f = Formula(em, x)
    size = floats.magnitude(em, x)
    inside = f.mul(f.sub(1.0, size), f.add(1.0, size))
    w = f.where(f.test("<", size, 0.25), f.neg(f.call("log1p", f.neg(f.mul(size, size)))),
                f.neg(f.call("log", inside)))
    value = _inverse_error(f, w, size)
    value = f.where(f.test("==", size, 1.0), math.inf, value)
    value = f.where(f.test(">", size, 1.0), math.nan, value)
    return _keep_nan(f, x, f.intrinsic("copysign", value, x))


def erfcinv(em: Emitter, x: ir.Value) -> ir.Value:
    """The inverse of erfc: infinite at 0 and 2, NaN outside.

    Near zero w = -log(1 - (1 - x)²) = -log(x (2 - x)), which loses nothing; what `erfinv_tail`
    does not reach is improved by Newton's method on log(erfc), whose error is relative.
    """
    f = Formula(em, x)
    folded = f.intrinsic("minnum", x, f.sub(2.0, x))
    distance = f.sub(1.0, folded)
    w = f.neg(f.call("log", f.mul(folded, f.sub(2.0, folded))))
    near = f.neg(f.call("log1p", f.neg(f.mul(distance, distance))))
    w = f.where(f.test("<", distance, 0.25), near, w)
    value = _inverse_error(f, f.intrinsic("minnum", w, f.of(37.0)), distance)
    value = f.where(f.test(">", w, 37.0), _far_tail(f, folded, w), value)
    value = f.where(f.test("==", folded, 0.0), math.inf, value)
    value = f.where(f.test("<", folded, 0.0), math.nan, value)
    value = f.where(f.test(">", x, 1.0), f.neg(value), value)
    return _keep_nan(f, x, value)


def _far_tail(f: Formula, x: ir.Value, w: ir.Value) -> ir.Value:
    """y with erfc(y) = x for tiny x: y² + log(y sqrt(pi)) = -log x, then Newton steps.

    With erfc(y) = exp(-y²) erfcx(y), log erfc has the slope -2 / (sqrt(pi) erfcx(y)).
    """
    target = f.neg(f.call("log", x))
    y = f.intrinsic("sqrt", f.sub(target, f.mul(f.call("log", f.mul(target, math.pi)), 0.5)))
    for _ in range(3):
        scaled = erfcx(f.em, y)
        lack = f.add(f.sub(f.mul(y, y), target), f.neg(f.call("log", scaled)))
        y = f.sub(y, f.mul(f.mul(lack, scaled), math.sqrt(math.pi) / 2))
    return y


_BY_NAME = {
    "j0": (bessel_j, 0), "j1": (bessel_j, 1), "y0": (bessel_y, 0), "y1": (bessel_y, 1),
    "cyl_bessel_i0": (bessel_i, 0), "cyl_bessel_i1": (bessel_i, 1),
}


def bessel(em: Emitter, name: str, x: ir.Value) -> ir.Value:
    """The Bessel function that libdevice calls `name`."""
    function, order = _BY_NAME[name]
    return function(em, order, x)


BESSEL = tuple(_BY_NAME)
__all__ = ["BESSEL", "Formula", "bessel", "erfcinv", "erfcx", "erfinv"]
