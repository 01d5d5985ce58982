// PASSES: find-surfaces{rules=transpose-products}
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 2], warpsPerCTA = [1, 1], order = [1, 0]}>
#turned = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [2, 8], warpsPerCTA = [1, 1], order = [0, 1]}>
#ra = #ttg.slice<{dim = 1, parent = #blocked}>
#ka = #ttg.slice<{dim = 0, parent = #blocked}>
#nb = #ttg.slice<{dim = 0, parent = #turned}>
#kb = #ttg.slice<{dim = 1, parent = #turned}>
// ===
// Rows of A are gathered, B^T is contiguous: the loop and the store work on the transpose.
// CHECK-LABEL: tt.func public @experts(
// CHECK: scf.for
// CHECK-NOT: tt.trans
// CHECK: tt.dot {{.*}} : tensor<32x16xf16, {{.*}}opIdx = 0{{.*}} * tensor<16x16xf16, {{.*}}opIdx = 1{{.*}} -> tensor<32x16xf32,
// CHECK: scf.yield %{{[a-z0-9_]*}} : tensor<32x16xf32,
// CHECK-NOT: tt.trans
// CHECK: tt.store {{.*}} : tensor<32x16x!tt.ptr<f32>,
// WARPS: 1
tt.func public @experts(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %b: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %c: !tt.ptr<f32>, %places: !tt.ptr<i32>, %K: i32 {tt.divisibility = 16 : i32}) {
  %zero = arith.constant 0 : i32
  %step = arith.constant 16 : i32
  %start = arith.constant dense<0.0> : tensor<16x32xf32, #blocked>
  %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #ra>
  %s = tt.splat %places : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>, #ra>
  %at = tt.addptr %s, %i : tensor<16x!tt.ptr<i32>, #ra>, tensor<16xi32, #ra>
  %place = tt.load %at : tensor<16x!tt.ptr<i32>, #ra>
  %rows = tt.expand_dims %place {axis = 1 : i32} : tensor<16xi32, #ra> -> tensor<16x1xi32, #blocked>
  %pitch = tt.splat %K : i32 -> tensor<16x1xi32, #blocked>
  %far = arith.muli %rows, %pitch : tensor<16x1xi32, #blocked>
  %ka = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #ka>
  %ka1 = tt.expand_dims %ka {axis = 0 : i32} : tensor<16xi32, #ka> -> tensor<1x16xi32, #blocked>
  %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #nb>
  %j1 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #nb> -> tensor<1x32xi32, #turned>
  %bpitch = tt.splat %K : i32 -> tensor<1x32xi32, #turned>
  %bfar = arith.muli %j1, %bpitch : tensor<1x32xi32, #turned>
  %kb = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #kb>
  %kb1 = tt.expand_dims %kb {axis = 1 : i32} : tensor<16xi32, #kb> -> tensor<16x1xi32, #turned>
  %sum = scf.for %k = %zero to %K step %step iter_args(%acc = %start) -> (tensor<16x32xf32, #blocked>) : i32 {
    %pa = tt.addptr %a, %k : !tt.ptr<f16>, i32
    %pa1 = tt.splat %pa : !tt.ptr<f16> -> tensor<16x1x!tt.ptr<f16>, #blocked>
    %pa2 = tt.addptr %pa1, %far : tensor<16x1x!tt.ptr<f16>, #blocked>, tensor<16x1xi32, #blocked>
    %pa3 = tt.broadcast %pa2 : tensor<16x1x!tt.ptr<f16>, #blocked> -> tensor<16x16x!tt.ptr<f16>, #blocked>
    %oa = tt.broadcast %ka1 : tensor<1x16xi32, #blocked> -> tensor<16x16xi32, #blocked>
    %pa4 = tt.addptr %pa3, %oa : tensor<16x16x!tt.ptr<f16>, #blocked>, tensor<16x16xi32, #blocked>
    %x = tt.load %pa4 : tensor<16x16x!tt.ptr<f16>, #blocked>
    %pb = tt.addptr %b, %k : !tt.ptr<f16>, i32
    %pb1 = tt.splat %pb : !tt.ptr<f16> -> tensor<1x32x!tt.ptr<f16>, #turned>
    %pb2 = tt.addptr %pb1, %bfar : tensor<1x32x!tt.ptr<f16>, #turned>, tensor<1x32xi32, #turned>
    %pb3 = tt.broadcast %pb2 : tensor<1x32x!tt.ptr<f16>, #turned> -> tensor<16x32x!tt.ptr<f16>, #turned>
    %ob = tt.broadcast %kb1 : tensor<16x1xi32, #turned> -> tensor<16x32xi32, #turned>
    %pb4 = tt.addptr %pb3, %ob : tensor<16x32x!tt.ptr<f16>, #turned>, tensor<16x32xi32, #turned>
    %y = tt.load %pb4 : tensor<16x32x!tt.ptr<f16>, #turned>
    %l = ttg.convert_layout %x : tensor<16x16xf16, #blocked> -> tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #blocked}>>
    %r = ttg.convert_layout %y : tensor<16x32xf16, #turned> -> tensor<16x32xf16, #ttg.dot_op<{opIdx = 1, parent = #blocked}>>
    %d = tt.dot %l, %r, %acc : tensor<16x16xf16, #ttg.dot_op<{opIdx = 0, parent = #blocked}>> * tensor<16x32xf16, #ttg.dot_op<{opIdx = 1, parent = #blocked}>> -> tensor<16x32xf32, #blocked>
    scf.yield %d : tensor<16x32xf32, #blocked>
  }
  %n = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #ka>
  %n1 = tt.expand_dims %n {axis = 0 : i32} : tensor<32xi32, #ka> -> tensor<1x32xi32, #blocked>
  %n2 = tt.broadcast %n1 : tensor<1x32xi32, #blocked> -> tensor<16x32xi32, #blocked>
  %pc = tt.splat %c : !tt.ptr<f32> -> tensor<16x1x!tt.ptr<f32>, #blocked>
  %pc1 = tt.addptr %pc, %far : tensor<16x1x!tt.ptr<f32>, #blocked>, tensor<16x1xi32, #blocked>
  %pc2 = tt.broadcast %pc1 : tensor<16x1x!tt.ptr<f32>, #blocked> -> tensor<16x32x!tt.ptr<f32>, #blocked>
  %pc3 = tt.addptr %pc2, %n2 : tensor<16x32x!tt.ptr<f32>, #blocked>, tensor<16x32xi32, #blocked>
  tt.store %pc3, %sum : tensor<16x32x!tt.ptr<f32>, #blocked>
  tt.return
}
