// PASSES: keep-in-shared-memory
#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#columns = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [4, 4], warpsPerCTA = [1, 4], order = [0, 1]}>
// ===
// WARPS: 4
// A use reads the elements.
// CHECK: ttg.convert_layout {{.*}}xe.shared
// CHECK-NOT: xe.read_shared
tt.func public @f(%x: tensor<32x32xf32, #rows>, %y: tensor<32x32xf32, #rows>, %n: i32, %p: tensor<32x32x!tt.ptr<f32>, #columns>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ttg.convert_layout %x : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #columns>
  %b = arith.addf %a, %a : tensor<32x32xf32, #columns>
  tt.store %p, %b : tensor<32x32x!tt.ptr<f32>, #columns>
  tt.return
}
// -----
// WARPS: 4
// A loop that uses the tensor needs it in registers.
// CHECK: xe.read_shared
// CHECK: scf.for
tt.func public @f(%x: tensor<32x32xf32, #rows>, %y: tensor<32x32xf32, #rows>, %n: i32, %p: tensor<32x32x!tt.ptr<f32>, #columns>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ttg.convert_layout %x : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #columns>
  scf.for %i = %c0 to %n step %c1 : i32 {
    tt.store %p, %a : tensor<32x32x!tt.ptr<f32>, #columns>
  }
  tt.return
}
// -----
// WARPS: 4
// So does one before the use, in which the memory may be written.
// CHECK: xe.read_shared
// CHECK: scf.for
tt.func public @f(%x: tensor<32x32xf32, #rows>, %y: tensor<32x32xf32, #rows>, %n: i32, %p: tensor<32x32x!tt.ptr<f32>, #columns>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ttg.convert_layout %x : tensor<32x32xf32, #rows> -> tensor<32x32xf32, #columns>
  scf.for %i = %c0 to %n step %c1 : i32 {
  }
  tt.store %p, %a : tensor<32x32x!tt.ptr<f32>, #columns>
  tt.return
}
// -----
// WARPS: 4
// Two tensors of 16 KiB fit.
// CHECK-NOT: xe.read_shared
tt.func public @f(%x: tensor<64x64xf32, #rows>, %y: tensor<64x64xf32, #rows>, %n: i32, %p: tensor<64x64x!tt.ptr<f32>, #columns>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ttg.convert_layout %x : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
  %b = ttg.convert_layout %y : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
  tt.store %p, %a : tensor<64x64x!tt.ptr<f32>, #columns>
  tt.store %p, %b : tensor<64x64x!tt.ptr<f32>, #columns>
  tt.return
}
// -----
// WARPS: 4
// Two of 64 KiB do not: the first is read before the second is written.
// CHECK: ttg.convert_layout
// CHECK: xe.read_shared
// CHECK: ttg.convert_layout
// CHECK-NOT: xe.read_shared
tt.func public @f(%x: tensor<128x128xf32, #rows>, %y: tensor<128x128xf32, #rows>, %n: i32, %p: tensor<128x128x!tt.ptr<f32>, #columns>) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = ttg.convert_layout %x : tensor<128x128xf32, #rows> -> tensor<128x128xf32, #columns>
  %b = ttg.convert_layout %y : tensor<128x128xf32, #rows> -> tensor<128x128xf32, #columns>
  tt.store %p, %a : tensor<128x128x!tt.ptr<f32>, #columns>
  tt.store %p, %b : tensor<128x128x!tt.ptr<f32>, #columns>
  tt.return
}
