// PASSES: simplify-masks{rules=split-inside}
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// One test of the last offset serves the load and the store.
// CHECK-LABEL: tt.func public @copy(
// CHECK: scf.if
// CHECK: %[[TRUE:.*]] = arith.constant dense<true>
// CHECK: tt.load {{.*}}, %[[TRUE]]
// CHECK: tt.store
// CHECK: } else {
// CHECK: tt.load {{.*}}, %[[MASK:.*]] :
// CHECK: tt.store {{.*}}, %[[MASK]] :
// CHECK: xe.versions
tt.func public @copy(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
  %s = tt.splat %n : i32 -> tensor<64xi32, #blocked>
  %m = arith.cmpi slt, %i, %s : tensor<64xi32, #blocked>
  %a = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
  %b = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
  %p = tt.addptr %a, %i : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
  %q = tt.addptr %b, %i : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
  %v = tt.load %p, %m : tensor<64x!tt.ptr<f32>, #blocked>
  tt.store %q, %v, %m : tensor<64x!tt.ptr<f32>, #blocked>
  tt.return
}

// -----
// A mask that is no bound stays.
// CHECK-LABEL: tt.func public @unequal(
// CHECK-NOT: scf.if
// CHECK: tt.load {{.*}}, %m :
tt.func public @unequal(%x: !tt.ptr<f32>, %n: i32) {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
  %s = tt.splat %n : i32 -> tensor<64xi32, #blocked>
  %m = arith.cmpi ne, %i, %s : tensor<64xi32, #blocked>
  %a = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
  %p = tt.addptr %a, %i : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
  %v = tt.load %p, %m : tensor<64x!tt.ptr<f32>, #blocked>
  tt.store %p, %v : tensor<64x!tt.ptr<f32>, #blocked>
  tt.return
}

// -----
// If lanes are masked as a whole, messages are as wide with masks: one version suffices.
// CHECK-LABEL: tt.func public @whole_lanes(
// CHECK-NOT: scf.if
// CHECK: tt.load {{.*}}, %m :
tt.func public @whole_lanes(%x: !tt.ptr<f32>, %n: i32 {tt.divisibility = 16 : i32}) {
  %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
  %s = tt.splat %n : i32 -> tensor<64xi32, #blocked>
  %m = arith.cmpi slt, %i, %s : tensor<64xi32, #blocked>
  %a = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
  %p = tt.addptr %a, %i : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
  %v = tt.load %p, %m : tensor<64x!tt.ptr<f32>, #blocked>
  tt.store %p, %v, %m : tensor<64x!tt.ptr<f32>, #blocked>
  tt.return
}
