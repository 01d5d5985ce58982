"""erf of fp32 in plain arithmetic; Intel's OpenCL library looks it up in tables, by 16 gathers.

    erf(x) = max(t + t p(t), 1 - 2^q(t)) with the sign of x, and t = |x|

The error is at most 1.5 units in the last place, as that of the simulator's own form.  The first
operand of the maximum is accurate up to 1.17, the second one from there on.  Elsewhere each is
below erf, so no comparison is needed to choose one.  The coefficients were fitted by linear
programming: weighted minimax under these bounds, with each coefficient rounded before the next.
`python/test/language/maths/test_elementary.py` measures the errors over all exponents.
"""

from __future__ import annotations

from triton_xe.intrinsics.mangling import itanium, suffix
from triton_xe.llvm import F32
from triton_xe.llvm.records import constant
from triton_xe.lowering.spirv.elements import all_are, kind_of

NEAR = {
    0: 0.12837915122509003, 2: -0.3761277496814728, 4: 0.11286488175392151,
    6: -0.027050500735640526, 8: 0.006209839601069689, 9: -0.0015748264268040657,
}
"""p: erf(t) / t - 1 by powers of t, up to 1.17; minus infinity for large numbers.

The first one is that of the simulator, so that results are equal where the others do not matter.
Denormal numbers have no digits left for a difference.  With a power of ten instead of nine, the
sum would be accurate up to 0.97 only.
"""
FAR = {
    0: 6.879304237372708e-07, 1: -1.6242685317993164, 2: -0.929147481918335,
    3: -0.13708753883838654, 4: 0.024089153856039047, 5: -0.0019866186194121838,
}
"""q: log2(erfc(t)) by powers of t, from 1.17 on; minus infinity for large numbers.

From 3.95 on, where erf rounds to 1, it is below -25.  Errors of 2^q do not become smaller with t.
Therefore 1 - 2^q is below erf by more than 2^-22 up to 0.8, and by 2^-23 up to 1.1.
"""
_TEXT = """
declare {V} @"llvm.fabs.{s}"({V})
declare {V} @"llvm.fma.{s}"({V}, {V}, {V})
declare {V} @"llvm.maxnum.{s}"({V}, {V})
declare spir_func {V} @"{exp2}"({V})
define internal spir_func {V} @"{name}"({V} %x) {{
  %size = call {V} @"llvm.fabs.{s}"({V} %x)
  %square = fmul {V} %x, %x
{far}
  %rest = call spir_func {V} @"{exp2}"({V} %far)
  %large = fsub {V} {one}, %rest
{near}
  %small = call {V} @"llvm.fma.{s}"({V} %size, {V} %near, {V} %size)
  %positive = call {V} @"llvm.maxnum.{s}"({V} %small, {V} %large)
  %positive.bits = bitcast {V} %positive to {I}
  %x.bits = bitcast {V} %x to {I}
  %sign = and {I} %x.bits, {sign}
  %signed.bits = or {I} %positive.bits, %sign
  %result = bitcast {I} %signed.bits to {V}
  ret {V} %result
}}
"""


def definition(name: str, count: int) -> str:
    """The function on `count` elements of a lane, with declarations of what it calls."""
    def number(value: float) -> str:
        return all_are("float", constant(F32, value), count)

    v = kind_of("float", count)
    factors = {1: "%size", 2: "%square"}

    def polynomial(result: str, coefficients: dict[int, float]) -> str:
        """A sum of coefficients times powers of |x|, by Horner's rule.

        Neighbouring powers differ by one or two.
        """
        (power, last), *others = reversed(coefficients.items())
        made, lines = number(last), list[str]()
        for lower, coefficient in others:
            named = f"%{result}.{lower}" if lower else f"%{result}"
            lines.append(f'  {named} = call {v} @"llvm.fma.{suffix(v)}"'
                         f"({v} {made}, {v} {factors[power - lower]}, {v} {number(coefficient)})")
            power, made = lower, named
        return "\n".join(lines)

    return _TEXT.format(
        name=name, V=v, I=kind_of("i32", count), s=suffix(v), one=number(1.0),
        sign=all_are("i32", -(1 << 31), count), exp2=itanium("native_exp2", (v,)),
        near=polynomial("near", NEAR), far=polynomial("far", FAR))
