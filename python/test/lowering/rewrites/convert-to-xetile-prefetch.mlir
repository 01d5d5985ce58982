// PASSES: convert-to-xetile{num-stages=3}
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [2, 2], repCluster = [1, 1]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
// ===
// With three stages, each subgroup prefetches its part of the whole tile two iterations ahead.
// CHECK: %[[WHOLE:.*]] = xetile.init_tile {{.*}} -> !xetile.tile<16x16xf16>
// CHECK: %[[PART:.*]] = xetile.init_coop_tile %[[WHOLE]], %{{.*}}, 4 : {{.*}} -> !xetile.tile<4x16xf16>
// CHECK: xetile.prefetch_tile %[[PART]]
// CHECK: xetile.prefetch_tile
// CHECK: scf.for
// CHECK: xetile.load_tile
// CHECK: xetile.prefetch_tile
// CHECK: xetile.update_tile_offset
tt.func public @f(%p: !tt.ptr<f16>, %n: i32, %y: tensor<16x32xf16, #b>, %z: tensor<16x32xf32, #dpas>) -> tensor<16x32xf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z, %at = %s) -> (tensor<16x32xf32, #dpas>, !xe.cursor<f16>) : i32 {
    %x = xe.block_load %at : !xe.cursor<f16> -> tensor<16x16xf16, #a>
    %d = tt.dot %x, %y, %acc : tensor<16x16xf16, #a> * tensor<16x32xf16, #b> -> tensor<16x32xf32, #dpas>
    %next = xe.advance %at by [%c0, %c16] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %next : tensor<16x32xf32, #dpas>, !xe.cursor<f16>
  }
  tt.return %r#0 : tensor<16x32xf32, #dpas>
}
