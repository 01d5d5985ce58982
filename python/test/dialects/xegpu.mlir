// Each op of XeGPU, whole-vector and work-item flavour, in custom and generic form.

#row = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
#pair = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
#column = #xegpu.sg_map<wi_layout = [16, 1], wi_data = [1, 1]>
#slm = #xegpu.tdesc_attr<memory_scope = slm, boundary_check = false>

// CUSTOM-LABEL: func.func @blocks
// GENERIC-LABEL: sym_name = "blocks"
func.func @blocks(%base: ui64, %ptr: !tt.ptr<f16>, %mem: memref<1024x1024xbf16>, %y: index, %x: i32, %h: i64) {
  // CUSTOM: %whole = xegpu.create_nd_tdesc %base, %y, %x, %h, 64, %h, 1 : ui64, index, i32, i64, i64 -> !xegpu.tensor_desc<8x16xbf16>
  // GENERIC: %whole = "xegpu.create_nd_tdesc"(%base, %y, %x, %h, %h) <{static_offsets = array<i64: -9223372036854775808, -9223372036854775808>, static_shape = array<i64: -9223372036854775808, 64>, static_strides = array<i64: -9223372036854775808, 1>}> : (ui64, index, i32, i64, i64) -> !xegpu.tensor_desc<8x16xbf16>
  %whole = xegpu.create_nd_tdesc %base, %y, %x, %h, 64, %h : ui64, index, i32, i64, i64 into !xegpu.tensor_desc<8x16xbf16, memory_scope = global>
  // CUSTOM: xegpu.create_nd_tdesc %ptr, %y, 0, 64, 64, 64, 1 : !tt.ptr<f16>, index -> !xegpu.tensor_desc<32x16xf16, array_length = 2, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
  %a = xegpu.create_nd_tdesc %ptr, %y, 0, 64, 64, 64, 1 : !tt.ptr<f16>, index -> !xegpu.tensor_desc<32x16xf16, array_length = 2, #row>
  // CUSTOM: xegpu.create_nd_tdesc %mem, 0, %x : memref<1024x1024xbf16>, i32 -> !xegpu.tensor_desc<16x16xbf16, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>>
  %b = xegpu.create_nd_tdesc %mem, 0, %x : memref<1024x1024xbf16>, i32 -> !xegpu.tensor_desc<16x16xbf16, #pair>
  // CUSTOM: xegpu.create_nd_tdesc %base, 8 : ui64 -> !xegpu.tensor_desc<64xf32, memory_scope = slm, boundary_check = false>
  %line = xegpu.create_nd_tdesc %base, 8 : ui64 -> !xegpu.tensor_desc<64xf32, #slm>
  // CUSTOM: xegpu.load_nd %whole {L1_hint = uncached, L3_hint = streaming} : !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>
  // GENERIC: "xegpu.load_nd"(%whole) <{L1_hint = #xegpu.cache_hint<uncached>, L3_hint = #xegpu.cache_hint<streaming>}> : (!xegpu.tensor_desc<8x16xbf16>) -> vector<8x16xbf16>
  %v = xegpu.load_nd %whole {L1 = uncached, L3 = streaming} : !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>
  // CUSTOM: xegpu.load_nd %a : {{.*}} -> vector<64x1xf16>
  %av = xegpu.load_nd %a : !xegpu.tensor_desc<32x16xf16, array_length = 2, #row> -> vector<64x1xf16>
  // CUSTOM: xegpu.load_nd %b {packed} : {{.*}} -> vector<8x2xbf16>
  %bv = xegpu.load_nd %b {packed} : !xegpu.tensor_desc<16x16xbf16, #pair> -> vector<8x2xbf16>
  // CUSTOM: xegpu.load_nd %line : {{.*}} -> vector<64xf32>
  %lv = xegpu.load_nd %line : !xegpu.tensor_desc<64xf32, #slm> -> vector<64xf32>
  // CUSTOM: xegpu.store_nd %v, %whole {L1_hint = write_back, why = "kept"} : vector<8x16xbf16>, !xegpu.tensor_desc<8x16xbf16>
  xegpu.store_nd %v, %whole {L1_hint = write_back, why = "kept"} : vector<8x16xbf16>, !xegpu.tensor_desc<8x16xbf16>
  // CUSTOM: xegpu.prefetch_nd %whole {L2_hint = cached, memory_scope = global} : !xegpu.tensor_desc<8x16xbf16>
  xegpu.prefetch_nd %whole {L2_hint = cached, memory_scope = global} : !xegpu.tensor_desc<8x16xbf16>
  // CUSTOM: xegpu.update_nd_offset %whole, 0, %x : !xegpu.tensor_desc<8x16xbf16>, i32 -> !xegpu.tensor_desc<8x16xbf16>
  // GENERIC: "xegpu.update_nd_offset"(%whole, %x) <{static_offsets = array<i64: 0, -9223372036854775808>}>
  %moved = xegpu.update_nd_offset %whole, 0, %x : !xegpu.tensor_desc<8x16xbf16>, i32 into !xegpu.tensor_desc<8x16xbf16>
  func.return
}

