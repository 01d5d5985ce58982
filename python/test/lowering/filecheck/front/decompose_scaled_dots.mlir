// PASSES: expand-operations{rules=decompose-scaled-dots}
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

// -----
// Crescent Island multiplies pairs of e2m1 by E8M0 scales; an operand without scales gets ones.
// TARGET: cri
// CHECK: [[ONE:%.*]] = arith.constant dense<127> : tensor<32x2xi8, #blocked>
// CHECK: xe.scaled_dot {{.*}}, %z scales %s, [[ONE]] : tensor<32x32xi8{{.*}} * tensor<32x32xi8
// CHECK-NOT: tt.dot
tt.func public @f(%x: tensor<32x32xi8, #blocked>, %s: tensor<32x2xi8, #blocked>, %y: tensor<32x32xi8, #blocked>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot_scaled %x scale %s, %y, %z lhs = e2m1 rhs = e2m1 {fastMath = false} : tensor<32x32xi8, #blocked>, tensor<32x2xi8, #blocked> * tensor<32x32xi8, #blocked> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// Nova Lake P has no fp4 DPAS: e2m1 becomes e5m2, the upper byte of f16.
// TARGET: nvl-p
// CHECK: ttg.fp4_to_fp {{.*}} -> tensor<32x64xf16
// CHECK: arith.constant dense<8>
// CHECK: arith.shrui
// CHECK: arith.trunci {{.*}} to tensor<32x64xi8
// CHECK: tt.bitcast {{.*}} -> tensor<32x64xf8E5M2
// CHECK: xe.scaled_dot {{.*}} : tensor<32x64xf8E5M2{{.*}} * tensor<64x32xf8E5M2
tt.func public @f(%x: tensor<32x32xi8, #blocked>, %s: tensor<32x2xi8, #blocked>, %y: tensor<64x32xf8E5M2, #blocked>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot_scaled %x scale %s, %y, %z lhs = e2m1 rhs = e5m2 {fastMath = false} : tensor<32x32xi8, #blocked>, tensor<32x2xi8, #blocked> * tensor<64x32xf8E5M2, #blocked> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// Beside a bf16 operand fp8 becomes bf16, which is exact; scales stay in the instruction.
// TARGET: cri
// CHECK: [[WIDE:%.*]] = tt.fp_to_fp %x{{.*}} -> tensor<32x64xbf16
// CHECK-NOT: arith.mulf
// CHECK: xe.scaled_dot {{.*}} : tensor<32x64xbf16{{.*}} * tensor<64x32xbf16
// CHECK-NOT: tt.dot
tt.func public @f(%x: tensor<32x64xf8E5M2, #blocked>, %s: tensor<32x2xi8, #blocked>, %y: tensor<64x32xbf16, #blocked>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot_scaled %x scale %s, %y, %z lhs = e5m2 rhs = bf16 {fastMath = false} : tensor<32x64xf8E5M2, #blocked>, tensor<32x2xi8, #blocked> * tensor<64x32xbf16, #blocked> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// Pairs of e2m1 along M become bf16, which have neighbours along K in one word.
// TARGET: nvl-p
// CHECK: ttg.fp4_to_fp {{.*}} {axis = 0 : i32} : tensor<16x64xi8{{.*}} -> tensor<32x64xbf16
// CHECK: xe.scaled_dot {{.*}} : tensor<32x64xbf16{{.*}} * tensor<64x32xbf16
tt.func public @f(%x: tensor<16x64xi8, #blocked>, %s: tensor<32x2xi8, #blocked>, %y: tensor<64x32xf8E5M2, #blocked>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot_scaled %x scale %s, %y, %z lhs = e2m1 rhs = e5m2 {fastMath = false, lhs_k_pack = false} : tensor<16x64xi8, #blocked>, tensor<32x2xi8, #blocked> * tensor<64x32xf8E5M2, #blocked> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// A scale for 16 elements is multiplied before the product.
// TARGET: cri
// CHECK: arith.mulf
// CHECK: tt.dot
// CHECK-NOT: xe.scaled_dot
tt.func public @f(%x: tensor<32x64xf8E5M2, #blocked>, %s: tensor<32x4xi8, #blocked>, %y: tensor<64x32xf8E5M2, #blocked>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot_scaled %x scale %s, %y, %z lhs = e5m2 rhs = e5m2 {fastMath = false} : tensor<32x64xf8E5M2, #blocked>, tensor<32x4xi8, #blocked> * tensor<64x32xf8E5M2, #blocked> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}
