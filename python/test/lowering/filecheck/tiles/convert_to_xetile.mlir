// PASSES: convert-to-xetile{num-stages=1}
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [2, 2], repCluster = [1, 1]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
#square = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [2, 2], repCluster = [2, 1]}>
#square_a = #ttg.dot_op<{opIdx = 0, parent = #square, kWidth = 1}>
#square_b = #ttg.dot_op<{opIdx = 1, parent = #square, kWidth = 2}>
// ===
// A load takes the subgroup's part: warps 0 and 1 have the upper rows.
// CHECK: %[[W:.*]] = xe.warp_id
// CHECK: xetile.init_tile %{{.*}} {xe.base_alignment = 64} : {{.*}} -> !xetile.tile<8x16xf16>
// CHECK: %[[V:.*]] = xetile.load_tile {{.*}} -> vector<8x16xf16>
// CHECK: xe.from_tile %[[V]]
tt.func public @f(%p: !tt.ptr<f16>, %n: i32) -> tensor<16x16xf16, #a> {
  %c0 = arith.constant 0 : i32
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %x = xe.block_load %s : !xe.cursor<f16> -> tensor<16x16xf16, #a>
  tt.return %x : tensor<16x16xf16, #a>
}

// -----
// A transposed load is a tile of the memory, turned while it is loaded.
// CHECK: xetile.load_tile %{{.*}} {transpose} : !xetile.tile<16x8xf16> -> vector<8x16xf16>
tt.func public @f(%p: !tt.ptr<f16>, %n: i32) -> tensor<16x16xf16, #a> {
  %c0 = arith.constant 0 : i32
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %x = xe.block_load %s transposed : !xe.cursor<f16> -> tensor<16x16xf16, #a>
  tt.return %x : tensor<16x16xf16, #a>
}

// -----
// A store writes the subgroup's part.
// CHECK: %[[V:.*]] = xe.to_tile %{{.*}} -> vector<8x16xf32>
// CHECK: xetile.store_tile %[[V]], %{{.*}} : vector<8x16xf32>, !xetile.tile<8x16xf32>
tt.func public @f(%p: !tt.ptr<f32>, %n: i32, %x: tensor<16x32xf32, #dpas>) {
  %c0 = arith.constant 0 : i32
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f32> -> !xe.cursor<f32>
  xe.block_store %x, %s : tensor<16x32xf32, #dpas>, !xe.cursor<f32>
  tt.return
}

// -----
// A dot is the product of tiles; a zero sum is a constant tile.
// CHECK: %[[Z:.*]] = arith.constant dense<0.0{{.*}}> : vector<8x16xf32>
// CHECK: xetile.tile_mma %{{.*}}, %{{.*}}, %[[Z]] : vector<8x16xf16>, vector<16x16xf16>, vector<8x16xf32>
tt.func public @f(%x: tensor<16x16xf16, #a>, %y: tensor<16x32xf16, #b>) -> tensor<16x32xf32, #dpas> {
  %zero = arith.constant dense<0.0> : tensor<16x32xf32, #dpas>
  %d = tt.dot %x, %y, %zero : tensor<16x16xf16, #a> * tensor<16x32xf16, #b> -> tensor<16x32xf32, #dpas>
  tt.return %d : tensor<16x32xf32, #dpas>
}

// -----
// One place in two layouts is two tiles.
// CHECK-COUNT-2: xetile.init_tile
// CHECK-COUNT-2: xetile.load_tile
tt.func public @f(%p: !tt.ptr<f16>, %n: i32) -> (tensor<16x16xf16, #a>, tensor<16x16xf16, #b>) {
  %c0 = arith.constant 0 : i32
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %x = xe.block_load %s : !xe.cursor<f16> -> tensor<16x16xf16, #a>
  %y = xe.block_load %s : !xe.cursor<f16> -> tensor<16x16xf16, #b>
  tt.return %x, %y : tensor<16x16xf16, #a>, tensor<16x16xf16, #b>
}

// -----
// A sum that a loop carries is carried as a tile; a cursor that advances is a tile that moves.
// CHECK: scf.for {{.*}} -> (vector<8x16xf32>, !xetile.tile<8x16xf16>)
// CHECK: xetile.update_tile_offset
// CHECK: scf.yield {{.*}} : vector<8x16xf32>, !xetile.tile<8x16xf16>
tt.func public @f(%p: !tt.ptr<f16>, %n: i32, %y: tensor<16x32xf16, #b>) -> tensor<16x32xf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %zero = arith.constant dense<0.0> : tensor<16x32xf32, #dpas>
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %at = %s) -> (tensor<16x32xf32, #dpas>, !xe.cursor<f16>) : i32 {
    %x = xe.block_load %at : !xe.cursor<f16> -> tensor<16x16xf16, #a>
    %d = tt.dot %x, %y, %acc : tensor<16x16xf16, #a> * tensor<16x32xf16, #b> -> tensor<16x32xf32, #dpas>
    %next = xe.advance %at by [%c0, %c16] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %next : tensor<16x32xf32, #dpas>, !xe.cursor<f16>
  }
  tt.return %r#0 : tensor<16x32xf32, #dpas>
}

