// PASSES: expand-operations{rules=copy-at-once}
#row = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#flat = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
// ===
// What the mask leaves out becomes zero; tokens, groups and waits go.
// CHECK: %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<64xf32
// CHECK-NEXT: %[[X:.*]] = tt.load %p, %m, %[[ZERO]]
// CHECK-NEXT: ttg.local_store %[[X]], %b
// CHECK-NEXT: %[[Y:.*]] = tt.load %p :
// CHECK-NEXT: ttg.local_store %[[Y]], %b
// CHECK-NEXT: ttg.local_load %b :
// CHECK-NEXT: tt.store
tt.func public @f(%b: !ttg.memdesc<64xf32, #flat, #smem, mutable>, %p: tensor<64x!tt.ptr<f32>, #row>, %m: tensor<64xi1, #row>) {
  %t = ttg.async_copy_global_to_local %p, %b mask %m : tensor<64x!tt.ptr<f32>, #row> -> <64xf32, #flat, #smem, mutable>
  %g = ttg.async_commit_group tokens %t
  %u = ttg.async_copy_global_to_local %p, %b : tensor<64x!tt.ptr<f32>, #row> -> <64xf32, #flat, #smem, mutable>
  %w = ttg.async_wait %g {num = 0 : i32}
  %x = ttg.local_load %b token %w : !ttg.memdesc<64xf32, #flat, #smem, mutable> -> tensor<64xf32, #row>
  tt.store %p, %x : tensor<64x!tt.ptr<f32>, #row>
  tt.return
}
