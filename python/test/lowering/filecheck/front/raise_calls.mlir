// PASSES: expand-operations{rules=raise-calls}
#c = #ttg.linear<{register = [[1, 0], [2, 0], [4, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8]], warp = [[0, 16], [8, 0]], block = []}>
#a = #ttg.linear<{register = [[1, 0], [2, 0], [4, 0], [0, 16]], lane = [[0, 1], [0, 2], [0, 4], [0, 8]], warp = [[0, 0], [8, 0]], block = []}>
#b = #ttg.linear<{register = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8]], warp = [[0, 16], [0, 0]], block = []}>
// ===
// Layouts get their names everywhere, in slices too; accesses become descriptors' and are marked.
// CHECK: #dpas = #xe.dpas<{repeatCount = 8
// CHECK: tt.make_range {{.*}} #ttg.slice<{dim = 1, parent = #dpas}>
// CHECK: arith.constant dense<0.000000e+00> : tensor<16x32xf32, #dpas>
// CHECK: %[[D:.*]] = tt.make_tensor_descriptor %p, [%h, %w], [%s, %one]
// CHECK-NEXT: %[[A:.*]] = tt.descriptor_load %[[D]][%y, %x] {xe.block} : {{.*}} -> tensor<16x32xf16, #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>>
// CHECK: tt.dot %[[A]], %r, %{{.*}} : {{.*}} -> tensor<16x32xf32, #dpas>
// CHECK: tt.descriptor_load {{.*}} {xe.block}
// CHECK-NEXT: xe.prefetched
// CHECK-NEXT: xe.barrier_arrive
// CHECK-NEXT: xe.barrier_wait
// CHECK: tt.descriptor_store {{.*}} {xe.block}
tt.func public @f(%p: !tt.ptr<f16>, %q: !tt.ptr<f32>, %h: i32, %w: i32, %s: i64, %y: i32, %x: i32) {
  %one = arith.constant 1 : i64
  %rows = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #ttg.slice<{dim = 1, parent = #c}>>
  %z = arith.constant dense<0.0> : tensor<16x32xf32, #c>
  %l = ttg.inline_asm "xe.load_2d" {constraints = "", pure = false} %p, %h, %w, %s, %one, %y, %x : (!tt.ptr<f16>, i32, i32, i64, i64, i32, i32) -> tensor<16x32xf16, #a>
  %r = arith.constant dense<0.0> : tensor<32x32xf16, #b>
  %d = ttg.inline_asm "xe.dpas layout=#xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [2, 2], repCluster = [1, 1]}>; precision=tf32" {constraints = "", pure = true} %l, %r, %z : (tensor<16x32xf16, #a>, tensor<32x32xf16, #b>, tensor<16x32xf32, #c>) -> tensor<16x32xf32, #c>
  ttg.inline_asm "xe.prefetch_2d shape=32x32" {constraints = "", pure = false} %p, %h, %w, %s, %one, %y, %x : (!tt.ptr<f16>, i32, i32, i64, i64, i32, i32) -> ()
  ttg.inline_asm "xe.barrier_arrive" {constraints = "", pure = false} : () -> ()
  ttg.inline_asm "xe.barrier_wait" {constraints = "", pure = false} : () -> ()
  ttg.inline_asm "xe.store_2d" {constraints = "", pure = false} %q, %h, %w, %s, %one, %y, %x, %d : (!tt.ptr<f32>, i32, i32, i64, i64, i32, i32, tensor<16x32xf32, #c>) -> ()
  tt.print "x" {hex = false, isSigned = array<i32: 0>} : %rows : tensor<16xi32, #ttg.slice<{dim = 1, parent = #c}>>
  tt.return
}
