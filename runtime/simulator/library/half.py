"""Conversions of half precision that LLVM calls by name where the host has no instruction for them.

x86-64 has none from fp64 before AVX512-FP16 (fused products and sums of fp16 end in one), and none
at all before F16C.  Few processes hold compiler-rt, or a libgcc that exports them.  Each rounds
once.
"""

from __future__ import annotations

from triton_xe.runtime.simulator.ir import F16, F32, F64, I16, I32, Function, define
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

INFINITY_16, QUIET_16 = 0x7C00, 0x7E00
SIGN_16, SIZE_16 = 0x8000, 0x7FFF


def from_double(host: HostCpu) -> list[Function]:
    """By way of fp32 rounded to odd, which keeps what the second rounding must know."""
    b = define("__truncdfhf2", F16, [("x", F64)])
    (x,) = b.arguments
    single = b.fptrunc(x, F32)
    back = b.fpext(single, F64)
    above = b.fcmp("ogt", b.intrinsic("fabs", back), b.intrinsic("fabs", x))
    bits = b.bitcast(single, I32)
    odd = b.or_(b.add(bits, b.sext(above, I32)), 1)
    kept = b.select(b.fcmp("one", back, x), odd, bits)
    b.ret(b.fptrunc(b.bitcast(kept, F32), F16))
    return [b.function]


def from_single(host: HostCpu) -> list[Function]:
    """Numbers below the normal ones are rounded by adding 0.5, whose last place is theirs."""
    b = define("__truncsfhf2", F16, [("x", F32)])
    bits = b.bitcast(b.arguments[0], I32)
    size = b.and_(bits, 0x7FFFFFFF)
    sign = b.and_(b.lshr(bits, 16), SIGN_16)
    moved = b.bitcast(b.fadd(b.bitcast(size, F32), 0.5), I32)
    subnormal = b.sub(moved, 0x3F000000)
    last = b.lshr(size, 13)
    biased = b.add(size, 0x0FFF - (112 << 23))
    normal = b.lshr(b.add(biased, b.and_(last, 1)), 13)
    quiet = b.or_(b.and_(last, 0x1FF), QUIET_16)
    special = b.select(b.icmp("ugt", size, 0x7F800000), quiet, INFINITY_16)
    finite = b.select(b.icmp("ult", size, 113 << 23), subnormal, normal)
    number = b.select(b.icmp("uge", size, 143 << 23), special, finite)
    b.ret(b.bitcast(b.trunc(b.or_(number, sign), I16), F16))
    return [b.function]


def to_single(host: HostCpu) -> list[Function]:
    b = define("__extendhfsf2", F32, [("x", F16)])
    bits = b.zext(b.bitcast(b.arguments[0], I16), I32)
    sign = b.shl(b.and_(bits, SIGN_16), 16)
    size = b.and_(bits, SIZE_16)
    moved = b.shl(size, 13)
    infinite = b.add(moved, 224 << 23)
    raised = b.bitcast(b.add(moved, 113 << 23), F32)
    lowered = b.bitcast(b.fsub(raised, 2.0**-14), I32)
    special = b.select(b.icmp("ugt", size, INFINITY_16), b.or_(infinite, 1 << 22), infinite)
    finite = b.select(b.icmp("ult", size, 0x400), lowered, b.add(moved, 112 << 23))
    number = b.select(b.icmp("uge", size, INFINITY_16), special, finite)
    b.ret(b.bitcast(b.or_(number, sign), F32))
    return [b.function]


NAMED_BY_LLVM = {
    "__truncdfhf2": from_double, "__truncsfhf2": from_single, "__extendhfsf2": to_single,
}
"""Symbol -> maker."""
