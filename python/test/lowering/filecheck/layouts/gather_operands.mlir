// PASSES: assign-layouts{rules=gather-operands}
#blocked = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [2, 8], warpsPerCTA = [1, 1], order = [0, 1]}>
#row = #ttg.slice<{dim = 0, parent = #blocked}>
#column = #ttg.slice<{dim = 1, parent = #blocked}>
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [1, 1], repCluster = [1, 1]}>
// ===
// Places are exchanged, and not what lies there; only operand B has a column in each lane.
// CHECK-LABEL: tt.func public @keys(
// CHECK: ttg.convert_layout %place : tensor<16xi32, {{.*}}> -> tensor<16xi32, #ttg.slice<{dim = 0, parent = #ttg.dot_op<{opIdx = 1
// CHECK: %[[B:.*]] = tt.load {{.*}}{xe.columns} : tensor<16x16x!tt.ptr<f16>, #ttg.dot_op<{opIdx = 1
// CHECK: %a = ttg.convert_layout %x :
// CHECK: tt.return %[[B]], %a
// WARPS: 1
tt.func public @keys(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %places: !tt.ptr<i32>, %stride: i32 {tt.divisibility = 16 : i32}) -> (tensor<16x16xf16, #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>>, tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>>) {
  %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #row>
  %s = tt.splat %places : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>, #row>
  %at = tt.addptr %s, %i : tensor<16x!tt.ptr<i32>, #row>, tensor<16xi32, #row>
  %place = tt.load %at : tensor<16x!tt.ptr<i32>, #row>
  %rows = tt.expand_dims %place {axis = 0 : i32} : tensor<16xi32, #row> -> tensor<1x16xi32, #blocked>
  %pitch = tt.splat %stride : i32 -> tensor<1x16xi32, #blocked>
  %far = arith.muli %rows, %pitch : tensor<1x16xi32, #blocked>
  %base = tt.splat %p : !tt.ptr<f16> -> tensor<1x16x!tt.ptr<f16>, #blocked>
  %first = tt.addptr %base, %far : tensor<1x16x!tt.ptr<f16>, #blocked>, tensor<1x16xi32, #blocked>
  %k = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #column>
  %deep = tt.expand_dims %k {axis = 1 : i32} : tensor<16xi32, #column> -> tensor<16x1xi32, #blocked>
  %wide = tt.broadcast %first : tensor<1x16x!tt.ptr<f16>, #blocked> -> tensor<16x16x!tt.ptr<f16>, #blocked>
  %depth = tt.broadcast %deep : tensor<16x1xi32, #blocked> -> tensor<16x16xi32, #blocked>
  %q = tt.addptr %wide, %depth : tensor<16x16x!tt.ptr<f16>, #blocked>, tensor<16x16xi32, #blocked>
  %y = tt.load %q : tensor<16x16x!tt.ptr<f16>, #blocked>
  %b = ttg.convert_layout %y : tensor<16x16xf16, #blocked> -> tensor<16x16xf16, #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>>
  %x = tt.load %q : tensor<16x16x!tt.ptr<f16>, #blocked>
  %a = ttg.convert_layout %x : tensor<16x16xf16, #blocked> -> tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>>
  tt.return %b, %a : tensor<16x16xf16, #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>>, tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>>
}
