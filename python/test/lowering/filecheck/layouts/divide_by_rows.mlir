// PASSES: assign-layouts{rules=divide-by-rows}
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [2, 2]}>
#rows = #ttg.slice<{dim = 1, parent = #dpas}>
#spread = #ttg.linear<{register = [], lane = [[1], [2], [4], [8]], warp = [[16], [32]], block = []}>
// ===
// Sixteen rows of a warp have their reciprocals at once, and a power of two that keeps them normal.
// CHECK-LABEL: tt.func public @attention(
// CHECK: %[[SIZE:.*]] = math.absf %l : tensor<64xf32, #linear>
// CHECK: %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<64xf32, #linear>
// CHECK: arith.cmpf oge, %[[SIZE]]
// CHECK: arith.cmpf olt, %[[SIZE]]
// CHECK: %[[SCALE:.*]] = arith.select
// CHECK: %[[SCALE:.*]] = arith.select
// CHECK: %[[SCALED:.*]] = arith.mulf %l, %[[SCALE]] : tensor<64xf32, #linear>
// CHECK: %[[INVERSE:.*]] = arith.divf %[[ONE]], %[[SCALED]] : tensor<64xf32, #linear>
// CHECK: ttg.convert_layout %[[INVERSE]] : tensor<64xf32, #linear> -> tensor<64xf32, #ttg.slice
// CHECK: %[[COLUMN:.*]] = tt.broadcast
// CHECK: %[[NEAR:.*]] = arith.mulf %x, %[[COLUMN]] : tensor<64x32xf32, #dpas>
// CHECK: ttg.convert_layout %[[SCALE]]
// CHECK: %[[FACTOR:.*]] = tt.broadcast
// CHECK: arith.mulf %[[NEAR]], %[[FACTOR]] : tensor<64x32xf32, #dpas>
// CHECK-NOT: arith.divf
tt.func public @attention(%x: tensor<64x32xf32, #dpas>, %l: tensor<64xf32, #spread>) {
  %c = ttg.convert_layout %l : tensor<64xf32, #spread> -> tensor<64xf32, #rows>
  %e = tt.expand_dims %c {axis = 1 : i32} : tensor<64xf32, #rows> -> tensor<64x1xf32, #dpas>
  %b = tt.broadcast %e : tensor<64x1xf32, #dpas> -> tensor<64x32xf32, #dpas>
  %q = arith.divf %x, %b : tensor<64x32xf32, #dpas>
  tt.print "q" {hex = false, isSigned = array<i32: 0>} : %q : tensor<64x32xf32, #dpas>
  tt.return
}
// -----
// Rows that every lane has are divided by as they are.
// CHECK-LABEL: tt.func public @rows_in_every_lane(
// CHECK: arith.divf %x, %b : tensor<64x32xf32, #dpas>
tt.func public @rows_in_every_lane(%x: tensor<64x32xf32, #dpas>, %l: tensor<64xf32, #rows>) {
  %e = tt.expand_dims %l {axis = 1 : i32} : tensor<64xf32, #rows> -> tensor<64x1xf32, #dpas>
  %b = tt.broadcast %e : tensor<64x1xf32, #dpas> -> tensor<64x32xf32, #dpas>
  %q = arith.divf %x, %b : tensor<64x32xf32, #dpas>
  tt.print "q" {hex = false, isSigned = array<i32: 0>} : %q : tensor<64x32xf32, #dpas>
  tt.return
}
