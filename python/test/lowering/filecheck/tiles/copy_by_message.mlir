// PASSES: lower-kernel-functions,convert-xetile-to-xegpu,copy-by-message

// Sixteen rows that two stores take come by two messages, of which the second moves by eight.
// CHECK: %[[D:.*]] = xegpu.create_nd_tdesc {{.*}}tensor_desc<8x16xf32
// CHECK: %[[A:.*]] = xegpu.load_nd %[[D]] : {{.*}} -> vector<8x1xf32>
// CHECK: %[[V:.*]] = xe.fragment %[[A]]
// CHECK: %[[M:.*]] = xegpu.update_nd_offset %[[D]], 8, 0
// CHECK: %[[B:.*]] = xegpu.load_nd %[[M]] : {{.*}} -> vector<8x1xf32>
// CHECK: %[[W:.*]] = xe.fragment %[[B]]
// CHECK-NOT: xegpu.load_nd
// CHECK: xegpu.store_nd %[[V]]
// CHECK: xegpu.store_nd %[[W]]
func.func @k(%a: memref<64x64xf32>, %b: memref<64x64xf32>) {
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %u = xetile.init_tile %b, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %v = xetile.load_tile %t : !xetile.tile<16x16xf32> -> vector<16x16xf32>
  xetile.store_tile %v, %u : vector<16x16xf32>, !xetile.tile<16x16xf32>
  func.return
}

// -----
// What is stored twice is loaded once.
// CHECK-COUNT-2: xegpu.load_nd
// CHECK-NOT: xegpu.load_nd
// CHECK-COUNT-4: xegpu.store_nd
func.func @k(%a: memref<64x64xf32>, %b: memref<64x64xf32>, %c: memref<64x64xf32>) {
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %u = xetile.init_tile %b, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %w = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %v = xetile.load_tile %t : !xetile.tile<16x16xf32> -> vector<16x16xf32>
  xetile.store_tile %v, %u : vector<16x16xf32>, !xetile.tile<16x16xf32>
  xetile.store_tile %v, %w : vector<16x16xf32>, !xetile.tile<16x16xf32>
  func.return
}

// -----
// What is also computed with is loaded at once.
// CHECK: xegpu.load_nd {{.*}} -> vector<16x1xf32>
// CHECK-NOT: xegpu.load_nd
func.func @k(%a: memref<64x64xf32>, %b: memref<64x64xf32>, %c: memref<64x64xf32>) {
  %t = xetile.init_tile %a, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %u = xetile.init_tile %b, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %w = xetile.init_tile %c, 0, 0 : memref<64x64xf32> -> !xetile.tile<16x16xf32>
  %v = xetile.load_tile %t : !xetile.tile<16x16xf32> -> vector<16x16xf32>
  %s = arith.addf %v, %v : vector<16x16xf32>
  xetile.store_tile %v, %u : vector<16x16xf32>, !xetile.tile<16x16xf32>
  xetile.store_tile %s, %w : vector<16x16xf32>, !xetile.tile<16x16xf32>
  func.return
}
