"""Stretches of a long function: which code they have, and what they share with the rest."""

from python.test.filecheck import check_text
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.printer import print_module
from triton_xe.llvm.records import Function
from triton_xe.runtime.simulator.pieces.stretches import LEAST, LONG, outlined_stretches


def chain(count: int, step: str) -> str:
    """Sums, each of the one before and `step`."""
    return "\n".join(f"  %x{k + 1} = add i32 %x{k}, {step}" for k in range(count))


def kernel(count: int) -> Function:
    """A loop with a stretch of `count` sums, and blocks that are too short for one."""
    short = "\n".join(f"  br label %short{k}\nshort{k}:\n" + "\n".join(
        f"  store i32 {k}, ptr %box" for _ in range(LEAST - 1)) for k in range(LONG // LEAST + 1))
    (function,) = parse_module(f"""
define i32 @f(i32 %n, i32 %x0) {{
  %box = alloca i32, align 4
  %own = alloca i32, align 4
{short}
  br label %loop
loop:
  %i = phi i32 [0, %short{LONG // LEAST}], [%last, %loop]
{chain(count, "%n")}
  store i32 %i, ptr %own
  %last = load i32, ptr %own
  %done = icmp eq i32 %last, 0
  br i1 %done, label %end, label %loop
end:
  ret i32 %x{count}
}}
""").functions.values()
    return function


def test_a_stretch_loads_what_others_compute_and_stores_what_they_use() -> None:
    check_text(print_module(outlined_stretches(kernel(LEAST), "nounwind")), f"""
CHECK-LABEL: define i32 @f(i32 %n, i32 %x0)
CHECK: %shared = alloca
CHECK: store i32 %n, ptr
CHECK: store i32 %x0, ptr
CHECK-NEXT: %box = alloca i32
CHECK-NEXT: %own = getelementptr i8, ptr %shared
CHECK: %i = phi i32
CHECK: store i32 %i, ptr
CHECK-NEXT: call void @[[STRETCH:.*]](ptr %shared)
CHECK: %last = load i32
CHECK: %done = load i1
CHECK-NEXT: br i1 %done
CHECK: ret i32 %x{LEAST}
CHECK: define internal void @[[STRETCH]](ptr %shared) nounwind
CHECK: %x0 = load i32
CHECK: %n = load i32
CHECK-NEXT: %x1 = add i32 %x0, %n
CHECK-NEXT: %x2 = add i32 %x1, %n
CHECK: %x{LEAST} = add
CHECK: store i32 %x{LEAST}, ptr
CHECK: %i = load i32
CHECK: %own = getelementptr i8, ptr %shared
CHECK: store i32 %i, ptr %own
CHECK: store i32 %last, ptr
CHECK: store i1 %done, ptr
CHECK-NEXT: ret void
""")


def test_short_functions_and_stretches_stay() -> None:
    assert len(outlined_stretches(kernel(1), "")) == 1
    short = parse_module(
        f"define i32 @f(i32 %x0) {{\n{chain(LEAST, '1')}\n  ret i32 %x{LEAST}\n}}\n")
    (function,) = short.functions.values()
    assert outlined_stretches(function, "") == [function]
