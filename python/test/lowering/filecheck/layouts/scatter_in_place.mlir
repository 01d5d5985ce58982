// PASSES: assign-layouts{rules=scatter-in-place}
#four = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#one = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#blocks = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [1, 4]}>
// ===
// An atomic adds where the addresses were computed; constants are made there.
// CHECK: #[[FOUR:blocked[0-9]*]] = #ttg.blocked<{sizePerThread = [4]
// CHECK-LABEL: tt.func public @counts(
// CHECK-NOT: ttg.convert_layout
// CHECK: arith.constant dense<1> : tensor<256xi32, #[[FOUR]]>
// CHECK: tt.atomic_rmw {{.*}} : (tensor<256x!tt.ptr<i32>, #[[FOUR]]>
// CHECK-NOT: ttg.convert_layout
tt.func public @counts(%at: tensor<256x!tt.ptr<i32>, #four>, %bins: tensor<256x!tt.ptr<i32>, #four>) {
  %ones = arith.constant dense<1> : tensor<256xi32, #one>
  %all = arith.constant dense<true> : tensor<256xi1, #one>
  %x = tt.load %at : tensor<256x!tt.ptr<i32>, #four>
  %p = tt.addptr %bins, %x : tensor<256x!tt.ptr<i32>, #four>, tensor<256xi32, #four>
  %q = ttg.convert_layout %p : tensor<256x!tt.ptr<i32>, #four> -> tensor<256x!tt.ptr<i32>, #one>
  %old = tt.atomic_rmw add, relaxed, gpu, %q, %ones, %all : (tensor<256x!tt.ptr<i32>, #one>, tensor<256xi32, #one>, tensor<256xi1, #one>) -> tensor<256xi32, #one>
  tt.return
}

// -----
// What the atomic returns is converted for those who use it.
// CHECK: #[[ONE:blocked[0-9]*]] = #ttg.blocked<{sizePerThread = [1]
// CHECK-LABEL: tt.func public @returns(
// CHECK: %[[OLD:.*]] = tt.atomic_cas {{.*}}, %p, %a, %b
// CHECK: ttg.convert_layout %[[OLD]] : {{.*}} -> tensor<256xi32, #[[ONE]]>
// CHECK: tt.print
tt.func public @returns(%p: tensor<256x!tt.ptr<i32>, #four>, %a: tensor<256xi32, #four>, %b: tensor<256xi32, #four>) {
  %q = ttg.convert_layout %p : tensor<256x!tt.ptr<i32>, #four> -> tensor<256x!tt.ptr<i32>, #one>
  %c = ttg.convert_layout %a : tensor<256xi32, #four> -> tensor<256xi32, #one>
  %d = ttg.convert_layout %b : tensor<256xi32, #four> -> tensor<256xi32, #one>
  %old = tt.atomic_cas relaxed, gpu, %q, %c, %d : (tensor<256x!tt.ptr<i32>, #one>, tensor<256xi32, #one>, tensor<256xi32, #one>) -> tensor<256xi32, #one>
  tt.print "old" {hex = false, isSigned = array<i32: 0>} : %old : tensor<256xi32, #one>
  tt.return
}

// -----
// A store takes value and mask from where the addresses are.
// CHECK-LABEL: tt.func public @scatters(
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.store %p, %x, %m :
tt.func public @scatters(%p: tensor<256x!tt.ptr<f32>, #four>, %x: tensor<256xf32, #four>, %m: tensor<256xi1, #four>) {
  %q = ttg.convert_layout %p : tensor<256x!tt.ptr<f32>, #four> -> tensor<256x!tt.ptr<f32>, #one>
  %y = ttg.convert_layout %x : tensor<256xf32, #four> -> tensor<256xf32, #one>
  %n = ttg.convert_layout %m : tensor<256xi1, #four> -> tensor<256xi1, #one>
  tt.store %q, %y, %n : tensor<256x!tt.ptr<f32>, #one>
  tt.return
}

// -----
// Neighbouring addresses stay in the layout in which they share messages.
// CHECK-LABEL: tt.func public @contiguous(
// CHECK: ttg.convert_layout
// CHECK: tt.store
tt.func public @contiguous(%p: !tt.ptr<f32>, %start: tensor<256xi32, #four>, %x: tensor<256xf32, #four>) {
  %base = tt.splat %p : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>, #four>
  %m = arith.addi %start, %start {tt.contiguity = dense<4> : tensor<1xi32>} : tensor<256xi32, #four>
  %a = tt.addptr %base, %m : tensor<256x!tt.ptr<f32>, #four>, tensor<256xi32, #four>
  %q = ttg.convert_layout %a : tensor<256x!tt.ptr<f32>, #four> -> tensor<256x!tt.ptr<f32>, #one>
  %y = ttg.convert_layout %x : tensor<256xf32, #four> -> tensor<256xf32, #one>
  tt.store %q, %y : tensor<256x!tt.ptr<f32>, #one>
  tt.return
}

// -----
// Values of another layout would have to be exchanged instead.
// CHECK-LABEL: tt.func public @elsewhere(
// CHECK: ttg.convert_layout
// CHECK: tt.store
tt.func public @elsewhere(%p: tensor<256x!tt.ptr<f32>, #four>, %y: tensor<256xf32, #one>) {
  %q = ttg.convert_layout %p : tensor<256x!tt.ptr<f32>, #four> -> tensor<256x!tt.ptr<f32>, #one>
  tt.store %q, %y : tensor<256x!tt.ptr<f32>, #one>
  tt.return
}

// -----
// A layout that holds elements several times would add them several times over.
// CHECK-LABEL: tt.func public @copies(
// CHECK: ttg.convert_layout
// CHECK: tt.atomic_rmw
tt.func public @copies(%p: tensor<64x!tt.ptr<i32>, #four>, %x: tensor<64xi32, #four>) {
  %all = arith.constant dense<true> : tensor<64xi1, #one>
  %q = ttg.convert_layout %p : tensor<64x!tt.ptr<i32>, #four> -> tensor<64x!tt.ptr<i32>, #one>
  %y = ttg.convert_layout %x : tensor<64xi32, #four> -> tensor<64xi32, #one>
  %old = tt.atomic_rmw add, relaxed, gpu, %q, %y, %all : (tensor<64x!tt.ptr<i32>, #one>, tensor<64xi32, #one>, tensor<64xi1, #one>) -> tensor<64xi32, #one>
  tt.return
}

// -----
// Results of the matrix unit are stored in its layout, also where messages are narrower, and two
// stores share the addresses.
// CHECK: #[[DPAS:dpas[0-9]*]] = #xe.dpas
// CHECK-LABEL: tt.func public @products(
// CHECK-COUNT-1: tt.make_range {{.*}} parent = #[[DPAS]]
// CHECK-NOT: tt.make_range {{.*}} parent = #[[DPAS]]
// CHECK: tt.store {{.*}}, %x : tensor<32x64x!tt.ptr<f32>, #[[DPAS]]>
// CHECK: tt.store {{.*}}, %y : tensor<32x64x!tt.ptr<f32>, #[[DPAS]]>
tt.func public @products(%p: !tt.ptr<f32>, %x: tensor<32x64xf32, #dpas>, %y: tensor<32x64xf32, #dpas>) {
  %n = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocks}>>
  %e = tt.expand_dims %n {axis = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocks}>> -> tensor<1x64xi32, #blocks>
  %at = tt.broadcast %e : tensor<1x64xi32, #blocks> -> tensor<32x64xi32, #blocks>
  %s = tt.splat %p : !tt.ptr<f32> -> tensor<32x64x!tt.ptr<f32>, #blocks>
  %q = tt.addptr %s, %at : tensor<32x64x!tt.ptr<f32>, #blocks>, tensor<32x64xi32, #blocks>
  %c = ttg.convert_layout %x : tensor<32x64xf32, #dpas> -> tensor<32x64xf32, #blocks>
  tt.store %q, %c : tensor<32x64x!tt.ptr<f32>, #blocks>
  %d = ttg.convert_layout %y : tensor<32x64xf32, #dpas> -> tensor<32x64xf32, #blocks>
  tt.store %q, %d : tensor<32x64x!tt.ptr<f32>, #blocks>
  tt.return
}
