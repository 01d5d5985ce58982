// C = A * B for any M, N and K, in XeTile: 32 subgroups of 32x64 make a tile of 256x256.
//
// Each subgroup loads what it multiplies; two tiles further on, all 32 of them bring the
// work-group's tiles of A and B into the cache together, 8x32 elements each.
//
//   triton-xe run examples/xetile_gemm.mlir --grid 2,2,1 --out results --args \
//       shape:300x200:f16:seed=1 shape:200x264:f16:seed=2 shape:300x264:f32:zeros 300 264 200
func.func @gemm(%a: i64, %b: i64, %c: i64, %m: i32, %n: i32, %k: i32)
    attributes {xe.subgroups = 32 : i32} {
  %c0 = arith.constant 0 : i32
  %c4 = arith.constant 4 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %c256 = arith.constant 256 : i32
  %group_m = tt.get_program_id x : i32
  %group_n = tt.get_program_id y : i32
  %subgroup = xe.warp_id : i32
  %row = arith.divui %subgroup, %c4 : i32
  %column = arith.remui %subgroup, %c4 : i32

  // where the work-group's tile of C begins, and this subgroup's
  %gm = arith.muli %group_m, %c256 : i32
  %gn = arith.muli %group_n, %c256 : i32
  %dm = arith.muli %row, %c32 : i32
  %dn = arith.muli %column, %c64 : i32
  %sm = arith.addi %gm, %dm : i32
  %sn = arith.addi %gn, %dn : i32

  %a0 = xetile.init_tile %a, %sm, 0, %m, %k, %k : i64, i32, i32, i32, i32
      -> !xetile.tile<32x32xf16>
  %b0 = xetile.init_tile %b, 0, %sn, %k, %n, %n : i64, i32, i32, i32, i32
      -> !xetile.tile<32x64xf16>

  // this subgroup's share of the work-group's tiles, to prefetch
  %wa = xetile.init_tile %a, %gm, 0, %m, %k, %k : i64, i32, i32, i32, i32
      -> !xetile.tile<256x32xf16>
  %wb = xetile.init_tile %b, 0, %gn, %k, %n, %n : i64, i32, i32, i32, i32
      -> !xetile.tile<32x256xf16>
  %pa0 = xetile.init_coop_tile %wa, %subgroup, 32 : !xetile.tile<256x32xf16>, i32
      -> !xetile.tile<8x32xf16>
  %pb0 = xetile.init_coop_tile %wb, %subgroup, 32 : !xetile.tile<32x256xf16>, i32
      -> !xetile.tile<8x32xf16>

  // fill the pipeline: two steps ahead
  xetile.prefetch_tile %pa0 : !xetile.tile<8x32xf16>
  xetile.prefetch_tile %pb0 : !xetile.tile<8x32xf16>
  %pa1 = xetile.update_tile_offset %pa0, 0, 32 : !xetile.tile<8x32xf16> -> !xetile.tile<8x32xf16>
  %pb1 = xetile.update_tile_offset %pb0, 32, 0 : !xetile.tile<8x32xf16> -> !xetile.tile<8x32xf16>
  xetile.prefetch_tile %pa1 : !xetile.tile<8x32xf16>
  xetile.prefetch_tile %pb1 : !xetile.tile<8x32xf16>
  %pa2 = xetile.update_tile_offset %pa1, 0, 32 : !xetile.tile<8x32xf16> -> !xetile.tile<8x32xf16>
  %pb2 = xetile.update_tile_offset %pb1, 32, 0 : !xetile.tile<8x32xf16> -> !xetile.tile<8x32xf16>

  %zero = arith.constant dense<0.0> : vector<32x64xf32>
  %sum, %ae, %be, %pae, %pbe = scf.for %step = %c0 to %k step %c32
      iter_args(%acc = %zero, %ta = %a0, %tb = %b0, %pa = %pa2, %pb = %pb2)
      -> (vector<32x64xf32>, !xetile.tile<32x32xf16>, !xetile.tile<32x64xf16>,
          !xetile.tile<8x32xf16>, !xetile.tile<8x32xf16>) : i32 {
    xetile.prefetch_tile %pa : !xetile.tile<8x32xf16>
    xetile.prefetch_tile %pb : !xetile.tile<8x32xf16>
    %va = xetile.load_tile %ta : !xetile.tile<32x32xf16> -> vector<32x32xf16>
    %vb = xetile.load_tile %tb : !xetile.tile<32x64xf16> -> vector<32x64xf16>
    %next = xetile.tile_mma %va, %vb, %acc
        : vector<32x32xf16>, vector<32x64xf16>, vector<32x64xf32> -> vector<32x64xf32>
    %ta1 = xetile.update_tile_offset %ta, 0, 32
        : !xetile.tile<32x32xf16> -> !xetile.tile<32x32xf16>
    %tb1 = xetile.update_tile_offset %tb, 32, 0
        : !xetile.tile<32x64xf16> -> !xetile.tile<32x64xf16>
    %pa_next = xetile.update_tile_offset %pa, 0, 32
        : !xetile.tile<8x32xf16> -> !xetile.tile<8x32xf16>
    %pb_next = xetile.update_tile_offset %pb, 32, 0
        : !xetile.tile<8x32xf16> -> !xetile.tile<8x32xf16>
    scf.yield %next, %ta1, %tb1, %pa_next, %pb_next
        : vector<32x64xf32>, !xetile.tile<32x32xf16>, !xetile.tile<32x64xf16>,
          !xetile.tile<8x32xf16>, !xetile.tile<8x32xf16>
  }

  %tc = xetile.init_tile %c, %sm, %sn, %m, %n, %n : i64, i32, i32, i32, i32, i32
      -> !xetile.tile<32x64xf32>
  xetile.store_tile %sum, %tc : vector<32x64xf32>, !xetile.tile<32x64xf32>
  func.return
}
