// PASSES: find-surfaces{rules=raise-surfaces}
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

// -----
// A loop whose load feeds a dot reads blocks through a cursor; what only the run knows is tested
// once, before the loop, and the original stays as the other side of the test.

#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>

// The pitch is 64 elements and the loop has 2 iterations of 32: nothing needs a test.
// CHECK-LABEL: tt.func public @known(
// CHECK-NOT: scf.if
// CHECK: %[[S:.*]] = xe.cursor %p aligned 64
// CHECK: scf.for {{.*}} iter_args({{.*}}, %[[U:.*]] = %[[S]])
// CHECK-NOT: tt.load
// CHECK: xe.block_load %[[U]] : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
// CHECK: xe.advance %[[U]] by
// CHECK: {xe.runs}
// CHECK: tt.return
tt.func public @known(%p: !tt.ptr<f16> {tt.divisibility = 64 : i32}, %b: tensor<32x32xf16, #dot_b>) -> tensor<32x32xf32, #blocked> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #blocked>
  %pitch = arith.constant dense<64> : tensor<32x1xi32, #blocked>
  %step = arith.constant dense<32> : tensor<32x32xi32, #blocked>
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #rows>
  %q = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #columns>
  %r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<32xi32, #rows> -> tensor<32x1xi32, #blocked>
  %q2 = tt.expand_dims %q {axis = 0 : i32} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
  %row = arith.muli %r2, %pitch : tensor<32x1xi32, #blocked>
  %rb = tt.broadcast %row : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %qb = tt.broadcast %q2 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %at = arith.addi %rb, %qb : tensor<32x32xi32, #blocked>
  %pb = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
  %ptrs = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %out:2 = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero, %now = %ptrs) -> (tensor<32x32xf32, #blocked>, tensor<32x32x!tt.ptr<f16>, #blocked>) : i32 {
    %x = tt.load %now : tensor<32x32x!tt.ptr<f16>, #blocked>
    %a = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_a>
    %d = tt.dot %a, %b, %acc : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #blocked>
    %next = tt.addptr %now, %step : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
    scf.yield %d, %next : tensor<32x32xf32, #blocked>, tensor<32x32x!tt.ptr<f16>, #blocked>
  }
  tt.return %out#0 : tensor<32x32xf32, #blocked>
}

// Two loads of one block share one test, although the second's base is computed between them.
// CHECK-LABEL: tt.func public @joined(
// CHECK: tt.addptr %p,
// CHECK: scf.if
// CHECK-COUNT-2: xe.block_load
// CHECK: tt.dot
// CHECK: } else {
// CHECK-COUNT-2: tt.load
// CHECK: tt.dot
// CHECK: {xe.versions}
// CHECK-NOT: scf.if
// CHECK: tt.return
tt.func public @joined(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32 {tt.divisibility = 16 : i32}) -> tensor<32x32xf32, #blocked> {
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #blocked>
  %pitch = tt.splat %n : i32 -> tensor<32x1xi32, #blocked>
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #rows>
  %q = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #columns>
  %r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<32xi32, #rows> -> tensor<32x1xi32, #blocked>
  %q2 = tt.expand_dims %q {axis = 0 : i32} : tensor<32xi32, #columns> -> tensor<1x32xi32, #blocked>
  %row = arith.muli %r2, %pitch : tensor<32x1xi32, #blocked>
  %rb = tt.broadcast %row : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %qb = tt.broadcast %q2 : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
  %at = arith.addi %rb, %qb : tensor<32x32xi32, #blocked>
  %pb = tt.splat %p : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
  %ptrs = tt.addptr %pb, %at : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %x = tt.load %ptrs : tensor<32x32x!tt.ptr<f16>, #blocked>
  %second = tt.addptr %p, %n : !tt.ptr<f16>, i32
  %sb = tt.splat %second : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>, #blocked>
  %others = tt.addptr %sb, %at : tensor<32x32x!tt.ptr<f16>, #blocked>, tensor<32x32xi32, #blocked>
  %y = tt.load %others : tensor<32x32x!tt.ptr<f16>, #blocked>
  %a = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_a>
  %b = ttg.convert_layout %y : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #dot_b>
  %d = tt.dot %a, %b, %zero : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #blocked>
  tt.return %d : tensor<32x32xf32, #blocked>
}

// Loads that no dot of the matrix unit needs stay as they are.
// CHECK-LABEL: tt.func public @untouched(
// CHECK-NOT: xe.
// CHECK: tt.load
// CHECK: tt.return
tt.func public @untouched(%ptrs: tensor<32x32x!tt.ptr<f64>, #blocked>, %b: tensor<32x32xf64, #dot_b>, %acc: tensor<32x32xf64, #blocked>) -> tensor<32x32xf64, #blocked> {
  %x = tt.load %ptrs : tensor<32x32x!tt.ptr<f64>, #blocked>
  %a = ttg.convert_layout %x : tensor<32x32xf64, #blocked> -> tensor<32x32xf64, #dot_a>
  %d = tt.dot %a, %b, %acc : tensor<32x32xf64, #dot_a> * tensor<32x32xf64, #dot_b> -> tensor<32x32xf64, #blocked>
  tt.return %d : tensor<32x32xf64, #blocked>
}
