// PASSES: assign-layouts{rules=scan-in-runs}
#columns = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
// ===
// Each warp has 16 consecutive rows, all of them in each lane.
// CHECK: #[[RUNS:linear[0-9]*]] = #ttg.linear<{register = {{\[}}[0, 1], [0, 2], [1, 0], [2, 0], [4, 0], [8, 0]], lane = {{\[}}[0, 4], [0, 8], [0, 16], [0, 32]], warp = {{\[}}[16, 0], [32, 0]], block = []}>
// CHECK-LABEL: tt.func public @down(
// CHECK: tt.load {{.*}} : tensor<64x64x!tt.ptr<f32>, #[[RUNS]]>
// CHECK: (tensor<64x64xf32, #[[RUNS]]>) -> tensor<64x64xf32, #[[RUNS]]>
tt.func public @down(%p: !tt.ptr<f32>) {
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>, #columns>
  %x = tt.load %ps : tensor<64x64x!tt.ptr<f32>, #columns>
  %t = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.scan.return %w : f32
  }) : (tensor<64x64xf32, #columns>) -> tensor<64x64xf32, #columns>
  tt.store %ps, %t : tensor<64x64x!tt.ptr<f32>, #columns>
  tt.return
}

// -----
// Messages load 4 elements for each lane, and a warp has 256 consecutive ones.
// CHECK: #[[RUNS:linear[0-9]*]] = #ttg.linear<{register = {{\[}}[1], [2], [64], [128]], lane = {{\[}}[4], [8], [16], [32]], warp = {{\[}}[256], [512]], block = []}>
// CHECK-LABEL: tt.func public @along(
// CHECK: (tensor<1024xf32, #[[RUNS]]>) -> tensor<1024xf32, #[[RUNS]]>
tt.func public @along(%p: !tt.ptr<f32>) {
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>, #row>
  %x = tt.load %ps : tensor<1024x!tt.ptr<f32>, #row>
  %t = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.scan.return %w : f32
  }) : (tensor<1024xf32, #row>) -> tensor<1024xf32, #row>
  tt.store %ps, %t : tensor<1024x!tt.ptr<f32>, #row>
  tt.return
}

// -----
// The other axis is reduced.
// CHECK-NOT: #ttg.linear
// CHECK-LABEL: tt.func public @both(
tt.func public @both(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>, #columns>
  %x = tt.load %ps : tensor<64x64x!tt.ptr<f32>, #columns>
  %t = "tt.scan"(%x) <{axis = 0 : i32, reverse = false}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.scan.return %w : f32
  }) : (tensor<64x64xf32, #columns>) -> tensor<64x64xf32, #columns>
  tt.store %ps, %t : tensor<64x64x!tt.ptr<f32>, #columns>
  %s = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.reduce.return %w : f32
  }) : (tensor<64x64xf32, #columns>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #columns}>>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #columns}>>
  tt.store %qs, %s : tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #columns}>>
  tt.return
}
