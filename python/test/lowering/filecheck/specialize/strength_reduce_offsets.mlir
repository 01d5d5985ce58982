// PASSES: strength-reduce{rules=strength-reduce-offsets}
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [1, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
// ===
// The start of the columns goes to the base; rows are positions times a stride, compared once.
// CHECK-LABEL: tt.func public @descriptor(
// CHECK: %[[SHORT:.*]] = tt.expand_dims %range
// CHECK: %[[BASE:.*]] = tt.addptr %a, %first
// CHECK: %[[ALL:.*]] = tt.splat %[[BASE]] : !tt.ptr<f32> -> tensor<1x16x
// CHECK: %[[FIRST:.*]] = tt.addptr %[[ALL]], %{{.*}} : tensor<1x16x
// CHECK: %[[DOWN:.*]] = tt.broadcast %down
// CHECK: %[[ACROSS:.*]] = tt.broadcast %[[FIRST]]
// CHECK: %[[POINTERS:.*]] = tt.addptr %[[ACROSS]], %[[DOWN]]
// CHECK: %[[LEAST:.*]] = arith.subi %{{.*}}, %start : i64
// CHECK: arith.maxsi %[[LEAST]]
// CHECK: arith.minsi
// CHECK: %[[BEGIN:.*]] = arith.trunci
// CHECK: %[[MOST:.*]] = arith.subi %height, %start : i64
// CHECK: %[[SIZE:.*]] = arith.maxsi %{{.*}}, %{{.*}} : i32
// CHECK: %[[BELOW:.*]] = arith.subi %{{.*}}, %[[BEGIN]] : i32
// CHECK: %[[SPLAT:.*]] = tt.splat %[[BELOW]]
// CHECK: %[[FROM:.*]] = arith.addi %[[SPLAT]], %[[SHORT]] : tensor<32x1xi32
// CHECK: %[[TO:.*]] = tt.splat %[[SIZE]]
// CHECK: %both = arith.cmpi ult, %[[FROM]], %[[TO]]
// CHECK: scf.if
// CHECK: tt.load %p, %inside
// CHECK: else
// CHECK: tt.load %[[POINTERS]], %inside
// CHECK: tt.store %[[POINTERS]]
// TARGET: bmg
// WARPS: 1
tt.func public @descriptor(%a: !tt.ptr<f32>, %y: i32, %x: i32, %M: i32, %N: i32, %fast: i1) {
  %zero = arith.constant dense<0> : tensor<32x1xi64, #blocked>
  %start = arith.extsi %y : i32 to i64
  %first = arith.extsi %x : i32 to i64
  %stride = arith.extsi %N : i32 to i64
  %height = arith.extsi %M : i32 to i64
  %range = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #rows>
  %wide = arith.extsi %range : tensor<32xi32, #rows> to tensor<32xi64, #rows>
  %starts = tt.splat %start : i64 -> tensor<32xi64, #rows>
  %row = arith.addi %starts, %wide : tensor<32xi64, #rows>
  %rows = tt.expand_dims %row {axis = 1 : i32} : tensor<32xi64, #rows> -> tensor<32x1xi64, #blocked>
  %by = tt.splat %stride : i64 -> tensor<32x1xi64, #blocked>
  %down = arith.muli %rows, %by : tensor<32x1xi64, #blocked>
  %downs = tt.broadcast %down : tensor<32x1xi64, #blocked> -> tensor<32x16xi64, #blocked>
  %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #columns>
  %widths = arith.extsi %lanes : tensor<16xi32, #columns> to tensor<16xi64, #columns>
  %firsts = tt.splat %first : i64 -> tensor<16xi64, #columns>
  %column = arith.addi %firsts, %widths : tensor<16xi64, #columns>
  %columns = tt.expand_dims %column {axis = 0 : i32} : tensor<16xi64, #columns> -> tensor<1x16xi64, #blocked>
  %across = tt.broadcast %columns : tensor<1x16xi64, #blocked> -> tensor<32x16xi64, #blocked>
  %offset = arith.addi %downs, %across : tensor<32x16xi64, #blocked>
  %base = tt.splat %a : !tt.ptr<f32> -> tensor<32x16x!tt.ptr<f32>, #blocked>
  %p = tt.addptr %base, %offset : tensor<32x16x!tt.ptr<f32>, #blocked>, tensor<32x16xi64, #blocked>
  %least = arith.cmpi sge, %rows, %zero : tensor<32x1xi64, #blocked>
  %heights = tt.splat %height : i64 -> tensor<32x1xi64, #blocked>
  %most = arith.cmpi slt, %rows, %heights : tensor<32x1xi64, #blocked>
  %both = arith.andi %least, %most : tensor<32x1xi1, #blocked>
  %inside = tt.broadcast %both : tensor<32x1xi1, #blocked> -> tensor<32x16xi1, #blocked>
  scf.if %fast {
    %x1 = tt.load %p, %inside : tensor<32x16x!tt.ptr<f32>, #blocked>
    tt.store %p, %x1 : tensor<32x16x!tt.ptr<f32>, #blocked>
  } else {
    %x2 = tt.load %p, %inside : tensor<32x16x!tt.ptr<f32>, #blocked>
    tt.store %p, %x2 : tensor<32x16x!tt.ptr<f32>, #blocked>
  } {xe.versions}
  tt.return
}

// -----
// What is compared may be beyond numbers of 32 bits, and products of rows stay where they are.
// CHECK-LABEL: tt.func public @unknown(
// CHECK: %inside = arith.cmpi slt, %at, %ends : tensor<32xi64
// CHECK: else
// CHECK: tt.store %p, %x, %inside
// TARGET: bmg
// WARPS: 1
tt.func public @unknown(%a: tensor<32x!tt.ptr<f32>, #rows>, %at: tensor<32xi64, #rows>, %end: i64, %x: tensor<32xf32, #rows>, %fast: i1) {
  %ends = tt.splat %end : i64 -> tensor<32xi64, #rows>
  %inside = arith.cmpi slt, %at, %ends : tensor<32xi64, #rows>
  %p = tt.addptr %a, %at : tensor<32x!tt.ptr<f32>, #rows>, tensor<32xi64, #rows>
  scf.if %fast {
  } else {
    tt.store %p, %x, %inside : tensor<32x!tt.ptr<f32>, #rows>
  } {xe.versions}
  tt.return
}
