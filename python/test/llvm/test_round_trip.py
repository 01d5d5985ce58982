"""Text -> records -> text loses nothing but address spaces and metadata."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.simulator import host_kernels
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.run.kernel_module import canonical

_EVERYTHING = """
@table = internal constant [2 x i32] [i32 1, i32 2]
declare <4 x half> @llvm.maxnum.v4f16(<4 x half>, <4 x half>)
define internal { i32, <4 x half> } @f(ptr %p, i1 %c, <4 x i32> %v, i64 %n) {
entry:
  %a = alloca [16 x i8], align 64
  %x = extractelement <4 x i32> %v, i32 1
  %y = insertelement <4 x i32> %v, i32 %x, i32 0
  %z = shufflevector <4 x i32> %y, <4 x i32> poison, <4 x i32> <i32 3, i32 poison, i32 0, i32 0>
  %s = add nuw nsw <4 x i32> %z, <i32 1, i32 2, i32 3, i32 4>
  %g = getelementptr inbounds i8, ptr %p, i64 %n
  switch i32 %x, label %one [ i32 0, label %two
    i32 7, label %one ]

one:
  %o = atomicrmw add ptr %g, i32 1 syncscope("workgroup") acq_rel, align 4
  %q = cmpxchg ptr %g, i32 %x, i32 %o acquire monotonic, align 4
  %r = extractvalue { i32, i1 } %q, 0
  br i1 %c, label %two, label %three

two:
  %h = phi i32 [ %x, %entry ], [ %r, %one ]
  %k = load volatile i32, ptr %a, align 8
  store i32 %h, ptr @table, align 4
  br label %three

three:
  %i = phi i32 [ 0, %one ], [ %k, %two ]
  %e = fcmp fast oge <4 x half> splat (half 0xH3C00), zeroinitializer
  %w = select <4 x i1> %e, <4 x half> splat (half 0xH3C00), <4 x half> zeroinitializer
  %m = call <4 x half> @llvm.maxnum.v4f16(<4 x half> %w, <4 x half> zeroinitializer)
  %u = insertvalue { i32, <4 x half> } poison, i32 %i, 0
  %t = insertvalue { i32, <4 x half> } %u, <4 x half> %m, 1
  ret { i32, <4 x half> } %t
}
"""


def printed(text: str) -> str:
    """The host module of all functions of a module, as LLVM prints it."""
    module = parse_module(text)
    variables = [v for v in module.globals.values() if not v.name.startswith("@llvm.")]
    made = llvm.parse_assembly(print_module(module.functions.values(), variables))
    made.verify()
    return str(made)


def test_every_instruction() -> None:
    assert printed(canonical(_EVERYTHING)) == canonical(_EVERYTHING)


_KERNELS = {
    "matmul": (host_kernels.matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "M": "i32",
                                     "N": "i32", "K": "i32"},
               {"BLOCK": 32, "STEP": 32, "KIND": triton.language.float32}),
    "rows": (host_kernels.normalise, {"x": "*fp32", "y": "*fp32", "columns": "i32"},
             {"BLOCK": 512}),
    "atomics": (host_kernels.count, {"x": "*i32", "bins": "*i32", "total": "*fp32",
                                     "highest": "*i32"}, {"SIZE": 256}),
}


@pytest.mark.parametrize("name", _KERNELS)
def test_real_kernels(name: str) -> None:
    function, types, constants = _KERNELS[name]
    signature = {**types, **dict.fromkeys(constants, "constexpr")}
    made = triton.compile(ASTSource(function, signature, constants),
                          target=GPUTarget("xpu", "bmg", 16))
    text = str(made.asm["llir"])
    once = printed(canonical(text))
    assert printed(once) == once
    first, again = (parse_module(t).functions for t in (canonical(text), once))
    assert {f: sum(1 for _ in x.instructions()) for f, x in first.items()} == {
        f: sum(1 for _ in x.instructions()) for f, x in again.items()}


def test_instructions_of_one_shape() -> None:
    """What is read by the shape of another instruction is what is read by itself."""
    lines = ["%a = add nuw i32 %x, 1", '%"a b" = add nuw i32 %y, 1', "%c = add i32 %y, %y",
             "%d = add i32 %x, %c", "%e = call float @f(float %u, ptr @g), !xe.added !1",
             "%h = call float @f(float %e, ptr @g)", "store float %h, ptr %p, align 4",
             "store float %e, ptr %p, align 8", "store float %u, ptr %p, align 8"]
    head = "define void @k(i32 %x, i32 %y, float %u, ptr %p) {\n"
    whole = head + "".join(f"  {line}\n" for line in lines) + "  ret void\n}\n"
    (block,) = parse_module(whole).functions["k"].blocks
    for line, got in zip(lines, block.instructions, strict=False):
        (alone,) = parse_module(f"{head}  {line}\n  ret void\n}}\n").functions["k"].blocks
        want = alone.instructions[0]
        want.line = got.line
        assert [getattr(got, name) for name in got.__slots__] == [
            getattr(want, name) for name in want.__slots__]
    assert [i.added for i in block.instructions].count(True) == 1
