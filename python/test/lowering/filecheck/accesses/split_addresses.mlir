// PASSES: split-addresses
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 4], warpsPerCTA = [1, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
// ===
// Rows of a matrix: the first one moves, and the product of the others with the stride stays.
// CHECK-LABEL: tt.func public @rows(
// CHECK: %[[AGAIN:.*]] = tt.splat %stride
// CHECK: %[[STAYS:.*]] = arith.muli %{{.*}}, %[[AGAIN]] : tensor<16x1xi64
// CHECK: %[[ALL:.*]] = tt.broadcast %[[STAYS]]
// CHECK: scf.for
// CHECK: %[[FIRST:.*]] = arith.extsi %i
// CHECK: %[[MOVES:.*]] = arith.muli %[[FIRST]], %stride : i64
// CHECK: %[[BASE:.*]] = tt.addptr %a, %[[MOVES]]
// CHECK: %[[SPLAT:.*]] = tt.splat %[[BASE]]
// CHECK: %[[POINTERS:.*]] = tt.addptr %[[SPLAT]], %[[ALL]]
// CHECK: tt.load %[[POINTERS]]
// TARGET: dg2
// WARPS: 1
tt.func public @rows(%a: !tt.ptr<f32>, %K: i32, %stride: i64) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 16 : i32
  %range = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #rows>
  %within = arith.extsi %range : tensor<16xi32, #rows> to tensor<16xi64, #rows>
  %base = tt.splat %a : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>, #blocked>
  scf.for %i = %zero to %K step %step : i32 {
    %first = arith.extsi %i : i32 to i64
    %start = tt.splat %first : i64 -> tensor<16xi64, #rows>
    %row = arith.addi %start, %within : tensor<16xi64, #rows>
    %column = tt.expand_dims %row {axis = 1 : i32} : tensor<16xi64, #rows> -> tensor<16x1xi64, #blocked>
    %by = tt.splat %stride : i64 -> tensor<16x1xi64, #blocked>
    %moved = arith.muli %column, %by : tensor<16x1xi64, #blocked>
    %offsets = tt.broadcast %moved : tensor<16x1xi64, #blocked> -> tensor<16x16xi64, #blocked>
    %p = tt.addptr %base, %offsets : tensor<16x16x!tt.ptr<f32>, #blocked>, tensor<16x16xi64, #blocked>
    %x = tt.load %p : tensor<16x16x!tt.ptr<f32>, #blocked>
    tt.store %p, %x : tensor<16x16x!tt.ptr<f32>, #blocked>
  }
  tt.return
}

// -----
// Offsets of 32 bits wrap at another place than addresses.
// CHECK-LABEL: tt.func public @narrow(
// CHECK: scf.for
// CHECK: tt.load %p
// TARGET: dg2
// WARPS: 1
tt.func public @narrow(%a: !tt.ptr<f32>, %K: i32) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 16 : i32
  %within = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #rows>
  %base = tt.splat %a : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>, #rows>
  scf.for %i = %zero to %K step %step : i32 {
    %start = tt.splat %i : i32 -> tensor<16xi32, #rows>
    %row = arith.addi %start, %within : tensor<16xi32, #rows>
    %p = tt.addptr %base, %row : tensor<16x!tt.ptr<f32>, #rows>, tensor<16xi32, #rows>
    %x = tt.load %p : tensor<16x!tt.ptr<f32>, #rows>
    tt.store %p, %x : tensor<16x!tt.ptr<f32>, #rows>
  }
  tt.return
}
