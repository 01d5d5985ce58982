// PASSES: assign-layouts{rules=assign-dpas},insert-barriers
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #blocked}>
#b = #ttg.dot_op<{opIdx = 1, parent = #blocked}>
#row = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>
#flat = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
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
// A scalar is stored by one warp: its stores and those of all warps keep their order.  Two tensors
// with one layout need no barrier, nor do two scalars.
// CHECK: tt.store
// CHECK-NEXT: tt.store
// CHECK-NEXT: ttg.barrier global_read|global_write
// CHECK-NEXT: tt.store
// CHECK-NEXT: tt.store
// CHECK-NEXT: ttg.barrier global_read|global_write
// CHECK-NEXT: tt.store
// CHECK-NOT: ttg.barrier
tt.func public @f(%s: !tt.ptr<i32>, %other: !tt.ptr<i32>, %i: tensor<1024xi32, #row>, %j: tensor<1024xi32, #row>, %n: i32) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %r = tt.addptr %s, %n : !tt.ptr<i32>, i32
  tt.store %p, %i : tensor<1024x!tt.ptr<i32>, #row>
  tt.store %q, %i : tensor<1024x!tt.ptr<i32>, #row>
  tt.store %r, %n : !tt.ptr<i32>
  tt.store %s, %n : !tt.ptr<i32>
  tt.store %p, %i : tensor<1024x!tt.ptr<i32>, #row>
  tt.store %other, %n : !tt.ptr<i32>
  tt.return
}

