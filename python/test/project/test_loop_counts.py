"""Counting the messages of the main loop in LLVM IR text."""

from triton_xe.tools.loop_counts import LoopCounts, main_loop

TEXT = """
declare <8 x float> @"llvm.genx.GenISA.sub.group.dpas.v8f32.v8f32.v8i16.v8i32"(i32)

define spir_kernel void @k(ptr addrspace(1) %a)
{
entry:
  %x = load i32, ptr addrspace(1) %a
  br label %"slow"
slow:
  %y = call <8 x float> @"llvm.genx.GenISA.sub.group.dpas.v8f32.v8f32.v8i16.v8i32"(i32 0)
  %g = call i16 @llvm.genx.GenISA.PredicatedLoad.i16.p1.i16(ptr addrspace(1) %a)
  br i1 %c, label %slow, label %outer
outer:
  call void @llvm.genx.GenISA.sub.group.dpas.outside()
  br label %fast
fast:
  %b = call <8 x i16> @llvm.genx.GenISA.LSC2DBlockRead.v8i16(i64 0)
  call void @llvm.genx.GenISA.LSC2DBlockPrefetch.isVoid(i64 0)
  br label %body
body:
  %z = call <8 x float> @"llvm.genx.GenISA.sub.group.dpas.v8f32.v8f32.v8i16.v8i32"(i32 1)
  br i1 %c, label %"fast", label %latch
latch:
  br i1 %d, label %outer, label %exit
exit:
  ret void
}
"""


def test_the_innermost_loop_with_block_loads_counts():
    assert main_loop(TEXT) == LoopCounts(dpas=1, block_loads=1, prefetches=1, gathers=0)


def test_no_loop_no_counts():
    assert main_loop(TEXT.replace("label %slow,", "label %outer,").replace(
        'label %"fast"', "label %latch").replace("label %outer, label %exit",
                                                  "label %exit, label %exit")) == LoopCounts()
