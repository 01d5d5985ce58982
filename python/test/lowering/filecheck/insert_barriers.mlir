// PASSES: assign-dpas,insert-barriers
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
#row = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#alone = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [1], order = [0]}>
// ===
// Warps wait before one stores where others may still load.
// CHECK: xe.block_load
// CHECK: tt.dot
// CHECK: ttg.barrier
// CHECK: xe.block_store
tt.func public @f(%s: !xe.cursor<f16>, %y: tensor<32x32xf16, #b>, %z: tensor<32x32xf32, #blocked>, %o: !xe.cursor<f32>) {
  %x = xe.block_load %s : !xe.cursor<f16> -> tensor<32x32xf16, #blocked>
  %xa = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #a>
  %d = tt.dot %xa, %y, %z : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #blocked>
  xe.block_store %d, %o : tensor<32x32xf32, #blocked>, !xe.cursor<f32>
  tt.return
}

// -----
// Elements that another warp stored: a barrier between; none for addresses of the same value.
// CHECK: tt.store
// CHECK-NOT: ttg.barrier
// CHECK: tt.load %p
// CHECK: ttg.barrier global_read|global_write
// CHECK-NEXT: tt.load %q
// CHECK-NOT: ttg.barrier
tt.func public @f(%s: !tt.ptr<i32>, %i: tensor<1024xi32, #row>, %j: tensor<1024xi32, #row>) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  tt.store %p, %i : tensor<1024x!tt.ptr<i32>, #row>
  %x = tt.load %p : tensor<1024x!tt.ptr<i32>, #row>
  %y = tt.load %q : tensor<1024x!tt.ptr<i32>, #row>
  tt.print "x" {hex = false, isSigned = array<i32: 0>} : %x, %y : tensor<1024xi32, #row>, tensor<1024xi32, #row>
  tt.return
}

// -----
// A barrier on one path does not serve another.
// CHECK: tt.store
// CHECK: cf.cond_br
// CHECK: ttg.barrier
// CHECK-NEXT: tt.load
// CHECK: tt.return
// CHECK: ttg.barrier
// CHECK-NEXT: tt.load
tt.func public @f(%c: i1, %s: !tt.ptr<i32>, %i: tensor<1024xi32, #row>, %j: tensor<1024xi32, #row>) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  tt.store %p, %i : tensor<1024x!tt.ptr<i32>, #row>
  cf.cond_br %c, ^early, ^late
^early:
  %x = tt.load %q : tensor<1024x!tt.ptr<i32>, #row>
  tt.print "x" {hex = false, isSigned = array<i32: 0>} : %x : tensor<1024xi32, #row>
  tt.return
^late:
  %y = tt.load %q : tensor<1024x!tt.ptr<i32>, #row>
  tt.print "y" {hex = false, isSigned = array<i32: 0>} : %y : tensor<1024xi32, #row>
  tt.return
}

// -----
// Every warp loads a scalar before one of them stores it.
// CHECK: tt.load
// CHECK: ttg.barrier
// CHECK: tt.store
tt.func public @f(%s: !tt.ptr<i32>) {
  %one = arith.constant 1 : i32
  %x = tt.load %s : !tt.ptr<i32>
  %y = arith.addi %x, %one : i32
  tt.store %s, %y : !tt.ptr<i32>
  tt.return
}

// -----
// Nothing waits in a loop where waiting before it is enough.
// CHECK: tt.store
// CHECK: ttg.barrier
// CHECK: scf.for
// CHECK-NOT: ttg.barrier
tt.func public @f(%c: i1, %s: !tt.ptr<i32>, %i: tensor<1024xi32, #row>, %j: tensor<1024xi32, #row>, %n: i32) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  tt.store %p, %i : tensor<1024x!tt.ptr<i32>, #row>
  scf.for %k = %zero to %n step %one : i32 {
    %x = tt.load %q : tensor<1024x!tt.ptr<i32>, #row>
    tt.print "x" {hex = false, isSigned = array<i32: 0>} : %x : tensor<1024xi32, #row>
  }
  tt.return
}

// -----
// WARPS: 1
// One warp runs in order.
// CHECK-NOT: ttg.barrier
tt.func public @f(%c: i1, %s: !tt.ptr<i32>, %i: tensor<1024xi32, #alone>, %j: tensor<1024xi32, #alone>) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #alone>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #alone>, tensor<1024xi32, #alone>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #alone>, tensor<1024xi32, #alone>
  tt.store %p, %i : tensor<1024x!tt.ptr<i32>, #alone>
  %x = tt.load %q : tensor<1024x!tt.ptr<i32>, #alone>
  tt.print "x" {hex = false, isSigned = array<i32: 0>} : %x : tensor<1024xi32, #alone>
  tt.return
}

// -----
// An atomic waits for the stores of other warps, but not for another atomic.
// CHECK: tt.store
// CHECK: ttg.barrier
// CHECK: tt.atomic_rmw
// CHECK-NOT: ttg.barrier
// CHECK: tt.atomic_rmw
tt.func public @f(%s: !tt.ptr<i32>, %i: tensor<1024xi32, #row>, %j: tensor<1024xi32, #row>, %m: tensor<1024xi1, #row>) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  tt.store %p, %i : tensor<1024x!tt.ptr<i32>, #row>
  %x = tt.atomic_rmw add, relaxed, gpu, %q, %i, %m : (tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>, tensor<1024xi1, #row>) -> tensor<1024xi32, #row>
  %y = tt.atomic_rmw add, relaxed, gpu, %p, %i, %m : (tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>, tensor<1024xi1, #row>) -> tensor<1024xi32, #row>
  tt.return
}
