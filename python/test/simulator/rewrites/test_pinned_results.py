"""What is computed before the cut of a long block is computed there."""

from __future__ import annotations

from triton_xe.runtime.simulator.ir.parser import parse_module
from triton_xe.runtime.simulator.ir.printer import print_module
from triton_xe.runtime.simulator.rewrites.pinned_results import pinned_results
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

CUT = """
define void @k(ptr %p, i1 %bad) {
entry:
  %x = load <16 x float>, ptr %p
  %s = fadd <16 x float> %x, %x
  %t = fmul <16 x float> %s, %s
  %u = fadd <8 x float> zeroinitializer, zeroinitializer
  br i1 %bad, label %xe.stopped, label %next
next:
  store <16 x float> %t, ptr %p
  store <8 x float> %u, ptr %p
  ret void
xe.stopped:
  ret void
}
"""
WIDE, ARM = HostCpu("x86_64-linux", "", "+avx512f"), HostCpu("aarch64-linux", "", "")


def test_sums_that_are_needed_after_a_cut_are_held_before_it() -> None:
    (function,) = parse_module(CUT).functions.values()
    before, after = print_module(
        [pinned_results(function, "%xe.stopped", WIDE)], []).split("\nnext:")
    assert before.count("asm sideeffect") == 1
    assert '%t.here = call <16 x float> asm sideeffect "", "=v,0"(<16 x float> %t)' in before
    assert "store <16 x float> %t.here" in after
    assert "store <8 x float> %u," in after


def test_only_what_fills_a_register_of_the_host_and_crosses_a_cut() -> None:
    (function,) = parse_module(CUT).functions.values()
    assert "asm" not in print_module([pinned_results(function, "%xe.stopped", ARM)], [])
    assert pinned_results(function, "%elsewhere", WIDE) is function
