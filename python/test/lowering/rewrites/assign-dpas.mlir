// PASSES: assign-dpas
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
// ===
// A dot gets the layout of the instruction; its result is converted back.
// CHECK: #[[D:dpas[0-9]*]] = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2
// CHECK: ttg.convert_layout {{.*}} -> tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #[[D]]
// CHECK: ttg.convert_layout {{.*}} -> tensor<32x32xf16, #ttg.dot_op<{opIdx = 1, parent = #[[D]]
// CHECK: tt.dot {{.*}} -> tensor<32x32xf32, #[[D]]>
// CHECK: ttg.convert_layout {{.*}} #[[D]]> -> tensor<32x32xf32, #blocked>
tt.func public @f(%x: tensor<32x32xf16, #a>, %y: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot %x, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// f32 factors are rounded to tf32.
// CHECK: opsPerChan = 1
// CHECK-COUNT-2: xe.round_tf32
// CHECK: tt.dot
tt.func public @f(%x: tensor<32x32xf32, #a>, %y: tensor<32x32xf32, #b>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot %x, %y, %z, inputPrecision = tf32 : tensor<32x32xf32, #a> * tensor<32x32xf32, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// tf32x3 is three dots: large by large, and each by the rest of the other.
// CHECK-COUNT-3: tt.dot
// CHECK-NOT: tt.dot
tt.func public @f(%x: tensor<32x32xf32, #a>, %y: tensor<32x32xf32, #b>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot %x, %y, %z, inputPrecision = tf32x3 : tensor<32x32xf32, #a> * tensor<32x32xf32, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// f64 has no DPAS: the dot stays.
// CHECK-NOT: xe.dpas
// CHECK: tt.dot {{.*}} -> tensor<16x16xf64, #blocked>
tt.func public @f(%x: tensor<16x16xf64, #a>, %y: tensor<16x16xf64, #b>, %z: tensor<16x16xf64, #blocked>) -> tensor<16x16xf64, #blocked> {
  %d = tt.dot %x, %y, %z : tensor<16x16xf64, #a> * tensor<16x16xf64, #b> -> tensor<16x16xf64, #blocked>
  tt.return %d : tensor<16x16xf64, #blocked>
}

// -----
// A block load that no dot uses gets the layout of a result, which blocks can have.
// CHECK: xe.block_load {{.*}} -> tensor<32x32xf16, #[[D:dpas[0-9]*]]>
// CHECK: ttg.convert_layout {{.*}} #[[D]]> -> tensor<32x32xf16, #blocked>
tt.func public @f(%s: !xe.cursor<f16>) -> tensor<32x32xf16, #blocked> {
  %x = xe.block_load %s : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
  tt.return %x : tensor<32x32xf16, #blocked>
}

// -----
// TARGET: dg2
// The instruction is 8 wide on dg2.
// CHECK: #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 8
tt.func public @f(%x: tensor<32x32xf16, #a>, %y: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %d = tt.dot %x, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}
