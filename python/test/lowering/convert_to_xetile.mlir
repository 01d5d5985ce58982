// Block accesses become tiles at the place of each subgroup; what moves is prefetched 2 iterations
// ahead (num_stages = 3), and the accumulator is carried as a tile.

#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [2, 2], repCluster = [2, 1]}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "xpu:bmg", "ttg.threads-per-warp" = 16 : i32} {

// Warps 0 and 1 own the upper 16 rows of the result, warps 0 and 2 its left 16 columns.
// CHECK-LABEL: tt.func public @matmul(
// CHECK: xe.warp_id
// CHECK: xetile.init_tile %s, {{.*}}!xetile.tile<16x32xf16
// CHECK: %[[WHOLE:.*]] = xetile.init_tile %s, {{.*}}!xetile.tile<32x32xf16
// CHECK: xetile.init_tile %t, {{.*}}!xetile.tile<32x16xf16
// CHECK: xetile.init_coop_tile %[[WHOLE]], {{.*}} -> !xetile.tile<8x32xf16>
// CHECK-COUNT-4: xetile.prefetch_tile
// CHECK: scf.for
// CHECK-SAME: vector<16x16xf32>
// CHECK-DAG: xetile.load_tile {{.*}} -> vector<16x32xf16>
// CHECK-DAG: xetile.load_tile {{.*}} -> vector<32x16xf16>
// CHECK-DAG: xetile.tile_mma {{.*}}vector<16x16xf32>
// CHECK-DAG: xetile.prefetch_tile
// CHECK-DAG: xetile.update_tile_offset
// CHECK: scf.yield
// CHECK: xetile.store_tile {{.*}}vector<16x16xf32>
tt.func public @matmul(%s: !tt.ptr<f16>, %t: !tt.ptr<f16>, %o: !tt.ptr<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #dpas>
  %a0 = xe.cursor %s aligned 16 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %b0 = xe.cursor %t aligned 16 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %out:3 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %a1 = %a0, %b1 = %b0) -> (tensor<32x32xf32, #dpas>, !xe.cursor<f16>, !xe.cursor<f16>) : i32 {
    %a = xe.block_load %a1 : !xe.cursor<f16> -> tensor<32x32xf16, #dot_a>
    %b = xe.block_load %b1 : !xe.cursor<f16> -> tensor<32x32xf16, #dot_b>
    %d = tt.dot %a, %b, %acc : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #dpas>
    %a2 = xe.advance %a1 by [%c0, %c32] : !xe.cursor<f16> -> !xe.cursor<f16>
    %b2 = xe.advance %b1 by [%c32, %c0] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %a2, %b2 : tensor<32x32xf32, #dpas>, !xe.cursor<f16>, !xe.cursor<f16>
  }
  %o0 = xe.cursor %o aligned 16 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f32> -> !xe.cursor<f32>
  xe.block_store %out#0, %o0 : tensor<32x32xf32, #dpas>, !xe.cursor<f32>
  tt.return
}

// One place that is read for both operands, once transposed, has a tile for each.
// CHECK-LABEL: tt.func public @twice(
// CHECK-DAG: xetile.init_tile {{.*}}!xetile.tile<16x32xf16
// CHECK-DAG: xetile.init_tile {{.*}}!xetile.tile<16x32xf16
// CHECK: xetile.load_tile {{.*}} -> vector<16x32xf16>
// CHECK: xetile.load_tile {{.*}} -> vector<32x16xf16>
tt.func public @twice(%s: !tt.ptr<f16>) -> tensor<32x32xf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #dpas>
  %a0 = xe.cursor %s aligned 16 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %a = xe.block_load %a0 : !xe.cursor<f16> -> tensor<32x32xf16, #dot_a>
  %b = xe.block_load %a0 transposed : !xe.cursor<f16> -> tensor<32x32xf16, #dot_b>
  %d = tt.dot %a, %b, %zero : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #dpas>
  tt.return %d : tensor<32x32xf32, #dpas>
}
}
