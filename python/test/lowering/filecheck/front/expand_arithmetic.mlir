// PASSES: expand-operations{rules=expand-arithmetic}
// ===
// A quotient rounded up, of unsigned numbers: no sum passes the largest one.
// CHECK-LABEL: tt.func public @rounded_up(
// CHECK: %[[LESS:.*]] = arith.subi %a, %{{.*}} : i32
// CHECK: %[[CUT:.*]] = arith.divui %[[LESS]], %b : i32
// CHECK: arith.addi %[[CUT]]
// CHECK: arith.select
// CHECK-NOT: ceildivui
tt.func public @rounded_up(%p: !tt.ptr<i32>, %a: i32, %b: i32) {
  %q = arith.ceildivui %a, %b : i32
  tt.store %p, %q : !tt.ptr<i32>
  tt.return
}
