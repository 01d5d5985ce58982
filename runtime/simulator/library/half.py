"""Conversions of fp16 that LLVM calls by name if the host has no instruction for them.

x86-64 has no instruction from fp64 before AVX512-FP16 (fused products and sums of fp16 need one),
and none at all before F16C.  They are generated here, because few processes have compiler-rt, or a
libgcc that exports them.  Each conversion rounds once.
"""

from __future__ import annotations

from triton_xe.llvm import F16, F32, F64, I16, I32, Function
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Writer
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

INFINITY_16, QUIET_16 = 0x7C00, 0x7E00
SIGN_16, SIZE_16 = 0x8000, 0x7FFF


def from_double(host: HostCpu) -> list[Function]:
    """Convert fp64 through fp32 that is rounded to odd, so that the second rounding is correct."""
    w = Writer(Routine("__truncdfhf2", F16, (("x", F64),)))
    single = w["x"].to(F32)
    back = single.to(F64)
    above = w.intrinsic("fabs", back) > w.intrinsic("fabs", w["x"])
    bits = single.as_bits(I32)
    odd = bits + above.signed(I32) | 1
    return w.finish(w.select(back.compare("one", w["x"]), odd, bits).as_bits(F32).to(F16))


def from_single(host: HostCpu) -> list[Function]:
    """Convert fp32 to fp16.

    Subnormal results are rounded by adding 0.5: fp32's last bit is then fp16's least number.
    """
    w = Writer(Routine("__truncsfhf2", F16, (("x", F32),)))
    bits = w["x"].as_bits(I32)
    size = bits & 0x7FFFFFFF
    subnormal = (size.as_bits(F32) + 0.5).as_bits(I32) - 0x3F000000
    last = size >> 13
    normal = size + (0x0FFF - (112 << 23)) + (last & 1) >> 13
    special = w.select(size > 0x7F800000, last & 0x1FF | QUIET_16, INFINITY_16)
    finite = w.select(size < 113 << 23, subnormal, normal)
    number = w.select(size >= 143 << 23, special, finite)
    return w.finish((number | bits >> 16 & SIGN_16).to(I16).as_bits(F16))


def to_single(host: HostCpu) -> list[Function]:
    """Convert fp16 to fp32, which is exact."""
    w = Writer(Routine("__extendhfsf2", F32, (("x", F16),)))
    bits = w["x"].as_bits(I16).to(I32)
    size = bits & SIZE_16
    moved = size << 13
    infinite = moved + (224 << 23)
    lowered = ((moved + (113 << 23)).as_bits(F32) - 2.0**-14).as_bits(I32)
    special = w.select(size > INFINITY_16, infinite | 1 << 22, infinite)
    finite = w.select(size < 0x400, lowered, moved + (112 << 23))
    number = w.select(size >= INFINITY_16, special, finite)
    return w.finish((number | (bits & SIGN_16) << 16).as_bits(F32))


NAMED_BY_LLVM = {
    "__truncdfhf2": from_double, "__truncsfhf2": from_single, "__extendhfsf2": to_single,
}
"""Symbol -> function that generates it."""
