// PASSES: raise-surfaces
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#r = #ttg.slice<{dim = 1, parent = #blocked}>
#c = #ttg.slice<{dim = 0, parent = #blocked}>
#a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
// ===
// A load with a known pitch becomes a block load, without a test.
// CHECK-NOT: scf.if
// CHECK: xe.cursor %p aligned 64
// CHECK: xe.block_load {{.*}} -> tensor<32x32xf16, #blocked>
// CHECK-NOT: tt.load
tt.func public @f(%p: !tt.ptr<f16> {tt.divisibility = 64 : i32}, %y: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %pitch = arith.constant dense<64> : tensor<32x1xi32, #blocked>
  %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #r>
  %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #c>
  %i2 = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #r> -> tensor<32x1xi32, #blocked>
  %j2 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #c> -> tensor<1x32xi32, #blocked>
  %row = arith.muli %i2, %pitch : tensor<32x1xi32, #blocked>
  %ib = tt.broadcast %row : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %jb = tt.broadcast %j2 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %at = arith.addi %ib, %jb : tensor<32x32xi32, #blocked>
  %pb = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
  %ps = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %x = tt.load %ps : tensor<32x32x!tt.ptr<f16>, #blocked>
  %xa = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
  %d = tt.dot %xa, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// Where the pitch belongs to the columns, the block is the transposed of one in memory.
// CHECK: xe.block_load {{.*}} transposed : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
tt.func public @f(%p: !tt.ptr<f16> {tt.divisibility = 64 : i32}, %y: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %pitch = arith.constant dense<64> : tensor<1x32xi32, #blocked>
  %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #r>
  %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #c>
  %i2 = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #r> -> tensor<32x1xi32, #blocked>
  %j2 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #c> -> tensor<1x32xi32, #blocked>
  %col = arith.muli %j2, %pitch : tensor<1x32xi32, #blocked>
  %ib = tt.broadcast %i2 : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %jb = tt.broadcast %col : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %at = arith.addi %ib, %jb : tensor<32x32xi32, #blocked>
  %pb = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
  %ps = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %x = tt.load %ps : tensor<32x32x!tt.ptr<f16>, #blocked>
  %xa = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
  %d = tt.dot %xa, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// A store of a dot's result becomes a block store.
// CHECK: xe.cursor %p
// CHECK: xe.block_store {{.*}} : tensor<32x32xf32, #blocked>, !xe.cursor<f32>
// CHECK-NOT: tt.store
tt.func public @f(%p: !tt.ptr<f32> {tt.divisibility = 64 : i32}, %x: tensor<32x32xf16, #a>, %y: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>) {
  %pitch = arith.constant dense<64> : tensor<32x1xi32, #blocked>
  %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #r>
  %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #c>
  %i2 = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #r> -> tensor<32x1xi32, #blocked>
  %j2 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #c> -> tensor<1x32xi32, #blocked>
  %row = arith.muli %i2, %pitch : tensor<32x1xi32, #blocked>
  %ib = tt.broadcast %row : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %jb = tt.broadcast %j2 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %at = arith.addi %ib, %jb : tensor<32x32xi32, #blocked>
  %pb = tt.splat %p : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>, #blocked>
  %ps = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<f32>, #blocked>, tensor<32x32xi32, #blocked>
  %d = tt.dot %x, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  tt.store %ps, %d : tensor<32x32x!tt.ptr<f32>, #blocked>
  tt.return
}

// -----
// A pitch that only the run knows is tested; the original stays for those it refuses.
// CHECK: scf.if
// CHECK: xe.block_load
// CHECK: } else {
// CHECK: tt.load
// CHECK: {xe.versions}
tt.func public @f(%p: !tt.ptr<f16>, %n: i32, %y: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %pitch = tt.splat %n : i32 -> tensor<32x1xi32, #blocked>
  %i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #r>
  %j = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #c>
  %i2 = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32, #r> -> tensor<32x1xi32, #blocked>
  %j2 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #c> -> tensor<1x32xi32, #blocked>
  %row = arith.muli %i2, %pitch : tensor<32x1xi32, #blocked>
  %ib = tt.broadcast %row : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %jb = tt.broadcast %j2 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %at = arith.addi %ib, %jb : tensor<32x32xi32, #blocked>
  %pb = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
  %ps = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %x = tt.load %ps : tensor<32x32x!tt.ptr<f16>, #blocked>
  %xa = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
  %d = tt.dot %xa, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// -----
// Pointers that are not a row and a column apart stay a gather.
// CHECK-NOT: xe.block_load
// CHECK: tt.load
tt.func public @f(%ps: tensor<32x32x!tt.ptr<f16>, #blocked>, %y: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>) -> tensor<32x32xf32, #blocked> {
  %x = tt.load %ps : tensor<32x32x!tt.ptr<f16>, #blocked>
  %xa = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
  %d = tt.dot %xa, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}
