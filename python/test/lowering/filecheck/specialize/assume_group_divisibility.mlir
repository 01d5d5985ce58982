// PASSES: assume-indices{rules=assume-group-divisibility}
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [1, 4], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
// ===
// A kernel that tests its guards itself assumes nothing; test_packed_weights.py has launches.
// CHECK-LABEL: tt.func public @tested_here(
// CHECK-SAME: %group: i32 {tt.divisibility = 16 : i32}
// CHECK-NOT: xe.launch_conditions
tt.func public @tested_here(%p: !tt.ptr<f16>, %group: i32 {tt.divisibility = 16 : i32}, %x: tensor<16x64xf16, #a>, %c: tensor<16x64xf32, #blocked>) {
  %k = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #rows>
  %row = tt.expand_dims %k {axis = 1 : i32} : tensor<64xi32, #rows> -> tensor<64x1xi32, #blocked>
  %size = tt.splat %group : i32 -> tensor<64x1xi32, #blocked>
  %at = arith.divsi %row, %size : tensor<64x1xi32, #blocked>
  %base = tt.splat %p : !tt.ptr<f16> -> tensor<64x1x!tt.ptr<f16>, #blocked>
  %q = tt.addptr %base, %at : tensor<64x1x!tt.ptr<f16>, #blocked>, tensor<64x1xi32, #blocked>
  %ptrs = tt.broadcast %q : tensor<64x1x!tt.ptr<f16>, #blocked> -> tensor<64x64x!tt.ptr<f16>, #blocked>
  %w = tt.load %ptrs : tensor<64x64x!tt.ptr<f16>, #blocked>
  %y = ttg.convert_layout %w : tensor<64x64xf16, #blocked> -> tensor<64x64xf16, #b>
  %d = tt.dot %x, %y, %c : tensor<16x64xf16, #a> * tensor<64x64xf16, #b> -> tensor<16x64xf32, #blocked>
  tt.return
}
