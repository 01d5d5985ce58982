// PASSES: lower-kernel-functions,convert-xetile-to-xegpu

// A tile that one message brings: operands are parts of it.
// CHECK: %[[D:.*]] = xegpu.create_nd_tdesc %{{.*}}, 0, 0, 64, 64, 64, 1 : {{.*}}tensor_desc<16x32xf16, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
// CHECK: %[[V:.*]] = xegpu.load_nd %[[D]]
// CHECK-COUNT-4: xe.fragment %[[V]]
// CHECK-COUNT-2: xegpu.store_nd {{.*}} : vector<16x1xf16>
func.func @k(%a: memref<64x64xf16>, %b: memref<64x64xf16>) {
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x32xf16>
  %u = xetile.init_tile %b, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x32xf16>
  %v = xetile.load_tile %t : !xetile.tile<16x32xf16> -> vector<16x32xf16>
  xetile.store_tile %v, %u : vector<16x32xf16>, !xetile.tile<16x32xf16>
  func.return
}

// -----
// A product: one dpas per instruction, B packed on the way, no accumulator in the first of a sum.
// CHECK: xegpu.load_nd %{{.*}} {packed}
// CHECK: %[[S:.*]] = xegpu.dpas %{{[^,]*}}, %{{[^,]*}} {
// CHECK: xegpu.dpas %{{[^,]*}}, %{{[^,]*}}, %[[S]] {
// CHECK-NOT: xegpu.dpas
func.func @k(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %c: memref<64x64xf32>) {
  %ta = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<8x32xf16>
  %tb = xetile.init_tile %b, 0, 0 : memref<64x64xf16> -> !xetile.tile<32x16xf16>
  %tc = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> !xetile.tile<8x16xf32>
  %va = xetile.load_tile %ta : !xetile.tile<8x32xf16> -> vector<8x32xf16>
  %vb = xetile.load_tile %tb : !xetile.tile<32x16xf16> -> vector<32x16xf16>
  %d = xetile.tile_mma %va, %vb : vector<8x32xf16>, vector<32x16xf16> -> vector<8x16xf32>
  xetile.store_tile %d, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
  func.return
}

// -----
// B from rows of its transpose: pairs of 16 bits are transposed, which packs them.
// CHECK: xegpu.load_nd %{{.*}} {transpose = [1, 0], transpose_bit_width = 32}
// CHECK: xegpu.dpas
func.func @k(%a: memref<64x64xf16>, %b: memref<64x64xf16>, %c: memref<64x64xf32>) {
  %ta = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<8x16xf16>
  %tb = xetile.init_tile %b, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x16xf16>
  %tc = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> !xetile.tile<8x16xf32>
  %va = xetile.load_tile %ta : !xetile.tile<8x16xf16> -> vector<8x16xf16>
  %vb = xetile.load_tile %tb {transpose} : !xetile.tile<16x16xf16> -> vector<16x16xf16>
  %d = xetile.tile_mma %va, %vb : vector<8x16xf16>, vector<16x16xf16> -> vector<8x16xf32>
  xetile.store_tile %d, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
  func.return
}

// -----
// Rows that are no multiple of 8 take a smaller instruction, and a store of their own.
// CHECK: xegpu.dpas {{.*}} -> vector<8x1xf32>
// CHECK: xegpu.dpas {{.*}} -> vector<4x1xf32>
// CHECK: xegpu.store_nd {{.*}}tensor_desc<8x16xf32
// CHECK: xegpu.store_nd {{.*}}tensor_desc<4x16xf32
func.func @k(%a: memref<64x64xf16>, %c: memref<64x64xf32>) {
  %ta = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<12x16xf16>
  %tb = xetile.init_tile %a, 32, 0 : memref<64x64xf16> -> !xetile.tile<16x16xf16>
  %tc = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> !xetile.tile<12x16xf32>
  %va = xetile.load_tile %ta : !xetile.tile<12x16xf16> -> vector<12x16xf16>
  %vb = xetile.load_tile %tb : !xetile.tile<16x16xf16> -> vector<16x16xf16>
  %d = xetile.tile_mma %va, %vb : vector<12x16xf16>, vector<16x16xf16> -> vector<12x16xf32>
  xetile.store_tile %d, %tc : vector<12x16xf32>, !xetile.tile<12x16xf32>
  func.return
}

// -----
// A K that is no multiple of the instruction's is gathered; what lies past it counts as zero.
// CHECK: xegpu.create_nd_tdesc {{.*}} {xe.gather}
// CHECK: xegpu.load_nd {{.*}} {xe.valid = [8, 8]}
// CHECK: xegpu.dpas
func.func @k(%a: memref<64x64xf16>, %c: memref<64x64xf32>) {
  %ta = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<8x24xf16>
  %tb = xetile.init_tile %a, 32, 0 : memref<64x64xf16> -> !xetile.tile<24x16xf16>
  %tc = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> !xetile.tile<8x16xf32>
  %va = xetile.load_tile %ta : !xetile.tile<8x24xf16> -> vector<8x24xf16>
  %vb = xetile.load_tile %tb : !xetile.tile<24x16xf16> -> vector<24x16xf16>
  %d = xetile.tile_mma %va, %vb : vector<8x24xf16>, vector<24x16xf16> -> vector<8x16xf32>
  xetile.store_tile %d, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
  func.return
}

