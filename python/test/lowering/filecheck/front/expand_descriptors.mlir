// PASSES: expand-operations{rules=expand-descriptors}
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// A load reads zero outside of the tensor.
// CHECK-DAG: tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32, #ttg.slice<{dim = 1, parent = #blocked}>>
// CHECK-DAG: tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #ttg.slice<{dim = 0, parent = #blocked}>>
// CHECK-DAG: [[ZERO:%.*]] = arith.constant dense<0.000000e+00> : tensor<8x16xf32, #blocked>
// CHECK: tt.load {{%.*}}, {{%.*}}, {{%.*}} : tensor<8x16x!tt.ptr<f32>, #blocked>
// CHECK-NOT: tensordesc
tt.func public @f(%p: !tt.ptr<f32>, %i: i32, %n: i32, %pitch: i64, %one: i64) -> tensor<8x16xf32, #blocked> {
  %d = tt.make_tensor_descriptor %p, [%n, %n], [%pitch, %one] : !tt.ptr<f32>, !tt.tensordesc<8x16xf32>
  %x = tt.descriptor_load %d[%i, %i] : !tt.tensordesc<8x16xf32> -> tensor<8x16xf32, #blocked>
  tt.return %x : tensor<8x16xf32, #blocked>
}

// -----
// Or NaN; a store drops what lies outside.  One dimension needs no slices.
// CHECK-NOT: tt.expand_dims
// CHECK: arith.constant dense<0x7e00> : tensor<64xf16
// CHECK: tt.load
// CHECK: tt.store {{%.*}}, {{%.*}}, {{%.*}} : tensor<64x!tt.ptr<f16>
// CHECK-NOT: tensordesc
tt.func public @f(%p: !tt.ptr<f16>, %i: i32, %n: i32, %one: i64) {
  %d = tt.make_tensor_descriptor %p, [%n], [%one] {padding = 2 : i32} : !tt.ptr<f16>, !tt.tensordesc<64xf16>
  %x = tt.descriptor_load %d[%i] : !tt.tensordesc<64xf16> -> tensor<64xf16, #line>
  tt.descriptor_store %d[%i], %x : !tt.tensordesc<64xf16>, tensor<64xf16, #line>
  tt.return
}
