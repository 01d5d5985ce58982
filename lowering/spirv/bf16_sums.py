"""Sums of bf16 in global memory by one message, in place of a loop of compare-and-swap.

The helper's body in LLVM IR is the loop (`triton_xe.lowering.emit.lane_atomics`), which the
simulator executes.  Intel's compiler makes a message of this body on devices that have it.
"""

from __future__ import annotations

from triton_xe.lowering.emit.lane_atomics import SCOPES
from triton_xe.spirv import BF16_SUM

_BODY = """define spir_func i16 @"{symbol}"(i64 %at, i16 %bits, i1 %active) alwaysinline {{
  br i1 %active, label %add, label %done
add:
  %p = inttoptr i64 %at to ptr addrspace(1)
  %x = bitcast i16 %bits to bfloat
  %old = atomicrmw fadd ptr addrspace(1) %p, bfloat %x {scope}monotonic
  %was = bitcast bfloat %old to i16
  br label %done
done:
  %r = phi i16 [ %was, %add ], [ 0, %0 ]
  ret i16 %r
}}
"""


def definition(symbol: str) -> str:
    """The definition of a helper; its name ends with Triton's scope, if it has one."""
    scope = symbol.removeprefix(BF16_SUM).lstrip("_")
    within = f'syncscope("{SCOPES[scope][0]}") ' if scope else ""
    return _BODY.format(symbol=symbol, scope=within)
