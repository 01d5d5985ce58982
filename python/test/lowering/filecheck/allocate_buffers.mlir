// PASSES: allocate-buffers
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#rows = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [1, 1], order = [1, 0]}>
#turned = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0, 1]}>
#padded = #ttg.padded_shared<[32:+4] {order = [1, 0], shape = [32, 32]}>
#smem = #ttg.shared_memory
// ===
// One after the other, with their padding; those of a callee behind those of its callers.
// CHECK: ttg.local_alloc {allocation.offset = 0 : i32} : () -> !ttg.memdesc<3x32x32xf16
// CHECK: ttg.local_alloc {allocation.offset = 6144 : i32} : () -> !ttg.memdesc<32x32xf32
// CHECK: ttg.local_alloc {allocation.offset = 10752 : i32} : () -> !ttg.memdesc<32x32xi8
// CHECK: ttg.local_alloc {allocation.offset = 11776 : i32} : () -> !ttg.memdesc<32x32xi1
tt.func public @f() {
  %a = ttg.local_alloc : () -> !ttg.memdesc<3x32x32xf16, #shared, #smem, mutable>
  %b = ttg.local_alloc : () -> !ttg.memdesc<32x32xf32, #padded, #smem, mutable>
  ttg.local_dealloc %a : !ttg.memdesc<3x32x32xf16, #shared, #smem, mutable>
  ttg.local_dealloc %b : !ttg.memdesc<32x32xf32, #padded, #smem, mutable>
  tt.call @g() : () -> ()
  tt.call @h() : () -> ()
  tt.return
}
tt.func private @g() {
  %c = ttg.local_alloc : () -> !ttg.memdesc<32x32xi8, #shared, #smem, mutable>
  ttg.local_dealloc %c : !ttg.memdesc<32x32xi8, #shared, #smem, mutable>
  tt.call @h() : () -> ()
  tt.return
}
tt.func private @h() {
  %d = ttg.local_alloc : () -> !ttg.memdesc<32x32xi1, #shared, #smem, mutable>
  ttg.local_dealloc %d : !ttg.memdesc<32x32xi1, #shared, #smem, mutable>
  tt.return
}

// -----
// Large buffers whose times are apart share a place; what begins in a loop, or lives on in one, has
// its own.
// CHECK-LABEL: @k
// CHECK: %[[A:.*]] = ttg.local_alloc {allocation.offset = 0 : i32}
// CHECK: ttg.local_load %[[A]]
// CHECK: %[[B:.*]] = ttg.memdesc_reinterpret %[[A]]
// CHECK-NEXT: ttg.local_store %{{.*}}, %[[B]]
// CHECK: ttg.local_alloc %{{.*}} {allocation.offset = 32768 : i32}
// CHECK: scf.for
// CHECK: ttg.local_load %[[B]]
// CHECK: ttg.local_alloc %{{.*}} {allocation.offset = 65536 : i32}
tt.func public @k(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ttg.local_alloc : () -> !ttg.memdesc<64x256xf16, #shared, #smem, mutable>
  %v = ttg.memdesc_trans %a {order = array<i32: 1, 0>} : !ttg.memdesc<64x256xf16, #shared, #smem, mutable> -> !ttg.memdesc<256x64xf16, #turned, #smem, mutable>
  %x = ttg.local_load %a : !ttg.memdesc<64x256xf16, #shared, #smem, mutable> -> tensor<64x256xf16, #rows>
  %b = ttg.local_alloc %x : (tensor<64x256xf16, #rows>) -> !ttg.memdesc<64x256xf16, #shared, #smem, mutable>
  %c = ttg.local_alloc %x : (tensor<64x256xf16, #rows>) -> !ttg.memdesc<64x256xf16, #shared, #smem, mutable>
  scf.for %i = %c0 to %n step %c1 iter_args(%held = %c) -> (!ttg.memdesc<64x256xf16, #shared, #smem, mutable>) : i32 {
    %y = ttg.local_load %b : !ttg.memdesc<64x256xf16, #shared, #smem, mutable> -> tensor<64x256xf16, #rows>
    %d = ttg.local_alloc %y : (tensor<64x256xf16, #rows>) -> !ttg.memdesc<64x256xf16, #shared, #smem, mutable>
    %z = ttg.local_load %d : !ttg.memdesc<64x256xf16, #shared, #smem, mutable> -> tensor<64x256xf16, #rows>
    scf.yield %held : !ttg.memdesc<64x256xf16, #shared, #smem, mutable>
  }
  tt.return
}
