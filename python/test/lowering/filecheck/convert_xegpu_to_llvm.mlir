// PASSES: lower-kernel-functions,convert-xegpu-to-llvm

// A 2D block: sizes in bytes minus one, x in elements; a copy of it is written back.
// CHECK: %[[V:.*]] = call <8 x i32> @llvm.genx.GenISA.LSC2DBlockRead.v8i32(i64 {{.*}}, i32 {{.*}}, i32 {{.*}}, i32 {{.*}}, i32 {{.*}}, i32 {{.*}}, i32 32, i32 16, i32 8, i32 1, i1 false, i1 false, i32 0)
// CHECK: call void @llvm.genx.GenISA.LSC2DBlockWrite.v8i32({{.*}}, i32 32, i32 16, i32 8, i32 1, i1 false, i1 false, i32 0, <8 x i32>
func.func @k(%a: memref<64x64xf32>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  xegpu.store_nd %v, %t : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}

// -----
// Hints become the code of the message: uc.ca is 2, st.wb is 6.
// CHECK: LSC2DBlockRead{{.*}}, i1 false, i1 false, i32 2)
// CHECK: LSC2DBlockWrite{{.*}}, i1 false, i1 false, i32 6,
func.func @k(%a: memref<64x64xf32>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
  %v = xegpu.load_nd %t {L1_hint = uncached, L3_hint = cached} : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  xegpu.store_nd %v, %t {L1_hint = streaming, L3_hint = write_back} : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}

// -----
// Packed: the message's VNNI form, in dwords.
// CHECK: LSC2DBlockRead.{{.*}}, i32 16, i32 16, i32 16, i32 1, i1 false, i1 true, i32 0)
func.func @k(%a: memref<64x64xf16>, %o: i64) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<16x16xf16>
  %v = xegpu.load_nd %t {packed} : !xegpu.tensor_desc<16x16xf16> -> vector<8x16x2xf16>
  %f = vector.shape_cast %v : vector<8x16x2xf16> to vector<256xf16>
  %s = xegpu.create_nd_tdesc %o, 0 : i64 -> !xegpu.tensor_desc<256xf16, boundary_check = false>
  xegpu.store_nd %f, %s : vector<256xf16>, !xegpu.tensor_desc<256xf16, boundary_check = false>
  func.return
}

// -----
// Transposed by pairs: dwords, half as many columns.
// CHECK: LSC2DBlockRead.{{.*}}, i32 32, i32 8, i32 16, i32 1, i1 true, i1 false, i32 0)
func.func @k(%a: memref<64x64xf16>, %o: i64) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<16x16xf16>
  %v = xegpu.load_nd %t {transpose = [1, 0], transpose_bit_width = 32} : !xegpu.tensor_desc<16x16xf16> -> vector<8x32xf16>
  %f = vector.shape_cast %v : vector<8x32xf16> to vector<256xf16>
  %s = xegpu.create_nd_tdesc %o, 0 : i64 -> !xegpu.tensor_desc<256xf16, boundary_check = false>
  xegpu.store_nd %f, %s : vector<256xf16>, !xegpu.tensor_desc<256xf16, boundary_check = false>
  func.return
}

// -----
// A prefetch in a loop has an address payload, made once and moved.
// CHECK: %[[P:.*]] = call ptr @llvm.genx.GenISA.LSC2DBlockCreateAddrPayload.p0i32
// CHECK: br i1 {{.*}} label %start
// CHECK: loop:
// CHECK: call void @llvm.genx.GenISA.LSC2DBlockPrefetchAddrPayload.p0i32(ptr %[[P]]
// CHECK: call void @llvm.genx.GenISA.LSC2DBlockSetAddrPayloadField.p0i32.i32(ptr %[[P]], i32 5, i32 {{.*}}, i1 true)
func.func @k(%a: memref<64x64xf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<8x32xf16>
  %e = scf.for %i = %c0 to %n step %c1 iter_args(%at = %t) -> (!xegpu.tensor_desc<8x32xf16>) {
    xegpu.prefetch_nd %at : !xegpu.tensor_desc<8x32xf16>
    %u = xegpu.update_nd_offset %at, 0, 32 : !xegpu.tensor_desc<8x32xf16> -> !xegpu.tensor_desc<8x32xf16>
    scf.yield %u : !xegpu.tensor_desc<8x32xf16>
  }
  func.return
}

// -----
// TARGET: dg2
// Without 2D messages every lane loads for itself, inside the base tensor only.
// CHECK-NOT: LSC2DBlock
// CHECK: icmp ult i32
// CHECK: call i32 @llvm.genx.GenISA.PredicatedLoad.i32.p1.i32
// CHECK: call void @llvm.genx.GenISA.PredicatedStore.p1.i32
func.func @k(%a: memref<60x60xf32>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<60x60xf32> -> !xegpu.tensor_desc<8x8xf32>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<8x8xf32> -> vector<8x8xf32>
  xegpu.store_nd %v, %t : vector<8x8xf32>, !xegpu.tensor_desc<8x8xf32>
  func.return
}

