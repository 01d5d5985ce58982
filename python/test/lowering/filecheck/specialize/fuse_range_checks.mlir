// PASSES: simplify-masks{rules=fuse-range-checks}
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// One comparison of numbers without a sign; another condition stays.
// CHECK-LABEL: tt.func public @window(
// CHECK: %[[APART:.*]] = arith.subi %i, %j
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK: %[[LARGER:.*]] = arith.maxsi %w, %[[ZERO]]
// CHECK: %[[LIMIT:.*]] = tt.splat %[[LARGER]]
// CHECK: %[[NEAR:.*]] = arith.cmpi ult, %[[APART]], %[[LIMIT]]
// CHECK: %[[BOTH:.*]] = arith.andi %[[NEAR]], %inside
// CHECK-NOT: cmpi
// CHECK: arith.select %[[BOTH]]
tt.func public @window(%x: !tt.ptr<i32>, %n: i32, %w: i32) {
  %row = tt.get_program_id x : i32
  %j = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
  %rows = tt.splat %row : i32 -> tensor<64xi32, #blocked>
  %i = arith.addi %rows, %j overflow<nsw> : tensor<64xi32, #blocked>
  %ns = tt.splat %n : i32 -> tensor<64xi32, #blocked>
  %ws = tt.splat %w : i32 -> tensor<64xi32, #blocked>
  %inside = arith.cmpi slt, %j, %ns : tensor<64xi32, #blocked>
  %behind = arith.cmpi sle, %j, %i : tensor<64xi32, #blocked>
  %both = arith.andi %inside, %behind : tensor<64xi1, #blocked>
  %apart = arith.subi %i, %j : tensor<64xi32, #blocked>
  %near = arith.cmpi slt, %apart, %ws : tensor<64xi32, #blocked>
  %all = arith.andi %both, %near : tensor<64xi1, #blocked>
  %v = arith.select %all, %i, %j : tensor<64xi1, #blocked>, tensor<64xi32, #blocked>
  %a = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #blocked>
  %p = tt.addptr %a, %j : tensor<64x!tt.ptr<i32>, #blocked>, tensor<64xi32, #blocked>
  tt.store %p, %v : tensor<64x!tt.ptr<i32>, #blocked>
  tt.return
}

// -----
// A difference from a number that may be negative may not fit.
// CHECK-LABEL: tt.func public @unknown(
// CHECK: arith.cmpi sge
// CHECK: arith.cmpi slt
tt.func public @unknown(%x: !tt.ptr<i32>, %from: i32, %w: i32) {
  %j = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
  %froms = tt.splat %from : i32 -> tensor<64xi32, #blocked>
  %i = arith.addi %froms, %j : tensor<64xi32, #blocked>
  %ws = tt.splat %w : i32 -> tensor<64xi32, #blocked>
  %behind = arith.cmpi sge, %i, %j : tensor<64xi32, #blocked>
  %apart = arith.subi %i, %j : tensor<64xi32, #blocked>
  %near = arith.cmpi slt, %apart, %ws : tensor<64xi32, #blocked>
  %all = arith.andi %behind, %near : tensor<64xi1, #blocked>
  %v = arith.select %all, %i, %j : tensor<64xi1, #blocked>, tensor<64xi32, #blocked>
  %a = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #blocked>
  %p = tt.addptr %a, %j : tensor<64x!tt.ptr<i32>, #blocked>, tensor<64xi32, #blocked>
  tt.store %p, %v : tensor<64x!tt.ptr<i32>, #blocked>
  tt.return
}
