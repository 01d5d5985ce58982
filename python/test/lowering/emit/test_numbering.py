"""Values of a written module are numbered in their order."""

from python.test.filecheck import check_text
from python.test.lowering.emit.writing import state_of
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.printer import print_kernels
from triton_xe.lowering.emit.numbering import number_values


def test_names_of_passes_become_numbers():
    module = parse_module("""
define spir_kernel void @f(ptr %p, i32 %a) {
entry:
  %v4 = add i32 %a, 1
  br label %loop
loop:
  %v9 = phi i32 [%v4, %entry], [%s1, %loop]
  store i32 %v9, ptr %p
  %s1 = add i32 %v9, %v4
  %n.2 = icmp slt i32 %s1, %a
  br i1 %n.2, label %loop, label %after
after:
  ret void
}
""")
    number_values(state_of(module))
    check_text(print_kernels(module), """
        CHECK: %v1 = add i32 %a, 1
        CHECK: %v2 = phi i32 [%v1, %entry], [%v3, %loop]
        CHECK: store i32 %v2, ptr %p
        CHECK: %v3 = add i32 %v2, %v1
        CHECK: %v4 = icmp slt i32 %v3, %a
        CHECK: br i1 %v4
    """)
