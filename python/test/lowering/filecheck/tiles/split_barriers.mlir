// PASSES: lower-kernel-functions,split-barriers{split-barriers=true}
// ===
// A loop that loads and multiplies tiles begins with an arrival and ends with a wait.
// CHECK: scf.for
// CHECK: xe.barrier_arrive
// CHECK: xetile.tile_mma
// CHECK: xe.barrier_wait
// CHECK: scf.yield
func.func @k(%a: memref<64x64xf16>, %o: memref<64x64xf32>, %n: index) attributes {xe.subgroups = 8 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0.0> : vector<16x16xf32>
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x16xf16>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (vector<16x16xf32>) {
    %v = xetile.load_tile %t : !xetile.tile<16x16xf16> -> vector<16x16xf16>
    %w = xetile.load_tile %t : !xetile.tile<16x16xf16> -> vector<16x16xf16>
    %more = xetile.tile_mma %v, %w, %s : vector<16x16xf16>, vector<16x16xf16>, vector<16x16xf32> -> vector<16x16xf32>
    scf.yield %more : vector<16x16xf32>
  }
  %u = xetile.init_tile %o, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  xetile.store_tile %r, %u : vector<16x16xf32>, !xetile.tile<16x16xf32>
  func.return
}

// -----
// One that also stores has neither.
// CHECK-NOT: xe.barrier
func.func @k(%a: memref<64x64xf16>, %o: memref<64x64xf32>, %n: index) attributes {xe.subgroups = 8 : i32} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf16> -> !xetile.tile<16x16xf16>
  %u = xetile.init_tile %o, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  scf.for %i = %c0 to %n step %c1 {
    %v = xetile.load_tile %t : !xetile.tile<16x16xf16> -> vector<16x16xf16>
    %w = xetile.load_tile %t : !xetile.tile<16x16xf16> -> vector<16x16xf16>
    %r = xetile.tile_mma %v, %w : vector<16x16xf16>, vector<16x16xf16> -> vector<16x16xf32>
    xetile.store_tile %r, %u : vector<16x16xf32>, !xetile.tile<16x16xf32>
  }
  func.return
}
