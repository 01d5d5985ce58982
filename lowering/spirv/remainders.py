"""fmod of fp32 in LLVM IR: exact, like OpenCL's function, so the results are equal.

    q = rint(x / y) ; r = fma(-q, y, x) ; r + y if r < 0            for positive x < 2^20 y

x / y has an error of 2^-22, so q differs from the quotient by at most 3/4, and r is between -y and
y.  It is a multiple of the last place of y, and needs no rounding.  For a larger x, a loop does the
same with y 2^k first, which removes at least 18 bits of x each time.  Numbers y below 2^-80 enter
it too, because 1 / y may be infinite.  It divides by y 2^40, multiplies x by 2^40, and divides
again.
"""

from __future__ import annotations

from triton_xe.intrinsics.mangling import suffix
from triton_xe.lowering.spirv.elements import all_are, kind_of

_INFINITE = "0x7FF0000000000000"
_TEXT = """
declare {V} @"llvm.fabs.{s}"({V} %x)
declare {V} @"llvm.rint.{s}"({V} %x)
declare {V} @"llvm.fma.{s}"({V} %x, {V} %y, {V} %z)
declare {V} @"llvm.copysign.{s}"({V} %x, {V} %y)
define internal spir_func {V} @"{name}"({V} %x, {V} %y) {{
entry:
  %a = call {V} @"llvm.fabs.{s}"({V} %x)
  %b = call {V} @"llvm.fabs.{s}"({V} %y)
  %inverse = fdiv arcp {V} {one}, %b
  %ratio = fmul {V} %a, %inverse
  %q = call {V} @"llvm.rint.{s}"({V} %ratio)
  %minus = fneg {V} %q
  %rest = call {V} @"llvm.fma.{s}"({V} %minus, {V} %b, {V} %a)
  %below = fcmp olt {V} %rest, {zero}
  %above = fadd {V} %rest, %b
  %positive = select {B} %below, {V} %above, {V} %rest
  %small = fcmp olt {V} %a, %b
  %near = select {B} %small, {V} %a, {V} %positive
  %most = fmul {V} %b, {far}
  %is.near = fcmp olt {V} %a, %most
  %is.normal = fcmp oge {V} %b, {tiny}
  %is.easy = and {B} %is.near, %is.normal
{all_easy}
  br i1 %easy, label %done, label %prepare
prepare:
  %finite = fcmp olt {V} %a, {infinite}
  %divisible = fcmp ogt {V} %b, {zero}
  %defined = and {B} %finite, %divisible
  %easy.or.not = select {B} %defined, {B} %is.easy, {B} {true}
  %first = select {B} %easy.or.not, {V} {zero}, {V} %a
  %scale = select {B} %is.normal, {V} {one}, {V} {up}
  %back = select {B} %is.normal, {V} {one}, {V} {down}
  %b.scaled = fmul {V} %b, %scale
  %d = select {B} %easy.or.not, {V} {one}, {V} %b.scaled
  %bits.d = bitcast {V} %d to {I}
  %exponent.d = lshr {I} %bits.d, {shift}
  %least = add {I} %exponent.d, {step}
  br label %loop
loop:
  %n = phi {V} [ %first, %prepare ], [ %next, %loop.end ]
  %scaled = phi i1 [ false, %prepare ], [ %scaled.next, %loop.end ]
  %bits.n = bitcast {V} %n to {I}
  %exponent.n = lshr {I} %bits.n, {shift}
  %excess = sub {I} %exponent.n, %least
  %is.over = icmp sgt {I} %excess, {none}
  %k = select {B} %is.over, {I} %excess, {I} {none}
  %k.bits = shl {I} %k, {shift}
  %bits.e = add {I} %bits.d, %k.bits
  %e = bitcast {I} %bits.e to {V}
  %inverse.e = fdiv arcp {V} {one}, %e
  %ratio.e = fmul {V} %n, %inverse.e
  %q.e = call {V} @"llvm.rint.{s}"({V} %ratio.e)
  %minus.e = fneg {V} %q.e
  %rest.e = call {V} @"llvm.fma.{s}"({V} %minus.e, {V} %e, {V} %n)
  %below.e = fcmp olt {V} %rest.e, {zero}
  %above.e = fadd {V} %rest.e, %e
  %positive.e = select {B} %below.e, {V} %above.e, {V} %rest.e
  %was.done = fcmp olt {V} %n, %d
  %r = select {B} %was.done, {V} %n, {V} %positive.e
  %is.done = fcmp olt {V} %r, %d
{all_done}
  br i1 %reduced, label %loop.scale, label %loop.end
loop.scale:
  %grown = fmul {V} %r, %scale
  br i1 %scaled, label %found, label %loop.end
loop.end:
  %next = phi {V} [ %r, %loop ], [ %grown, %loop.scale ]
  %scaled.next = phi i1 [ %scaled, %loop ], [ true, %loop.scale ]
  br label %loop
found:
  %far = fmul {V} %r, %back
  %chosen = select {B} %easy.or.not, {V} %near, {V} %far
  br label %done
done:
  %size = phi {V} [ %near, %entry ], [ %chosen, %found ]
  %result = call {V} @"llvm.copysign.{s}"({V} %size, {V} %x)
  ret {V} %result
}}
"""


def definition(name: str, count: int) -> str:
    """The function on `count` elements of a lane, with declarations of what it calls."""
    kind = kind_of("float", count)
    floats = {"one": 1.0, "zero": 0.0, "far": 2.0**20, "up": 2.0**40, "infinite": _INFINITE,
              "tiny": f"{2.0**-80:.25e}", "down": f"{2.0**-40:.25e}"}
    return _TEXT.format(
        name=name, V=kind, I=kind_of("i32", count), B=kind_of("i1", count), s=suffix(kind),
        all_easy=_all("easy", "is.easy", count), all_done=_all("reduced", "is.done", count),
        shift=all_are("i32", 23, count), step=all_are("i32", 19, count),
        none=all_are("i32", 0, count), true=all_are("i1", "true", count),
        **{key: all_are("float", value, count) for key, value in floats.items()})


def _all(name: str, bits: str, count: int) -> str:
    """Set %name to true if the bits of all elements are."""
    if count == 1:
        return f"  %{name} = and i1 %{bits}, true"
    lines, so_far = [], "true"
    for n in range(count):
        made = f"%{name}" if n == count - 1 else f"%{name}.up.to.{n}"
        lines += [f"  %{name}.{n} = extractelement <{count} x i1> %{bits}, i32 {n}",
                  f"  {made} = and i1 {so_far}, %{name}.{n}"]
        so_far = made
    return "\n".join(lines)
