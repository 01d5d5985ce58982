"""Vectorised elementary functions.

fp32 exp, exp2, exp10, log, log2, log10 are polynomials written here (within 2 ulp; the log kernel
is the classic one of argument s = f / (2 + f), as in FreeBSD's msun, e_logf.c); the others come
from glibc's vector library (libmvec, 4 ulp), else from the C library lane by lane.
"""

from __future__ import annotations

import struct
from math import factorial, log

from triton_xe.runtime.simulator.run.host_cpu import HostCpu, vector_math_symbol

Text = tuple[str, tuple[str, ...]]

_BINARY = frozenset({"pow", "atan2", "fmod", "hypot", "ldexp"})


def function(host: HostCpu, name: str, kind: str, lanes: str) -> Text:
    """`<S x T> @xe_<name>_<type>_<S>(<S x T> ...)`."""
    s = int(lanes)
    if kind == "f32" and name in ("exp", "exp2", "exp10"):
        return _Poly(f"xe_{name}_{kind}_{s}", s).exponential(name), ()
    if kind == "f32" and name in ("log", "log2", "log10"):
        return _Poly(f"xe_{name}_{kind}_{s}", s).logarithm(name), ()
    return _from_library(host, name, kind, s), ()


def single(value: float) -> str:
    """LLVM's spelling of the fp32 nearest to `value`."""
    rounded = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('Q', struct.pack('d', rounded))[0]:016X}"