// -----
// PASSES: convert-to-xetile{num-stages=3}
// Block accesses become tiles at the place of each subgroup; what moves is prefetched 2 iterations
// ahead (num_stages = 3), and the accumulator is carried as a tile.

#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [2, 2], repCluster = [2, 1]}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>

// Warps 0 and 1 own the upper 16 rows of the result, warps 0 and 2 its left 16 columns.
// CHECK-LABEL: tt.func public @matmul(
// CHECK: xe.warp_id
// CHECK: xetile.init_tile %s, {{.*}}!xetile.tile<16x32xf16
// CHECK: %[[WHOLE:.*]] = xetile.init_tile %s, {{.*}}!xetile.tile<32x32xf16
// CHECK: xetile.init_tile %t, {{.*}}!xetile.tile<32x16xf16
// CHECK: xetile.init_coop_tile %[[WHOLE]], {{.*}} -> !xetile.tile<8x32xf16>
// CHECK-COUNT-4: xetile.prefetch_tile
// CHECK: scf.for
// CHECK-SAME: vector<16x16xf32>
// CHECK-DAG: xetile.load_tile {{.*}} -> vector<16x32xf16>
// CHECK-DAG: xetile.load_tile {{.*}} -> vector<32x16xf16>
// CHECK-DAG: xetile.tile_mma {{.*}}vector<16x16xf32>
// CHECK-DAG: xetile.prefetch_tile
// CHECK-DAG: xetile.update_tile_offset
// CHECK: scf.yield
// CHECK: xetile.store_tile {{.*}}vector<16x16xf32>
tt.func public @matmul(%s: !tt.ptr<f16>, %t: !tt.ptr<f16>, %o: !tt.ptr<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #dpas>
  %a0 = xe.cursor %s aligned 16 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %b0 = xe.cursor %t aligned 16 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %out:3 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %a1 = %a0, %b1 = %b0) -> (tensor<32x32xf32, #dpas>, !xe.cursor<f16>, !xe.cursor<f16>) : i32 {
    %a = xe.block_load %a1 : !xe.cursor<f16> -> tensor<32x32xf16, #dot_a>
    %b = xe.block_load %b1 : !xe.cursor<f16> -> tensor<32x32xf16, #dot_b>
    %d = tt.dot %a, %b, %acc : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #dpas>
    %a2 = xe.advance %a1 by [%c0, %c32] : !xe.cursor<f16> -> !xe.cursor<f16>
    %b2 = xe.advance %b1 by [%c32, %c0] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %a2, %b2 : tensor<32x32xf32, #dpas>, !xe.cursor<f16>, !xe.cursor<f16>
  }
  %o0 = xe.cursor %o aligned 16 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f32> -> !xe.cursor<f32>
  xe.block_store %out#0, %o0 : tensor<32x32xf32, #dpas>, !xe.cursor<f32>
  tt.return
}

// One place that is read for both operands, once transposed, has a tile for each.
// CHECK-LABEL: tt.func public @twice(
// CHECK-DAG: xetile.init_tile {{.*}}!xetile.tile<16x32xf16
// CHECK-DAG: xetile.init_tile {{.*}}!xetile.tile<16x32xf16
// CHECK: xetile.load_tile {{.*}} -> vector<16x32xf16>
// CHECK: xetile.load_tile {{.*}} -> vector<32x16xf16>
tt.func public @twice(%s: !tt.ptr<f16>) -> tensor<32x32xf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<32x32xf32, #dpas>
  %a0 = xe.cursor %s aligned 16 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %a = xe.block_load %a0 : !xe.cursor<f16> -> tensor<32x32xf16, #dot_a>
  %b = xe.block_load %a0 transposed : !xe.cursor<f16> -> tensor<32x32xf16, #dot_b>
  %d = tt.dot %a, %b, %zero : tensor<32x32xf16, #dot_a> * tensor<32x32xf16, #dot_b> -> tensor<32x32xf32, #dpas>
  tt.return %d : tensor<32x32xf32, #dpas>
}

