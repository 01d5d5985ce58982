// PASSES: expand-operations{rules=swap-pairs}
#two = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#flat = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [1, 4], order = [1, 0]}>
#pairs = #ttg.blocked<{sizePerThread = [1, 1, 1], threadsPerWarp = [1, 1, 16], warpsPerCTA = [2, 2, 1], order = [2, 1, 0]}>
// ===
// A number xor its neighbour xor itself; pairs cross warps no more.
// CHECK: #blocked1 = #ttg.blocked<{sizePerThread = [1, 1, 2], threadsPerWarp = [1, 2, 8], warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
// CHECK-LABEL: tt.func public @other(
// CHECK-NOT: tt.reduce
// CHECK: [[SWAPPED:%[0-9a-z]+]] = xe.swap {{%[0-9a-z]+}} stride 16 : i64 : tensor<8x2x16xi32
// CHECK-NEXT: tt.reshape [[SWAPPED]]
tt.func public @other(%x: tensor<16x16xi32, #flat>, %y: tensor<16x16x!tt.ptr<i32>, #flat>) {
  %p = tt.reshape %x : tensor<16x16xi32, #flat> -> tensor<8x2x16xi32, #pairs>
  %r = "tt.reduce"(%p) <{axis = 1 : i32}> ({
  ^bb0(%u: i32, %w: i32):
    %t = arith.xori %u, %w : i32
    tt.reduce.return %t : i32
  }) : (tensor<8x2x16xi32, #pairs>) -> tensor<8x16xi32, #ttg.slice<{dim = 1, parent = #pairs}>>
  %e = tt.expand_dims %r {axis = 1 : i32} : tensor<8x16xi32, #ttg.slice<{dim = 1, parent = #pairs}>> -> tensor<8x1x16xi32, #pairs>
  %b = tt.broadcast %e : tensor<8x1x16xi32, #pairs> -> tensor<8x2x16xi32, #pairs>
  %o = arith.xori %p, %b : tensor<8x2x16xi32, #pairs>
  %s = tt.reshape %o : tensor<8x2x16xi32, #pairs> -> tensor<16x16xi32, #flat>
  tt.store %y, %s : tensor<16x16x!tt.ptr<i32>, #flat>
  tt.return
}

// -----
// The first of each pair, in the shape that the pairs were taken from.
// CHECK-LABEL: tt.func public @first(
// CHECK-NOT: tt.reduce
// CHECK-NOT: tt.reshape
// CHECK: [[SWAPPED:%[0-9a-z]+]] = xe.swap %x stride 16
// CHECK: [[BIT:%[0-9a-z]+]] = xe.position_bit 16
// CHECK: arith.select [[BIT]], [[SWAPPED]], %x : tensor<16x16xi1
tt.func public @first(%x: tensor<16x16xi32, #flat>, %y: tensor<16x16x!tt.ptr<i32>, #flat>) {
  %one = arith.constant dense<1> : tensor<1x2x1xi32, #pairs>
  %i = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32, #ttg.slice<{dim = 0, parent = #ttg.slice<{dim = 2, parent = #pairs}>}>>
  %j = tt.expand_dims %i {axis = 0 : i32} : tensor<2xi32, #ttg.slice<{dim = 0, parent = #ttg.slice<{dim = 2, parent = #pairs}>}>> -> tensor<1x2xi32, #ttg.slice<{dim = 2, parent = #pairs}>>
  %k = tt.expand_dims %j {axis = 2 : i32} : tensor<1x2xi32, #ttg.slice<{dim = 2, parent = #pairs}>> -> tensor<1x2x1xi32, #pairs>
  %f = arith.subi %one, %k : tensor<1x2x1xi32, #pairs>
  %g = tt.broadcast %f : tensor<1x2x1xi32, #pairs> -> tensor<8x2x16xi32, #pairs>
  %p = tt.reshape %x : tensor<16x16xi32, #flat> -> tensor<8x2x16xi32, #pairs>
  %m = arith.muli %p, %g : tensor<8x2x16xi32, #pairs>
  %r = "tt.reduce"(%m) <{axis = 1 : i32}> ({
  ^bb0(%u: i32, %w: i32):
    %t = arith.addi %u, %w : i32
    tt.reduce.return %t : i32
  }) : (tensor<8x2x16xi32, #pairs>) -> tensor<8x16xi32, #ttg.slice<{dim = 1, parent = #pairs}>>
  %e = tt.expand_dims %r {axis = 1 : i32} : tensor<8x16xi32, #ttg.slice<{dim = 1, parent = #pairs}>> -> tensor<8x1x16xi32, #pairs>
  %b = tt.broadcast %e : tensor<8x1x16xi32, #pairs> -> tensor<8x2x16xi32, #pairs>
  %s = tt.reshape %b : tensor<8x2x16xi32, #pairs> -> tensor<16x16xi32, #flat>
  tt.store %y, %s : tensor<16x16x!tt.ptr<i32>, #flat>
  tt.return
}

// -----
// Sign extension makes -1 of true, and so another sum.
// CHECK-LABEL: tt.func public @negative(
// CHECK-NOT: xe.swap
// CHECK: tt.reduce
tt.func public @negative(%x: tensor<128x2xi32, #flat>, %y: tensor<128x2x!tt.ptr<i32>, #flat>) {
  %i = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32, #ttg.slice<{dim = 0, parent = #flat}>>
  %t = arith.trunci %i : tensor<2xi32, #ttg.slice<{dim = 0, parent = #flat}>> to tensor<2xi1, #ttg.slice<{dim = 0, parent = #flat}>>
  %n = arith.extsi %t : tensor<2xi1, #ttg.slice<{dim = 0, parent = #flat}>> to tensor<2xi32, #ttg.slice<{dim = 0, parent = #flat}>>
  %j = tt.expand_dims %n {axis = 0 : i32} : tensor<2xi32, #ttg.slice<{dim = 0, parent = #flat}>> -> tensor<1x2xi32, #flat>
  %g = tt.broadcast %j : tensor<1x2xi32, #flat> -> tensor<128x2xi32, #flat>
  %m = arith.muli %x, %g : tensor<128x2xi32, #flat>
  %r = "tt.reduce"(%m) <{axis = 1 : i32}> ({
  ^bb0(%u: i32, %w: i32):
    %s = arith.addi %u, %w : i32
    tt.reduce.return %s : i32
  }) : (tensor<128x2xi32, #flat>) -> tensor<128xi32, #ttg.slice<{dim = 1, parent = #flat}>>
  %e = tt.expand_dims %r {axis = 1 : i32} : tensor<128xi32, #ttg.slice<{dim = 1, parent = #flat}>> -> tensor<128x1xi32, #flat>
  %b = tt.broadcast %e : tensor<128x1xi32, #flat> -> tensor<128x2xi32, #flat>
  tt.store %y, %b : tensor<128x2x!tt.ptr<i32>, #flat>
  tt.return
}
