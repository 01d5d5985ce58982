// PASSES: find-surfaces{rules=fuse-split-stores}
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#cube = #ttg.blocked<{sizePerThread = [1, 1, 4], threadsPerWarp = [4, 1, 4], warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#apart = #ttg.blocked<{sizePerThread = [1, 4, 2], threadsPerWarp = [4, 4, 1], warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#turned = #ttg.blocked<{sizePerThread = [1, 4, 1], threadsPerWarp = [4, 4, 1], warpsPerCTA = [4, 1, 1], order = [1, 2, 0]}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
// ===
// The halves of a dot's result, stored side by side, are stored whole.
// CHECK-LABEL: tt.func public @halves(
// CHECK: tt.dot
// CHECK: arith.truncf {{.*}} to tensor<32x64xf16
// CHECK: scf.if
// CHECK: xe.block_store {{.*}} : tensor<32x64xf16
// CHECK: else
// CHECK: tt.split
// CHECK-COUNT-2: tt.store
tt.func public @halves(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %x: tensor<32x32xf16, #a>, %y: tensor<32x64xf16, #b>) {
  %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #rows>
  %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #columns>
  %pitch = arith.constant dense<256> : tensor<32x1xi32, #blocked>
  %gap = arith.constant dense<32> : tensor<32xi32, #columns>
  %i2 = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #rows> -> tensor<32x1xi32, #blocked>
  %at = arith.muli %i2, %pitch : tensor<32x1xi32, #blocked>
  %base = tt.splat %p : !tt.ptr<f16> -> tensor<32x1x!tt.ptr<f16>, #blocked>
  %row = tt.addptr %base, %at : tensor<32x1x!tt.ptr<f16>, #blocked>, tensor<32x1xi32, #blocked>
  %all = tt.broadcast %row : tensor<32x1x!tt.ptr<f16>, #blocked> -> tensor<32x32x!tt.ptr<f16>, #blocked>
  %j1 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
  %j2 = tt.broadcast %j1 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %far = arith.addi %j, %gap : tensor<32xi32, #columns>
  %f1 = tt.expand_dims %far {axis = 0 : i32} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
  %f2 = tt.broadcast %f1 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %left = tt.addptr %all, %j2 : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %right = tt.addptr %all, %f2 : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %zero = arith.constant dense<0.0> : tensor<32x64xf32, #blocked>
  %d = tt.dot %x, %y, %zero : tensor<32x32xf16, #a> * tensor<32x64xf16, #b> -> tensor<32x64xf32, #blocked>
  %r = tt.reshape %d : tensor<32x64xf32, #blocked> -> tensor<32x2x32xf32, #cube>
  %t = tt.trans %r {order = array<i32: 0, 2, 1>} : tensor<32x2x32xf32, #cube> -> tensor<32x32x2xf32, #turned>
  %s = ttg.convert_layout %t : tensor<32x32x2xf32, #turned> -> tensor<32x32x2xf32, #apart>
  %l, %h = tt.split %s : tensor<32x32x2xf32, #apart> -> tensor<32x32xf32, #blocked>
  %lh = arith.truncf %l : tensor<32x32xf32, #blocked> to tensor<32x32xf16, #blocked>
  %hh = arith.truncf %h : tensor<32x32xf32, #blocked> to tensor<32x32xf16, #blocked>
  tt.store %left, %lh : tensor<32x32x!tt.ptr<f16>, #blocked>
  tt.store %right, %hh : tensor<32x32x!tt.ptr<f16>, #blocked>
  tt.return
}
// -----
// Halves with columns between them stay apart.
// CHECK-LABEL: tt.func public @a_gap_between(
// CHECK-NOT: xe.block_store
tt.func public @a_gap_between(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %x: tensor<32x32xf16, #a>, %y: tensor<32x64xf16, #b>) {
  %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #rows>
  %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #columns>
  %pitch = arith.constant dense<256> : tensor<32x1xi32, #blocked>
  %gap = arith.constant dense<48> : tensor<32xi32, #columns>
  %i2 = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #rows> -> tensor<32x1xi32, #blocked>
  %at = arith.muli %i2, %pitch : tensor<32x1xi32, #blocked>
  %base = tt.splat %p : !tt.ptr<f16> -> tensor<32x1x!tt.ptr<f16>, #blocked>
  %row = tt.addptr %base, %at : tensor<32x1x!tt.ptr<f16>, #blocked>, tensor<32x1xi32, #blocked>
  %all = tt.broadcast %row : tensor<32x1x!tt.ptr<f16>, #blocked> -> tensor<32x32x!tt.ptr<f16>, #blocked>
  %j1 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
  %j2 = tt.broadcast %j1 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %far = arith.addi %j, %gap : tensor<32xi32, #columns>
  %f1 = tt.expand_dims %far {axis = 0 : i32} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
  %f2 = tt.broadcast %f1 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %left = tt.addptr %all, %j2 : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %right = tt.addptr %all, %f2 : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %zero = arith.constant dense<0.0> : tensor<32x64xf32, #blocked>
  %d = tt.dot %x, %y, %zero : tensor<32x32xf16, #a> * tensor<32x64xf16, #b> -> tensor<32x64xf32, #blocked>
  %r = tt.reshape %d : tensor<32x64xf32, #blocked> -> tensor<32x2x32xf32, #cube>
  %t = tt.trans %r {order = array<i32: 0, 2, 1>} : tensor<32x2x32xf32, #cube> -> tensor<32x32x2xf32, #turned>
  %s = ttg.convert_layout %t : tensor<32x32x2xf32, #turned> -> tensor<32x32x2xf32, #apart>
  %l, %h = tt.split %s : tensor<32x32x2xf32, #apart> -> tensor<32x32xf32, #blocked>
  %lh = arith.truncf %l : tensor<32x32xf32, #blocked> to tensor<32x32xf16, #blocked>
  %hh = arith.truncf %h : tensor<32x32xf32, #blocked> to tensor<32x32xf16, #blocked>
  tt.store %left, %lh : tensor<32x32x!tt.ptr<f16>, #blocked>
  tt.store %right, %hh : tensor<32x32x!tt.ptr<f16>, #blocked>
  tt.return
}
