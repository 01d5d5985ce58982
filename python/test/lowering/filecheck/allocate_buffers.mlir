// PASSES: allocate-buffers
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
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
