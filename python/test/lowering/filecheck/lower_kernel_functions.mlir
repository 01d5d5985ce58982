// PASSES: lower-kernel-functions

// A function becomes a kernel, index stays, a memref becomes an address.
// CHECK: tt.func public @k(%{{.*}}: !tt.ptr<f16>, %{{.*}}: index)
// CHECK: tt.return
func.func @k(%a: memref<64x64xf16>, %n: index) {
  func.return
}

// -----
// The shape of a memref goes into the tiles at it.
// CHECK: xetile.init_tile %{{.*}}, 8, 16, 64, 96, 96 : !tt.ptr<f16> -> !xetile.tile<8x16xf16>
func.func @k(%a: memref<64x96xf16>) {
  %t = xetile.init_tile %a, 8, 16 : memref<64x96xf16> -> !xetile.tile<8x16xf16>
  xetile.prefetch_tile %t : !xetile.tile<8x16xf16>
  func.return
}

// -----
// And into the descriptors, with both strides.
// CHECK: xegpu.create_nd_tdesc %{{.*}}, 8, 16, 64, 96, 96, 1 : !tt.ptr<f16> -> !xegpu.tensor_desc<8x16xf16>
func.func @k(%a: memref<64x96xf16>) {
  %t = xegpu.create_nd_tdesc %a, 8, 16 : memref<64x96xf16> -> !xegpu.tensor_desc<8x16xf16>
  xegpu.prefetch_nd %t : !xegpu.tensor_desc<8x16xf16>
  func.return
}

// -----
// No 2D message can address a pitch of 72 bytes.
// CHECK: xegpu.create_nd_tdesc %{{.*}}, 8, 16, 64, 36, 36, 1 {xe.gather} : !tt.ptr<f16>
func.func @k(%a: memref<64x36xf16>) {
  %t = xegpu.create_nd_tdesc %a, 8, 16 : memref<64x36xf16> -> !xegpu.tensor_desc<8x16xf16>
  xegpu.prefetch_nd %t : !xegpu.tensor_desc<8x16xf16>
  func.return
}

// -----
// Ids are those of Triton's kernels.
// CHECK: %[[X:.*]] = tt.get_program_id x : i32
// CHECK: arith.index_cast %[[X]] : i32 to index
// CHECK: tt.get_num_programs y : i32
// CHECK: xe.warp_id : i32
func.func @k(%a: memref<64x64xf32>) {
  %x = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
  %n = "gpu.grid_dim"() <{dimension = #gpu<dim y>}> : () -> index
  %s = "gpu.subgroup_id"() : () -> index
  %xn = arith.addi %x, %n : index
  %at = arith.addi %xn, %s : index
  %t = xegpu.create_nd_tdesc %a, %at, 0 : memref<64x64xf32>, index -> !xegpu.tensor_desc<8x16xf32>
  xegpu.prefetch_nd %t : !xegpu.tensor_desc<8x16xf32>
  func.return
}

// -----
// Shared local memory is given out in steps of 64 bytes.
// CHECK: tt.func public @k() attributes {xe.slm_bytes = 192 : i32}
// CHECK: %[[FIRST:.*]] = arith.constant 0 : i64
// CHECK: %[[SECOND:.*]] = arith.constant 64 : i64
// CHECK: xegpu.create_nd_tdesc %[[FIRST]]
// CHECK: xegpu.create_nd_tdesc %[[SECOND]]
func.func @k() {
  %p = memref.alloca() : memref<10xf32, 3>
  %q = memref.alloca() : memref<32xf32, 3>
  %c0 = arith.constant 0 : index
  %t = xegpu.create_nd_tdesc %p, 0 : memref<10xf32, 3> -> !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false>
  %u = xegpu.create_nd_tdesc %q, 0 : memref<32xf32, 3> -> !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false> -> vector<16xf32>
  xegpu.store_nd %v, %u : vector<16xf32>, !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false>
  func.return
}

// -----
// The subgroups of a work-group are noted at the module.
// CHECK: "ttg.num-warps" = 8 : i32
// CHECK-NOT: xe.subgroups
func.func @k() attributes {xe.subgroups = 8 : i32} {
  func.return
}

// -----
// Vector accesses are those of 16 work-items each; what is not theirs is masked.
// CHECK: tt.func public @k(%[[M:.*]]: !tt.ptr<f32>
// CHECK: tt.addptr %[[M]]
// CHECK-COUNT-2: xegpu.load_gather
// CHECK: vector.permute %{{.*}} {origins = array<i64: 0, 5, 10, 15, 1, 6, 11, 16, 2, 7
// CHECK-COUNT-2: xegpu.store_scatter
// CHECK-NOT: vector.load
func.func @k(%m: memref<?xf32>, %i: index) {
  %v = vector.load %m[%i] : memref<?xf32>, vector<20xf32>
  %w = vector.shape_cast %v : vector<20xf32> to vector<4x5xf32>
  %t = vector.transpose %w, [1, 0] : vector<4x5xf32> to vector<5x4xf32>
  %u = vector.shape_cast %t : vector<5x4xf32> to vector<20xf32>
  vector.store %u, %m[%i] : memref<?xf32>, vector<20xf32>
  func.return
}