// CUSTOM-LABEL: func.func @layouts
func.func @layouts(%h: !xegpu.tensor_desc<16x16xf16>, %s: !xegpu.tensor_desc<16x8xf32>, %f: !xegpu.tensor_desc<16x8xf32, #column>, %arr: !xegpu.tensor_desc<16x16xi8, array_length = 2>) {
  // CUSTOM: {transpose = [1, 0], transpose_bit_width = 32} : !xegpu.tensor_desc<16x16xf16> -> vector<8x32xf16>
  // GENERIC: <{transpose = array<i64: 1, 0>, transpose_bit_width = 32 : i32}>
  %t = xegpu.load_nd %h {transpose = [1, 0], transpose_bit_width = 32} : !xegpu.tensor_desc<16x16xf16> -> vector<8x32xf16>
  // CUSTOM: {transpose = [1, 0]} : !xegpu.tensor_desc<16x8xf32> -> vector<8x16xf32>
  %w = xegpu.load_nd %s {transpose = [1, 0]} : !xegpu.tensor_desc<16x8xf32> -> vector<8x16xf32>
  // CUSTOM: -> vector<8x1xf32>
  %o = xegpu.load_nd %f {transpose = [1, 0]} : !xegpu.tensor_desc<16x8xf32, #column> -> vector<8x1xf32>
  // CUSTOM: -> vector<16x32xi8>
  %side = xegpu.load_nd %arr : !xegpu.tensor_desc<16x16xi8, array_length = 2> -> vector<16x32xi8>
  // CUSTOM: -> vector<2x4x16x4xi8>
  %lead = xegpu.load_nd %arr {packed} : !xegpu.tensor_desc<16x16xi8, array_length = 2> -> vector<2x4x16x4xi8>
  func.return
}

