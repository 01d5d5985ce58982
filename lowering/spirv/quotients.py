"""Quotients of small whole numbers as products with the reciprocal of the divisor.

The functions of `triton_xe.lowering.emit.maths.reciprocals.small_quotient`, in LLVM IR: Intel's
compiler takes 12 instructions for it, and 36 and a branch for a division.

The reciprocal (a unit in the last place off), its product and the number below one make an estimate
that is less than the quotient, by less than 2^-20 of it, and so by less than one.  Cut, it is the
quotient or one less, and the remainder, which a float holds, says which.
"""

from __future__ import annotations

from triton_xe.spirv import QUOTIENT

BELOW_ONE = 1 - 2.0**-21
DECLARED = """declare float @llvm.trunc.f32(float)
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
_OF = {"udiv": ("fadd float %low, 1.0", "%low"), "urem": ("fsub float %rest, %y", "%rest")}


def definition(symbol: str) -> str:
    """The definition of a function; its name says which it is."""
    more, other = _OF[symbol.removeprefix(QUOTIENT)]
    return _BODY.format(symbol=symbol, below=f"{BELOW_ONE:.17g}", more=more, other=other)
