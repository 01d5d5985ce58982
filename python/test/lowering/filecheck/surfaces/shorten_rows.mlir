// PASSES: shorten-rows{short-rows=true}
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// One of the zeros behind the row's end stays, the others need not be added.
// CHECK: #blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [1], order = [0]}>
// CHECK: "ttg.num-warps" = 1 : i32
// CHECK-LABEL: tt.func public @sum(
// CHECK: arith.constant dense<0.000000e+00> : tensor<256xf32, #blocked>
// CHECK: tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32, #blocked>
// CHECK: tt.load {{.*}} : tensor<256x!tt.ptr<f32>, #blocked>
// CHECK: (tensor<256xf32, #blocked>) -> f32
tt.func public @sum(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
  %z = arith.constant dense<0.000000e+00> : tensor<2048xf32, #blocked>
  %i = tt.make_range {end = 2048 : i32, start = 0 : i32} : tensor<2048xi32, #blocked>
  %s = tt.splat %n : i32 -> tensor<2048xi32, #blocked>
  %m = arith.cmpi slt, %i, %s : tensor<2048xi32, #blocked>
  %a = tt.splat %x : !tt.ptr<f32> -> tensor<2048x!tt.ptr<f32>, #blocked>
  %p = tt.addptr %a, %i : tensor<2048x!tt.ptr<f32>, #blocked>, tensor<2048xi32, #blocked>
  %v = tt.load %p, %m, %z : tensor<2048x!tt.ptr<f32>, #blocked>
  %r = "tt.reduce"(%v) <{axis = 0 : i32}> ({
  ^bb0(%u: f32, %w: f32):
    %t = arith.addf %u, %w : f32
    tt.reduce.return %t : f32
  }) : (tensor<2048xf32, #blocked>) -> f32
  tt.store %y, %r : !tt.ptr<f32>
  tt.return
}

// -----
// Nobody knows what this load leaves behind the end of the row.
// CHECK: "ttg.num-warps" = 4 : i32
// CHECK: tt.make_range {end = 2048 : i32
tt.func public @undefined(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
  %i = tt.make_range {end = 2048 : i32, start = 0 : i32} : tensor<2048xi32, #blocked>
  %s = tt.splat %n : i32 -> tensor<2048xi32, #blocked>
  %m = arith.cmpi slt, %i, %s : tensor<2048xi32, #blocked>
  %a = tt.splat %x : !tt.ptr<f32> -> tensor<2048x!tt.ptr<f32>, #blocked>
  %p = tt.addptr %a, %i : tensor<2048x!tt.ptr<f32>, #blocked>, tensor<2048xi32, #blocked>
  %v = tt.load %p, %m : tensor<2048x!tt.ptr<f32>, #blocked>
  %r = "tt.reduce"(%v) <{axis = 0 : i32}> ({
  ^bb0(%u: f32, %w: f32):
    %t = arith.maxnumf %u, %w : f32
    tt.reduce.return %t : f32
  }) : (tensor<2048xf32, #blocked>) -> f32
  tt.store %y, %r : !tt.ptr<f32>
  tt.return
}