// CUSTOM-LABEL: func.func @dpas
func.func @dpas(%a: vector<8x16xbf16>, %a3: vector<8x8x2xbf16>, %b: vector<16x16xbf16>, %b3: vector<8x16x2xbf16>, %c: vector<8x16xf32>, %fa: vector<8x1xf16>, %fb: vector<8x2xf16>, %fc: vector<8x1xf32>) {
  // CUSTOM: xegpu.dpas %a, %b, %c : vector<8x16xbf16>, vector<16x16xbf16>, vector<8x16xf32> -> vector<8x16xf32>
  %0 = xegpu.dpas %a, %b, %c : vector<8x16xbf16>, vector<16x16xbf16>, vector<8x16xf32> -> vector<8x16xf32>
  // CUSTOM: xegpu.dpas %a, %b : vector<8x16xbf16>, vector<16x16xbf16> -> vector<8x16xf32>
  // GENERIC: "xegpu.dpas"(%a, %b) : (vector<8x16xbf16>, vector<16x16xbf16>) -> vector<8x16xf32>
  %1 = xegpu.dpas %a, %b : vector<8x16xbf16>, vector<16x16xbf16> -> vector<8x16xf32>
  // CUSTOM: xegpu.dpas %a, %b3, %c : vector<8x16xbf16>, vector<8x16x2xbf16>, vector<8x16xf32> -> vector<8x16xf32>
  %2 = xegpu.dpas %a, %b3, %c : vector<8x16xbf16>, vector<8x16x2xbf16> -> vector<8x16xf32>
  // CUSTOM: xegpu.dpas %a3, %b3, %c : vector<8x8x2xbf16>, vector<8x16x2xbf16>, vector<8x16xf32> -> vector<8x16xf32>
  %3 = xegpu.dpas %a3, %b3, %c : vector<8x8x2xbf16>, vector<8x16x2xbf16>, vector<8x16xf32> -> vector<8x16xf32>
  // CUSTOM: xegpu.dpas %fa, %fb, %fc {sg_map_a = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>, sg_map_b = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>, sg_map_c = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>} : vector<8x1xf16>, vector<8x2xf16>, vector<8x1xf32> -> vector<8x1xf32>
  %4 = xegpu.dpas %fa, %fb, %fc {sg_map_a = #row, sg_map_b = #pair, sg_map_c = #row} : vector<8x1xf16>, vector<8x2xf16>, vector<8x1xf32> -> vector<8x1xf32>
  func.return
}

// CUSTOM-LABEL: func.func @scattered
func.func @scattered(%base: ui64, %offsets: vector<16xindex>, %mask: vector<16xi1>, %own: i32, %live: i1, %v: vector<16xf32>, %c: vector<16x4xf32>, %ct: vector<4x16xf32>) {
  // CUSTOM: xegpu.create_tdesc %base, %offsets : ui64, vector<16xindex> -> !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  %t = xegpu.create_tdesc %base, %offsets : ui64, vector<16xindex> -> !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  // CUSTOM: xegpu.create_tdesc %base, %offsets {chunk_size_per_lane = 4} : ui64, vector<16xindex> -> !xegpu.tensor_desc<16x4xf32, memory_scope = slm, #xegpu.scattered>
  // GENERIC: "xegpu.create_tdesc"(%base, %offsets) <{chunk_size_per_lane = 4 : i32}>
  %k = xegpu.create_tdesc %base, %offsets {chunk_size_per_lane = 4} : ui64, vector<16xindex> -> !xegpu.tensor_desc<16x4xf32, #xegpu.scattered, memory_scope = slm, chunk_size_per_lane = 4>
  // CUSTOM: xegpu.create_tdesc %base, %own : ui64, i32 -> !xegpu.tensor_desc<16x4xf32, #xegpu.scattered, #xegpu.sg_map<wi_layout = [16, 1], wi_data = [1, 1]>>
  %o = xegpu.create_tdesc %base, %own : ui64, i32 -> !xegpu.tensor_desc<16x4xf32, #xegpu.tdesc_attr<scattered = true>, #column>
  // CUSTOM: xegpu.load_gather %t, %mask {L1_hint = cached, L2_hint = uncached} : !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1> -> vector<16xf32>
  %0 = xegpu.load_gather %t, %mask {L1_hint = cached, L2_hint = uncached} : !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1> -> vector<16xf32>
  // CUSTOM: xegpu.load_gather %k, %mask {transpose = [1, 0]} : {{.*}} -> vector<4x16xf32>
  %1 = xegpu.load_gather %k, %mask {transpose = [1, 0]} : !xegpu.tensor_desc<16x4xf32, #xegpu.scattered, memory_scope = slm>, vector<16xi1> -> vector<4x16xf32>
  // CUSTOM: xegpu.load_gather %o, %live {transpose = [1, 0]} : {{.*}}, i1 -> vector<4x1xf32>
  %2 = xegpu.load_gather %o, %live {transpose = [1, 0]} : !xegpu.tensor_desc<16x4xf32, #xegpu.scattered, #column>, i1 -> vector<4x1xf32>
  // CUSTOM: xegpu.store_scatter %v, %t, %mask {L1_hint = write_through, memory_scope = global} : vector<16xf32>, !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1>
  xegpu.store_scatter %v, %t, %mask {L1_hint = write_through, memory_scope = global} : vector<16xf32>, !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1>
  // CUSTOM: xegpu.store_scatter %c, %k, %mask : vector<16x4xf32>
  xegpu.store_scatter %c, %k, %mask : vector<16x4xf32>, !xegpu.tensor_desc<16x4xf32, #xegpu.scattered, memory_scope = slm>, vector<16xi1>
  // CUSTOM: xegpu.store_scatter %ct, %k, %mask {transpose = [1, 0]} : vector<4x16xf32>
  xegpu.store_scatter %ct, %k, %mask {transpose = [1, 0]} : vector<4x16xf32>, !xegpu.tensor_desc<16x4xf32, #xegpu.scattered, memory_scope = slm>, vector<16xi1>
  // CUSTOM: xegpu.prefetch %t {L3_hint = read_invalidate} : !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  xegpu.prefetch %t {L3_hint = read_invalidate} : !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  // CUSTOM: xegpu.update_offset %t, %offsets : !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xindex> -> !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  %m = xegpu.update_offset %t, %offsets : !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xindex> -> !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  // CUSTOM: xegpu.atomic_rmw "addf", %v, %t, %mask : vector<16xf32>, !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1> -> vector<16xf32>
  // GENERIC: "xegpu.atomic_rmw"(%v, %t, %mask) <{kind = #xegpu.atomic_kind<addf>}>
  %r = xegpu.atomic_rmw "addf", %v, %t, %mask : vector<16xf32>, !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1> -> vector<16xf32>
  func.return
}

// CUSTOM-LABEL: func.func @order
func.func @order(%n: i8) {
  // CUSTOM: xegpu.alloc_nbarrier %n : i8
  // GENERIC: "xegpu.alloc_nbarrier"(%n) : (i8) -> ()
  xegpu.alloc_nbarrier %n : i8
  // CUSTOM: %barrier = xegpu.init_nbarrier %n, %n : i8, i8 -> !xegpu.nbarrier
  %barrier = xegpu.init_nbarrier %n, %n : i8, i8 into !xegpu.nbarrier
  // CUSTOM: xegpu.nbarrier_arrive %barrier : !xegpu.nbarrier
  xegpu.nbarrier_arrive %barrier : !xegpu.nbarrier
  // CUSTOM: xegpu.nbarrier_wait %barrier : !xegpu.nbarrier
  xegpu.nbarrier_wait %barrier : !xegpu.nbarrier
  // CUSTOM: xegpu.fence {scope = gpu, memory_kind = global}
  // GENERIC: "xegpu.fence"() <{scope = #xegpu.fence_scope<gpu>, memory_kind = #xegpu.memory_kind<global>}> : () -> ()
  xegpu.fence {scope = "gpu", memory_kind = "global"}
  // CUSTOM: xegpu.fence {scope = workgroup, memory_kind = shared}
  xegpu.fence {scope = workgroup, memory_kind = shared}
  func.return
}

// CUSTOM-LABEL: func.func @scalars
func.func @scalars(%base: ui64, %offset: ui64, %mask: i1, %v: f32) {
  // CUSTOM: %x = xegpu.load_scalar %base, %offset, %mask, %v : ui64, ui64, i1, f32 -> f32
  // GENERIC: "xegpu.load_scalar"(%base, %offset, %mask, %v) : (ui64, ui64, i1, f32) -> f32
  %x = xegpu.load_scalar %base, %offset, %mask, %v : ui64, ui64, i1, f32 -> f32
  // CUSTOM: xegpu.store_scalar %x, %base, %offset, %mask : f32, ui64, ui64, i1
  // GENERIC: "xegpu.store_scalar"(%x, %base, %offset, %mask) : (f32, ui64, ui64, i1) -> ()
  xegpu.store_scalar %x, %base, %offset, %mask : f32, ui64, ui64, i1
  func.return
}

// CUSTOM-LABEL: func.func @scaled
func.func @scaled(%a: vector<8x2xi8>, %b: vector<8x4xi8>, %c: vector<8x1xf32>, %s: vector<2x1xi8>) {
  // CUSTOM: %d = xegpu.dpas_mx %a, %b, %c, %s, %s : vector<8x2xi8>, vector<8x4xi8>, vector<8x1xf32>, vector<2x1xi8>, vector<2x1xi8> -> vector<8x1xf32>
  // GENERIC: "xegpu.dpas_mx"(%a, %b, %c, %s, %s)
  %d = xegpu.dpas_mx %a, %b, %c, %s, %s : vector<8x2xi8>, vector<8x4xi8>, vector<8x1xf32>, vector<2x1xi8>, vector<2x1xi8> -> vector<8x1xf32>
  func.return
}