// -----
// A 1D block of words is one message.
// CHECK: call <4 x i32> @llvm.genx.GenISA.simdBlockRead.v4i32.p1
func.func @k(%a: i64) {
  %t = xegpu.create_nd_tdesc %a, 0 : i64 -> !xegpu.tensor_desc<64xf32, boundary_check = false>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<64xf32, boundary_check = false> -> vector<64xf32>
  xegpu.store_nd %v, %t : vector<64xf32>, !xegpu.tensor_desc<64xf32, boundary_check = false>
  func.return
}

// -----
// A gather has a condition; with hints it is a message with a cache policy, in a branch.
// CHECK: call void @llvm.genx.GenISA.LSCPrefetch.p1(ptr addrspace(1) {{.*}}, i32 0, i32 3, i32 4, i32 2)
// CHECK: call <4 x i32> @llvm.genx.GenISA.PredicatedLoad.v4i32.p1.v4i32
// CHECK: define internal spir_func void @__xe_lane_store_v4i32_p1_wt_wb
// CHECK: br i1
// CHECK: call void @llvm.genx.GenISA.LSCStore.p1.v4i32(ptr addrspace(1) {{.*}}, i32 0, <4 x i32> {{.*}}, i32 3, i32 4, i32 4)
func.func @k(%a: i64, %n: index) {
  %lane = vector.step : vector<16xindex>
  %nv = vector.broadcast %n : index to vector<16xindex>
  %m = arith.cmpi slt, %lane, %nv : vector<16xindex>
  %t = xegpu.create_tdesc %a, %lane : i64, vector<16xindex> -> !xegpu.tensor_desc<16x4xf32, #xegpu.scattered>
  xegpu.prefetch %t {L1_hint = uncached, L3_hint = cached} : !xegpu.tensor_desc<16x4xf32, #xegpu.scattered>
  %v = xegpu.load_gather %t, %m {transpose = [1, 0]} : !xegpu.tensor_desc<16x4xf32, #xegpu.scattered>, vector<16xi1> -> vector<4x16xf32>
  xegpu.store_scatter %v, %t, %m {transpose = [1, 0], L1_hint = write_through} : vector<4x16xf32>, !xegpu.tensor_desc<16x4xf32, #xegpu.scattered>, vector<16xi1>
  func.return
}

// -----
// Lanes prefetch rows of a block with xe.gather; those beyond its 8 rows prefetch the last one.
// CHECK: call i32 @llvm.umin.i32(i32 {{.*}}, i32 7)
// CHECK: call i32 @llvm.smin.i32
// CHECK: call i32 @llvm.smax.i32(i32 {{.*}}, i32 0)
// CHECK: call void @llvm.genx.GenISA.LSCPrefetch.p1(ptr addrspace(1) {{.*}}, i32 0, i32 5, i32 1, i32 4)
// CHECK-NOT: call void @llvm.genx.GenISA.LSCPrefetch
func.func @k(%a: memref<64x64xf16>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 {xe.gather} : memref<64x64xf16> -> !xegpu.tensor_desc<8x32xf16>
  xegpu.prefetch_nd %t : !xegpu.tensor_desc<8x32xf16>
  func.return
}

// -----
// Offsets that move are added up.
// CHECK: %[[LANE:.*]] = zext i32 {{.*}} to i64
// CHECK: add i64 %[[LANE]], %[[LANE]]
func.func @k(%a: i64) {
  %lane = vector.step : vector<16xindex>
  %m = arith.constant dense<true> : vector<16xi1>
  %t = xegpu.create_tdesc %a, %lane : i64, vector<16xindex> -> !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  %u = xegpu.update_offset %t, %lane : !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xindex> -> !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  %v = xegpu.load_gather %u, %m : !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1> -> vector<16xf32>
  xegpu.store_scatter %v, %t, %m : vector<16xf32>, !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1>
  func.return
}

// -----
// An atomic with an instruction; one without repeats a compare-and-swap.
// CHECK: atomicrmw fadd ptr addrspace(1)
// CHECK: cmpxchg ptr addrspace(1)
func.func @k(%a: i64) {
  %lane = vector.step : vector<16xindex>
  %m = arith.constant dense<true> : vector<16xi1>
  %t = xegpu.create_tdesc %a, %lane : i64, vector<16xindex> -> !xegpu.tensor_desc<16xf32, #xegpu.scattered>
  %v = arith.constant dense<1.0> : vector<16xf32>
  %o = xegpu.atomic_rmw "addf", %v, %t, %m : vector<16xf32>, !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1> -> vector<16xf32>
  %p = xegpu.atomic_rmw "mulf", %v, %t, %m : vector<16xf32>, !xegpu.tensor_desc<16xf32, #xegpu.scattered>, vector<16xi1> -> vector<16xf32>
  func.return
}

