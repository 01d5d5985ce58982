// PASSES: assume-indices{rules=assume-no-wrap}
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [1], order = [0]}>
// ===
// A kernel that tests its guards itself assumes nothing; test_assume_no_wrap.py has launches.
// CHECK-LABEL: tt.func public @tested_here(
// CHECK-NOT: nsw
// CHECK: arith.divsi
tt.func public @tested_here(%p: !tt.ptr<f32>, %n: i32) {
  %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #blocked>
  %ns = tt.splat %n : i32 -> tensor<64xi32, #blocked>
  %c16 = arith.constant dense<16> : tensor<64xi32, #blocked>
  %i = arith.addi %r, %ns : tensor<64xi32, #blocked>
  %q = arith.divsi %i, %c16 : tensor<64xi32, #blocked>
  %base = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
  %ptrs = tt.addptr %base, %q : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
  %v = tt.load %ptrs : tensor<64x!tt.ptr<f32>, #blocked>
  tt.store %ptrs, %v : tensor<64x!tt.ptr<f32>, #blocked>
  tt.return
}
