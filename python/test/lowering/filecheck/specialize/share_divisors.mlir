// PASSES: strength-reduce{rules=share-divisors}
#rows = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// Divisions of a loop share what they need of a scalar from before it.
// CHECK: xe.divisor %d {signed}
// CHECK-NEXT: scf.for
// CHECK-NOT: xe.divisor
tt.func public @f(%d: i32, %n: i32, %x: tensor<256xi32, #rows>, %p: tensor<256x!tt.ptr<i32>, #rows>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %by = tt.splat %d : i32 -> tensor<256xi32, #rows>
  scf.for %i = %c0 to %n step %c1 : i32 {
    %all = tt.splat %i : i32 -> tensor<256xi32, #rows>
    %y = arith.addi %x, %all : tensor<256xi32, #rows>
    %q = arith.divsi %y, %by : tensor<256xi32, #rows>
    %r = arith.remsi %y, %by : tensor<256xi32, #rows>
    %s = arith.addi %q, %r : tensor<256xi32, #rows>
    tt.store %p, %s : tensor<256x!tt.ptr<i32>, #rows>
  }
  tt.return
}

// -----
// Neither a constant nor a divisor that the loop computes is shared.
// CHECK-NOT: xe.divisor
tt.func public @f(%n: i32, %x: tensor<256xi32, #rows>, %p: tensor<256x!tt.ptr<i32>, #rows>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %seven = arith.constant dense<7> : tensor<256xi32, #rows>
  scf.for %i = %c1 to %n step %c1 : i32 {
    %by = tt.splat %i : i32 -> tensor<256xi32, #rows>
    %q = arith.divsi %x, %by : tensor<256xi32, #rows>
    %r = arith.remsi %q, %seven : tensor<256xi32, #rows>
    tt.store %p, %r : tensor<256x!tt.ptr<i32>, #rows>
  }
  tt.return
}
