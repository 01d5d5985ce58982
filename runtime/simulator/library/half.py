"""Conversions of half precision that LLVM calls by name where the host has no instruction for them.

x86-64 has none from fp64 before AVX512-FP16 (fused products and sums of fp16 end in one), and none
at all before F16C.  Few processes hold compiler-rt, or a libgcc that exports them.  Each rounds
once.
"""

from __future__ import annotations

from triton_xe.runtime.simulator.run.host_cpu import HostCpu

Text = tuple[str, tuple[str, ...]]

PATTERN = r"(__truncdfhf2|__truncsfhf2|__extendhfsf2)"

# fp64 -> fp32 rounded to odd, which keeps what the second rounding must know
_FROM_DOUBLE = """
define half @__truncdfhf2(double %x) nounwind {
  %single = fptrunc double %x to float
  %back = fpext float %single to double
  %inexact = fcmp one double %back, %x
  %size = call double @llvm.fabs.f64(double %x)
  %size.back = call double @llvm.fabs.f64(double %back)
  %above = fcmp ogt double %size.back, %size
  %less = sext i1 %above to i32
  %bits = bitcast float %single to i32
  %below = add i32 %bits, %less
  %odd = or i32 %below, 1
  %kept = select i1 %inexact, i32 %odd, i32 %bits
  %once = bitcast i32 %kept to float
  %result = fptrunc float %once to half
  ret half %result
}
declare double @llvm.fabs.f64(double)
"""

# numbers below the normal ones are rounded by adding 0.5, whose last place is theirs
_FROM_SINGLE = """
define half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %sign.high = lshr i32 %bits, 16
  %sign = and i32 %sign.high, 32768
  %small = bitcast i32 %size to float
  %moved = fadd float %small, 0.5
  %moved.bits = bitcast float %moved to i32
  %subnormal = sub i32 %moved.bits, 1056964608
  %last = lshr i32 %size, 13
  %odd = and i32 %last, 1
  %biased = add i32 %size, -939520001
  %rounded = add i32 %biased, %odd
  %normal = lshr i32 %rounded, 13
  %payload = and i32 %last, 511
  %quiet = or i32 %payload, 32256
  %nan = icmp ugt i32 %size, 2139095040
  %special = select i1 %nan, i32 %quiet, i32 31744
  %large = icmp uge i32 %size, 1199570944
  %tiny = icmp ult i32 %size, 947912704
  %finite = select i1 %tiny, i32 %subnormal, i32 %normal
  %number = select i1 %large, i32 %special, i32 %finite
  %signed = or i32 %number, %sign
  %word = trunc i32 %signed to i16
  %result = bitcast i16 %word to half
  ret half %result
}
"""

_TO_SINGLE = """
define float @__extendhfsf2(half %x) nounwind {
  %word = bitcast half %x to i16
  %bits = zext i16 %word to i32
  %sign.low = and i32 %bits, 32768
  %sign = shl i32 %sign.low, 16
  %size = and i32 %bits, 32767
  %moved = shl i32 %size, 13
  %normal = add i32 %moved, 939524096
  %infinite = add i32 %moved, 1879048192
  %quiet = or i32 %infinite, 4194304
  %shifted = add i32 %moved, 947912704
  %raised = bitcast i32 %shifted to float
  %lowered = fsub float %raised, 0x3F10000000000000
  %subnormal = bitcast float %lowered to i32
  %tiny = icmp ult i32 %size, 1024
  %large = icmp uge i32 %size, 31744
  %nan = icmp ugt i32 %size, 31744
  %special = select i1 %nan, i32 %quiet, i32 %infinite
  %finite = select i1 %tiny, i32 %subnormal, i32 %normal
  %number = select i1 %large, i32 %special, i32 %finite
  %signed = or i32 %number, %sign
  %result = bitcast i32 %signed to float
  ret float %result
}
"""
_TEXTS = {
    "__truncdfhf2": _FROM_DOUBLE, "__truncsfhf2": _FROM_SINGLE, "__extendhfsf2": _TO_SINGLE,
}


def function(host: HostCpu, name: str) -> Text:
    return _TEXTS[name], ()
