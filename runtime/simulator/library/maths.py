"""Vectorised elementary functions.

In fp32, exp, exp2, exp10, log, log2, log10 and erf are polynomials with errors below 2 ulp; the
logarithms and erf have 16 pieces each.  Other functions call glibc's vector library (libmvec, 4
ulp), or else the C library lane by lane.
"""

from __future__ import annotations

import struct
from functools import cache
from math import e, erf, exp, factorial, inf, log, nan, pi, sqrt

import numpy as np
from numpy.polynomial import chebyshev

from triton_xe.intrinsics import ROWS
from triton_xe.llvm import F32, F64, I16, I32, Function, vector, with_elements
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Term, Value, Writer
from triton_xe.runtime.simulator.library.lookup import PLACES, looked_up
from triton_xe.runtime.simulator.library.parts import in_parts
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, vector_math_symbol

SHORT = frozenset("exp exp2 exp10 log log2 log10 erf".split())
"""Functions that are short enough in fp32 to be inlined."""


def function(host: HostCpu, name: str, kind: str, lanes: int) -> list[Function]:
    """Generate `<S x T> xe.math.<name>.<type>.<S>(<S x T> ...)`, an elementary function."""
    scalar = F32 if kind == "f32" else F64
    t = vector(lanes, scalar)
    types = [t if p.type == "T" else with_elements(t, I32) for p in ROWS[name].parameters]
    w = Writer(Routine(symbol("math", name, kind, lanes), t,
                       tuple((f"x{k}", x) for k, x in enumerate(types))))
    if kind == "f32" and name in ("exp", "exp2", "exp10"):
        return w.finish(_exponential(host, w["x0"], name))
    if kind == "f32" and name in _BASES:
        return w.finish(_logarithm(host, w["x0"], _BASES[name]))
    if kind == "f32" and name == "erf":
        return w.finish(_error_function(host, w["x0"]))
    return w.finish(_from_library(host, w, name, scalar.bits, lanes))


def _head(value: float) -> float:
    """Truncate to 12 significant bits, so that products with small integers are exact in fp32."""
    (bits,) = struct.unpack("I", struct.pack("f", value))
    return float(struct.unpack("f", struct.pack("I", bits & 0xFFFFF000))[0])


def _fma(x: Value, y: Term, z: Term) -> Value:
    return x.w.intrinsic("fma", x, y, z)


def _horner(x: Value, coefficients: list[float]) -> Value:
    """Evaluate a polynomial; `coefficients` begin with the constant."""
    value = x.w.term(coefficients[-1], x.type)
    for k in reversed(coefficients[:-1]):
        value = _fma(value, x, k)
    return value


_WHOLE = float(1 << 23)
"""From here on all fp32 numbers are integers, with a last bit of weight one."""
_SCALE, _ROUND_AS_USUAL = "llvm.x86.avx512.mask.scalef.ps.512", 4
"""p * 2^n of 16 numbers."""


def _scaled(host: HostCpu, p: Value, n: Value) -> Value:
    """p * 2^n, rounded once; n are integers."""
    count = p.type.count
    if host.has("avx512f") and count % 16 == 0:
        return in_parts(16, _scaled_at_once, p, n)
    # in two steps, so that denormal results round once
    whole = n.converted("fptosi", I32)
    half = whole.ashr(1)
    for part in (half, whole - half):
        p = p * (part + 127 << 23).as_bits(F32)
    return p


def _scaled_at_once(p: Value, n: Value) -> Value:
    w = p.w
    return w.call(_SCALE, p, n, p, w.term(-1, I16), w.term(_ROUND_AS_USUAL, I32), result=p.type)


def _exponential(host: HostCpu, given: Value, name: str) -> Value:
    """Exponential function to the base of `name`.

    Results that round to zero are selected instead of computed, because hosts take a hundred times
    as long for subnormal numbers.
    """
    w, base = given.w, {"exp": 1.0, "exp2": log(2), "exp10": log(10)}[name]
    most = w.term(89.5 / base, given.type)
    above = given.compare("ogt", -104.5 / base)
    x = w.select(above, w.select(given < most, given, most), 0.0)
    n = w.intrinsic("roundeven", x * (base / log(2)))
    if name == "exp2":
        r = (x - n) * 1.0
    else:
        step = log(2) / base
        first = _head(step)
        r = _fma(n, -(step - first), _fma(n, -first, x))
    p = _horner(r, [base**k / factorial(k) for k in range(8)])
    result = w.select(above, _scaled(host, p, n), 0.0)
    return w.select(given.compare("uno", given), given, result)


_LOG_FIRST = 0x3F330000
"""Bits of 0.699, where the first of the 16 pieces of a logarithm begins; 1 is inside of a piece."""
_BASES = {"log": e, "log2": 2.0, "log10": 10.0}


