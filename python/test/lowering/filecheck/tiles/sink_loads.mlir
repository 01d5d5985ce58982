// PASSES: assign-layouts{rules=assign-dpas},convert-to-xetile{num-stages=1},convert-xetile-to-xegpu,sink-loads
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [1, 1], repCluster = [1, 2]}>
#wide = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [1, 1], repCluster = [1, 8]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
#wide_a = #ttg.dot_op<{opIdx = 0, parent = #wide, kWidth = 1}>
#wide_b = #ttg.dot_op<{opIdx = 1, parent = #wide, kWidth = 2}>
// ===
// WARPS: 1
// All reads fit into the registers: they stay before the first product.
// CHECK-COUNT-3: xegpu.load_nd
// CHECK: xegpu.dpas
// CHECK-NOT: xegpu.load_nd
tt.func public @f(%s: !tt.ptr<f16>, %t: !tt.ptr<f16>) -> tensor<8x32xf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<8x32xf32, #dpas>
  %a0 = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %b0 = xe.cursor %t aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %a = xe.block_load %a0 : !xe.cursor<f16> -> tensor<8x64xf16, #a>
  %b = xe.block_load %b0 : !xe.cursor<f16> -> tensor<64x32xf16, #b>
  %d = tt.dot %a, %b, %zero : tensor<8x64xf16, #a> * tensor<64x32xf16, #b> -> tensor<8x32xf32, #dpas>
  tt.return %d : tensor<8x32xf32, #dpas>
}

// -----
// WARPS: 1
// Not all fit: a read waits for the product that needs it.
// CHECK: xegpu.dpas
// CHECK: xegpu.load_nd
// CHECK: xegpu.dpas
tt.func public @f(%s: !tt.ptr<f16>, %t: !tt.ptr<f16>) -> tensor<8x128xf32, #wide> {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<8x128xf32, #wide>
  %a0 = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %b0 = xe.cursor %t aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %a = xe.block_load %a0 : !xe.cursor<f16> -> tensor<8x64xf16, #wide_a>
  %b = xe.block_load %b0 : !xe.cursor<f16> -> tensor<64x128xf16, #wide_b>
  %d = tt.dot %a, %b, %zero : tensor<8x64xf16, #wide_a> * tensor<64x128xf16, #wide_b> -> tensor<8x128xf32, #wide>
  tt.return %d : tensor<8x128xf32, #wide>
}
// -----
// WARPS: 1
// A read of numbers that are widened waits, too.
// CHECK: xegpu.dpas
// CHECK: xegpu.load_nd
// CHECK: tt.fp_to_fp
// CHECK: xegpu.dpas
tt.func public @f(%s: !tt.ptr<f8E5M2>, %t: !tt.ptr<f8E5M2>) -> tensor<8x128xf32, #wide> {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<8x128xf32, #wide>
  %a0 = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f8E5M2> -> !xe.cursor<f8E5M2>
  %b0 = xe.cursor %t aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f8E5M2> -> !xe.cursor<f8E5M2>
  %a8 = xe.block_load %a0 : !xe.cursor<f8E5M2> -> tensor<8x128xf8E5M2, #wide_a>
  %b8 = xe.block_load %b0 : !xe.cursor<f8E5M2> -> tensor<128x128xf8E5M2, #wide_b>
  %a = tt.fp_to_fp %a8 : tensor<8x128xf8E5M2, #wide_a> -> tensor<8x128xf16, #wide_a>
  %b = tt.fp_to_fp %b8 : tensor<128x128xf8E5M2, #wide_b> -> tensor<128x128xf16, #wide_b>
  %d = tt.dot %a, %b, %zero : tensor<8x128xf16, #wide_a> * tensor<128x128xf16, #wide_b> -> tensor<8x128xf32, #wide>
  tt.return %d : tensor<8x128xf32, #wide>
}

