// PASSES: decompose-scaled-dots
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
// ===
// fp8 factors are widened; a scale is a power of 2, shared by 32 elements along K.
// CHECK: tt.fp_to_fp {{.*}} -> tensor<32x64xbf16
// CHECK: arith.shli
// CHECK: tt.bitcast {{.*}} -> tensor<32x2xbf16
// CHECK: tt.broadcast
// CHECK: arith.mulf {{.*}} : tensor<32x64xbf16
// CHECK: tt.dot {{.*}} -> tensor<32x32xf32, #blocked>
// CHECK-NOT: tt.dot_scaled
tt.func public @f(%x: tensor<32x64xf8E5M2, #blocked>, %s: tensor<32x2xi8, #blocked>, %y: tensor<64x32xbf16, #blocked>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot_scaled %x scale %s, %y, %z lhs = e5m2 rhs = bf16 {fastMath = false} : tensor<32x64xf8E5M2, #blocked>, tensor<32x2xi8, #blocked> * tensor<64x32xbf16, #blocked> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// 4-bit floats come in pairs along K.
// CHECK: ttg.fp4_to_fp {{.*}} {axis = 1 : i32} : tensor<32x32xi8, #blocked> -> tensor<32x64xbf16
// CHECK: tt.dot
tt.func public @f(%x: tensor<32x32xi8, #blocked>, %s: tensor<32x2xi8, #blocked>, %y: tensor<64x32xbf16, #blocked>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot_scaled %x scale %s, %y, %z lhs = e2m1 rhs = bf16 {fastMath = false} : tensor<32x32xi8, #blocked>, tensor<32x2xi8, #blocked> * tensor<64x32xbf16, #blocked> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// Scales of B lie along its columns: they are transposed.
// CHECK: tt.trans {{.*}} -> tensor<2x32xbf16
// CHECK: tt.dot
tt.func public @f(%x: tensor<32x64xbf16, #blocked>, %y: tensor<64x32xf8E4M3FN, #blocked>, %s: tensor<32x2xi8, #blocked>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot_scaled %x, %y scale %s, %z lhs = bf16 rhs = e4m3 {fastMath = false} : tensor<32x64xbf16, #blocked> * tensor<64x32xf8E4M3FN, #blocked>, tensor<32x2xi8, #blocked> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}