// -----
// All warps load before one of them stores elements that another loads: at other addresses only.
// CHECK: tt.load
// CHECK-NEXT: ttg.barrier global_read|global_write
// CHECK-NEXT: tt.store
// CHECK-NEXT: tt.load
// CHECK-NEXT: tt.store
// CHECK-NEXT: tt.return
tt.func public @f(%s: !tt.ptr<i32>, %other: !tt.ptr<i32>, %i: tensor<1024xi32, #row>, %j: tensor<1024xi32, #row>) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %c = tt.splat %other : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %r = tt.addptr %c, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %y = tt.load %q : tensor<1024x!tt.ptr<i32>, #row>
  tt.store %p, %y : tensor<1024x!tt.ptr<i32>, #row>
  %z = tt.load %r : tensor<1024x!tt.ptr<i32>, #row>
  tt.store %r, %z : tensor<1024x!tt.ptr<i32>, #row>
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

// -----
// Buffers: write and read, read and write, each with a barrier of shared memory between; reads need
// none between them, nor do views of another buffer. In the loop both barriers are needed.
// CHECK: ttg.local_alloc %v
// CHECK: ttg.local_store %v, %[[B:[^ ]*]] :
// CHECK-NEXT: ttg.barrier local
// CHECK-NEXT: scf.for
// CHECK: ttg.barrier local
// CHECK-NEXT: ttg.local_load
// CHECK-NEXT: ttg.local_load
// CHECK-NEXT: ttg.barrier local
// CHECK-NEXT: ttg.local_store
// CHECK-NOT: ttg.barrier
// CHECK: tt.return
tt.func public @f(%n: i32, %v: tensor<64xf32, #row>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %other = ttg.local_alloc %v : (tensor<64xf32, #row>) -> !ttg.memdesc<64xf32, #flat, #smem>
  %b = ttg.local_alloc : () -> !ttg.memdesc<2x64xf32, #flat, #smem, mutable>
  %first = ttg.memdesc_index %b[%zero] : !ttg.memdesc<2x64xf32, #flat, #smem, mutable> -> !ttg.memdesc<64xf32, #flat, #smem, mutable>
  ttg.local_store %v, %first : tensor<64xf32, #row> -> !ttg.memdesc<64xf32, #flat, #smem, mutable>
  scf.for %i = %zero to %n step %one : i32 {
    %view = ttg.memdesc_index %b[%i] : !ttg.memdesc<2x64xf32, #flat, #smem, mutable> -> !ttg.memdesc<64xf32, #flat, #smem, mutable>
    %x = ttg.local_load %view : !ttg.memdesc<64xf32, #flat, #smem, mutable> -> tensor<64xf32, #row>
    %y = ttg.local_load %other : !ttg.memdesc<64xf32, #flat, #smem> -> tensor<64xf32, #row>
    ttg.local_store %x, %first : tensor<64xf32, #row> -> !ttg.memdesc<64xf32, #flat, #smem, mutable>
    tt.print "x" {hex = false, isSigned = array<i32: 0>} : %y : tensor<64xf32, #row>
  }
  tt.return
}

// -----
// One warp: the lanes' accesses are apart for compilers too; a barrier that stands there serves.
// WARPS: 1
// CHECK: ttg.local_store
// CHECK-NEXT: ttg.barrier local
// CHECK-NEXT: ttg.local_load
// CHECK-NEXT: ttg.barrier local|global_read
// CHECK-NEXT: ttg.local_store
// CHECK-NEXT: tt.return
tt.func public @f(%b: !ttg.memdesc<16xf32, #flat, #smem, mutable>, %v: tensor<16xf32, #alone>) {
  %c = ttg.local_alloc : () -> !ttg.memdesc<16xf32, #flat, #smem, mutable>
  ttg.local_store %v, %c : tensor<16xf32, #alone> -> !ttg.memdesc<16xf32, #flat, #smem, mutable>
  %x = ttg.local_load %c : !ttg.memdesc<16xf32, #flat, #smem, mutable> -> tensor<16xf32, #alone>
  ttg.barrier local|global_read
  ttg.local_store %x, %c : tensor<16xf32, #alone> -> !ttg.memdesc<16xf32, #flat, #smem, mutable>
  tt.return
}

// -----
// The halves of a barrier: what is stored before the first is seen behind the second, what is
// stored between is not.
// CHECK: xe.barrier_wait
// CHECK-NEXT: tt.load
// CHECK: xe.barrier_wait
// CHECK-NEXT: ttg.barrier
// CHECK-NEXT: tt.load
tt.func public @f(%s: !tt.ptr<i32>, %i: tensor<1024xi32, #row>, %j: tensor<1024xi32, #row>) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  tt.store %p, %i : tensor<1024x!tt.ptr<i32>, #row>
  xe.barrier_arrive
  xe.barrier_wait
  %x = tt.load %q : tensor<1024x!tt.ptr<i32>, #row>
  xe.barrier_arrive
  tt.store %p, %x : tensor<1024x!tt.ptr<i32>, #row>
  xe.barrier_wait
  %y = tt.load %q : tensor<1024x!tt.ptr<i32>, #row>
  tt.print "x" {hex = false, isSigned = array<i32: 0>} : %y : tensor<1024xi32, #row>
  tt.return
}

// -----
// The barriers of a loop also order the accesses before it, so that none is needed before the `if`.
// CHECK: tt.load %s
// CHECK-NOT: ttg.barrier
// CHECK: scf.if
// CHECK-NOT: ttg.barrier
// CHECK: scf.for
// CHECK: ttg.barrier global_read|global_write
// CHECK-NEXT: tt.load %q
// CHECK: tt.store %p
tt.func public @f(%c: i1, %s: !tt.ptr<i32>, %i: tensor<1024xi32, #row>, %j: tensor<1024xi32, #row>, %n: i32) {
  %b = tt.splat %s : !tt.ptr<i32> -> tensor<1024x!tt.ptr<i32>, #row>
  %p = tt.addptr %b, %i : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %q = tt.addptr %b, %j : tensor<1024x!tt.ptr<i32>, #row>, tensor<1024xi32, #row>
  %m = tt.load %s : !tt.ptr<i32>
  scf.if %c {
    scf.for %k = %n to %m step %n : i32 {
      %x = tt.load %q : tensor<1024x!tt.ptr<i32>, #row>
      tt.store %p, %x : tensor<1024x!tt.ptr<i32>, #row>
    }
  }
  tt.return
}