@cache
def _log_piece(place: int, base: float) -> tuple[float, float]:
    """A factor that brings a piece of the logarithm close to 1, and the logarithm of 1 / factor.

    Among nearly equal factors, the one whose logarithm is closest to an fp32 number is chosen.
    """
    first, end = np.array([place, place + 1], np.int32).view(np.uint32) * (1 << 19) + _LOG_FIRST
    low, high = (float(np.uint32(bits).view(np.float32)) for bits in (first, end))
    if low < 1 < high:
        return 1.0, 0.0
    factors = (2 / (low + high) * (1 + np.arange(-256, 257) / (1 << 18))).astype(np.float32)
    exact = -np.log(factors.astype(np.float64)) / log(base)
    best = int(np.abs(exact - exact.astype(np.float32)).argmin())
    return float(factors[best]), float(exact[best])


def _logarithm(host: HostCpu, given: Value, base: float) -> Value:
    """Logarithm of x = 2^n * z, where z times the factor of its piece is 1 + r."""
    w, tiny = given.w, given < 2.0**-126
    bits = w.select(tiny, given * 2.0**25, given).as_bits(I32)
    above = bits - _LOG_FIRST
    n = above.ashr(23).converted("sitofp", F32)
    n = w.select(tiny, n - 25.0, n)
    z = (bits - (above & -(1 << 23))).as_bits(F32)
    factors, logs = (looked_up(host, row, above >> 19) for row in zip(
        *(_log_piece(k, base) for k in range(PLACES)), strict=True))
    r = _fma(z, factors, -1.0)
    unit, step = 1 / log(base), log(2) / log(base)
    square = r * r * _horner(r, [-unit / 2, unit / 3, -unit / 4, unit / 5])
    rest = step - float(np.float32(step))
    if abs(rest) > step * 2.0**-27:
        square = _fma(n, rest, square)
    result = _fma(n, step, logs) + _fma(r, unit, square)
    result = w.select(given == inf, given, result)
    result = w.select(given == 0.0, w.term(-inf, given.type), result)
    return w.select(~(given >= 0.0), w.term(nan, given.type), result)


ERF_WIDTH, _ERF_END = 2153 / 8192, 4.0
"""Distance of the centres of pieces, and the number from which on erf is one.  At centres, erf is
close to an fp32 number."""
_ERF_DEGREE = 5


@cache
def _erf_piece(middle: float) -> list[float]:
    """Coefficients of erf around a centre: its Taylor series, economized in the Chebyshev basis.

    For the centre 0, the polynomial is erf(x) - x.
    """
    hermite = [1.0, 2 * middle]
    for k in range(1, 12):
        hermite.append(2 * middle * hermite[k] - 2 * k * hermite[k - 1])
    slope = 2 / sqrt(pi) * exp(-middle * middle)
    series = [erf(middle), *(slope * (-1) ** k * h / factorial(k + 1)
                             for k, h in enumerate(hermite))]
    series[1] -= middle == 0
    reach = (ERF_WIDTH / 2) ** np.arange(len(series))
    cut = chebyshev.poly2cheb(np.array(series) * reach)[: _ERF_DEGREE + 1]
    made = chebyshev.cheb2poly(cut)
    return [float(x) for x in made / reach[: len(made)]] + [0.0] * (_ERF_DEGREE + 1 - len(made))


def _error_function(host: HostCpu, x: Value) -> Value:
    """erf as a polynomial for each of 16 pieces."""
    w, size = x.w, x.w.intrinsic("fabs", x)
    end = w.term(_ERF_END, x.type)
    a = w.select(end < size, end, size)
    counted = _fma(a, 1 / ERF_WIDTH, _WHOLE)
    piece = counted - _WHOLE
    t = _fma(piece, -ERF_WIDTH, a)
    rows = zip(*(_erf_piece(k * ERF_WIDTH) for k in range(PLACES)), strict=True)
    first, *others = (looked_up(host, row, counted.as_bits(I32)) for row in rows)
    value = others.pop()
    for coefficient in reversed(others):
        value = _fma(value, t, coefficient)
    value = _fma(value, t, w.select(piece == 0.0, a, first))
    return w.intrinsic("copysign", value, x)


def _from_library(host: HostCpu, w: Writer, name: str, bits: int, lanes: int) -> Value:
    """Call the vector function of the host's library, or the scalar function lane by lane."""
    width = min(lanes, host.vector_bytes * 8 // bits)
    arguments, result = list(w.arguments.values()), w.function.result
    native = None if name == "ldexp" else vector_math_symbol(
        host, name, bits, width, len(arguments))
    if native is None:
        callee = name + ("f" if bits == 32 else "")
        return w.pack(result, (
            w.call(callee, *(x[lane] for x in arguments), result=result.scalar)
            for lane in range(lanes)))
    return in_parts(width, lambda *parts: w.call(native, *parts, result=parts[0].type), *arguments)