def rounded(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


class _Poly:
    """Straight-line fp32 code on `<S x float>`."""

    def __init__(self, name: str, s: int) -> None:
        self.s, self.f, self.i = s, f"<{s} x float>", f"<{s} x i32>"
        self.lines = [f"define {self.f} @{name}({self.f} %x) nounwind {{", "entry:"]
        self.declared: set[str] = set()
        self.count = 0

    def emit(self, right: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {right}")
        return f"%v{self.count}"

    def c(self, value: float) -> str:
        return f"splat (float {single(value)})"

    def op(self, opcode: str, a: str, b: str) -> str:
        return self.emit(f"{opcode} {self.f} {a}, {b}")

    def call(self, name: str, *arguments: str) -> str:
        full = f"@llvm.{name}.v{self.s}f32"
        self.declared.add(f"declare {self.f} {full}({', '.join([self.f] * len(arguments))})")
        return self.emit(f"call {self.f} {full}({', '.join(f'{self.f} {a}' for a in arguments)})")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.call("fma", a, b, c)

    def horner(self, x: str, coefficients: list[float]) -> str:
        """Highest power last in `coefficients`."""
        value = self.c(coefficients[-1])
        for k in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.c(k))
        return value

    def integer(self, opcode: str, a: str, b: int | str) -> str:
        other = f"splat (i32 {b})" if isinstance(b, int) else b
        return self.emit(f"{opcode} {self.i} {a}, {other}")

    def to_int(self, x: str) -> str:
        return self.emit(f"fptosi {self.f} {x} to {self.i}")

    def bits(self, x: str) -> str:
        return self.emit(f"bitcast {self.f} {x} to {self.i}")

    def real(self, x: str) -> str:
        return self.emit(f"bitcast {self.i} {x} to {self.f}")

    def select(self, condition: str, a: str, b: str) -> str:
        return self.emit(f"select <{self.s} x i1> {condition}, {self.f} {a}, {self.f} {b}")

    def finish(self, result: str) -> str:
        return "\n".join([*self.lines, f"  ret {self.f} {result}", "}", *sorted(self.declared)])

    def scaled(self, p: str, n: str) -> str:
        """p * 2^n in two steps, so that denormal results round once."""
        half = self.integer("ashr", n, 1)
        rest = self.integer("sub", n, half)
        for part in (half, rest):
            exponent = self.integer("shl", self.integer("add", part, 127), 23)
            p = self.op("fmul", p, self.real(exponent))
        return p

    def exponential(self, name: str) -> str:
        base = {"exp": 1.0, "exp2": log(2), "exp10": log(10)}[name]
        low, high = -104.5 / base, 89.5 / base
        x = self.call("minnum", self.call("maxnum", "%x", self.c(low)), self.c(high))
        n = self.call("roundeven", self.op("fmul", x, self.c(base / log(2))))
        if name == "exp2":
            r = self.op("fmul", self.op("fsub", x, n), self.c(1.0))
        else:
            step = log(2) / base
            first = struct.unpack("f", struct.pack("I", struct.unpack(
                "I", struct.pack("f", step))[0] & 0xFFFFF000))[0]
            r = self.fma(n, self.c(-first), x)
            r = self.fma(n, self.c(-(step - first)), r)
        p = self.horner(r, [base**k / factorial(k) for k in range(8)])
        result = self.scaled(p, self.to_int(n))
        nan = self.emit(f"fcmp uno {self.f} %x, %x")
        return self.finish(self.select(nan, "%x", result))

    def logarithm(self, name: str) -> str:
        tiny = self.emit(f"fcmp olt {self.f} %x, {self.c(2.0**-126)}")
        x = self.select(tiny, self.op("fmul", "%x", self.c(2.0**25)), "%x")
        shift = self.emit(f"select <{self.s} x i1> {tiny}, {self.i} splat (i32 -25), "
                          f"{self.i} zeroinitializer")
        # m in [sqrt(1/2), sqrt(2))
        bits = self.integer("add", self.bits(x), 0x3F800000 - 0x3F3504F3)
        k = self.integer("add", self.integer("sub", self.integer("ashr", bits, 23), 127), shift)
        mantissa = self.integer("add", self.integer("and", bits, 0x7FFFFF), 0x3F3504F3)
        f = self.op("fsub", self.real(mantissa), self.c(1.0))
        s = self.op("fdiv", f, self.op("fadd", f, self.c(2.0)))
        z = self.op("fmul", s, s)
        r = self.op("fmul", z, self.horner(z, [2 / 3, 2 / 5, 2 / 7, 2 / 9, 2 / 11]))
        square = self.op("fmul", self.op("fmul", f, f), self.c(0.5))
        n = self.emit(f"sitofp {self.i} {k} to {self.f}")
        inner = self.op("fmul", s, self.op("fadd", square, r))
        result = self._combined(name, n, f, square, inner)
        infinite = self.emit(f"fcmp oeq {self.f} %x, splat (float 0x7FF0000000000000)")
        result = self.select(infinite, "%x", result)
        zero = self.emit(f"fcmp oeq {self.f} %x, zeroinitializer")
        result = self.select(zero, "splat (float 0xFFF0000000000000)", result)
        negative = self.emit(f"fcmp ult {self.f} %x, zeroinitializer")
        return self.finish(self.select(negative, "splat (float 0x7FF8000000000000)", result))

    def _combined(self, name: str, n: str, f: str, square: str, inner: str) -> str:
        """n*log(2) + f - (square - inner), scaled to the base."""
        if name == "log":
            high = 0.693359375
            low = log(2) - high
            tail = self.op("fsub", square, self.fma(n, self.c(low), inner))
            return self.fma(n, self.c(high), self.op("fsub", f, tail))
        scale, whole = (1 / log(2), 1.0) if name == "log2" else (1 / log(10), log(2) / log(10))
        # f split in two, so that the product with the scale keeps its low part
        head = self.real(self.integer("and", self.bits(self.op("fsub", f, square)), -4096))
        tail = self.op("fadd", self.op("fsub", self.op("fsub", f, head), square), inner)
        scale_high = struct.unpack("f", struct.pack("I", struct.unpack(
            "I", struct.pack("f", scale))[0] & 0xFFFFF000))[0]
        total = self.op("fmul", self.op("fadd", head, tail), self.c(scale - scale_high))
        total = self.fma(tail, self.c(scale_high), total)
        whole_high = 1.0 if name == "log2" else struct.unpack("f", struct.pack(
            "I", struct.unpack("I", struct.pack("f", whole))[0] & 0xFFFFF000))[0]
        total = self.fma(n, self.c(whole - whole_high), total)
        big = self.op("fmul", n, self.c(whole_high))
        main = self.fma(head, self.c(scale_high), big)
        lost = self.op("fsub", main, big)
        lost = self.fma(head, self.c(scale_high), self.emit(f"fneg {self.f} {lost}"))
        return self.op("fadd", main, self.op("fadd", lost, total))


def _from_library(host: HostCpu, name: str, kind: str, s: int) -> str:
    bits = 32 if kind == "f32" else 64
    t = "float" if bits == 32 else "double"
    operands = 2 if name in _BINARY else 1
    types = [t] * operands if name != "ldexp" else [t, "i32"]
    flat = f"<{s} x {t}>"
    parameters = ", ".join(f"<{s} x {x}> %x{k}" for k, x in enumerate(types))
    head = f"define {flat} @xe_{name}_{kind}_{s}({parameters}) nounwind {{\nentry:\n"
    width = min(s, host.vector_bytes * 8 // bits)
    symbol = vector_math_symbol(host, name, bits, width, operands) if name != "ldexp" else None
    if symbol is not None:
        return head + _vector_calls(symbol, s, width, t, operands)
    callee = {"exp10": "exp10"}.get(name, name) + ("f" if bits == 32 else "")
    return head + _scalar_calls(callee, s, t, types)


def _vector_calls(symbol: str, s: int, width: int, t: str, operands: int) -> str:
    flat, part = f"<{s} x {t}>", f"<{width} x {t}>"
    lines, pieces = [], []
    for first in range(0, s, width):
        order = ", ".join(f"i32 {first + k}" for k in range(width))
        arguments = []
        for k in range(operands):
            lines.append(f"  %p{first}_{k} = shufflevector {flat} %x{k}, {flat} poison, "
                         f"<{width} x i32> <{order}>")
            arguments.append(f"{part} %p{first}_{k}")
        lines.append(f"  %r{first} = call {part} @{symbol}({', '.join(arguments)})")
        pieces.append(f"%r{first}")
    total = width
    while len(pieces) > 1:
        order = ", ".join(f"i32 {k}" for k in range(2 * total))
        merged = []
        for a, b in zip(pieces[::2], pieces[1::2], strict=True):
            name = f"{a}j{total}"
            lines.append(f"  {name} = shufflevector <{total} x {t}> {a}, <{total} x {t}> {b}, "
                         f"<{2 * total} x i32> <{order}>")
            merged.append(name)
        pieces, total = merged, 2 * total
    types = ", ".join([part] * operands)
    declaration = f"declare {part} @{symbol}({types})"
    return "\n".join([*lines, f"  ret {flat} {pieces[0]}", "}", declaration])


def _scalar_calls(callee: str, s: int, t: str, types: list[str]) -> str:
    flat = f"<{s} x {t}>"
    lines = []
    for lane in range(s):
        arguments = []
        for k, x in enumerate(types):
            lines.append(f"  %a{lane}_{k} = extractelement <{s} x {x}> %x{k}, i32 {lane}")
            arguments.append(f"{x} %a{lane}_{k}")
        lines.append(f"  %r{lane} = call {t} @{callee}({', '.join(arguments)})")
        before = "poison" if lane == 0 else f"%v{lane - 1}"
        lines.append(f"  %v{lane} = insertelement {flat} {before}, {t} %r{lane}, i32 {lane}")
    return "\n".join([*lines, f"  ret {flat} %v{s - 1}", "}",
                      f"declare {t} @{callee}({', '.join(types)})"])
