// PASSES: strength-reduce{rules=strength-reduce-divisions}
// ===
// Without conditions of the launch nothing is known; test_strength_reduce_divisions.py has the others.
// CHECK-LABEL: tt.func public @plain(
// CHECK-NOT: xe.quick
tt.func public @plain(%n: i32, %p: !tt.ptr<i32>) {
  %pid = tt.get_program_id x : i32
  %q = arith.divsi %pid, %n : i32
  tt.store %p, %q : !tt.ptr<i32>
  tt.return
}
