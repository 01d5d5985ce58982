// PASSES: expand-operations{rules=run-partitions}
#row = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// The default partition's values are the results; others see the captures as arguments.
// CHECK: %[[A:.*]] = arith.addf %x, %x
// CHECK-NEXT: %[[B:.*]] = arith.mulf %x, %x
// CHECK-NEXT: tt.store %p, %[[B]]
// CHECK-NEXT: tt.store %p, %x
// CHECK-NEXT: tt.store %p, %[[A]]
// CHECK-NEXT: tt.return
tt.func public @f(%p: tensor<64x!tt.ptr<f32>, #row>, %x: tensor<64xf32, #row>) {
  %r = ttg.warp_specialize(%p, %x) attributes {requestedRegisters = array<i32: 24, 24>}
  default {
    %a = arith.addf %x, %x : tensor<64xf32, #row>
    ttg.warp_yield %a : tensor<64xf32, #row>
  }
  partition0(%q: tensor<64x!tt.ptr<f32>, #row>, %y: tensor<64xf32, #row>) num_warps(4) {
    %b = arith.mulf %y, %y : tensor<64xf32, #row>
    tt.store %q, %b : tensor<64x!tt.ptr<f32>, #row>
    ttg.warp_return
  }
  partition1(%s: tensor<64x!tt.ptr<f32>, #row>, %z: tensor<64xf32, #row>) num_warps(4) {
    tt.store %s, %z : tensor<64x!tt.ptr<f32>, #row>
    ttg.warp_return
  } : (tensor<64x!tt.ptr<f32>, #row>, tensor<64xf32, #row>) -> tensor<64xf32, #row>
  tt.store %p, %r : tensor<64x!tt.ptr<f32>, #row>
  tt.return
}
