"""erf of fp32 in plain arithmetic; Intel's OpenCL library looks it up in tables, by 16 gathers.

    erf(x) = x + x p(x²) near zero, else 1 - 2^q(|x|) with the sign of x

The error is at most 1.5 units in the last place, as that of the simulator's own form.  The
coefficients were fitted with 40 digits (mpmath): weighted minimax by Lawson's iteration.
`python/test/language/maths/test_elementary.py` measures the errors over all exponents.
"""

from __future__ import annotations

from collections.abc import Sequence

from triton_xe.intrinsics.mangling import itanium, suffix
from triton_xe.llvm import F32
from triton_xe.llvm.records import constant
from triton_xe.lowering.spirv.elements import all_are, kind_of

SPLIT = 0.97
NEAR = (
    0.12837915122509003, -0.37612438201904297, 0.11281103640794754, -0.026739519089460373,
    0.004953162744641304, -0.0005789116257801652,
)
"""erf(x) / x - 1 in x², for |x| below `SPLIT`.

The first one is that of the simulator, so that results are equal where the others do not matter.
Denormal numbers have no digits left for a difference.
"""
FAR = (
    -0.003480670740827918, -1.613390326499939, -0.9425445199012756, -0.1289658397436142,
    0.021667608991265297, -0.0017027867725118995,
)
"""log2(erfc(x)) in x, from `SPLIT` on.

From 3.95 on, where erf rounds to 1, it stays below -25, down to minus infinity.
"""
_TEXT = """
declare {V} @"llvm.fabs.{s}"({V})
declare {V} @"llvm.fma.{s}"({V}, {V}, {V})
declare spir_func {V} @"{exp2}"({V})
define internal spir_func {V} @"{name}"({V} %x) {{
  %size = call {V} @"llvm.fabs.{s}"({V} %x)
{far}
  %rest = call spir_func {V} @"{exp2}"({V} %far)
  %positive = fsub {V} {one}, %rest
  %positive.bits = bitcast {V} %positive to {I}
  %x.bits = bitcast {V} %x to {I}
  %sign = and {I} %x.bits, {sign}
  %signed.bits = or {I} %positive.bits, %sign
  %signed = bitcast {I} %signed.bits to {V}
  %square = fmul {V} %x, %x
{near}
  %small = call {V} @"llvm.fma.{s}"({V} %x, {V} %near, {V} %x)
  %is.far = fcmp oge {V} %size, {split}
  %result = select {B} %is.far, {V} %signed, {V} %small
  ret {V} %result
}}
"""


def definition(name: str, count: int) -> str:
    """The function on `count` elements of a lane, with declarations of what it calls."""
    def number(value: float) -> str:
        return all_are("float", constant(F32, value), count)

    v = kind_of("float", count)

    def polynomial(result: str, x: str, coefficients: Sequence[float]) -> str:
        """A sum of coefficients times powers of x, lowest first, by Horner's rule."""
        last, lines = number(coefficients[-1]), list[str]()
        for n, coefficient in reversed([*enumerate(coefficients[:-1])]):
            made = f"%{result}.{n}" if n else f"%{result}"
            lines.append(f'  {made} = call {v} @"llvm.fma.{suffix(v)}"'
                         f"({v} {last}, {v} {x}, {v} {number(coefficient)})")
            last = made
        return "\n".join(lines)

    return _TEXT.format(
        name=name, V=v, I=kind_of("i32", count), B=kind_of("i1", count), s=suffix(v),
        one=number(1.0), exp2=itanium("native_exp2", (v,)), split=number(SPLIT),
        sign=all_are("i32", -(1 << 31), count),
        near=polynomial("near", "%square", NEAR), far=polynomial("far", "%size", FAR))
