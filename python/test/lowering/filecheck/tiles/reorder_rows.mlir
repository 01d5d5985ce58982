// PASSES: convert-to-xetile{num-stages=1},convert-xetile-to-xegpu,reorder-rows
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [1, 1], repCluster = [1, 1]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
// ===
// WARPS: 1
// Both factors of a step come by halves, and the sum gets its rows behind the loop.
// CHECK: xegpu.load_nd {{.*}} {transpose = [1, 0], transpose_bit_width = 32}
// CHECK: xe.fragment {{.*}} from <0:0:0, 0:1:0, 0:2:0, 0:3:0, 0:0:1, 0:1:1, 0:2:1, 0:3:1>
// CHECK: xe.fragment {{.*}} from <0:0:0, 0:1:0, 0:2:0, 0:3:0, 0:0:1, 0:1:1, 0:2:1, 0:3:1>
// CHECK-COUNT-2: xegpu.dpas
// CHECK: scf.yield
// CHECK: xe.fragment {{.*}} from <0:0:0, 0:4:0, 0:1:0, 0:5:0, 0:2:0, 0:6:0, 0:3:0, 0:7:0> : vector<8x1xf32> -> vector<8x1xf32>
tt.func public @f(%s: !tt.ptr<f16>, %t: !tt.ptr<f16>, %n: i32) -> tensor<8x16xf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<8x16xf32, #dpas>
  %a0 = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %b0 = xe.cursor %t aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %sum, %a9, %b9 = scf.for %i = %c0 to %n step %c32 iter_args(%acc = %zero, %a1 = %a0, %b1 = %b0) -> (tensor<8x16xf32, #dpas>, !xe.cursor<f16>, !xe.cursor<f16>) : i32 {
    %a = xe.block_load %a1 transposed : !xe.cursor<f16> -> tensor<8x32xf16, #a>
    %b = xe.block_load %b1 : !xe.cursor<f16> -> tensor<32x16xf16, #b>
    %d = tt.dot %a, %b, %acc : tensor<8x32xf16, #a> * tensor<32x16xf16, #b> -> tensor<8x16xf32, #dpas>
    %a2 = xe.advance %a1 by [%c32, %c0] : !xe.cursor<f16> -> !xe.cursor<f16>
    %b2 = xe.advance %b1 by [%c32, %c0] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %a2, %b2 : tensor<8x16xf32, #dpas>, !xe.cursor<f16>, !xe.cursor<f16>
  }
  tt.return %sum : tensor<8x16xf32, #dpas>
}

// -----
// WARPS: 1
// What begins as a row that differs from others keeps its order, and so do its factors.
// CHECK: xegpu.load_nd {{.*}} {transpose = [1, 0], transpose_bit_width = 32}
// CHECK: xe.fragment {{.*}} from <0:0:0 count 8 parts 2>
// CHECK-NOT: 0:4:0
tt.func public @f(%s: !tt.ptr<f16>, %t: !tt.ptr<f16>, %n: i32, %zero: tensor<8x16xf32, #dpas>) -> tensor<8x16xf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c512 = arith.constant 512 : i32
  %a0 = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %b0 = xe.cursor %t aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %sum, %a9, %b9 = scf.for %i = %c0 to %n step %c32 iter_args(%acc = %zero, %a1 = %a0, %b1 = %b0) -> (tensor<8x16xf32, #dpas>, !xe.cursor<f16>, !xe.cursor<f16>) : i32 {
    %a = xe.block_load %a1 transposed : !xe.cursor<f16> -> tensor<8x32xf16, #a>
    %b = xe.block_load %b1 : !xe.cursor<f16> -> tensor<32x16xf16, #b>
    %d = tt.dot %a, %b, %acc : tensor<8x32xf16, #a> * tensor<32x16xf16, #b> -> tensor<8x16xf32, #dpas>
    %a2 = xe.advance %a1 by [%c32, %c0] : !xe.cursor<f16> -> !xe.cursor<f16>
    %b2 = xe.advance %b1 by [%c32, %c0] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %a2, %b2 : tensor<8x16xf32, #dpas>, !xe.cursor<f16>, !xe.cursor<f16>
  }
  tt.return %sum : tensor<8x16xf32, #dpas>
}
