"""Loads stand where they are first needed, and never behind what may write."""

from __future__ import annotations

from collections.abc import Callable

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.rewrites.late_loads import late_loads

P = "ptr addrspace(1)"
BODY = f"""
  %x = load float, {P} %a
  %y = load <2 x float>, {P} %b
  %z = load float, {P} %c
  %y0 = extractelement <2 x float> %y, i32 0
  %u = fadd float %x, 1.0
  %w = fmul float %u, %y0
  store float %w, {P} %b
  %v = fadd float %z, %z
  store float %v, {P} %c"""


def test_loads_stand_before_their_first_use_and_before_stores(kernel: Callable[..., str]) -> None:
    (function,) = parse_module(kernel(f"{P} %a, {P} %b, {P} %c", BODY)).kernels()
    (block,) = late_loads(function).blocks
    order = [i.result or i.opcode for i in block.instructions]
    assert order == ["%x", "%u", "%y", "%y0", "%w", "%z", "store", "%v", "store", "ret"]
