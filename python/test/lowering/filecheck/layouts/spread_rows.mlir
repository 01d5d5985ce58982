// PASSES: assign-layouts{rules=spread-rows}
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [2, 2]}>
#rows = #ttg.slice<{dim = 1, parent = #dpas}>
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// A running maximum is carried spread, its start is made spread, and the store reads it so.
// CHECK: #[[SPREAD:linear[0-9]*]] = #ttg.linear
// CHECK-LABEL: tt.func public @carried(
// CHECK: scf.for {{.*}} -> (tensor<64xf32, #[[SPREAD]]>) : i32 {
// CHECK: tt.reduce
// CHECK: -> tensor<64xf32, #[[SPREAD]]>
// CHECK: arith.maxnumf {{.*}} : tensor<64xf32, #[[SPREAD]]>
// CHECK: ttg.convert_layout {{.*}} : tensor<64xf32, #[[SPREAD]]> -> tensor<64xf32, #ttg.slice
// CHECK: tt.expand_dims
// CHECK: ttg.convert_layout {{.*}} : tensor<64xf32, #[[SPREAD]]> -> tensor<64xf32, #blocked>
tt.func public @carried(%x: tensor<64x32xf32, #dpas>, %p: tensor<64x!tt.ptr<f32>, #blocked>, %n: i32) {
  %low = arith.constant dense<0.0> : tensor<64xf32, #rows>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m = scf.for %i = %zero to %n step %one iter_args(%top = %low) -> (tensor<64xf32, #rows>) : i32 {
    %r = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.maxnumf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<64x32xf32, #dpas>) -> tensor<64xf32, #rows>
    %t = arith.maxnumf %top, %r : tensor<64xf32, #rows>
    %e = tt.expand_dims %t {axis = 1 : i32} : tensor<64xf32, #rows> -> tensor<64x1xf32, #dpas>
    tt.print "e" {hex = false, isSigned = array<i32: 0>} : %e : tensor<64x1xf32, #dpas>
    scf.yield %t : tensor<64xf32, #rows>
  }
  %s = ttg.convert_layout %m : tensor<64xf32, #rows> -> tensor<64xf32, #blocked>
  tt.store %p, %s : tensor<64x!tt.ptr<f32>, #blocked>
  tt.return
}

// -----
// Numbers of rows that only index arithmetic uses stay where they cost nothing.
// CHECK-LABEL: tt.func public @indices(
// CHECK: tt.make_range {{.*}} : tensor<64xi32, #ttg.slice
// CHECK-NEXT: tt.expand_dims
tt.func public @indices(%x: tensor<64x32xf32, #dpas>) {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #rows>
  %j = tt.expand_dims %i {axis = 1 : i32} : tensor<64xi32, #rows> -> tensor<64x1xi32, #dpas>
  tt.print "j" {hex = false, isSigned = array<i32: 0>} : %j : tensor<64x1xi32, #dpas>
  %r = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tt.reduce.return %c : f32
  }) : (tensor<64x32xf32, #dpas>) -> tensor<64xf32, #rows>
  tt.print "r" {hex = false, isSigned = array<i32: 0>} : %r : tensor<64xf32, #rows>
  tt.return
}
