// PASSES: assume-blocks-in-bounds
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 4], warpsPerCTA = [1, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
// ===
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
tt.func public @product(%a: !tt.ptr<f16>, %at: !tt.ptr<i32>, %K: i32) {
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
  tt.return
}
