"""What is computed before the cut of a long block is computed there."""

from __future__ import annotations

import llvmlite.binding as llvm

from python.test.filecheck import check_text
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.printer import print_module
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
    check_text(print_module([pinned_results(function, "%xe.stopped", WIDE)], []), """
        CHECK-NOT: asm sideeffect
        CHECK: %t.here = call <16 x float> asm sideeffect "", "=v,0"(<16 x float> %t)
        CHECK-NOT: asm sideeffect
        CHECK: {{^}}next:
        CHECK: store <16 x float> %t.here
        CHECK: store <8 x float> %u,
        """)


def test_only_what_fills_registers_of_the_host_and_crosses_a_cut() -> None:
    (odd,) = parse_module(CUT.replace("16 x", "48 x")).functions.values()
    check_text(print_module([pinned_results(odd, "%xe.stopped", WIDE)], []), "CHECK-NOT: asm")
    (halves,) = parse_module(CUT.replace("16 x float", "64 x half")).functions.values()
    check_text(print_module([pinned_results(halves, "%xe.stopped", WIDE)], []), "CHECK-NOT: asm")
    (function,) = parse_module(CUT).functions.values()
    assert pinned_results(function, "%elsewhere", WIDE) is function


LOOP = """
define void @k(ptr %p, ptr %bad) {
entry:
  br label %pass
pass:
  %s = phi <16 x float> [zeroinitializer, %entry], [%t, %again]
  %x = load <16 x float>, ptr %p
  %t = fadd <16 x float> %s, %x
  %b = load volatile i1, ptr %bad
  br i1 %b, label %left, label %again
left:
  br label %xe.stopped
again:
  br label %pass
xe.stopped:
  ret void
}
"""


def test_what_a_loop_hands_on_is_held_before_its_end() -> None:
    (function,) = parse_module(LOOP).functions.values()
    text = print_module([pinned_results(function, "%xe.stopped", WIDE)], [])
    check_text(text, """
        CHECK: %s = phi <16 x float> {{.*}}[%t.here, %again]
        CHECK: %t = fadd <16 x float> %s, %x
        CHECK: %t.here = call <16 x float> asm sideeffect
        """)
    llvm.parse_assembly(text).verify()


def test_each_register_of_a_wide_vector_is_held() -> None:
    (function,) = parse_module(CUT.replace("16 x", "64 x")).functions.values()
    text = print_module([pinned_results(function, "%xe.stopped", WIDE)], [])
    check_text(text, """
        CHECK-COUNT-4: call <16 x float> asm sideeffect "", "=v,0"
        CHECK-NOT: asm
        CHECK: {{^}}next:
        CHECK-NOT: shufflevector
        CHECK: store <64 x float> %t.here,
        """)
    check_text(text, """
        CHECK-COUNT-7: shufflevector
        CHECK-NOT: shufflevector
        """)  # four registers, which three others join
    check_text(print_module([pinned_results(function, "%xe.stopped", ARM)], []), """
        CHECK-COUNT-18: "=w,0"
        CHECK-NOT: "=w,0"
        """)
    llvm.parse_assembly(text).verify()
