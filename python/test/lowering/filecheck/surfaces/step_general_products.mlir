// PASSES: find-surfaces{rules=step-general-products}
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [2, 2], order = [1, 0]}>
#turned = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [16, 1], warpsPerCTA = [2, 2], order = [0, 1]}>
#sum = #ttg.blocked<{sizePerThread = [4, 4], threadsPerWarp = [1, 16], warpsPerCTA = [2, 2], order = [1, 0]}>
#r = #ttg.slice<{dim = 1, parent = #blocked}>
#k = #ttg.slice<{dim = 0, parent = #blocked}>
#a = #ttg.dot_op<{opIdx = 0, parent = #sum}>
#b = #ttg.dot_op<{opIdx = 1, parent = #sum}>
// ===
// Both operands are loaded 16 columns at a time, by all warps; the other version stays as it is.
// GUARDS: launch
// CHECK-DAG: #[[HELD:blocked[0-9]*]] = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
// CHECK-LABEL: tt.func public @steps(
// CHECK: %[[ROWS:[a-z0-9_]*]] = arith.muli
// CHECK: tt.dot {{.*}} : tensor<32x32xf16,
// CHECK: } else {
// CHECK: %[[SUM:.*]] = scf.for %[[AT:[a-z0-9_]*]] = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[PART:.*]] = %z)
// CHECK: ttg.convert_layout %[[ROWS]] : {{.*}} -> tensor<32x1xi32, #[[HELD]]>
// CHECK: tt.make_range {end = 16 : i32, start = 0 : i32}
// CHECK: tt.splat %[[AT]] : i32
// CHECK: tt.load {{.*}} : tensor<32x16x!tt.ptr<f16>, #[[HELD]]>
// CHECK: tt.load {{.*}} : tensor<32x16x!tt.ptr<f16>, #[[HELD]]>
// CHECK: tt.trans {{.*}} -> tensor<16x32xf16,
// CHECK: %[[NEXT:.*]] = tt.dot {{.*}}, %[[PART]]{{.*}} : tensor<32x16xf16, {{.*}} * tensor<16x32xf16,
// CHECK: scf.yield %[[NEXT]]
// CHECK: {xe.rolled, xe.runs}
// CHECK: scf.yield %[[SUM]]
tt.func public @steps(%p: !tt.ptr<f16>, %pitch: i32, %cond: i1, %z: tensor<32x32xf32, #sum>, %x: tensor<32x32xf16, #a>, %y: tensor<32x32xf16, #b>) -> tensor<32x32xf32, #sum> {
  %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #r>
  %i2 = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #r> -> tensor<32x1xi32, #blocked>
  %by = tt.splat %pitch : i32 -> tensor<32x1xi32, #blocked>
  %rows = arith.muli %i2, %by : tensor<32x1xi32, #blocked>
  %d = scf.if %cond -> (tensor<32x32xf32, #sum>) {
    %e = tt.dot %x, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #sum>
    scf.yield %e : tensor<32x32xf32, #sum>
  } else {
    %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #k>
    %j2 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #k> -> tensor<1x32xi32, #blocked>
    %ib = tt.broadcast %rows : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %jb = tt.broadcast %j2 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %at = arith.addi %ib, %jb : tensor<32x32xi32, #blocked>
    %pb = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
    %ps = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
    %u = tt.load %ps : tensor<32x32x!tt.ptr<f16>, #blocked>
    %v = tt.load %ps : tensor<32x32x!tt.ptr<f16>, #blocked>
    %w = tt.trans %v {order = array<i32: 1, 0>} : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #turned>
    %ua = ttg.convert_layout %u : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
    %wb = ttg.convert_layout %w : tensor<32x32xf16, #turned> -> tensor<32x32xf16, #b>
    %f = tt.dot %ua, %wb, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #sum>
    scf.yield %f : tensor<32x32xf32, #sum>
  } {xe.versions}
  tt.return %d : tensor<32x32xf32, #sum>
}

// -----
// A kernel that tests all guards itself keeps its blocks: its general version is for all launches.
// CHECK-LABEL: tt.func public @kernel_guards(
// CHECK-NOT: xe.rolled
tt.func public @kernel_guards(%p: tensor<32x32x!tt.ptr<f16>, #blocked>, %cond: i1, %z: tensor<32x32xf32, #sum>, %y: tensor<32x32xf16, #b>) -> tensor<32x32xf32, #sum> {
  %d = scf.if %cond -> (tensor<32x32xf32, #sum>) {
    scf.yield %z : tensor<32x32xf32, #sum>
  } else {
    %one = arith.constant dense<1.0> : tensor<32x32xf16, #a>
    %two = arith.constant dense<2.0> : tensor<32x32xf16, #b>
    %f = tt.dot %one, %two, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #sum>
    scf.yield %f : tensor<32x32xf32, #sum>
  } {xe.versions}
  tt.return %d : tensor<32x32xf32, #sum>
}

// -----
// A load that a store follows stays before it; so does one with another use.
// GUARDS: launch
// CHECK-LABEL: tt.func public @ordered(
// CHECK-NOT: xe.rolled
tt.func public @ordered(%p: !tt.ptr<f16>, %q: !tt.ptr<f16>, %cond: i1, %z: tensor<32x32xf32, #sum>, %y: tensor<32x32xf16, #b>, %s: tensor<32x32x!tt.ptr<f16>, #blocked>) -> tensor<32x32xf32, #sum> {
  %d = scf.if %cond -> (tensor<32x32xf32, #sum>) {
    scf.yield %z : tensor<32x32xf32, #sum>
  } else {
    %ps = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
    %two = arith.constant dense<2.0> : tensor<32x32xf16, #b>
    %u = tt.load %ps : tensor<32x32x!tt.ptr<f16>, #blocked>
    %one = arith.constant dense<1.0> : tensor<32x32xf16, #blocked>
    tt.store %s, %one : tensor<32x32x!tt.ptr<f16>, #blocked>
    %ua = ttg.convert_layout %u : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
    %f = tt.dot %ua, %two, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #sum>
    %v = tt.load %s : tensor<32x32x!tt.ptr<f16>, #blocked>
    %va = ttg.convert_layout %v : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
    %g = tt.dot %va, %two, %f : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #sum>
    tt.store %s, %v : tensor<32x32x!tt.ptr<f16>, #blocked>
    scf.yield %g : tensor<32x32xf32, #sum>
  } {xe.versions}
  tt.return %d : tensor<32x32xf32, #sum>
}
