// PASSES: count-positions
// TARGET: pvc

// The loop moves a block by 32 columns, and counts these instead of its iterations.
// CHECK-DAG: %[[BY:.*]] = arith.constant 32 : i32
// CHECK: %[[COVERED:.*]] = arith.muli %n, %[[BY]]
// CHECK: %[[END:.*]] = arith.addi %x, %[[COVERED]]
// CHECK: %[[T:.*]] = xegpu.create_nd_tdesc %a, %y, 0, %h, %w, %w, 1
// CHECK: scf.for %[[P:.*]] = %x to %[[END]] step %[[BY]] : i32 {
// CHECK-NEXT: %[[U:.*]] = xegpu.update_nd_offset %[[T]], 0, %[[P]]
// CHECK-NEXT: xegpu.load_nd %[[U]]
// CHECK-NEXT: } {xe.runs = "exact"}
tt.func public @k(%a: !tt.ptr<f16>, %h: i32, %w: i32, %y: i32, %x: i32, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %t = xegpu.create_nd_tdesc %a, %y, %x, %h, %w, %w, 1 : !tt.ptr<f16>, i32, i32, i32, i32, i32 -> !xegpu.tensor_desc<8x16xf16>
  %e = scf.for %i = %zero to %n step %one iter_args(%u = %t) -> (!xegpu.tensor_desc<8x16xf16>) : i32 {
    %v = xegpu.load_nd %u : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
    %m = xegpu.update_nd_offset %u, 0, 32 : !xegpu.tensor_desc<8x16xf16> -> !xegpu.tensor_desc<8x16xf16>
    scf.yield %m : !xegpu.tensor_desc<8x16xf16>
  } {xe.runs}
  tt.return
}

// -----
// TARGET: pvc
// Iterations of 64 each: their number is rounded up.
// CHECK: arith.subi %n, %low
// CHECK: arith.divui
// CHECK: scf.for
// CHECK: } {xe.runs = "exact"}
tt.func public @k(%a: !tt.ptr<f16>, %h: i32, %w: i32, %y: i32, %x: i32, %low: i32, %n: i32) {
  %step = arith.constant 64 : i32
  %t = xegpu.create_nd_tdesc %a, %y, %x, %h, %w, %w, 1 : !tt.ptr<f16>, i32, i32, i32, i32, i32 -> !xegpu.tensor_desc<8x16xf16>
  %e = scf.for %i = %low to %n step %step iter_args(%u = %t) -> (!xegpu.tensor_desc<8x16xf16>) : i32 {
    %v = xegpu.load_nd %u : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
    %m = xegpu.update_nd_offset %u, 32, 0 : !xegpu.tensor_desc<8x16xf16> -> !xegpu.tensor_desc<8x16xf16>
    scf.yield %m : !xegpu.tensor_desc<8x16xf16>
  } {xe.runs}
  tt.return
}

// -----
// Left alone: a loop that may not run, one that uses its counter, and a payload, which has offsets.
// CHECK-COUNT-3: iter_args
// CHECK-NOT: exact
tt.func public @k(%a: !tt.ptr<f16>, %h: i32, %w: i32, %y: i32, %x: i32, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %t = xegpu.create_nd_tdesc %a, %y, %x, %h, %w, %w, 1 : !tt.ptr<f16>, i32, i32, i32, i32, i32 -> !xegpu.tensor_desc<8x16xf16>
  %e = scf.for %i = %zero to %n step %one iter_args(%u = %t) -> (!xegpu.tensor_desc<8x16xf16>) : i32 {
    %v = xegpu.load_nd %u {packed} : !xegpu.tensor_desc<8x16xf16> -> vector<4x16x2xf16>
    %w0 = xegpu.load_nd %u : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
    %m = xegpu.update_nd_offset %u, 0, 32 : !xegpu.tensor_desc<8x16xf16> -> !xegpu.tensor_desc<8x16xf16>
    scf.yield %m : !xegpu.tensor_desc<8x16xf16>
  }
  %s = xegpu.create_nd_tdesc %a, %y, %x, %h, %w, %w, 1 : !tt.ptr<f16>, i32, i32, i32, i32, i32 -> !xegpu.tensor_desc<8x16xf16>
  %f = scf.for %i = %zero to %n step %one iter_args(%u = %s) -> (!xegpu.tensor_desc<8x16xf16>) : i32 {
    %v = xegpu.load_nd %u : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
    %m = xegpu.update_nd_offset %u, 0, 32 : !xegpu.tensor_desc<8x16xf16> -> !xegpu.tensor_desc<8x16xf16>
    scf.yield %m : !xegpu.tensor_desc<8x16xf16>
  } {xe.runs}
  %r = xegpu.create_nd_tdesc %a, %y, %x, %h, %w, %w, 1 : !tt.ptr<f16>, i32, i32, i32, i32, i32 -> !xegpu.tensor_desc<8x16xf16>
  %g = scf.for %i = %zero to %n step %one iter_args(%u = %r) -> (!xegpu.tensor_desc<8x16xf16>) : i32 {
    %v = xegpu.load_nd %u {packed} : !xegpu.tensor_desc<8x16xf16> -> vector<4x16x2xf16>
    %w1 = xegpu.load_nd %u : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
    xegpu.create_nd_tdesc %a, %y, %i, %h, %w, %w, 1 : !tt.ptr<f16>, i32, i32, i32, i32, i32 -> !xegpu.tensor_desc<8x16xf16>
    %m = xegpu.update_nd_offset %u, 0, 32 : !xegpu.tensor_desc<8x16xf16> -> !xegpu.tensor_desc<8x16xf16>
    scf.yield %m : !xegpu.tensor_desc<8x16xf16>
  } {xe.runs}
  tt.return
}
