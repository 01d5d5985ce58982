// PASSES: simplify-masks{rules=assume-in-bounds}
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// Three rows fill 384 registers: a launch guard checks that it is as long as its block, also for selections
// and in other blocks.  Where it starts, and a number in memory, are none of a row's length.
// CHECK: xe.launch_conditions = "{{.*}}inside"
// CHECK-LABEL: tt.func public @gradient(
// CHECK: %[[TRUE:.*]] = arith.constant dense<true>
// CHECK: tt.load %p, %[[TRUE]]
// CHECK: tt.load %p, %below
// CHECK: tt.load %p, %started
// CHECK: arith.select %[[TRUE]]
// CHECK: scf.if
// CHECK: tt.store %p, %{{.*}}, %[[TRUE]]
// TARGET: bmg
// GUARDS: launch
tt.func public @gradient(%a: !tt.ptr<f32>, %at: !tt.ptr<i32>, %n: i32, %again: i1) {
  %zero = arith.constant dense<0.0> : tensor<8192xf32, #blocked>
  %row = tt.get_program_id x : i32
  %unknown = tt.load %at : !tt.ptr<i32>
  %i = tt.make_range {end = 8192 : i32, start = 0 : i32} : tensor<8192xi32, #blocked>
  %base = tt.splat %a : !tt.ptr<f32> -> tensor<8192x!tt.ptr<f32>, #blocked>
  %p = tt.addptr %base, %i : tensor<8192x!tt.ptr<f32>, #blocked>, tensor<8192xi32, #blocked>
  %end = tt.splat %n : i32 -> tensor<8192xi32, #blocked>
  %inside = arith.cmpi slt, %i, %end : tensor<8192xi32, #blocked>
  %limit = tt.splat %unknown : i32 -> tensor<8192xi32, #blocked>
  %below = arith.cmpi slt, %i, %limit : tensor<8192xi32, #blocked>
  %start = tt.splat %row : i32 -> tensor<8192xi32, #blocked>
  %moved = arith.addi %i, %start : tensor<8192xi32, #blocked>
  %started = arith.cmpi slt, %moved, %end : tensor<8192xi32, #blocked>
  %x = tt.load %p, %inside : tensor<8192x!tt.ptr<f32>, #blocked>
  %y = tt.load %p, %below : tensor<8192x!tt.ptr<f32>, #blocked>
  %z = tt.load %p, %started : tensor<8192x!tt.ptr<f32>, #blocked>
  %xy = arith.mulf %x, %y : tensor<8192xf32, #blocked>
  %xyz = arith.mulf %xy, %z : tensor<8192xf32, #blocked>
  %kept = arith.select %inside, %xyz, %zero : tensor<8192xi1, #blocked>, tensor<8192xf32, #blocked>
  %sum = "tt.reduce"(%kept) <{axis = 0 : i32}> ({
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    tt.reduce.return %s : f32
  }) : (tensor<8192xf32, #blocked>) -> f32
  scf.if %again {
    %all = tt.splat %sum : f32 -> tensor<8192xf32, #blocked>
    tt.store %p, %all, %inside : tensor<8192x!tt.ptr<f32>, #blocked>
  }
  tt.return
}
// -----
// A row fills 64 registers and keeps its mask.
// CHECK-LABEL: tt.func public @short(
// CHECK: tt.load %p, %inside
// TARGET: bmg
// GUARDS: launch
tt.func public @short(%a: !tt.ptr<f32>, %n: i32) {
  %i = tt.make_range {end = 4096 : i32, start = 0 : i32} : tensor<4096xi32, #blocked>
  %base = tt.splat %a : !tt.ptr<f32> -> tensor<4096x!tt.ptr<f32>, #blocked>
  %p = tt.addptr %base, %i : tensor<4096x!tt.ptr<f32>, #blocked>, tensor<4096xi32, #blocked>
  %end = tt.splat %n : i32 -> tensor<4096xi32, #blocked>
  %inside = arith.cmpi slt, %i, %end : tensor<4096xi32, #blocked>
  %x = tt.load %p, %inside : tensor<4096x!tt.ptr<f32>, #blocked>
  %sum = "tt.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    tt.reduce.return %s : f32
  }) : (tensor<4096xf32, #blocked>) -> f32
  tt.store %a, %sum : !tt.ptr<f32>
  tt.return
}
// -----
// The host knows K, so a launch guard checks that 16 divides it; it does not know a number in memory.
// CHECK: xe.launch_conditions = "{{.*}}inside"
// CHECK-LABEL: tt.func public @product(
// CHECK: scf.for
// CHECK: %[[TRUE:.*]] = arith.constant dense<true>
// CHECK: tt.load %p, %[[TRUE]]
// CHECK: tt.load %p, %other
// TARGET: dg2
// GUARDS: launch
// WARPS: 1
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 4], warpsPerCTA = [1, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
tt.func public @product(%a: !tt.ptr<f16>, %at: !tt.ptr<i32>, %K: i32, %c: !tt.ptr<f32>) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 16 : i32
  %start = arith.constant dense<0.0> : tensor<16x16xf32, #blocked>
  %unknown = tt.load %at : !tt.ptr<i32>
  %k = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #columns>
  %columns = tt.expand_dims %k {axis = 0 : i32} : tensor<16xi32, #columns> -> tensor<1x16xi32, #blocked>
  %base = tt.splat %a : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>, #blocked>
  %offsets = tt.broadcast %columns : tensor<1x16xi32, #blocked> -> tensor<16x16xi32, #blocked>
  %p = tt.addptr %base, %offsets : tensor<16x16x!tt.ptr<f16>, #blocked>, tensor<16x16xi32, #blocked>
  %sum = scf.for %i = %zero to %K step %step iter_args(%acc = %start) -> (tensor<16x16xf32, #blocked>) : i32 {
    %left = arith.subi %K, %i : i32
    %limit = tt.splat %left : i32 -> tensor<1x16xi32, #blocked>
    %inside = arith.cmpi slt, %columns, %limit : tensor<1x16xi32, #blocked>
    %mask = tt.broadcast %inside : tensor<1x16xi1, #blocked> -> tensor<16x16xi1, #blocked>
    %x = tt.load %p, %mask : tensor<16x16x!tt.ptr<f16>, #blocked>
    %bound = tt.splat %unknown : i32 -> tensor<1x16xi32, #blocked>
    %below = arith.cmpi slt, %columns, %bound : tensor<1x16xi32, #blocked>
    %other = tt.broadcast %below : tensor<1x16xi1, #blocked> -> tensor<16x16xi1, #blocked>
    %y = tt.load %p, %other : tensor<16x16x!tt.ptr<f16>, #blocked>
    %l = ttg.convert_layout %x : tensor<16x16xf16, #blocked> -> tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #blocked}>>
    %r = ttg.convert_layout %y : tensor<16x16xf16, #blocked> -> tensor<16x16xf16, #ttg.dot_op<{opIdx = 1, parent = #blocked}>>
    %d = tt.dot %l, %r, %acc : tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #blocked}>> * tensor<16x16xf16, #ttg.dot_op<{opIdx = 1, parent = #blocked}>> -> tensor<16x16xf32, #blocked>
    scf.yield %d : tensor<16x16xf32, #blocked>
  }
  %to = tt.splat %c : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>, #blocked>
  tt.store %to, %sum : tensor<16x16x!tt.ptr<f32>, #blocked>
  tt.return
}