// -----
// A tile marked for gathers keeps the mark on its descriptors.
// CHECK: xegpu.create_nd_tdesc {{.*}} {xe.gather} : {{.*}}tensor_desc<8x16xf32
// CHECK-COUNT-2: xegpu.load_nd
func.func @k(%a: memref<64x64xf32>, %b: memref<64x64xf32>) {
  %t = xetile.init_tile %a, 0, 0 {xe.gather} : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %u = xetile.init_tile %b, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %v = xetile.load_tile %t : !xetile.tile<16x16xf32> -> vector<16x16xf32>
  xetile.store_tile %v, %u : vector<16x16xf32>, !xetile.tile<16x16xf32>
  func.return
}

// -----
// Gathered and transposed: the descriptor turns rows and columns of memory, its map stays.
// CHECK: xegpu.create_nd_tdesc %{{.*}}, 16, 8, 64, 64, 64, 1 {xe.gather, xe.transposed} : {{.*}}tensor_desc<8x8xf32, #xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 1]>>
// CHECK: xegpu.dpas
func.func @k(%a: memref<64x64xf32>, %c: memref<64x64xf32>) {
  %ta = xetile.init_tile %a, 8, 16 {xe.gather} : memref<64x64xf32> -> !xetile.tile<8x8xf32>
  %tb = xetile.init_tile %a, 0, 0 : memref<64x64xf32> -> !xetile.tile<8x16xf32>
  %tc = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> !xetile.tile<8x16xf32>
  %va = xetile.load_tile %ta {transpose} : !xetile.tile<8x8xf32> -> vector<8x8xf32>
  %vb = xetile.load_tile %tb : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %d = xetile.tile_mma %va, %vb : vector<8x8xf32>, vector<8x16xf32> -> vector<8x16xf32>
  xetile.store_tile %d, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
  func.return
}

// -----
// A subgroup's part of a tile lies at rows and columns that its number says.
// CHECK: %[[W:.*]] = xe.warp_id
// CHECK: %[[ROW:.*]] = arith.divui %[[W]]
// CHECK: arith.muli %[[ROW]]
// CHECK: %[[COLUMN:.*]] = arith.remui %[[W]]
// CHECK: xegpu.prefetch_nd %{{.*}} : !xegpu.tensor_desc<8x16xf16>
func.func @k(%a: memref<64x64xf16>) {
  %w = xe.warp_id : i32
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<32x32xf16>
  %p = xetile.init_coop_tile %t, %w, 8 : !xetile.tile<32x32xf16>, i32 -> !xetile.tile<8x16xf16>
  xetile.prefetch_tile %p : !xetile.tile<8x16xf16>
  func.return
}

// -----
// A prefetch of more than one message asks for rows of up to 64 bytes.
// CHECK-COUNT-4: xegpu.prefetch_nd %{{.*}} {L1_hint = cached} : !xegpu.tensor_desc<32x32xf16>
// CHECK-NOT: xegpu.prefetch_nd
func.func @k(%a: memref<64x64xf16>) {
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<64x64xf16>
  xetile.prefetch_tile %t {L1_hint = cached} : !xetile.tile<64x64xf16>
  func.return
}

// -----
// A prefetch of a tile with xe.gather is left to lanes.
// CHECK: xegpu.create_nd_tdesc {{.*}}xe.gather{{.*}} -> !xegpu.tensor_desc<8x32xf16>
// CHECK: xegpu.prefetch_nd
func.func @k(%a: memref<64x64xf16>) {
  %t = xetile.init_tile %a, 0, 0 {xe.gather} : memref<64x64xf16> -> !xetile.tile<8x32xf16>
  xetile.prefetch_tile %t : !xetile.tile<8x32xf16>
  func.return
}

// -----
// A moved tile moves its descriptors; loops carry descriptors and the operands of a sum.
// CHECK: scf.for {{.*}} -> (vector<8x1xf32>, vector<8x1xf32>, !xegpu.tensor_desc<
// CHECK: arith.addf {{.*}} : vector<8x1xf32>
// CHECK: xegpu.update_nd_offset %{{.*}}, 16, 0
// CHECK: scf.yield {{.*}} : vector<8x1xf32>, vector<8x1xf32>, !xegpu.tensor_desc<
func.func @k(%a: memref<64x64xf32>, %b: memref<64x64xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %r, %e = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero, %at = %t) -> (vector<16x16xf32>, !xetile.tile<16x16xf32>) {
    %v = xetile.load_tile %at : !xetile.tile<16x16xf32> -> vector<16x16xf32>
    %more = arith.addf %s, %v : vector<16x16xf32>
    %next = xetile.update_tile_offset %at, 16, 0 : !xetile.tile<16x16xf32> -> !xetile.tile<16x16xf32>
    scf.yield %more, %next : vector<16x16xf32>, !xetile.tile<16x16xf32>
  }
  %u = xetile.init_tile %b, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  xetile.store_tile %r, %u : vector<16x16xf32>, !xetile.tile<16x16xf32>
  func.return
}

// -----
// Constants and numbers for all elements become those of each operand.
// CHECK: arith.constant dense<2.0{{.*}}> : vector<8x1xf32>
// CHECK: vector.broadcast %{{.*}} : f32 to vector<8x1xf32>
// CHECK-COUNT-2: arith.mulf {{.*}} : vector<8x1xf32>
func.func @k(%a: memref<64x64xf32>, %s: f32) {
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf32> -> !xetile.tile<8x16xf32>
  %v = xetile.load_tile %t : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %two = arith.constant dense<2.0> : vector<8x16xf32>
  %sv = vector.broadcast %s : f32 to vector<8x16xf32>
  %x = arith.mulf %v, %two : vector<8x16xf32>
  %y = arith.mulf %x, %sv : vector<8x16xf32>
  xetile.store_tile %y, %t : vector<8x16xf32>, !xetile.tile<8x16xf32>
  func.return
}
