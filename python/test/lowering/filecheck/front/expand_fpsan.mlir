// PASSES: expand-operations{rules=expand-fpsan}
// ===
// Floats become integers that their sums and products can be computed with, and floats again.
// CHECK-LABEL: tt.func public @through(
// CHECK: arith.muli
// CHECK-NOT: fpsan
// CHECK: tt.store
tt.func public @through(%p: !tt.ptr<f32>, %x: f32) {
  %e = tti.experimental_fpsan_embed %x : (f32) -> i32
  %y = tti.experimental_fpsan_unembed %e : (i32) -> f32
  tt.store %p, %y : !tt.ptr<f32>
  tt.return
}
