"""Quotients of integers as products with the reciprocal of the divisor, in LLVM IR.

The functions are those of `triton_xe.lowering.emit.maths.divisors.small_quotient`.  Intel's
compiler takes 12 instructions for one, and 36 and a branch for a division.  Functions of
`triton_xe.lowering.emit.maths.divisors` take the factor of the divisor; that module shows why they
are exact.

Small quotients: the reciprocal is exact to a unit in the last place.  Its product with the number
and with the largest float below one is less than the quotient by less than 2^-20 of it.  That
is less than one.  Truncated, it is the quotient or one less.  The remainder, which a float
represents exactly, decides which.

Factor of a divisor d, with n = 2^32 - 1: floor(n / d).

    f = the same estimate, truncated      n / d (1 - 2^-20) - 1 < f <= n / d
    r = n - f d                           0 <= r < n 2^-20 + d
    r / d - r f / 2^32  =  r / d (1 - f d / 2^32)
                        <  (2^12 / d + 1) (2^-20 + (d + 1) / 2^32)  <  1   for d < 2^32 - 2^25

Therefore floor(r f / 2^32) is floor(r / d) or one less.  For larger d, floor(n / d) is 1, and f is
0 or 1, so that it holds too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from triton_xe.intrinsics import ROWS
from triton_xe.llvm import I32, vector_or_scalar
from triton_xe.lowering.spirv.elements import all_are, kind_of
from triton_xe.spirv import QUOTIENT

BELOW_ONE = 1 - 2.0**-21
_DECLARED = """declare float @llvm.trunc.f32(float)
declare float @llvm.fma.f32(float, float, float)
"""
_BODY = """define spir_func i32 @"{symbol}"(i32 %a, i32 %b) alwaysinline {{
  %x = uitofp i32 %a to float
  %y = uitofp i32 %b to float
  %inverse = fdiv arcp float 1.0, %y
  %near = fmul float %x, %inverse
  %below = fmul float %near, {below}
  %low = call float @llvm.trunc.f32(float %below)
  %less = fneg float %low
  %rest = call float @llvm.fma.f32(float %less, float %y, float %x)
  %fits = fcmp oge float %rest, %y
  %more = {more}
  %exact = select i1 %fits, float %more, float {other}
  %r = fptoui float %exact to i32
  ret i32 %r
}}
"""
FACTOR = "factor"
_FACTOR = """define spir_func i32 @"{symbol}"(i32 %d) alwaysinline {{
  %y = uitofp i32 %d to float
  %inverse = fdiv arcp float 1.0, %y
  %near = fmul float %inverse, {below}
  %f = fptoui float %near to i32
  %fd = mul i32 %f, %d
  %r = xor i32 %fd, -1
  %more = call spir_func i32 {high_product}(i32 %r, i32 %f)
  %first = add i32 %f, %more
  %taken = mul i32 %more, %d
  %rest = sub i32 %r, %taken
  %fits = icmp uge i32 %rest, %d
  %one = zext i1 %fits to i32
  %m = add i32 %first, %one
  ret i32 %m
}}
"""
_OF = {"udiv": ("fadd float %low, 1.0", "%low"), "urem": ("fsub float %rest, %y", "%rest")}


class _Division(NamedTuple):
    """Properties in the name of a function: the operation, the number of elements, and their type.

    Wide ones have 64 bits, with a divisor that fits 32 bits; natural ones are not negative.
    """

    operation: str
    elements: int = 0
    is_wide: bool = False
    is_natural: bool = False

    @classmethod
    def named(cls, symbol: str) -> _Division:
        """Those of small numbers do not say how many."""
        operation, *rest = symbol.removeprefix(QUOTIENT).split(".")
        elements = int(rest[0]) if rest else int(operation == FACTOR)
        return cls(operation, elements, "wide" in rest, "natural" in rest)


def declared(symbols: Iterable[str]) -> str:
    """Declarations of what the definitions of some functions call."""
    counts = dict.fromkeys(d.elements for d in map(_Division.named, symbols) if d.elements)
    kinds = ((_kind(count), _high_product(count)) for count in counts)
    return _DECLARED + "".join(
        f"declare spir_func {kind} {name}({kind}, {kind})\n" for kind, name in kinds)


def definition(symbol: str) -> str:
    """The definition of a function; its name says which it is."""
    division = _Division.named(symbol)
    if division.operation == FACTOR:
        return _FACTOR.format(symbol=symbol, below=f"{BELOW_ONE * 2.0**32:.1f}",
                              high_product=_high_product(1))
    if division.elements:
        return _divided(symbol, division)
    more, other = _OF[division.operation]
    return _BODY.format(symbol=symbol, below=f"{BELOW_ONE:.17g}", more=more, other=other)


def _kind(count: int, bits: int = 32) -> str:
    return kind_of(f"i{bits}", count)


def _high_product(count: int) -> str:
    kind = vector_or_scalar(count, I32)
    return f'@"{ROWS["mul_hi"].symbol(kind, [kind, kind], unsigned=True)}"'


def _divided(symbol: str, division: _Division) -> str:
    """Quotients or remainders by a divisor whose size, sign and factor are known."""
    operation, count, is_wide, is_natural = division
    body = _Body(count)
    x, sign = "%x", ""
    if is_wide:
        high = body.cast("trunc", body.wide("lshr", x, body.constant(32, 64)), 64, 32)
        x = body.cast("trunc", x, 64, 32)
    if operation[0] == "s" and not is_natural:
        sign = body.each("ashr", high if is_wide else x, body.constant(31))
        x = body.each("xor", body.each("add", x, sign), sign)
    size, factor = body.splat("%size"), body.splat("%factor")
    first = body.line(f"call spir_func {body.kind} {_high_product(count)}"
                      f"({body.kind} {x}, {body.kind} {factor})")
    rest = body.each("sub", x, body.each("mul", first, size))
    is_more = body.each("icmp uge", rest, size)
    if operation.endswith("div"):
        found = body.each("sub", first, body.cast("sext", is_more, 1, 32))
        if operation[0] == "s":
            flips = body.splat("%sign")
            sign = body.each("xor", sign, flips) if sign else flips
    else:
        less = body.each("sub", rest, size)
        found = body.line(f"select {_kind(count, 1)} {is_more}, {body.kind} {less}, "
                          f"{body.kind} {rest}")
    each, bits = (body.wide, 64) if is_wide else (body.each, 32)
    if is_wide:
        found = body.cast("zext", found, 32, 64)
        sign = body.cast("sext", sign, 32, 64) if sign else ""
    if sign:
        found = each("sub", each("xor", found, sign), sign)
    kind, text = _kind(count, bits), "".join(f"  {line}\n" for line in body.lines)
    return (f'define spir_func {kind} @"{symbol}"({kind} %x, i{bits} %by, i32 %size, i32 %sign, '
            f"i32 %factor) alwaysinline {{\n{text}  ret {kind} {found}\n}}\n")


class _Body:
    """Instructions on vectors of `count` integers of 32 bits, and of other widths."""

    def __init__(self, count: int) -> None:
        self.count, self.kind = count, _kind(count)
        self.lines: list[str] = []

    def line(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def each(self, opcode: str, a: str, b: str) -> str:
        return self.line(f"{opcode} {self.kind} {a}, {b}")

    def wide(self, opcode: str, a: str, b: str) -> str:
        return self.line(f"{opcode} {_kind(self.count, 64)} {a}, {b}")

    def cast(self, opcode: str, value: str, old: int, new: int) -> str:
        return self.line(f"{opcode} {_kind(self.count, old)} {value} to {_kind(self.count, new)}")

    def constant(self, number: int, bits: int = 32) -> str:
        return all_are(f"i{bits}", number, self.count)

    def splat(self, value: str) -> str:
        if self.count == 1:
            return value
        first = self.line(f"insertelement {self.kind} undef, i32 {value}, i32 0")
        return self.line(f"shufflevector {self.kind} {first}, {self.kind} undef, "
                         f"<{self.count} x i32> zeroinitializer")
