// PASSES: strength-reduce{rules=narrow-divisions}

// Numbers of 32 bits, extended to 64, are divided in 32 bits.  A quotient may be negative.
// CHECK-LABEL: tt.func public @scalars(
// CHECK: %[[A:.*]] = arith.trunci %{{.*}} : i64 to i32
// CHECK: %[[B:.*]] = arith.constant 7 : i32
// CHECK: %[[Q:.*]] = arith.divsi %[[A]], %[[B]] : i32
// CHECK: arith.extsi %[[Q]] : i32 to i64
tt.func public @scalars(%n: i32, %p: !tt.ptr<i64>) {
  %seven = arith.constant 7 : i64
  %long = arith.extsi %n : i32 to i64
  %q = arith.divsi %long, %seven : i64
  tt.store %p, %q : !tt.ptr<i64>
  tt.return
}

// -----
// Remainders of numbers that are not negative are zero-extended.
// CHECK-LABEL: tt.func public @rows(
// CHECK: %[[R:.*]] = arith.remsi %{{.*}}, %{{.*}} : tensor<16xi32>
// CHECK: arith.extui %[[R]] : tensor<16xi32> to tensor<16xi64>
tt.func public @rows(%p: tensor<16x!tt.ptr<i64>>) {
  %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %long = arith.extsi %i : tensor<16xi32> to tensor<16xi64>
  %seven = arith.constant dense<7> : tensor<16xi64>
  %r = arith.remsi %long, %seven : tensor<16xi64>
  tt.store %p, %r : tensor<16x!tt.ptr<i64>>
  tt.return
}

// -----
// -2^31 / -1 does not fit, and an unknown number may not.
// CHECK-LABEL: tt.func public @others(
// CHECK-NOT: arith.trunci
tt.func public @others(%n: i32, %m: i64, %p: !tt.ptr<i64>) {
  %one = arith.constant -1 : i64
  %seven = arith.constant 7 : i64
  %long = arith.extsi %n : i32 to i64
  %q = arith.divsi %long, %one : i64
  %r = arith.remui %m, %seven : i64
  tt.store %p, %q : !tt.ptr<i64>
  tt.store %p, %r : !tt.ptr<i64>
  tt.return
}
