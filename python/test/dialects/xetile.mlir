// Each op of XeTile in custom and generic form.

// CUSTOM-LABEL: func.func @tiles
// GENERIC-LABEL: sym_name = "tiles"
func.func @tiles(%base: i64, %ptr: !tt.ptr<bf16>, %mem: memref<128x128xbf16>, %y: index, %x: i32, %h: i32, %w: i32, %pitch: i64, %id: i32, %count: i32) {
  // CUSTOM: %t = xetile.init_tile %base, %y, %x, %h, %w, %pitch : i64, index, i32, i32, i32, i64 -> !xetile.tile<64x64xbf16>
  // GENERIC: %t = "xetile.init_tile"(%base, %y, %x, %h, %w, %pitch) <{static_offsets = array<i64: -9223372036854775808, -9223372036854775808>, static_sizes = array<i64: -9223372036854775808, -9223372036854775808>, static_stride = array<i64: -9223372036854775808>}> : (i64, index, i32, i32, i32, i64) -> !xetile.tile<64x64xbf16>
  %t = xetile.init_tile %base, %y, %x, %h, %w, %pitch : i64, index, i32, i32, i32, i64 into !xetile.tile<64x64xbf16, index, index, index, index, index>
  // CUSTOM: xetile.init_tile %mem, 0, %x : memref<128x128xbf16>, i32 -> !xetile.tile<64x64xbf16>
  %m = xetile.init_tile %mem, 0, %x : memref<128x128xbf16>, i32 -> !xetile.tile<64x64xbf16>
  // CUSTOM: xetile.init_tile %ptr, 0, 0, 100, 100, 128 : !tt.ptr<bf16> -> !xetile.tile<64x64xbf16, order = [0, 1], memory_scope = slm>
  %p = xetile.init_tile %ptr, 0, 0, 100, 100, 128 : !tt.ptr<bf16> -> !xetile.tile<64x64xbf16, order = [0, 1], memory_scope = slm>
  // CUSTOM: xetile.init_coop_tile %t, %id, %count : !xetile.tile<64x64xbf16>, i32, i32 -> !xetile.tile<8x8xbf16>
  %c = xetile.init_coop_tile %t, %id, %count : !xetile.tile<64x64xbf16>, i32, i32 -> !xetile.tile<8x8xbf16>
  // CUSTOM: xetile.init_coop_tile %t, %id, 32 : !xetile.tile<64x64xbf16>, i32 -> !xetile.tile<8x16xbf16>
  // GENERIC: "xetile.init_coop_tile"(%t, %id) <{static_coop = array<i64: -9223372036854775808, 32>}>
  %d = xetile.init_coop_tile %t, %id, 32 : !xetile.tile<64x64xbf16>, i32 -> !xetile.tile<8x16xbf16>
  // CUSTOM: xetile.load_tile %t : !xetile.tile<64x64xbf16> -> vector<64x64xbf16>
  %plain = xetile.load_tile %t : !xetile.tile<64x64xbf16> -> vector<64x64xbf16>
  // CUSTOM: xetile.load_tile %t {inner_blocks = [8, 16], L1_hint = streaming} : !xetile.tile<64x64xbf16> -> vector<8x4x8x16xbf16>
  %blocked = xetile.load_tile %t {inner_blocks = [8, 16], L1_hint = streaming} : !xetile.tile<64x64xbf16> -> vector<8x4x8x16xbf16>
  // CUSTOM: xetile.load_tile %t {inner_blocks = [8, 16], transpose} : !xetile.tile<64x64xbf16> -> vector<4x8x16x8xbf16>
  // GENERIC: "xetile.load_tile"(%t) <{inner_blocks = array<i64: 8, 16>, transpose}> : (!xetile.tile<64x64xbf16>) -> vector<4x8x16x8xbf16>
  %turned = xetile.load_tile %t {inner_blocks = [8, 16], transpose} : !xetile.tile<64x64xbf16> -> vector<4x8x16x8xbf16>
  // CUSTOM: xetile.store_tile %plain, %t {L3_hint = write_back} : vector<64x64xbf16>, !xetile.tile<64x64xbf16>
  xetile.store_tile %plain, %t {L3_hint = write_back} : vector<64x64xbf16>, !xetile.tile<64x64xbf16>
  // CUSTOM: xetile.store_tile %blocked, %t {inner_blocks = [8, 16]} : vector<8x4x8x16xbf16>, !xetile.tile<64x64xbf16>
  xetile.store_tile %blocked, %t {inner_blocks = [8, 16]} : vector<8x4x8x16xbf16>, !xetile.tile<64x64xbf16>
  // CUSTOM: xetile.prefetch_tile %c {L1_hint = uncached} : !xetile.tile<8x8xbf16>
  xetile.prefetch_tile %c {L1_hint = uncached} : !xetile.tile<8x8xbf16>
  // CUSTOM: xetile.update_tile_offset %t, %y, 32 {note = 1 : i32} : !xetile.tile<64x64xbf16>, index -> !xetile.tile<64x64xbf16>
  // GENERIC: "xetile.update_tile_offset"(%t, %y) <{static_offsets = array<i64: -9223372036854775808, 32>}> {note = 1 : i32}
  %moved = xetile.update_tile_offset %t, %y, 32 {note = 1 : i32} : !xetile.tile<64x64xbf16>, index -> !xetile.tile<64x64xbf16>
  func.return
}

// CUSTOM-LABEL: func.func @multiply
func.func @multiply(%a: vector<64x32xf16>, %b: vector<32x48xf16>, %c: vector<64x48xf32>, %a4: vector<8x4x8x8xbf16>, %b4: vector<4x8x8x16xbf16>) {
  // CUSTOM: xetile.tile_mma %a, %b, %c : vector<64x32xf16>, vector<32x48xf16>, vector<64x48xf32> -> vector<64x48xf32>
  %0 = xetile.tile_mma %a, %b, %c : vector<64x32xf16>, vector<32x48xf16>, vector<64x48xf32> -> vector<64x48xf32>
  // CUSTOM: xetile.tile_mma %a4, %b4 : vector<8x4x8x8xbf16>, vector<4x8x8x16xbf16> -> vector<8x8x8x16xf32>
  // GENERIC: "xetile.tile_mma"(%a4, %b4) : (vector<8x4x8x8xbf16>, vector<4x8x8x16xbf16>) -> vector<8x8x8x16xf32>
  %1 = xetile.tile_mma %a4, %b4 : vector<8x4x8x8xbf16>, vector<4x8x8x16xbf16> -> vector<8x8x8x16xf32>
  func.return
}

// CUSTOM-LABEL: func.func @multiply_scaled
func.func @multiply_scaled(%a: vector<32x32xi8>, %b: vector<32x48xi8>, %c: vector<32x48xf32>, %s: vector<32x2xi8>, %t: vector<48x2xi8>) {
  // CUSTOM: xetile.tile_mma_mx %a, %b, %c, %s, %t : vector<32x32xi8>, vector<32x48xi8>, vector<32x48xf32>, vector<32x2xi8>, vector<48x2xi8> -> vector<32x48xf32>
  // GENERIC: "xetile.tile_mma_mx"(%a, %b, %c, %s, %t)
  %0 = xetile.tile_mma_mx %a, %b, %c, %s, %t : vector<32x32xi8>, vector<32x48xi8>, vector<32x48xf32>, vector<32x2xi8>, vector<48x2xi8> -> vector<32x48xf32>
  func.return
}
