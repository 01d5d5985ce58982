// PASSES: assign-layouts{rules=scatter-general-rows}
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [2, 2], repCluster = [2, 1]}>
#r = #ttg.slice<{dim = 1, parent = #dpas}>
#c = #ttg.slice<{dim = 0, parent = #dpas}>
// ===
// Rows i, i + 8, ... of addresses and mask are computed, those of the sums are registers.
// GUARDS: launch
// CHECK: #[[ROW:dpas[0-9]*]] = #xe.dpas<{repeatCount = 1,
// CHECK-LABEL: tt.func public @rows(
// CHECK: } else {
// CHECK: scf.for %[[I:[a-z0-9_]*]] =
// CHECK: tt.make_range {end = 4 : i32, start = 0 : i32}
// CHECK: arith.constant dense<8> : tensor<4xi32,
// CHECK: tt.splat %[[I]] : i32 -> tensor<4xi32,
// CHECK: %[[PART:.*]] = xe.rows %x[%[[I]]] : tensor<32x32xf32, #dpas> -> tensor<4x32xf32, #[[ROW]]>
// CHECK: %[[HALVES:.*]] = arith.truncf %[[PART]]
// CHECK: tt.store %{{.*}}, %[[HALVES]], %{{.*}} : tensor<4x32x!tt.ptr<f16>, #[[ROW]]>
// CHECK: {xe.rolled, xe.runs}
tt.func public @rows(%p: !tt.ptr<f16>, %n: i32, %cond: i1, %x: tensor<32x32xf32, #dpas>) {
  scf.if %cond {
    scf.yield
  } else {
    %y = arith.truncf %x : tensor<32x32xf32, #dpas> to tensor<32x32xf16, #dpas>
    %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #r>
    %i2 = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #r> -> tensor<32x1xi32, #dpas>
    %by = tt.splat %n : i32 -> tensor<32x1xi32, #dpas>
    %far = arith.muli %i2, %by : tensor<32x1xi32, #dpas>
    %in = arith.cmpi slt, %i2, %by : tensor<32x1xi32, #dpas>
    %mask = tt.broadcast %in : tensor<32x1xi1, #dpas> -> tensor<32x32xi1, #dpas>
    %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #c>
    %j2 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #c> -> tensor<1x32xi32, #dpas>
    %ib = tt.broadcast %far : tensor<32x1xi32, #dpas> -> tensor<32x32xi32, #dpas>
    %jb = tt.broadcast %j2 : tensor<1x32xi32, #dpas> -> tensor<32x32xi32, #dpas>
    %at = arith.addi %ib, %jb : tensor<32x32xi32, #dpas>
    %pb = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #dpas>
    %ps = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<f16>, #dpas>, tensor<32x32xi32, #dpas>
    tt.store %ps, %y, %mask : tensor<32x32x!tt.ptr<f16>, #dpas>
    scf.yield
  } {xe.versions}
  tt.return
}

// -----
// Values of 16 bits are pairs in registers: they are no rows.  Nor is anything outside of versions.
// GUARDS: launch
// CHECK-LABEL: tt.func public @others(
// CHECK-NOT: xe.rows
tt.func public @others(%p: !tt.ptr<f16>, %q: !tt.ptr<f32>, %cond: i1, %x: tensor<32x32xf16, #dpas>, %y: tensor<32x32xf32, #dpas>) {
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>, #dpas>
  tt.store %qs, %y : tensor<32x32x!tt.ptr<f32>, #dpas>
  scf.if %cond {
    scf.yield
  } else {
    %ps = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #dpas>
    tt.store %ps, %x : tensor<32x32x!tt.ptr<f16>, #dpas>
    scf.yield
  } {xe.versions}
  tt.return
}