// -----
// PASSES: convert-to-xetile{num-stages=3}
// With three stages, each subgroup prefetches its part of the whole tile two iterations ahead.
// CHECK: %[[WHOLE:.*]] = xetile.init_tile {{.*}} -> !xetile.tile<16x16xf16>
// CHECK: %[[PART:.*]] = xetile.init_coop_tile %[[WHOLE]], %{{.*}}, 4 : {{.*}} -> !xetile.tile<4x16xf16>
// CHECK: xetile.prefetch_tile %[[PART]]
// CHECK: xetile.prefetch_tile
// CHECK: scf.for
// CHECK: xetile.load_tile
// CHECK: xetile.prefetch_tile
// CHECK: xetile.update_tile_offset
tt.func public @f(%p: !tt.ptr<f16>, %n: i32, %y: tensor<16x32xf16, #b>, %z: tensor<16x32xf32, #dpas>) -> tensor<16x32xf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z, %at = %s) -> (tensor<16x32xf32, #dpas>, !xe.cursor<f16>) : i32 {
    %x = xe.block_load %at : !xe.cursor<f16> -> tensor<16x16xf16, #a>
    %d = tt.dot %x, %y, %acc : tensor<16x16xf16, #a> * tensor<16x32xf16, #b> -> tensor<16x32xf32, #dpas>
    %next = xe.advance %at by [%c0, %c16] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %next : tensor<16x32xf32, #dpas>, !xe.cursor<f16>
  }
  tt.return %r#0 : tensor<16x32xf32, #dpas>
}

// -----
// PASSES: convert-to-xetile{num-stages=2}
// What a loop loads twice, as a matrix and as its transposition, is prefetched once.
// CHECK: xetile.init_coop_tile
// CHECK-NOT: xetile.init_coop_tile
// CHECK: scf.for
// CHECK: xetile.prefetch_tile
// CHECK-NOT: xetile.prefetch_tile
tt.func public @twice_in_a_loop(%p: !tt.ptr<f16>, %n: i32, %z: tensor<32x32xf32, #square>) -> tensor<32x32xf32, #square> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c32 = arith.constant 32 : i32
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z, %at = %s) -> (tensor<32x32xf32, #square>, !xe.cursor<f16>) : i32 {
    %x = xe.block_load %at : !xe.cursor<f16> -> tensor<32x32xf16, #square_a>
    %y = xe.block_load %at transposed : !xe.cursor<f16> -> tensor<32x32xf16, #square_b>
    %d = tt.dot %x, %y, %acc : tensor<32x32xf16, #square_a> * tensor<32x32xf16, #square_b> -> tensor<32x32xf32, #square>
    %next = xe.advance %at by [%c32, %c0] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %next : tensor<32x32xf32, #square>, !xe.cursor<f16>
  }
  tt.return %r#0 : tensor<32x32xf32, #square>
}

// -----
// PASSES: convert-to-xetile{num-stages=2 line-prefetches="a"}
// With line-prefetches, each lane prefetches a line of the named operand; the other is as before.
// CHECK: xetile.init_tile %p, {{.*}} {xe.base_alignment = 64} : {{.*}} -> !xetile.tile<16x64xf16>
// CHECK: %[[A:.*]] = xetile.init_tile %p, {{.*}} {xe.base_alignment = 64, xe.gather} : {{.*}} -> !xetile.tile<32x64xf16>
// CHECK: %[[B:.*]] = xetile.init_tile %q, {{.*}} {xe.base_alignment = 64} : {{.*}} -> !xetile.tile<64x32xf16>
// CHECK: xetile.init_coop_tile %[[A]], {{.*}} -> !xetile.tile<16x32xf16>
// CHECK: xetile.init_coop_tile %[[B]], {{.*}} -> !xetile.tile<16x32xf16>
// CHECK: scf.for
// CHECK-COUNT-2: xetile.prefetch_tile
tt.func public @lines(%p: !tt.ptr<f16>, %q: !tt.ptr<f16>, %n: i32, %z: tensor<32x32xf32, #square>) -> tensor<32x32xf32, #square> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %s = xe.cursor %p aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %t = xe.cursor %q aligned 64 : i32 height %n width %n pitch %n at [%c0, %c0] : !tt.ptr<f16> -> !xe.cursor<f16>
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %z, %at = %s, %bt = %t) -> (tensor<32x32xf32, #square>, !xe.cursor<f16>, !xe.cursor<f16>) : i32 {
    %x = xe.block_load %at : !xe.cursor<f16> -> tensor<32x64xf16, #square_a>
    %y = xe.block_load %bt : !xe.cursor<f16> -> tensor<64x32xf16, #square_b>
    %d = tt.dot %x, %y, %acc : tensor<32x64xf16, #square_a> * tensor<64x32xf16, #square_b> -> tensor<32x32xf32, #square>
    %anext = xe.advance %at by [%c0, %c64] : !xe.cursor<f16> -> !xe.cursor<f16>
    %bnext = xe.advance %bt by [%c64, %c0] : !xe.cursor<f16> -> !xe.cursor<f16>
    scf.yield %d, %anext, %bnext : tensor<32x32xf32, #square>, !xe.cursor<f16>, !xe.cursor<f16>
  }
  tt.return %r#0 : tensor<32x32xf32, #square>
}
