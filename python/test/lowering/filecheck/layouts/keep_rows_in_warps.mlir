// PASSES: assign-layouts{rules=keep-rows-in-warps}
#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [1, 4], order = [1, 0]}>
#narrow = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [1, 4], order = [1, 0]}>
// ===
// Each warp has two of the eight rows.  The first column of addresses is computed again.
// CHECK: #[[KEPT:blocked[0-9]*]] = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1]
// CHECK-LABEL: tt.func public @sums(
// CHECK: tt.broadcast {{.*}} : tensor<8x1xi32, #[[KEPT]]> -> tensor<8x512xi32, #[[KEPT]]>
// CHECK: tt.load {{.*}} : tensor<8x512x!tt.ptr<f32>, #[[KEPT]]>
// CHECK: (tensor<8x512xf32, #[[KEPT]]>) -> tensor<8xf32, #ttg.slice<{dim = 1, parent = #[[KEPT]]}>>
tt.func public @sums(%p: !tt.ptr<f32>, %y: !tt.ptr<f32>, %stride: i32) {
  %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32, #ttg.slice<{dim = 1, parent = #narrow}>>
  %re = tt.expand_dims %r {axis = 1 : i32} : tensor<8xi32, #ttg.slice<{dim = 1, parent = #narrow}>> -> tensor<8x1xi32, #narrow>
  %s = tt.splat %stride : i32 -> tensor<8x1xi32, #narrow>
  %rs = arith.muli %re, %s : tensor<8x1xi32, #narrow>
  %rb = tt.broadcast %rs : tensor<8x1xi32, #narrow> -> tensor<8x512xi32, #rows>
  %c = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32, #ttg.slice<{dim = 0, parent = #rows}>>
  %ce = tt.expand_dims %c {axis = 0 : i32} : tensor<512xi32, #ttg.slice<{dim = 0, parent = #rows}>> -> tensor<1x512xi32, #rows>
  %cb = tt.broadcast %ce : tensor<1x512xi32, #rows> -> tensor<8x512xi32, #rows>
  %at = arith.addi %rb, %cb : tensor<8x512xi32, #rows>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<8x512x!tt.ptr<f32>, #rows>
  %a = tt.addptr %ps, %at : tensor<8x512x!tt.ptr<f32>, #rows>, tensor<8x512xi32, #rows>
  %x = tt.load %a : tensor<8x512x!tt.ptr<f32>, #rows>
  %t = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.reduce.return %w : f32
  }) : (tensor<8x512xf32, #rows>) -> tensor<8xf32, #ttg.slice<{dim = 1, parent = #rows}>>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #rows}>>
  tt.store %ys, %t : tensor<8x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #rows}>>
  tt.return
}

// -----
// CHECK: #[[KEPT:blocked[0-9]*]] = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1]
// CHECK-LABEL: tt.func public @scan(
// CHECK: (tensor<4x256xf32, #[[KEPT]]>) -> tensor<4x256xf32, #[[KEPT]]>
tt.func public @scan(%p: !tt.ptr<f32>) {
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<4x256x!tt.ptr<f32>, #rows>
  %x = tt.load %ps : tensor<4x256x!tt.ptr<f32>, #rows>
  %t = "tt.scan"(%x) <{axis = 1 : i32, reverse = false}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.scan.return %w : f32
  }) : (tensor<4x256xf32, #rows>) -> tensor<4x256xf32, #rows>
  tt.store %ps, %t : tensor<4x256x!tt.ptr<f32>, #rows>
  tt.return
}

// -----
// Two rows are not enough for four warps.
// CHECK-NOT: warpsPerCTA = [4, 1]
// CHECK-LABEL: tt.func public @few(
tt.func public @few(%p: !tt.ptr<f32>) {
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<2x256x!tt.ptr<f32>, #rows>
  %x = tt.load %ps : tensor<2x256x!tt.ptr<f32>, #rows>
  %t = "tt.scan"(%x) <{axis = 1 : i32, reverse = false}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.scan.return %w : f32
  }) : (tensor<2x256xf32, #rows>) -> tensor<2x256xf32, #rows>
  tt.store %ps, %t : tensor<2x256x!tt.ptr<f32>, #rows>
  tt.return
}

// -----
// Each warp would load all weights of columns.
// CHECK-NOT: warpsPerCTA = [4, 1]
// CHECK-LABEL: tt.func public @weights(
tt.func public @weights(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<8x512x!tt.ptr<f32>, #rows>
  %x = tt.load %ps : tensor<8x512x!tt.ptr<f32>, #rows>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #rows}>>
  %g = tt.load %qs : tensor<512x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #rows}>>
  %ge = tt.expand_dims %g {axis = 0 : i32} : tensor<512xf32, #ttg.slice<{dim = 0, parent = #rows}>> -> tensor<1x512xf32, #rows>
  %gb = tt.broadcast %ge : tensor<1x512xf32, #rows> -> tensor<8x512xf32, #rows>
  %m = arith.mulf %x, %gb : tensor<8x512xf32, #rows>
  %t = "tt.reduce"(%m) <{axis = 1 : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.reduce.return %w : f32
  }) : (tensor<8x512xf32, #rows>) -> tensor<8xf32, #ttg.slice<{dim = 1, parent = #rows}>>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #rows}>>
  tt.store %ys, %t : tensor<8x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #rows}>>
  tt.return
}

// -----
// The sum of all rows would need an exchange between warps instead.
// CHECK-NOT: warpsPerCTA = [4, 1]
// CHECK-LABEL: tt.func public @total(
tt.func public @total(%p: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<8x512x!tt.ptr<f32>, #rows>
  %x = tt.load %ps : tensor<8x512x!tt.ptr<f32>, #rows>
  %t = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.reduce.return %w : f32
  }) : (tensor<8x512xf32, #rows>) -> tensor<8xf32, #ttg.slice<{dim = 1, parent = #rows}>>
  %whole = "tt.reduce"(%t) <{axis = 0 : i32}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tt.reduce.return %w : f32
  }) : (tensor<8xf32, #ttg.slice<{dim = 1, parent = #rows}>>) -> f32
  tt.store %y, %whole : !tt.ptr<f32>
  tt.return
}