// -----
// dpas: codes of the types (f16 is 12), depth 8, as many rows as C; no C is zero.
// CHECK: call <8 x float> @llvm.genx.GenISA.sub.group.dpas.v8f32.v8f32.v8i16.v8i32(<8 x float> zeroinitializer, {{.*}}, i32 12, i32 12, i32 8, i32 8, i1 false)
func.func @k(%a: memref<64x64xf16>, %c: memref<64x64xf32>) {
  %ta = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<8x16xf16>
  %tb = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<16x16xf16>
  %tc = xegpu.create_nd_tdesc %c, 0, 0 : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
  %va = xegpu.load_nd %ta : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
  %vb = xegpu.load_nd %tb : !xegpu.tensor_desc<16x16xf16> -> vector<16x16xf16>
  %d = xegpu.dpas %va, %vb : vector<8x16xf16>, vector<16x16xf16> -> vector<8x16xf32>
  xegpu.store_nd %d, %tc : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}

// -----
// Named barriers count their participants; a fence is one of the memory it names.
// CHECK: call void @llvm.genx.GenISA.threadgroupnamedbarriers.signal(i8 1, i16 0, i8 4, i8 4)
// CHECK: call void @llvm.genx.GenISA.threadgroupnamedbarriers.wait(i8 1)
// CHECK: call spir_func void @_Z21__spirv_MemoryBarrierjj(i32 2, i32 272)
// CHECK: call spir_func void @_Z21__spirv_MemoryBarrierjj(i32 1, i32 528)
func.func @k() attributes {xe.subgroups = 8 : i32} {
  %count = arith.constant 2 : i8
  %id = arith.constant 1 : i8
  %half = arith.constant 4 : i8
  xegpu.alloc_nbarrier %count : i8
  %b = xegpu.init_nbarrier %id, %half : i8, i8 -> !xegpu.nbarrier
  xegpu.nbarrier_arrive %b : !xegpu.nbarrier
  xegpu.nbarrier_wait %b : !xegpu.nbarrier
  xegpu.fence {scope = workgroup, memory_kind = shared}
  xegpu.fence {scope = gpu, memory_kind = global}
  func.return
}

// -----
// TARGET: dg2
// The one barrier of dg2 serves if all subgroups take part.
// CHECK: call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 0)
func.func @k() attributes {xe.subgroups = 8 : i32} {
  %id = arith.constant 1 : i8
  %all = arith.constant 8 : i8
  %b = xegpu.init_nbarrier %id, %all : i8, i8 -> !xegpu.nbarrier
  xegpu.nbarrier_arrive %b : !xegpu.nbarrier
  xegpu.nbarrier_wait %b : !xegpu.nbarrier
  func.return
}

// -----
// 1D blocks of shared local memory are words in it.
// CHECK: addrspace(3) global [64 x i8]
// CHECK: simdBlockRead.i32.p3
func.func @k() {
  %p = memref.alloca() : memref<16xf32, 3>
  %t = xegpu.create_nd_tdesc %p, 0 : memref<16xf32, 3> -> !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false>
  %v = xegpu.load_nd %t : !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false> -> vector<16xf32>
  xegpu.store_nd %v, %t : vector<16xf32>, !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false>
  func.return
}

// -----
// Messages of an operand share a payload, and those of a vector of the subgroup beside it do not.
// CHECK: %[[P:.*]] = call ptr @llvm.genx.GenISA.LSC2DBlockCreateAddrPayload
// CHECK: call <8 x i32> @llvm.genx.GenISA.LSC2DBlockReadAddrPayload{{.*}}(ptr %[[P]],
// CHECK: fadd <8 x float>
// CHECK: call void @llvm.genx.GenISA.LSC2DBlockWriteAddrPayload{{.*}}(ptr %[[P]],
// CHECK: call <8 x i16> @llvm.genx.GenISA.LSC2DBlockRead.v8i16
// CHECK: fadd <8 x half>
// CHECK: call void @llvm.genx.GenISA.LSC2DBlockWrite.v8i16
#c = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
func.func @k(%a: memref<64x64xf32>, %b: memref<64x64xf16>) {
  %t = xegpu.create_nd_tdesc %a, 0, 0 : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32, #c>
  %x = xegpu.load_nd %t : !xegpu.tensor_desc<8x16xf32, #c> -> vector<8x1xf32>
  %y = xe.fragment %x from <0:0:0 count 8 parts 1> : vector<8x1xf32> -> vector<8x1xf32>
  %z = arith.addf %y, %y : vector<8x1xf32>
  xegpu.store_nd %z, %t : vector<8x1xf32>, !xegpu.tensor_desc<8x16xf32, #c>
  %u = xegpu.create_nd_tdesc %b, 0, 0 : memref<64x64xf16> -> !xegpu.tensor_desc<8x16xf16>
  %v = xegpu.load_nd %u : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
  %w = arith.addf %v, %v : vector<8x16xf16>
  xegpu.store_nd %w, %u : vector<8x16xf16>, !xegpu.tensor_desc<8x16xf16>
  func.return
}
