"""Vectorised elementary functions.

fp32 exp, exp2, exp10, log, log2, log10 are polynomials written here (within 2 ulp; the log kernel
is the classic one of argument s = f / (2 + f), as in FreeBSD's msun, e_logf.c); the others come
from glibc's vector library (libmvec, 4 ulp), else from the C library lane by lane.
"""

from __future__ import annotations

import struct
from math import factorial, inf, log, nan

from triton_xe.intrinsics import ROWS
from triton_xe.runtime.simulator.ir import (
    F32,
    F64,
    I32,
    Builder,
    Function,
    Operand,
    constant,
    define,
    vector,
    with_elements,
)
from triton_xe.runtime.simulator.library.names import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu, vector_math_symbol


def function(host: HostCpu, name: str, kind: str, lanes: int) -> list[Function]:
    """`<S x T> xe.math.<name>.<type>.<S>(<S x T> ...)`."""
    scalar = F32 if kind == "f32" else F64
    t = vector(lanes, scalar)
    types = [t if p.type == "T" else with_elements(t, I32) for p in ROWS[name].parameters]
    b = define(symbol("math", name, kind, lanes), t, [(f"x{k}", x) for k, x in enumerate(types)])
    if kind == "f32" and name in ("exp", "exp2", "exp10"):
        b.ret(_exponential(b, b.arguments[0], name))
    elif kind == "f32" and name in ("log", "log2", "log10"):
        b.ret(_logarithm(b, b.arguments[0], name))
    else:
        b.ret(_from_library(host, b, name, scalar.bits, lanes))
    return [b.function]


def _head(value: float) -> float:
    """The fp32 number of the 12 leading bits of `value`."""
    (bits,) = struct.unpack("I", struct.pack("f", value))
    return float(struct.unpack("f", struct.pack("I", bits & 0xFFFFF000))[0])


def _bits(b: Builder, x: Operand) -> Operand:
    return b.bitcast(x, with_elements(x.type, I32))


def _real(b: Builder, x: Operand) -> Operand:
    return b.bitcast(x, with_elements(x.type, F32))


def _fma(b: Builder, x: Operand, y: Operand | float, z: Operand | float) -> Operand:
    others = (v if isinstance(v, Operand) else constant(x.type, v) for v in (y, z))
    return b.intrinsic("fma", x, *others)


def _horner(b: Builder, x: Operand, coefficients: list[float]) -> Operand:
    """Highest power last in `coefficients`."""
    value = constant(x.type, coefficients[-1])
    for k in reversed(coefficients[:-1]):
        value = _fma(b, value, x, k)
    return value


def _scaled(b: Builder, p: Operand, n: Operand) -> Operand:
    """p * 2^n in two steps, so that denormal results round once."""
    half = b.ashr(n, 1)
    for part in (half, b.sub(n, half)):
        p = b.fmul(p, _real(b, b.shl(b.add(part, 127), 23)))
    return p


def _exponential(b: Builder, given: Operand, name: str) -> Operand:
    base, t = {"exp": 1.0, "exp2": log(2), "exp10": log(10)}[name], given.type
    x = b.intrinsic("maxnum", given, constant(t, -104.5 / base))
    x = b.intrinsic("minnum", x, constant(t, 89.5 / base))
    n = b.intrinsic("roundeven", b.fmul(x, base / log(2)))
    if name == "exp2":
        r = b.fmul(b.fsub(x, n), 1.0)
    else:
        step = log(2) / base
        first = _head(step)
        r = _fma(b, n, -(step - first), _fma(b, n, -first, x))
    p = _horner(b, r, [base**k / factorial(k) for k in range(8)])
    result = _scaled(b, p, b.cast("fptosi", n, I32))
    return b.select(b.fcmp("uno", given, given), given, result)


def _logarithm(b: Builder, given: Operand, name: str) -> Operand:
    tiny = b.fcmp("olt", given, 2.0**-126)
    x = b.select(tiny, b.fmul(given, 2.0**25), given)
    shift = b.select(tiny, constant(with_elements(given.type, I32), -25), 0)
    # m in [sqrt(1/2), sqrt(2))
    bits = b.add(_bits(b, x), 0x3F800000 - 0x3F3504F3)
    k = b.add(b.sub(b.ashr(bits, 23), 127), shift)
    mantissa = b.add(b.and_(bits, 0x7FFFFF), 0x3F3504F3)
    f = b.fsub(_real(b, mantissa), 1.0)
    s = b.fdiv(f, b.fadd(f, 2.0))
    z = b.fmul(s, s)
    r = b.fmul(z, _horner(b, z, [2 / 3, 2 / 5, 2 / 7, 2 / 9, 2 / 11]))
    square = b.fmul(b.fmul(f, f), 0.5)
    n = b.cast("sitofp", k, F32)
    inner = b.fmul(s, b.fadd(square, r))
    result = _combined(b, name, (n, f, square, inner))
    result = b.select(b.fcmp("oeq", given, inf), given, result)
    result = b.select(b.fcmp("oeq", given, 0.0), constant(given.type, -inf), result)
    return b.select(b.fcmp("ult", given, 0.0), constant(given.type, nan), result)


def _combined(
    b: Builder, name: str, parts: tuple[Operand, Operand, Operand, Operand]
) -> Operand:
    """n*log(2) + f - (square - inner), scaled to the base."""
    n, f, square, inner = parts
    if name == "log":
        high = 0.693359375
        tail = b.fsub(square, _fma(b, n, log(2) - high, inner))
        return _fma(b, n, high, b.fsub(f, tail))
    scale, whole = (1 / log(2), 1.0) if name == "log2" else (1 / log(10), log(2) / log(10))
    scale_high, whole_high = _head(scale), _head(whole)
    # f split in two, so that the product with the scale keeps its low part
    head = _real(b, b.and_(_bits(b, b.fsub(f, square)), -4096))
    tail = b.fadd(b.fsub(b.fsub(f, head), square), inner)
    total = b.fmul(b.fadd(head, tail), scale - scale_high)
    total = _fma(b, tail, scale_high, total)
    total = _fma(b, n, whole - whole_high, total)
    big = b.fmul(n, whole_high)
    main = _fma(b, head, scale_high, big)
    lost = _fma(b, head, scale_high, b.fneg(b.fsub(main, big)))
    return b.fadd(main, b.fadd(lost, total))


def _from_library(host: HostCpu, b: Builder, name: str, bits: int, lanes: int) -> Operand:
    width = min(lanes, host.vector_bytes * 8 // bits)
    arguments, result = b.arguments, b.function.result
    native = None if name == "ldexp" else vector_math_symbol(
        host, name, bits, width, len(arguments))
    if native is None:
        callee = name + ("f" if bits == 32 else "")
        return b.pack(result, (
            b.call(callee, result.scalar, [b.extract(x, lane) for x in arguments])
            for lane in range(lanes)))
    pieces = []
    for first in range(0, lanes, width):
        chosen = range(first, first + width)
        parts = [b.shuffle(x, None, chosen) for x in arguments]
        pieces.append(b.call(native, parts[0].type, parts))
    while len(pieces) > 1:
        pieces = [b.shuffle(x, y, range(2 * x.type.count))
                  for x, y in zip(pieces[::2], pieces[1::2], strict=True)]
    return pieces[0]
