// Dots get DPAS layouts, and conversions move to where they cost nothing.

#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.slice<{dim = 1, parent = #blocked}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "xpu:bmg", "ttg.threads-per-warp" = 16 : i32} {

// Loads get the operands' layouts, a cast and a transposition stand in between.
// CHECK-LABEL: tt.func public @loads(
// CHECK-NOT: convert_layout
// CHECK-DAG: xe.block_load %s : !xe.cursor<f8E5M2> -> tensor<32x32xf8E5M2, #ttg.dot_op<{opIdx = 0
// CHECK-DAG: tt.fp_to_fp {{.*}} -> tensor<32x32xf16, #ttg.dot_op<{opIdx = 0
// CHECK-DAG: xe.block_load %t transposed : !xe.cursor<f16> -> tensor<32x32xf16, #ttg.dot_op<{opIdx = 1
// CHECK: tt.dot {{.*}} -> tensor<32x32xf32, #dpas
// CHECK: xe.block_store {{.*}}#dpas
tt.func public @loads(%s: !xe.cursor<f8E5M2>, %t: !xe.cursor<f16>, %o: !xe.cursor<f32>) {
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #blocked>
  %x = xe.block_load %s : !xe.cursor<f8E5M2> -> tensor<32x32xf8E5M2, #blocked>
  %h = tt.fp_to_fp %x : tensor<32x32xf8E5M2, #blocked> -> tensor<32x32xf16, #blocked>
  %a = ttg.convert_layout %h : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_a>
  %y = xe.block_load %t : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
  %yt = tt.trans %y {order = array<i32: 1, 0>} : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #blocked>
  %b = ttg.convert_layout %yt : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_b>
  %d = tt.dot %a, %b, %zero : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #blocked>
  xe.block_store %d, %o : tensor<32x32xf32, #blocked>, !xe.cursor<f32>
  tt.return
}

// Accumulators are carried in the DPAS layout, through a rescaling by a row of numbers that comes
// from a reduction of the result.
// CHECK-LABEL: tt.func public @carried(
// CHECK: scf.for {{.*}} -> (tensor<32x32xf32, #dpas{{[0-9]*}}>) : i32 {
// CHECK-NOT: convert_layout
// CHECK: tt.dot
// CHECK-NOT: convert_layout
// CHECK: tt.reduce
// CHECK: -> tensor<32xf32, #ttg.slice<{dim = 1, parent = #dpas
// CHECK-NOT: convert_layout
// CHECK: arith.mulf {{.*}} : tensor<32x32xf32, #dpas
// CHECK-NOT: convert_layout
// CHECK: scf.yield {{.*}} : tensor<32x32xf32, #dpas
tt.func public @carried(%s: !xe.cursor<f16>, %t: !xe.cursor<f16>, %o: !xe.cursor<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #blocked>
  %x = xe.block_load %s : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
  %a = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_a>
  %y = xe.block_load %t : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
  %b = ttg.convert_layout %y : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_b>
  %out = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<32x32xf32, #blocked>) : i32 {
    %d = tt.dot %a, %b, %acc : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #blocked>
    %m = "tt.reduce"(%d) <{axis = 1 : i32}> ({
    ^bb0(%l: f32, %r: f32):
      %big = arith.maxnumf %l, %r : f32
      tt.reduce.return %big : f32
    }) : (tensor<32x32xf32, #blocked>) -> tensor<32xf32, #row>
    %m2 = tt.expand_dims %m {axis = 1 : i32} : tensor<32xf32, #row> -> tensor<32x1xf32, #blocked>
    %mb = tt.broadcast %m2 : tensor<32x1xf32, #blocked> -> tensor<32x32xf32, #blocked>
    %e = arith.mulf %d, %mb : tensor<32x32xf32, #blocked>
    scf.yield %e : tensor<32x32xf32, #blocked>
  }
  xe.block_store %out, %o : tensor<32x32xf32, #blocked>, !xe.cursor<f32>
  tt.return
}

// The result of one dot is operand A of the next: both are shared along rows.
// CHECK-LABEL: tt.func public @chained(
// CHECK: %[[D:.*]] = tt.dot {{.*}} -> tensor<32x32xf32, #[[DPAS:dpas[0-9]*]]>
// CHECK: ttg.convert_layout {{.*}} -> tensor<32x32xf16, #ttg.dot_op<{opIdx = 0, parent = #[[DPAS]]
// CHECK: tt.dot
tt.func public @chained(%s: !xe.cursor<f16>, %t: !xe.cursor<f16>, %o: !xe.cursor<f32>) {
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #blocked>
  %x = xe.block_load %s : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
  %a = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_a>
  %y = xe.block_load %t : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
  %b = ttg.convert_layout %y : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_b>
  %d = tt.dot %a, %b, %zero : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #blocked>
  %p = arith.truncf %d : tensor<32x32xf32, #blocked> to tensor<32x32xf16, #blocked>
  %pa = ttg.convert_layout %p : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_a>
  %e = tt.dot %pa, %b, %zero : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #blocked>
  xe.block_store %e, %o : tensor<32x32xf32, #blocked>, !xe.cursor<f32>
  tt.return
}

// f64 has no DPAS: the dot keeps its layout, and so does what surrounds it.
// CHECK-LABEL: tt.func public @by_fma(
// CHECK: tt.dot {{.*}} -> tensor<16x16xf64, #blocked>
tt.func public @by_fma(%a: tensor<16x16xf64, #dot_a>, %b: tensor<16x16xf64, #dot_b>, %c: tensor<16x16xf64, #blocked>) -> tensor<16x16xf64, #blocked> {
  %d = tt.dot %a, %b, %c : tensor<16x16xf64, #dot_a> * tensor<16x16xf64, #dot_b> -> tensor<16x16xf64, #blocked>
  tt.return %d : tensor<16x16xf64, #blocked>
}
}
