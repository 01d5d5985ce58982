"""Vectorised elementary functions.

fp32 exp, exp2, exp10, log, log2, log10 and erf are polynomials written here (within 2 ulp; the log
kernel is the classic one of argument s = f / (2 + f), as in FreeBSD's msun, e_logf.c; erf has one
for each of 16 pieces); the others come from glibc's vector library (libmvec, 4 ulp), else from the
C library lane by lane.
"""

from __future__ import annotations

import struct
from functools import cache
from math import erf, exp, factorial, inf, log, nan, pi, sqrt

import numpy as np
from numpy.polynomial import chebyshev

from triton_xe.intrinsics import ROWS
from triton_xe.runtime.simulator.ir import F32, F64, I16, I32, Function, vector, with_elements
from triton_xe.runtime.simulator.ir.builder import Routine
from triton_xe.runtime.simulator.ir.values import Term, Value, Writer
from triton_xe.runtime.simulator.library.lookup import PLACES, looked_up
from triton_xe.runtime.simulator.library.names import symbol
from triton_xe.runtime.simulator.library.parts import in_parts
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, vector_math_symbol

SHORT = frozenset("exp exp2 exp10 log log2 log10 erf".split())
"""Of fp32 these are short enough to stand where they are called."""


def function(host: HostCpu, name: str, kind: str, lanes: int) -> list[Function]:
    """`<S x T> xe.math.<name>.<type>.<S>(<S x T> ...)`."""
    scalar = F32 if kind == "f32" else F64
    t = vector(lanes, scalar)
    types = [t if p.type == "T" else with_elements(t, I32) for p in ROWS[name].parameters]
    w = Writer(Routine(symbol("math", name, kind, lanes), t,
                       tuple((f"x{k}", x) for k, x in enumerate(types))))
    if kind == "f32" and name in ("exp", "exp2", "exp10"):
        return w.finish(_exponential(host, w["x0"], name))
    if kind == "f32" and name in ("log", "log2", "log10"):
        return w.finish(_logarithm(w["x0"], name))
    if kind == "f32" and name == "erf":
        return w.finish(_error_function(host, w["x0"]))
    return w.finish(_from_library(host, w, name, scalar.bits, lanes))


def _head(value: float) -> float:
    """The fp32 number of the 12 leading bits of `value`."""
    (bits,) = struct.unpack("I", struct.pack("f", value))
    return float(struct.unpack("f", struct.pack("I", bits & 0xFFFFF000))[0])


def _fma(x: Value, y: Term, z: Term) -> Value:
    return x.w.intrinsic("fma", x, y, z)


def _horner(x: Value, coefficients: list[float]) -> Value:
    """Highest power last in `coefficients`."""
    value = x.w.term(coefficients[-1], x.type)
    for k in reversed(coefficients[:-1]):
        value = _fma(value, x, k)
    return value


_WHOLE = float(1 << 23)
"""Numbers of fp32 above it are whole, and their lowest bits count them."""
_SCALE, _ROUND_AS_USUAL = "llvm.x86.avx512.mask.scalef.ps.512", 4
"""p * 2^n of 16 numbers."""


def _scaled(host: HostCpu, p: Value, n: Value) -> Value:
    """p * 2^n, rounded once; n are whole numbers."""
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
    """Where the result is zero, nothing is computed: tiny numbers take hosts a hundred times as
    long as others."""
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


def _logarithm(given: Value, name: str) -> Value:
    w, tiny = given.w, given < 2.0**-126
    x = w.select(tiny, given * 2.0**25, given)
    shift = w.select(tiny, w.term(-25, with_elements(given.type, I32)), 0)
    # m in [sqrt(1/2), sqrt(2))
    bits = x.as_bits(I32) + (0x3F800000 - 0x3F3504F3)
    k = bits.ashr(23) - 127 + shift
    f = ((bits & 0x7FFFFF) + 0x3F3504F3).as_bits(F32) - 1.0
    s = f / (f + 2.0)
    z = s * s
    r = z * _horner(z, [2 / 3, 2 / 5, 2 / 7, 2 / 9, 2 / 11])
    square = f * f * 0.5
    n = k.converted("sitofp", F32)
    result = _combined(name, (n, f, square, s * (square + r)))
    result = w.select(given == inf, given, result)
    result = w.select(given == 0.0, w.term(-inf, given.type), result)
    return w.select(~(given >= 0.0), w.term(nan, given.type), result)


def _combined(name: str, parts: tuple[Value, Value, Value, Value]) -> Value:
    """n*log(2) + f - (square - inner), scaled to the base."""
    n, f, square, inner = parts
    if name == "log":
        high = 0.693359375
        tail = square - _fma(n, log(2) - high, inner)
        return _fma(n, high, f - tail)
    scale, whole = (1 / log(2), 1.0) if name == "log2" else (1 / log(10), log(2) / log(10))
    scale_high, whole_high = _head(scale), _head(whole)
    # f split in two, so that the product with the scale keeps its low part
    head = ((f - square).as_bits(I32) & -4096).as_bits(F32)
    tail = f - head - square + inner
    total = (head + tail) * (scale - scale_high)
    total = _fma(tail, scale_high, total)
    total = _fma(n, whole - whole_high, total)
    big = n * whole_high
    main = _fma(head, scale_high, big)
    lost = _fma(head, scale_high, -(main - big))
    return main + (lost + total)


ERF_WIDTH, _ERF_END = 2153 / 8192, 4.0
"""How far the middles of pieces are from each other, such that their error functions are close to
numbers of fp32; from where on it is one."""
_ERF_DEGREE = 5


@cache
def _erf_piece(middle: float) -> list[float]:
    """The error function around a number, less x around 0: Taylor's series, cut short among the
    polynomials of Chebyshev of the piece."""
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
    """A polynomial for each of 16 pieces."""
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
