// PASSES: assign-layouts{rules=assign-dpas}
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
// With fewer blocks of eight rows than warps, each warp multiplies fewer rows.
// CHECK: #xe.dpas<{repeatCount = 4, {{.*}}warpsPerCTA = [4, 1]
tt.func public @f(%x: tensor<16x32xf16, #a>, %y: tensor<32x16xf16, #b>, %z: tensor<16x16xf32, #blocked>) -> tensor<16x16xf32, #blocked> {
  %d = tt.dot %x, %y, %z : tensor<16x32xf16, #a> * tensor<32x16xf16, #b> -> tensor<16x16xf32, #blocked>
  tt.return %d : tensor<16x16xf32, #blocked>
}

// -----
// What two dots multiply in one layout is converted once.
// CHECK: %[[A:.*]] = ttg.convert_layout %x
// CHECK-NOT: ttg.convert_layout %x
// CHECK: tt.dot %[[A]],
// CHECK-NOT: ttg.convert_layout %x
// CHECK: tt.dot %[[A]],
tt.func public @f(%x: tensor<32x32xf16, #blocked>, %y: tensor<32x32xf16, #b>, %v: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>) -> (tensor<32x32xf32, #blocked>, tensor<32x32xf32, #blocked>) {
  %a = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
  %d = tt.dot %a, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  %e = tt.dot %a, %v, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d, %e : tensor<32x32xf32, #blocked>, tensor<32x32xf32, #blocked>
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
// CHECK-LABEL: tt.func public @f(
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

// -----
// Dots get DPAS layouts, and conversions move to where they cost nothing.

#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.slice<{dim = 1, parent = #blocked}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>

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

// The sums of a while loop, and of branches in it, stay in the layout of the instruction.
// CHECK-LABEL: tt.func public @in_while(
// CHECK: scf.while {{.*}} -> (tensor<32x32xf32, #[[DPAS:dpas[0-9]*]]>, i32)
// CHECK-NOT: ttg.convert_layout {{.*}}xf32
// CHECK: scf.if {{.*}} -> (tensor<32x32xf32, #[[DPAS]]>)
// CHECK-NOT: ttg.convert_layout {{.*}}xf32
// CHECK: scf.yield {{.*}}#[[DPAS]]>, i32
// CHECK: ttg.convert_layout {{.*}}#[[DPAS]]> -> tensor<32x32xf32, #blocked>
tt.func public @in_while(%a: tensor<32x32xf16, #dot_a>, %b: tensor<32x32xf16, #dot_b>, %n: i32, %odd: i1) -> tensor<32x32xf32, #blocked> {
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #blocked>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:2 = scf.while (%sum = %zero, %i = %c0) : (tensor<32x32xf32, #blocked>, i32) -> (tensor<32x32xf32, #blocked>, i32) {
    %more = arith.cmpi slt, %i, %n : i32
    scf.condition(%more) %sum, %i : tensor<32x32xf32, #blocked>, i32
  } do {
  ^bb0(%sum: tensor<32x32xf32, #blocked>, %i: i32):
    %s = scf.if %odd -> (tensor<32x32xf32, #blocked>) {
      %d = tt.dot %a, %b, %sum : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #blocked>
      scf.yield %d : tensor<32x32xf32, #blocked>
    } else {
      scf.yield %sum : tensor<32x32xf32, #blocked>
    }
    %j = arith.addi %i, %c1 : i32
    scf.yield %s, %j : tensor<32x32xf32, #blocked>, i32
  }
  tt.return %r#0 : tensor<32x32xf32, #blocked>
}
