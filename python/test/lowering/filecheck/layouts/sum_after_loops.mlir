// PASSES: assign-layouts{rules=sum-after-loops}
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [2, 2]}>
#rows = #ttg.slice<{dim = 1, parent = #dpas}>
// ===
// Registers of a lane are added in the loop, lanes behind it; the start is in the first lane.
// CHECK-LABEL: tt.func public @scaled(
// CHECK: %[[FIRST:.*]] = arith.cmpi eq
// CHECK: arith.select
// CHECK: scf.for {{.*}} -> (tensor<64x16xf32
// CHECK: tt.reshape %x : tensor<64x32xf32, #dpas> -> tensor<64x2x16xf32
// CHECK: "tt.reduce"({{.*}}) <{axis = 1 : i32}>
// CHECK: -> tensor<64x16xf32
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: scf.yield {{.*}} : tensor<64x16xf32
// CHECK: "tt.reduce"({{.*}}) <{axis = 1 : i32}>
// CHECK: -> tensor<64xf32
tt.func public @scaled(%x: tensor<64x32xf32, #dpas>, %f: tensor<64xf32, #rows>, %n: i32) {
  %low = arith.constant dense<1.0> : tensor<64xf32, #rows>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m = scf.for %i = %zero to %n step %one iter_args(%l = %low) -> (tensor<64xf32, #rows>) : i32 {
    %r = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<64x32xf32, #dpas>) -> tensor<64xf32, #rows>
    %t = arith.mulf %l, %f : tensor<64xf32, #rows>
    %s = arith.addf %t, %r : tensor<64xf32, #rows>
    scf.yield %s : tensor<64xf32, #rows>
  }
  tt.print "m" {hex = false, isSigned = array<i32: 0>} : %m : tensor<64xf32, #rows>
  tt.return
}

// -----
// A sum that the loop reads otherwise, and a maximum, stay in it.
// CHECK-LABEL: tt.func public @used(
// CHECK-NOT: tt.reshape
tt.func public @used(%x: tensor<64x32xf32, #dpas>, %n: i32) {
  %low = arith.constant dense<1.0> : tensor<64xf32, #rows>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m:2 = scf.for %i = %zero to %n step %one iter_args(%l = %low, %k = %low) -> (tensor<64xf32, #rows>, tensor<64xf32, #rows>) : i32 {
    %r = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<64x32xf32, #dpas>) -> tensor<64xf32, #rows>
    %s = arith.addf %l, %r : tensor<64xf32, #rows>
    tt.print "s" {hex = false, isSigned = array<i32: 0>} : %s : tensor<64xf32, #rows>
    %q = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.maxnumf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<64x32xf32, #dpas>) -> tensor<64xf32, #rows>
    %u = arith.addf %k, %q : tensor<64xf32, #rows>
    scf.yield %s, %u : tensor<64xf32, #rows>, tensor<64xf32, #rows>
  }
  tt.return
}
