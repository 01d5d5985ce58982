// PASSES: assign-layouts{rules=reduce-in-place}
#four = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#one = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#wide = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#tall = #ttg.blocked<{sizePerThread = [2, 1], threadsPerWarp = [16, 1], warpsPerCTA = [1, 4], order = [0, 1]}>
// ===
// One dimension stays as it is, also after a conversion.
// CHECK-LABEL: tt.func public @row(
// CHECK-NOT: tt.reshape
// CHECK-NOT: ttg.convert_layout
// CHECK: "tt.reduce"(%x)
tt.func public @row(%x: tensor<256xf32, #four>, %p: !tt.ptr<f32>) {
  %c = ttg.convert_layout %x : tensor<256xf32, #four> -> tensor<256xf32, #one>
  %y = tt.reshape %c allow_reorder : tensor<256xf32, #one> -> tensor<256xf32, #one>
  %s = "tt.reduce"(%y) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    tt.reduce.return %t : f32
  }) : (tensor<256xf32, #one>) -> f32
  tt.store %p, %s : !tt.ptr<f32>
  tt.return
}

// -----
// A matrix is flattened row by row: the first register bit selects odd columns, lanes select pairs,
// warps and the second register bit select rows.
// CHECK: #[[FLAT:linear[0-9]*]] = #ttg.linear<{register = {{\[\[1\], \[128\]\]}}, lane = {{\[\[2\], \[4\], \[8\], \[16\]\]}}, warp = {{\[\[32\], \[64\]\]}}, block = []}>
// CHECK-LABEL: tt.func public @matrix(
// CHECK: %[[Y:.*]] = tt.reshape %x : {{.*}} -> tensor<256xf32, #[[FLAT]]>
// CHECK-NEXT: "tt.reduce"(%[[Y]])
tt.func public @matrix(%x: tensor<8x32xf32, #wide>, %p: !tt.ptr<f32>) {
  %y = tt.reshape %x allow_reorder : tensor<8x32xf32, #wide> -> tensor<256xf32, #one>
  %s = "tt.reduce"(%y) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    tt.reduce.return %t : f32
  }) : (tensor<256xf32, #one>) -> f32
  tt.store %p, %s : !tt.ptr<f32>
  tt.return
}

// -----
// Tensors that are reduced together need one layout; those of two layouts are left as they are.
// CHECK-LABEL: tt.func public @together(
// CHECK: tt.reshape %x allow_reorder
// CHECK: tt.reshape %i allow_reorder
tt.func public @together(%x: tensor<32x32xf32, #wide>, %i: tensor<32x32xi32, #tall>, %p: !tt.ptr<i32>) {
  %y = tt.reshape %x allow_reorder : tensor<32x32xf32, #wide> -> tensor<1024xf32, #one>
  %j = tt.reshape %i allow_reorder : tensor<32x32xi32, #tall> -> tensor<1024xi32, #one>
  %s:2 = "tt.reduce"(%y, %j) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %k: i32, %b: f32, %l: i32):
    %less = arith.cmpf olt, %a, %b : f32
    %t = arith.select %less, %a, %b : f32
    %n = arith.select %less, %k, %l : i32
    tt.reduce.return %t, %n : f32, i32
  }) : (tensor<1024xf32, #one>, tensor<1024xi32, #one>) -> (f32, i32)
  tt.store %p, %s#1 : !tt.ptr<i32>
  tt.return
}

// -----
// A reshape that keeps the order is left as it is.
// CHECK-LABEL: tt.func public @ordered(
// CHECK: %[[Y:.*]] = tt.reshape %x :
// CHECK: "tt.reduce"(%[[Y]])
tt.func public @ordered(%x: tensor<256xf32, #four>, %p: !tt.ptr<f32>) {
  %y = tt.reshape %x : tensor<256xf32, #four> -> tensor<256xf32, #one>
  %s = "tt.reduce"(%y) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    tt.reduce.return %t : f32
  }) : (tensor<256xf32, #one>) -> f32
  tt.store %p, %s : !tt.ptr<f32>
  tt.return
}
