// PASSES: lower-kernel-functions,guard-tiles

// Everything is known and legal: one version.
// CHECK-NOT: scf.if
// CHECK: xetile.init_tile {{.*}} {xe.base_alignment = 64}
tt.func public @k() {
  %a = arith.constant 4096 : i64
  %t = xetile.init_tile %a, 0, 0, 64, 64, 64 : i64 -> !xetile.tile<8x16xf16>
  xetile.prefetch_tile %t : !xetile.tile<8x16xf16>
  tt.return
}

// -----
// The alignment of the base is tested at run time.
// CHECK: %[[LOW:.*]] = arith.andi %{{.*}}, %{{.*}} : i64
// CHECK: %[[OK:.*]] = arith.cmpi eq, %[[LOW]]
// CHECK: scf.if %[[OK]]
// CHECK: xe.base_alignment = 64
// CHECK: } else {
// CHECK: xe.gather
tt.func public @k(%a: !tt.ptr<f16>) {
  %t = xetile.init_tile %a, 0, 0, 64, 64, 64 : !tt.ptr<f16> -> !xetile.tile<8x16xf16>
  xetile.prefetch_tile %t : !xetile.tile<8x16xf16>
  tt.return
}

// -----
// So are a pitch and a width: multiples, limits, and that a row fits.
// CHECK: arith.cmpi eq
// CHECK: arith.cmpi sge
// CHECK: arith.cmpi sle
// CHECK: arith.cmpi sge, %{{.*}}, %{{.*}} : i64
// CHECK: scf.if
tt.func public @k(%a: !tt.ptr<f16>, %w: i32, %p: i32) {
  %t = xetile.init_tile %a, 0, 0, 64, %w, %p : !tt.ptr<f16>, i32, i32 -> !xetile.tile<8x16xf16>
  xetile.prefetch_tile %t : !xetile.tile<8x16xf16>
  tt.return
}

// -----
// A pitch that no message has leaves one version, with gathers.
// CHECK-NOT: scf.if
// CHECK: xetile.init_tile {{.*}} {xe.gather}
tt.func public @k(%a: !tt.ptr<f16>) {
  %t = xetile.init_tile %a, 0, 0, 64, 64, 65 : !tt.ptr<f16> -> !xetile.tile<8x16xf16>
  xetile.prefetch_tile %t : !xetile.tile<8x16xf16>
  tt.return
}

// -----
// So does a step along a row that is no whole word.
// CHECK: xetile.init_tile {{.*}} {xe.gather}
tt.func public @k(%a: !tt.ptr<f16>) {
  %t = xetile.init_tile %a, 0, 0, 64, 64, 64 : !tt.ptr<f16> -> !xetile.tile<8x16xf16>
  %u = xetile.update_tile_offset %t, 0, 1 : !xetile.tile<8x16xf16> -> !xetile.tile<8x16xf16>
  xetile.prefetch_tile %u : !xetile.tile<8x16xf16>
  tt.return
}

// -----
// A loop with tiles runs at least once in the fast version.
// CHECK: %[[RUNS:.*]] = arith.cmpi slt
// CHECK: scf.if %[[RUNS]]
// CHECK: xe.base_alignment
// CHECK: scf.for
// CHECK: {xe.runs}
// CHECK: } else {
// CHECK: xe.gather
tt.func public @k(%n: index) {
  %a = arith.constant 4096 : i64
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %t = xetile.init_tile %a, 0, 0, 64, 64, 64 : i64 -> !xetile.tile<8x16xf16>
  %e = scf.for %i = %c2 to %n step %c1 iter_args(%at = %t) -> (!xetile.tile<8x16xf16>) {
    xetile.prefetch_tile %at : !xetile.tile<8x16xf16>
    %u = xetile.update_tile_offset %at, 0, 16 : !xetile.tile<8x16xf16> -> !xetile.tile<8x16xf16>
    scf.yield %u : !xetile.tile<8x16xf16>
  }
  tt.return
}
